"""The pool: access point and central manager on ce, a startd on every worker and every server."""

import secrets
from collections.abc import Iterator
from functools import partial

from tierbench.site_configs.site import SHIPPED
from tierbench.testbed.host import ANSWER_SECONDS, RunningHost, filled
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, PRIVATE, USER, Host, Nic

ACCESS_POINT = "ce"
TRUST_DOMAIN = "tierbench.test"

CONFIG = "/etc/condor/config.d"
COLLECTOR_LOG = "condor/CollectorLog"
MANAGER_DAEMONS = "MASTER COLLECTOR NEGOTIATOR SCHEDD"
EXECUTE_DAEMONS = "MASTER STARTD"


def machines(settings: Settings) -> tuple[Host, ...]:
    """The access point, with a leg in the private workers' network."""
    rate = settings.rates_mbps.server
    return (Host(ACCESS_POINT, (Nic("eth0", FIU, 11, rate), Nic("eth1", PRIVATE, 11, rate)), in_pool=True),)


def stage(bed: Bed) -> None:
    """Configure every host of the pool; workers with the very fragment that an admin would install."""
    for host in bed.pool:
        common = filled(
            "condor.conf", central_manager=bed[ACCESS_POINT].fqdn, domain=TRUST_DOMAIN, address=host.host.own_address,
            broker="$(COLLECTOR_HOST)" if host.host.user_network else "",
            daemons=MANAGER_DAEMONS if host.name == ACCESS_POINT else EXECUTE_DAEMONS,
            slots=bed.settings.slots_per_worker + 1,  # one for the sampler, which is a job too
            update_s=3 if host.host.is_worker or host.name == ACCESS_POINT else 20,
        )  # fmt: skip
        host.stage(f"{CONFIG}/10-testbed.conf", common)
        if host.name != ACCESS_POINT:
            host.stage(f"{CONFIG}/50-tierbench.conf", admin_fragment(host.host))
    bed[ACCESS_POINT].stage("/etc/condor/passwords.d/POOL", secrets.token_bytes(64), 0o600)


def admin_fragment(host: Host) -> str:
    """What site-configs/htcondor gives the admin of such a host, with this host's network filled in."""
    kind = "worker" if host.is_worker else "server"
    text = (SHIPPED / f"htcondor/50-tierbench-{kind}.conf").read_text(encoding="utf-8")
    text = text.replace('"nobody-yet@your.domain, nobody-else@your.domain"', f'"{USER}@{TRUST_DOMAIN}"')
    return text.replace('TierbenchNetwork = "public"', f'TierbenchNetwork = "{host.network_kind}"')


def start(bed: Bed) -> None:
    """Start the central manager, then everybody else with a token; the pool assembles by itself from there.

    A startd that finds no collector tries again only at its next update, so the collector comes first.
    """
    manager = bed[ACCESS_POINT]
    token = manager.run("condor_token_create", "-identity", f"condor@{TRUST_DOMAIN}").stdout
    # New bindings reject how an older HTCondor authenticates local users, so users here have tokens too.
    user_token = manager.run("condor_token_create", "-identity", f"{USER}@{TRUST_DOMAIN}").stdout
    tokens = f"/home/{USER}/.condor/tokens.d"
    manager.run("install", "-d", "-m", "700", f"/home/{USER}/.condor", tokens, user=USER)
    manager.put(f"{tokens}/pool", user_token, 0o600, user=USER)
    for host in [manager, *(host for host in bed.pool if host is not manager)]:
        host.put("/etc/condor/tokens.d/pool", token, 0o600)
        host.script(["install -d -o condor -g condor /run/condor /run/lock/condor"])
        host.daemon("condor_master", "condor_master", "-f")
        if host is manager:
            collector = partial(manager.succeeds, "condor_status", "-collector")
            manager.wait_until(collector, "the collector did not answer", COLLECTOR_LOG)


def wait_until_complete(bed: Bed) -> None:
    """Return when the scheduler and every worker have reported to the collector."""
    manager = bed[ACCESS_POINT]
    expected = {host.fqdn for host in bed.pool}
    manager.wait_until(lambda: expected <= reporting(manager), "the HTCondor pool was not complete", COLLECTOR_LOG)


def reporting(manager: RunningHost) -> set[str]:
    """The hosts from which a startd or schedd has reported to the collector."""
    names: set[str] = set()
    for kind in ("-startd", "-schedd"):
        answer = manager.run("condor_status", kind, "-af", "Machine", check=False, timeout=ANSWER_SECONDS)
        names.update(answer.stdout.split())
    return names


def answers(manager: RunningHost, host: RunningHost) -> bool:
    """Whether a host's own master is alive and the collector has heard of its daemons."""
    return host.fqdn in reporting(manager) and host.succeeds("sh", "-c", "kill -0 $(cat /run/condor_master.pid)")


def questions(bed: Bed) -> Iterator[Question]:
    for host in bed.pool:
        yield Question(host, "HTCondor", partial(answers, bed[ACCESS_POINT], host), "in the pool")


HTCONDOR = Service(
    "HTCondor", machines=machines, packages=("condor",), stage=stage, start=start, complete=wait_until_complete,
    questions=questions,
)  # fmt: skip
