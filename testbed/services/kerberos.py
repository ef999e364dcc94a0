"""The realm: a KDC at UF, and a keytab for each host that may mount the remote file system."""

import secrets

from tierbench.testbed.host import filled
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.topology import GATEWAY, UF, USER, Host, Nic

REALM = "UF.TEST"
KDC = "kdc"
KEYTAB = "/etc/krb5.keytab"
JOB_KEYTAB = f"/home/{USER}/jobs.keytab"


def principals(host: Host) -> list[str]:
    """The names under which a host is known to the KDC; private workers have none."""
    services = dict.fromkeys([*(["host"] if host.mounts else []), *host.principals])
    return [f"{service}/{host.fqdn}" for service in services]


def user_principal(host: Host) -> str | None:
    """The principal of jobs on a public worker; it opens the Kerberized xrootd door."""
    return f"jobs/{host.fqdn}" if host.is_worker and principals(host) else None


def stage(bed: Bed) -> None:
    """Every host knows the realm; only those that are given a keytab can take part in it."""
    for host in bed.where(lambda host: host.nics):
        host.stage("/etc/krb5.conf", filled("krb5.conf", realm=REALM, kdc=bed[KDC].fqdn))
    bed[KDC].stage("/etc/krb5kdc/kdc.conf", filled("kdc.conf", realm=REALM))


def start(bed: Bed) -> None:
    """Create the realm, start its KDC and hand out the keytabs."""
    kdc = bed[KDC]
    kdc.run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_urlsafe())
    commands = []
    keytabs = {}  # (host, path on it) -> file on the kdc
    for host in bed.topology.hosts:
        job = user_principal(host)
        for path, name in [*((KEYTAB, name) for name in principals(host)), *([(JOB_KEYTAB, job)] if job else [])]:
            keytabs[host.name, path] = file = f"/run/{host.name}{path.replace('/', '-')}"
            commands += [f"addprinc -randkey {name}", f"ktadd -k {file} {name}"]
    kdc.run("kadmin.local", stdin="\n".join(commands) + "\n")
    kdc.daemon("krb5kdc", "krb5kdc", "-n")
    for (name, path), file in keytabs.items():
        bed[name].put(path, kdc.read(file), mode=0o600, user=USER if path == JOB_KEYTAB else None)
    kdc.run("rm", *keytabs.values())


def questions(bed: Bed) -> list[Question]:
    """Whether the KDC gives a host with a keytab a ticket, kept nowhere."""
    ask = ("env", "KRB5CCNAME=MEMORY:ask", "kinit", "-k", f"host/{bed[GATEWAY].fqdn}")
    return [Question(bed[KDC], "krb5kdc", ask, "gives tickets", "krb5kdc.log", asker=bed[GATEWAY])]


KERBEROS = Service(
    "Kerberos realm", machines=lambda settings: [Host(KDC, (Nic("eth0", UF, 12, settings.rates_mbps.server),))],
    packages=("krb5-kdc", "krb5-admin-server", "krb5-user"), stage=stage,
    start=start, questions=questions,
)  # fmt: skip
