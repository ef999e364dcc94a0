"""The pool: access point and central manager on ce, a startd on every worker and every server."""

from __future__ import annotations

import secrets
from importlib import resources

from tierbench.testbed.files import filled
from tierbench.testbed.host import RunningHost
from tierbench.testbed.topology import TRUST_DOMAIN, Host, Topology

CONFIG = "/etc/condor/config.d"
START_SECONDS = 30.0
MANAGER_DAEMONS = "MASTER COLLECTOR NEGOTIATOR SCHEDD"
EXECUTE_DAEMONS = "MASTER STARTD"


def stage(hosts: dict[str, RunningHost], topology: Topology) -> None:
    """Configure every host of the pool; workers with the very fragment that an admin would install."""
    (access_point,) = topology.with_role("access-point")
    for host in topology.hosts:
        if not host.in_pool:
            continue
        common = filled(
            "condor.conf",
            central_manager=access_point.fqdn,
            domain=TRUST_DOMAIN,
            address=host.address,
            daemons=MANAGER_DAEMONS if host == access_point else EXECUTE_DAEMONS,
            slots=topology.settings.slots_per_worker,
        )
        hosts[host.name].stage(f"{CONFIG}/10-testbed.conf", common)
        if host != access_point:
            hosts[host.name].stage(f"{CONFIG}/50-tierbench.conf", admin_fragment(host))
    hosts[access_point.name].stage("/etc/condor/passwords.d/POOL", secrets.token_bytes(64), 0o600)


def admin_fragment(host: Host) -> str:
    """What site-configs/htcondor gives the admin of such a host, with this host's network filled in."""
    kind = "server" if host.is_server else "worker"
    fragments = resources.files("tierbench.site_configs") / "htcondor"
    text = (fragments / f"50-tierbench-{kind}.conf").read_text(encoding="utf-8")
    return text.replace('TierbenchNetwork = "public"', f'TierbenchNetwork = "{host.network_kind}"')


def start(hosts: dict[str, RunningHost], topology: Topology) -> None:
    """Hand every host its token and start the pool; it assembles by itself from there."""
    (access_point,) = topology.with_role("access-point")
    manager = hosts[access_point.name]
    token = manager.run("condor_token_create", "-identity", f"condor@{TRUST_DOMAIN}").stdout
    for host in topology.hosts:
        if host.in_pool:
            running = hosts[host.name]
            running.put("/etc/condor/tokens.d/pool", token, 0o600)
            running.script(["install -d -o condor -g condor /run/condor /run/lock/condor"])
            running.daemon("condor_master", "condor_master", "-f")


def wait_until_complete(hosts: dict[str, RunningHost], topology: Topology) -> None:
    """Return when the scheduler and every worker have reported to the collector."""
    (access_point,) = topology.with_role("access-point")
    manager = hosts[access_point.name]
    expected = {host.fqdn for host in topology.hosts if host.in_pool}
    manager.wait_until(
        lambda: expected <= reporting(manager),
        START_SECONDS,
        "the HTCondor pool was not complete",
        "condor/CollectorLog",
    )


def reporting(manager: RunningHost) -> set[str]:
    """The hosts from which a startd or schedd has reported to the collector."""
    names: set[str] = set()
    for kind in ("-startd", "-schedd"):
        answer = manager.run("condor_status", kind, "-af", "Machine", check=False, timeout=10)
        names.update(answer.stdout.split())
    return names


def seen_in_pool(manager: RunningHost, host: RunningHost) -> str:
    """What the collector says of a host's daemons, which have reported and have not gone silent."""
    kind = "-schedd" if host.host.role == "access-point" else "-startd"
    listing = manager.run("condor_status", kind, "-af", "Machine", timeout=10).stdout.split()
    if host.host.fqdn not in listing:
        raise HostError("the collector has not heard of it")
    host.run("condor_who", "-daemons", timeout=10)
    return "in the pool"
