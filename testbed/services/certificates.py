"""Grid certificates: a CA of the testbed's own on kdc, a host certificate for each GridFTP server, and the jobs' proxy.

All are made anew when a testbed comes up. The CA's key stays on kdc, a server's is its own user's to read, and the
proxy lies in the home of the jobs' user on the access point, from where it travels with jobs, and on the public
workers, for who asks there by hand.
"""

from __future__ import annotations

from tierbench.testbed.service import Hosts, Service
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.templates import verbatim
from tierbench.testbed.topology import GATEWAY, USER, Host, Topology

SERVERS_USER = "nobody"  # as whom the GridFTP servers run
FOLDER = "/etc/grid-security"
TRUSTED = f"{FOLDER}/certificates"  # where everybody looks for the CAs that it trusts
CERTIFICATE, KEY, MAP = f"{FOLDER}/hostcert.pem", f"{FOLDER}/hostkey.pem", f"{FOLDER}/grid-mapfile"
ORGANISATION = "/O=Tierbench testbed"
PROXY = f"/home/{USER}/proxy.pem"
PROXY_DAYS, CERTIFICATE_DAYS = 7, 30
AUTHORITY = "/run/ca"


def servers(topology: Topology) -> list[Host]:
    """The hosts with a certificate of their own."""
    return [topology.host(BESIDE_STORAGE), topology.host(GATEWAY)]


def users(topology: Topology) -> list[Host]:
    """The hosts on which jobs show a proxy."""
    return [host for host in topology.workers if host.mounts]


def start(hosts: Hosts, topology: Topology) -> None:
    """Make the CA and all certificates, and hand them out."""
    kdc = hosts[KDC]
    kdc.put(f"{AUTHORITY}/issue", verbatim("certificates.sh"), 0o700)
    of_hosts = [host.fqdn for host in servers(topology)]
    days = map(str, (CERTIFICATE_DAYS, PROXY_DAYS))
    kdc.run("sh", "-eu", f"{AUTHORITY}/issue", AUTHORITY, ORGANISATION, USER, *days, *of_hosts)
    trusted = kdc.run("ls", f"{AUTHORITY}/certificates").stdout.split()
    for host in {*servers(topology), *users(topology)}:
        for name in trusted:
            hosts[host.name].put(f"{TRUSTED}/{name}", kdc.read(f"{AUTHORITY}/certificates/{name}"))
    for host in servers(topology):
        server = hosts[host.name]
        server.put(CERTIFICATE, kdc.read(f"{AUTHORITY}/{host.fqdn}.pem"))
        server.put(KEY, kdc.read(f"{AUTHORITY}/{host.fqdn}.key"), 0o600)
        server.put(MAP, f'"{ORGANISATION}/CN={USER}" {SERVERS_USER}\n')
        server.run("chown", SERVERS_USER, CERTIFICATE, KEY)
    for host in (topology.host(ACCESS_POINT), *users(topology)):
        hosts[host.name].put(PROXY, kdc.read(f"{AUTHORITY}/proxy.pem"), 0o600, USER)
    kdc.run("sh", "-euc", 'cd "$1"; rm -f -- *.key *.pem', "sh", AUTHORITY)  # the CA has nothing more to sign


CERTIFICATES = Service("grid certificates", packages=("openssl", "globus-proxy-utils"), start=start)
