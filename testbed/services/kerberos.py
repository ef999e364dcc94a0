"""The realm: a KDC at UF, and a keytab for each host that may mount the remote file system."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Question, Service
from tierbench.testbed.templates import filled
from tierbench.testbed.topology import REALM, USER, Host, Topology

KEYTAB = "/etc/krb5.keytab"
START_SECONDS = 30.0
JOB_KEYTAB = f"/home/{USER}/jobs.keytab"


def principals(host: Host) -> list[str]:
    """The names under which a host is known to the KDC; private workers have none."""
    if host.role in ("storage", "metadata") or host.mounts:
        names = [f"host/{host.fqdn}"]
        return [*names, f"xrootd/{host.fqdn}"] if host.role == "wan-xrootd" else names
    return []


def user_principal(host: Host) -> str | None:
    """The principal of jobs on a public worker; it opens the Kerberized xrootd door."""
    return f"jobs/{host.fqdn}" if host.role == "worker" and host.mounts else None


def stage(hosts: dict[str, RunningHost], topology: Topology) -> None:
    """Every host knows the realm; only those that are given a keytab can take part in it."""
    (kdc,) = topology.with_role("kdc")
    for host in hosts.values():
        if host.host.nics:
            host.stage("/etc/krb5.conf", filled("krb5.conf", realm=REALM, kdc=kdc.fqdn))
    hosts[kdc.name].stage("/etc/krb5kdc/kdc.conf", filled("kdc.conf", realm=REALM))


def start(hosts: dict[str, RunningHost], topology: Topology) -> None:
    """Create the realm, start its KDC and hand out the keytabs."""
    kdc = hosts[topology.with_role("kdc")[0].name]
    kdc.run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_urlsafe())
    commands = []
    keytabs = {}  # (host, path on it) -> file on the kdc
    for host in topology.hosts:
        wanted = {KEYTAB: principals(host)}
        if job := user_principal(host):
            wanted[JOB_KEYTAB] = [job]
        for path, names in wanted.items():
            for name in names:
                file = f"/run/{host.name}{path.replace('/', '-')}"
                commands += [f"addprinc -randkey {name}", f"ktadd -k {file} {name}"]
                keytabs[host.name, path] = file
    kdc.run("kadmin.local", stdin="\n".join(commands) + "\n")
    kdc.daemon("krb5kdc", "krb5kdc", "-n")
    for (name, path), file in keytabs.items():
        hosts[name].put(path, kdc.read(file), mode=0o600, user=USER if path == JOB_KEYTAB else None)
    kdc.run("rm", *keytabs.values())
    asker = hosts[topology.with_role("gateway")[0].name]
    kdc.wait_until(partial(gives_tickets, asker), START_SECONDS, "the KDC gave no tickets", "krb5kdc.log")


def gives_tickets(asker: RunningHost) -> bool:
    """Whether the KDC gives a host with a keytab a ticket, kept nowhere."""
    return asker.succeeds("env", "KRB5CCNAME=MEMORY:ask", "kinit", "-k", f"host/{asker.host.fqdn}", timeout=5)


def questions(hosts: dict[str, RunningHost], topology: Topology) -> Iterator[Question]:
    kdc, asker = (hosts[topology.with_role(role)[0].name] for role in ("kdc", "gateway"))
    yield Question(kdc, "krb5kdc", partial(gives_tickets, asker), "gives tickets")


KERBEROS = Service(
    "Kerberos realm",
    packages=("krb5-kdc", "krb5-admin-server", "krb5-user"),
    stage=stage,
    start=start,
    questions=questions,
)
