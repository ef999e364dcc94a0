"""The xrootd servers: on dgt for the private workers (LAN xrootd), on vmuf next to the storage (WAN xrootd).

vmuf has a second, Kerberized door beside the open one of the thesis, and a third, with TLS, where there are virtual
workers to read by it. Where the settings say so it has one more that wants a grid proxy, and two with TLS, by root://
and https: one for all, and one that wants a token; and two servers copy files from one to the other (third party), from
vmuf into dgt's memory. Where both are asked for, dgt has a door for tokens to write there: it and vmuf's copy by HTTP,
each with the other's token. Certificates for TLS are of an authority of their own. A storage server with several
interfaces has an open door, too, which is reached by each of them.

A redirector is a cluster's manager, which sends clients on to the data server that has the file, here vmuf. It has no
file itself. Each open there costs a client a connection and a login more, and the manager's question to its servers, as
a front end does that sends the client on for each file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tierbench.site_configs.site import SHIPPED
from tierbench.testbed.host import RunningHost, filled, verbatim
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services import certificates, tokens
from tierbench.testbed.services.certificates import CERTIFICATES
from tierbench.testbed.services.conditions import WORDS, offer
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS, STORAGE, WRITES
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.kerberos import KDC, KEYTAB, REALM
from tierbench.testbed.services.tokens import ISSUER
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import GATEWAY, PRIVATE, UF, USER, Host, Nic, Topology

BESIDE_STORAGE = "vmuf"
REDIRECTOR = "rdr"  # a machine that is there where the settings say so, and sends clients on to the one beside storage
PORT, KRB5_PORT, TLS_PORT, TOKEN_PORT, COPY_PORT, OPEN_TLS_PORT = 1094, 1095, 1096, 1097, 1098, 1099
CACHE_PORT, CLUSTER_PORT, HTTPS_PORT, TOKEN_HTTPS_PORT = 1101, 1213, 8444, 8445
TOKEN_COPY_PORT, X509_PORT, COPY_HTTPS_PORT = 1100, 1102, 8446
COPIES, COPIES_MB = "/xrootd-copies", 2048  # in memory, where what is copied goes
THIRD_PARTY = "ofs.tpc ttl 60 60 xfr 64 pgm /usr/bin/xrdcp --server"
XROOTDFS_ROOT = "/xrootd-fs"
CERTIFICATE, PRIVATE_KEY = "/etc/xrootd/host.pem", "/etc/xrootd/host.key"
AUTHORITIES = "/etc/grid-security/certificates"  # where clients look
SCITOKENS = "/etc/xrootd/scitokens.cfg"
SYSTEMS_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"  # by which a server trusts an issuer of tokens
XROOTD_KEYTAB = "/etc/xrootd/xrootd.keytab"
GRID_CERTIFICATE, GRID_KEY = "/etc/xrootd/grid.pem", "/etc/xrootd/grid.key"  # as XRootD's own user's
COPY_TOKEN = f"{tokens.TOKEN}-copies"  # of the jobs' user, to write by HTTP where copies go
SHOWN, SHOWN_PROXY = "/run/shown-token", "/run/shown-proxy"  # the server's own, to ask it whether it answers
REDIRECTORS = "/etc/xrootd/redirector.cfg"
FOLDERS = "install -d -o xrootd -g xrootd /run/xrootd /var/spool/xrootd /var/log/xrootd"
CACHE, CACHE_MB = "/xcache", 2048  # of XCache
CACHE_CONFIGURATION = "/etc/xrootd/xcache.cfg"
CACHE_STATE = "xcache-state"  # the word, and the program that an admin installs for it
XROOTDFS = XROOTDFS_ROOT + MOUNT_POINT  # a file has the same path there as in its xrootd URL


def machines(settings: Settings) -> tuple[Host, ...]:
    nic = Nic("eth0", UF, 13, settings.rates_mbps.server)
    return (Host(BESIDE_STORAGE, (nic,), in_pool=True, mounts=True, principals=("xrootd", "nfs"), is_writer=True),)


@dataclass(frozen=True)
class Door:
    """One xrootd server process: where clients reach it and whether they need a ticket, a grid proxy or a token."""

    name: str
    host: Host
    port: int
    kerberized: bool = False
    tls: bool = False
    tokens: bool = False
    proxies: bool = False
    copies: bool = False  # between two such, by XRootD or by HTTP
    https: int = 0  # the port at which the same process serves by that

    @property
    def url(self) -> str:
        return f"root://{self.host.fqdn}:{self.port}/"

    @property
    def audience(self) -> str:
        return f"root://{self.host.fqdn}"


def doors(topology: Topology) -> list[Door]:
    settings, lan, wan, storage = topology.settings, *map(topology.host, (GATEWAY, BESIDE_STORAGE, STORAGE))
    opened = {
        Door("xrootd", lan, PORT): True,
        Door("xrootd", wan, PORT): True,
        Door("xrootd-krb5", wan, KRB5_PORT, kerberized=True): True,
        Door("xrootd-tls", wan, TLS_PORT, kerberized=True, tls=True): settings.virtual_workers,
        Door("xrootd-token", wan, TOKEN_PORT, tls=True, tokens=True, https=TOKEN_HTTPS_PORT): settings.token_door,
        Door("xrootd-x509", wan, X509_PORT, proxies=True): settings.token_door,
        Door("xrootd-open-tls", wan, OPEN_TLS_PORT, tls=True, https=HTTPS_PORT): settings.token_door,
        Door("xrootd", storage, PORT): storage_has_door(topology),
        Door("xrootd-copies", lan, COPY_PORT, copies=True): settings.xrootd_copies,
        Door("xrootd-copies", wan, COPY_PORT, copies=True): settings.xrootd_copies,
        Door(
            "xrootd-token-copies", lan, TOKEN_COPY_PORT, tls=True, tokens=True, copies=True, https=COPY_HTTPS_PORT
        ): settings.token_door and settings.xrootd_copies,
    }
    return [door for door, there in opened.items() if there]


def storage_has_door(topology: Topology) -> bool:
    """Whether the storage server serves by XRootD itself."""
    return len(topology.host(STORAGE).nics) > 1


def server_ports(topology: Topology) -> dict[str, set[int]]:
    """By the names of their hosts, the ports of all servers."""
    ports = {topology.host(GATEWAY).fqdn: {CACHE_PORT}}  # and the doors
    for door in doors(topology):
        for nic, name in door.host.names.items():
            ports.setdefault(f"{name}.{nic.network.zone}", set()).update((door.port, door.https))
    return ports


def stage(bed: Bed) -> None:
    for door in doors(bed.topology):
        in_cluster = bed.settings.redirector and (door.host.name, door.port) == (BESIDE_STORAGE, PORT)
        role = clustered("server") if in_cluster else ""
        bed[door.host.name].stage(f"/etc/xrootd/{door.name}.cfg", _configuration(door, role))
        if door.tokens:
            accepted = filled("scitokens.cfg", audience=door.audience, issuer=tokens.URL)
            bed[door.host.name].stage(SCITOKENS, accepted)
        if door.name == "xrootd":
            offer(bed[door.host.name], "xrootd-processes")


def clustered(role: str) -> str:
    """The lines by which a server or the manager is one of the cluster."""
    return f"all.role {role}\nall.manager {REDIRECTOR}.{UF.zone}:{CLUSTER_PORT}"


def _configuration(door: Door, role: str) -> str:
    security = role
    if door.kerberized:
        principal = f"xrootd/{door.host.fqdn}@{REALM}"
        security = (
            f"xrootd.seclib libXrdSec.so\nsec.protocol krb5 {XROOTD_KEYTAB} {principal}\nsec.protbind * only krb5"
        )
    if door.proxies:
        own = f"-cert:{GRID_CERTIFICATE} -key:{GRID_KEY} -certdir:{certificates.TRUSTED}"
        security = f"xrootd.seclib libXrdSec.so\nsec.protocol gsi {own} -crl:0 -gmapopt:0\nsec.protbind * only gsi"
    if door.tokens:
        security = "xrootd.seclib libXrdSec.so\nsec.protocol ztn\nsec.protbind * only ztn"
        security += f"\nofs.authorize 1\nofs.authlib libXrdAccSciTokens.so config={SCITOKENS}"
    if door.copies:
        security += "" if door.https else THIRD_PARTY
        security += f"\nall.export {COPIES} r/w nostage" if door.host.name == GATEWAY else ""
    if door.tls:
        # All is protected but data, and these too unless a client asks for a connection of theirs (XRD_TLSNODATA).
        security += (
            f"\nxrd.tls {CERTIFICATE} {PRIVATE_KEY}\nxrd.tlsca certdir {AUTHORITIES}\nxrootd.tls capable all -data"
        )
    if door.https:  # what authorizes requests by root:// sees the bearer's token of these, too
        security += f"\nxrd.protocol XrdHttp:{door.https} libXrdHttp.so\nhttp.header2cgi Authorization authz"
        security += "\nhttp.exthandler xrdtpc libXrdHttpTPC.so"
    return filled("xrootd.cfg", port=door.port, mount_point=MOUNT_POINT, writes=WRITES, security=security)


def certify(bed: Bed, server: RunningHost) -> None:
    """Give a server a certificate by an authority that is forgotten then, and all hosts that authority's own."""
    server.put("/usr/local/sbin/certify", verbatim("certify"), 0o755)
    server.run("/usr/local/sbin/certify", server.host.fqdn, CERTIFICATE, PRIVATE_KEY, AUTHORITIES, "xrootd")
    names = server.run("ls", AUTHORITIES).stdout.split()
    for host in bed.pool:
        if host is not server:
            for name in names:
                host.put(f"{AUTHORITIES}/{name}", server.read(f"{AUTHORITIES}/{name}"))


def start(bed: Bed) -> None:
    """Start the servers, which need their mounts."""
    for name in {door.host.name for door in doors(bed.topology) if door.tls}:  # all of a host's show the same
        certify(bed, bed[name])
    for door in doors(bed.topology):
        host = bed[door.host.name]
        host.script([FOLDERS])
        if door.kerberized:
            host.script([f"install -o xrootd -m 400 {KEYTAB} {XROOTD_KEYTAB}"])
        if door.proxies:
            for of_host, own in ((certificates.CERTIFICATE, GRID_CERTIFICATE), (certificates.KEY, GRID_KEY)):
                host.script([f"install -o xrootd -m 400 {of_host} {own}"])
            host.put(SHOWN_PROXY, bed[ACCESS_POINT].read(certificates.PROXY), 0o600)
        if door.copies and host.name == GATEWAY and not door.https:
            host.script([f"mkdir -p {COPIES}", f"mount -t tmpfs -o mode=1777,size={COPIES_MB}m tmpfs {COPIES}"])
        if door.tokens:  # it believes what their issuer publishes, and has one to be asked with
            authority = bed[KDC].run("sh", "-c", f"cat {tokens.AUTHORITIES}/*.0").stdout
            host.put(SYSTEMS_AUTHORITIES, host.read(SYSTEMS_AUTHORITIES) + authority.encode())
            host.put(SHOWN, tokens.sign_token(bed[KDC], tokens.claims(aud=door.audience)), 0o600)
            if door.copies:
                claims = tokens.claims(aud=door.audience, scope=f"write:{COPIES}")
                bed[ACCESS_POINT].put(COPY_TOKEN, tokens.sign_token(bed[KDC], claims), 0o600, USER)
        daemon(host, door.name, "xrootd", door.name, f"/etc/xrootd/{door.name}.cfg")


def daemon(host: RunningHost, name: str, program: str, instance: str, configuration: str) -> None:
    """Start one of XRootD's daemons as its own user."""
    become = ("setpriv", "--reuid=xrootd", "--regid=xrootd", "--init-groups")
    host.daemon(name, *become, program, "-n", instance, "-c", configuration, "-k", "fifo")


def answers(host: RunningHost, door: Door) -> bool:
    """Whether the server answers on its own host, by https with whatever status; it is shown what that host has."""
    ask = ["xrdfs", f"{door.host.fqdn}:{door.port}", "stat", MOUNT_POINT]
    if door.kerberized:
        ask = ["env", "KRB5CCNAME=FILE:/run/mount.ccache", *ask]
    if door.proxies:
        ask = ["env", f"X509_USER_PROXY={SHOWN_PROXY}", *ask]
    if door.tokens:
        ask = ["env", f"BEARER_TOKEN_FILE={SHOWN}", *ask]
    page = ["curl", "--silent", "--output", "/dev/null", "--capath", AUTHORITIES]
    by_https = [*page, f"https://{door.host.fqdn}:{door.https}{MOUNT_POINT}/"] if door.https else ["true"]
    return host.succeeds(*ask) and host.succeeds(*by_https)


def questions(bed: Bed) -> Iterator[Question]:
    for door in doors(bed.topology):
        server = bed[door.host.name]
        yield Question(server, door.name, partial(answers, server, door), f"answers at {door.url}", f"{door.name}.log")


XROOTD = Service(
    "xrootd servers", packages=("xrootd-server", "xrootd-client"), machines=machines,
    after=(MOUNTS, ISSUER, CERTIFICATES), stage=stage, start=start, questions=questions,
)  # fmt: skip

# -- the private workers' mounts of the LAN xrootd through FUSE, for programs that know only files ----------


def mounting(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.is_worker and host.network_kind == "private")


def start_mounts(bed: Bed) -> None:
    source = f"root://{GATEWAY}.{PRIVATE.zone}:{PORT}/{MOUNT_POINT}"
    for worker in mounting(bed):
        worker.script([f"mkdir -p {XROOTDFS}"])
        worker.daemon("xrootdfs", "xrootdfs", XROOTDFS, "-f", "-o", f"rdr={source},allow_other")


def read_ahead(bed: Bed) -> None:
    for worker in mounting(bed):
        worker.script([f"echo {bed.settings.read_ahead_kb} >/sys/class/bdi/$(mountpoint -d {XROOTDFS})/read_ahead_kb"])


def ask_mounts(bed: Bed) -> Iterator[Question]:
    ask = ("sh", "-c", f"mountpoint -q {XROOTDFS} && ls {XROOTDFS}")
    for worker in mounting(bed):
        yield Question(worker, "xrootdfs", ask, f"{XROOTDFS} answers", "xrootdfs.log")


XROOTD_MOUNTS = Service(
    "mounts of xrootd on the private workers", more_packages=("xrootd-fuse",), after=(XROOTD,), start=start_mounts,
    wanted=lambda settings: settings.has_xrootdfs, complete=read_ahead, questions=ask_mounts,
)  # fmt: skip

# -- the redirector ----------------------------------------------------------------------------------------


def stage_redirector(bed: Bed) -> None:
    lines = clustered("manager")
    bed[REDIRECTOR].stage(REDIRECTORS, filled("redirector.cfg", port=PORT, mount_point=MOUNT_POINT, role=lines))


def start_redirector(bed: Bed) -> None:
    """Start the manager, and the part of the data server that answers it."""
    redirector, server = bed[REDIRECTOR], bed[BESIDE_STORAGE]
    redirector.script([FOLDERS])
    for host, program, configuration in (
        (redirector, "xrootd", REDIRECTORS),
        (redirector, "cmsd", REDIRECTORS),
        (server, "cmsd", "/etc/xrootd/xrootd.cfg"),
    ):
        daemon(host, program, program, "xrootd", configuration)


def ask_redirector(bed: Bed) -> Iterator[Question]:
    """Whether it finds the storage's folder at the data server."""
    host = bed[REDIRECTOR]
    locate = f"xrdfs {host.fqdn}:{PORT} locate -r {MOUNT_POINT} | grep -q ':{PORT} Server '"
    yield Question(host, "redirector", ("sh", "-c", locate), f"sends clients on from root://{host.fqdn}/", "cmsd.log")


REDIRECTION = Service(
    "", wanted=lambda settings: settings.redirector, after=(XROOTD,),
    machines=lambda settings: [Host(REDIRECTOR, (Nic("eth0", UF, 14, settings.rates_mbps.server),), in_pool=True)],
    stage=stage_redirector, start=start_redirector, questions=ask_redirector,
)  # fmt: skip

# -- XCache on the gateway: a proxy with a cache in memory, of what the server beside the storage has -----
# Where the storage server has a door itself, it is of that one: nobody there reads ahead between origin and WAN.


def stage_cache(bed: Bed) -> None:
    host = bed[GATEWAY]
    door = f"root://{host.fqdn}:{CACHE_PORT}/"
    origin = f"{bed[STORAGE if storage_has_door(bed.topology) else BESIDE_STORAGE].fqdn}:{PORT}"
    text = filled("xcache.cfg", port=CACHE_PORT, mount_point=MOUNT_POINT, origin=origin, cache=CACHE)
    host.stage(CACHE_CONFIGURATION, text)
    anew = filled("xcache-anew", configuration=CACHE_CONFIGURATION, door=door, port=CACHE_PORT)
    host.stage("/usr/local/lib/tierbench/xcache-anew", anew, 0o755)
    offer(host, "xcache-block", "xcache-prefetch")
    host.stage(f"{WORDS}/{CACHE_STATE}", (SHIPPED / "arrange.d" / CACHE_STATE).read_bytes(), 0o755)
    host.stage("/etc/tierbench/xcache", f"DOOR={door} CACHE={CACHE} LOG=/var/log/xcache.log\n")


def start_cache(bed: Bed) -> None:
    mount = f"mount -t tmpfs -o mode=755,uid=$(id -u xrootd),gid=$(id -g xrootd),size={CACHE_MB}m tmpfs {CACHE}"
    bed[GATEWAY].script([f"mkdir -p {CACHE}", mount])
    daemon(bed[GATEWAY], "xcache", "xrootd", "xcache", CACHE_CONFIGURATION)


def ask_cache(bed: Bed) -> list[Question]:
    door = f"{bed[GATEWAY].fqdn}:{CACHE_PORT}"
    ask = ("xrdfs", door, "query", "config", "version")  # of a folder of which it has files it knows nothing
    return [Question(bed[GATEWAY], "xcache", ask, f"answers at root://{door}/", "xcache.log")]


XCACHE = Service(
    "XCache", packages=("xrootd-server",), after=(XROOTD,), stage=stage_cache, start=start_cache, questions=ask_cache,
)  # fmt: skip
