"""Grid certificates, of a CA of the testbed's own, for servers, and a proxy for the jobs' user.

They are made anew when a testbed comes up. The CA's key stays on kdc, a server's is its own user's to read, and the
proxy lies in the home of the jobs' user on the access point, from where it travels with jobs, and on the public
workers, for who asks there by hand.
"""

from tierbench.testbed.host import RunningHost, verbatim
from tierbench.testbed.service import Bed, Service
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.topology import GATEWAY, USER

CERTIFIED = ("vmuf", GATEWAY)
SERVERS_USER = "nobody"  # as whom the GridFTP servers run
SECURITY = "/etc/grid-security"
TRUSTED = f"{SECURITY}/certificates"  # where everybody looks for the CAs that it trusts
CERTIFICATE, KEY, MAP = (f"{SECURITY}/hostcert.pem", f"{SECURITY}/hostkey.pem", f"{SECURITY}/grid-mapfile")
ORGANISATION = "/O=Tierbench testbed"
PROXY = f"/home/{USER}/proxy.pem"
PROXY_DAYS, CERTIFICATE_DAYS = 7, 30
AUTHORITY = "/run/ca"


def users(bed: Bed) -> list[RunningHost]:
    """The hosts on which jobs show a proxy."""
    return bed.where(lambda host: host.is_worker and host.mounts)


def issue_certificates(bed: Bed) -> None:
    """Make the CA and all certificates, and hand them out."""
    kdc, certified = bed[KDC], [bed[name] for name in CERTIFIED]
    kdc.put(f"{AUTHORITY}/issue", verbatim("certificates.sh"), 0o700)
    of_hosts = [server.fqdn for server in certified]
    days = map(str, (CERTIFICATE_DAYS, PROXY_DAYS))
    kdc.run("sh", "-eu", f"{AUTHORITY}/issue", AUTHORITY, ORGANISATION, USER, *days, *of_hosts)
    for name in kdc.run("ls", f"{AUTHORITY}/certificates").stdout.split():
        for host in (*certified, *users(bed)):
            host.put(f"{TRUSTED}/{name}", kdc.read(f"{AUTHORITY}/certificates/{name}"))
    for server in certified:
        server.put(CERTIFICATE, kdc.read(f"{AUTHORITY}/{server.fqdn}.pem"))
        server.put(KEY, kdc.read(f"{AUTHORITY}/{server.fqdn}.key"), 0o600)
        server.put(MAP, f'"{ORGANISATION}/CN={USER}" {SERVERS_USER}\n')
        server.run("chown", SERVERS_USER, CERTIFICATE, KEY)
    for host in (bed[ACCESS_POINT], *users(bed)):
        host.put(PROXY, kdc.read(f"{AUTHORITY}/proxy.pem"), 0o600, USER)
    kdc.run("sh", "-euc", 'cd "$1"; rm -f -- *.key *.pem', "sh", AUTHORITY)  # the CA has nothing more to sign


CERTIFICATES = Service("grid certificates", packages=("openssl", "globus-proxy-utils"), start=issue_certificates)
