"""The realm: a KDC at UF, and a keytab for each host that may mount the remote file system."""

from __future__ import annotations

import secrets
from functools import partial

from tierbench.testbed.host import filled
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import GATEWAY, UF, USER, Host, Nic, Topology

REALM = "UF.TEST"
KDC = "kdc"
KEYTAB = "/etc/krb5.keytab"
JOB_KEYTAB = f"/home/{USER}/jobs.keytab"


def machines(settings: Settings) -> tuple[Host, ...]:
    return (Host(KDC, (Nic("eth0", UF, 12, settings.rates_mbps.server),)),)


def principals(host: Host) -> list[str]:
    """The names under which a host is known to the KDC; private workers have none."""
    services = dict.fromkeys([*(["host"] if host.mounts else []), *host.principals])
    return [f"{service}/{host.fqdn}" for service in services]


def user_principal(host: Host) -> str | None:
    """The principal of jobs on a public worker; it opens the Kerberized xrootd door."""
    return f"jobs/{host.fqdn}" if host.is_worker and principals(host) else None


def stage(hosts: Hosts, topology: Topology) -> None:
    """Every host knows the realm; only those that are given a keytab can take part in it."""
    kdc = topology.host(KDC)
    for host in hosts.values():
        if host.host.nics:
            host.stage("/etc/krb5.conf", filled("krb5.conf", realm=REALM, kdc=kdc.fqdn))
    hosts[kdc.name].stage("/etc/krb5kdc/kdc.conf", filled("kdc.conf", realm=REALM))


def start(hosts: Hosts, topology: Topology) -> None:
    """Create the realm, start its KDC and hand out the keytabs."""
    kdc = hosts[KDC]
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


def questions(hosts: Hosts, _: Topology) -> list[Question]:
    """Whether the KDC gives a host with a keytab a ticket, kept nowhere."""
    asker = hosts[GATEWAY]
    ask = partial(asker.succeeds, "env", "KRB5CCNAME=MEMORY:ask", "kinit", "-k", f"host/{asker.host.fqdn}", timeout=5)
    return [Question(hosts[KDC], "krb5kdc", ask, "gives tickets", "krb5kdc.log")]


KERBEROS = Service(
    "Kerberos realm", machines=machines, packages=("krb5-kdc", "krb5-admin-server", "krb5-user"), stage=stage,
    start=start, questions=questions,
)  # fmt: skip
