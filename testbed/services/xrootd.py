"""The xrootd servers: on dgt for the private workers (LAN xrootd), on vmuf next to the storage (WAN xrootd).

vmuf has a second, Kerberized door beside the open one of the thesis, a third, with TLS, where there are virtual
workers to read by it, and one that wants a token where the settings say so. So do two by which files are copied from
server to server (third party), from vmuf into dgt's memory. Certificates are of authorities of the
testbed's own. A storage server with several interfaces has an open door, too, which is reached by each of them.

A redirector is a cluster's manager, which sends clients on to the data server that has the file, here vmuf. It has no
file itself. Each open there costs a client a connection and a login more, and the manager's question to its servers, as
a front end does that sends the client on for each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tierbench.testbed.host import RunningHost, filled, verbatim
from tierbench.testbed.service import Hosts, Question, Service, wait_for
from tierbench.testbed.services import tokens
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS, STORAGE, WRITES
from tierbench.testbed.services.kerberos import KDC, KEYTAB, REALM
from tierbench.testbed.services.tokens import ISSUER
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import GATEWAY, PRIVATE, UF, Host, Nic, Topology

BESIDE_STORAGE = "vmuf"
REDIRECTOR = "rdr"  # a machine that is there where the settings say so, and sends clients on to the one beside storage
PORT, KRB5_PORT, TLS_PORT, TOKEN_PORT, COPY_PORT, CACHE_PORT, CLUSTER_PORT = 1094, 1095, 1096, 1097, 1098, 1101, 1213
COPIES, COPIES_MB = "/xrootd-copies", 2048  # in memory, where what is copied goes
THIRD_PARTY = "ofs.tpc ttl 60 60 xfr 64 pgm /usr/bin/xrdcp --server"
XROOTDFS_ROOT = "/xrootd-fs"
CERTIFICATE, PRIVATE_KEY = "/etc/xrootd/host.pem", "/etc/xrootd/host.key"
AUTHORITIES = "/etc/grid-security/certificates"  # where clients look
SCITOKENS = "/etc/xrootd/scitokens.cfg"
SYSTEMS_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"  # by which a server trusts an issuer of tokens
XROOTD_KEYTAB = "/etc/xrootd/xrootd.keytab"
SHOWN = "/run/shown-token"  # the server's own, by which it is asked whether it answers
REDIRECTORS = "/etc/xrootd/redirector.cfg"
FOLDERS = "install -d -o xrootd -g xrootd /run/xrootd /var/spool/xrootd /var/log/xrootd"
XROOTDFS = XROOTDFS_ROOT + MOUNT_POINT  # a file has the same path there as in its xrootd URL


def machines(settings: Settings) -> tuple[Host, ...]:
    nic = Nic("eth0", UF, 13, settings.rates_mbps.server)
    return (Host(BESIDE_STORAGE, (nic,), in_pool=True, mounts=True, principals=("xrootd", "nfs"), is_writer=True),)


@dataclass(frozen=True)
class Door:
    """One xrootd server process: where clients reach it and whether they need a ticket, or a token."""

    name: str
    host: Host
    port: int
    kerberized: bool = False
    tls: bool = False
    tokens: bool = False
    copies: bool = False  # between two such

    @property
    def url(self) -> str:
        return f"root://{self.host.fqdn}:{self.port}/"


def doors(topology: Topology) -> list[Door]:
    """All xrootd servers of the testbed."""
    settings, lan, wan, storage = topology.settings, *map(topology.host, (GATEWAY, BESIDE_STORAGE, STORAGE))
    opened = {
        Door("xrootd", lan, PORT): True,
        Door("xrootd", wan, PORT): True,
        Door("xrootd-krb5", wan, KRB5_PORT, kerberized=True): True,
        Door("xrootd-tls", wan, TLS_PORT, kerberized=True, tls=True): settings.virtual_workers,
        Door("xrootd-token", wan, TOKEN_PORT, tls=True, tokens=True): settings.token_door,
        Door("xrootd", storage, PORT): storage_has_door(topology),
        Door("xrootd-copies", lan, COPY_PORT, copies=True): settings.xrootd_copies,
        Door("xrootd-copies", wan, COPY_PORT, copies=True): settings.xrootd_copies,
    }
    return [door for door, there in opened.items() if there]


def storage_has_door(topology: Topology) -> bool:
    """Whether the storage server serves by XRootD itself."""
    return len(topology.host(STORAGE).nics) > 1


def served(topology: Topology) -> dict[str, set[int]]:
    """By the names of their hosts, the ports of all servers."""
    ports = {topology.host(GATEWAY).fqdn: {CACHE_PORT}}  # and the doors
    for door in doors(topology):
        for nic, name in door.host.names.items():
            ports.setdefault(f"{name}.{nic.network.zone}", set()).add(door.port)
    return ports


def stage(hosts: Hosts, topology: Topology) -> None:
    for door in doors(topology):
        in_cluster = topology.settings.redirector and (door.host.name, door.port) == (BESIDE_STORAGE, PORT)
        role = clustered("server") if in_cluster else ""
        hosts[door.host.name].stage(f"/etc/xrootd/{door.name}.cfg", _configuration(door, role))
        if door.tokens:
            accepted = filled("scitokens.cfg", audience=tokens.AUDIENCE, issuer=tokens.URL)
            hosts[door.host.name].stage(SCITOKENS, accepted)
        if door.name == "xrootd":
            offer(hosts[door.host.name], "xrootd-processes")


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
    if door.tokens:
        security = "xrootd.seclib libXrdSec.so\nsec.protocol ztn\nsec.protbind * only ztn"
        security += f"\nofs.authorize 1\nofs.authlib libXrdAccSciTokens.so config={SCITOKENS}"
    if door.copies:
        security = THIRD_PARTY
        security += f"\nall.export {COPIES} r/w nostage" if door.host.name == GATEWAY else ""
    if door.tls:
        # All is protected but data, and these too unless a client asks for a connection of theirs (XRD_TLSNODATA).
        security += (
            f"\nxrd.tls {CERTIFICATE} {PRIVATE_KEY}\nxrd.tlsca certdir {AUTHORITIES}\nxrootd.tls capable all -data"
        )
    return filled("xrootd.cfg", port=door.port, mount_point=MOUNT_POINT, writes=WRITES, security=security)


def certify(hosts: Hosts, door: Door) -> None:
    """Give a server a certificate by an authority that is forgotten then, and all hosts that authority's own."""
    server = hosts[door.host.name]
    server.put("/usr/local/sbin/certify", verbatim("certify"), 0o755)
    server.run("/usr/local/sbin/certify", door.host.fqdn, CERTIFICATE, PRIVATE_KEY, AUTHORITIES, "xrootd")
    names = server.run("ls", AUTHORITIES).stdout.split()
    for host in hosts.values():
        if host.host.is_virtual or (door.tokens and host.host.in_pool and host is not server):
            host.run("mkdir", "-p", AUTHORITIES)
            for name in names:
                host.put(f"{AUTHORITIES}/{name}", server.read(f"{AUTHORITIES}/{name}"))


def start(hosts: Hosts, topology: Topology) -> None:
    """Start the servers, which need their mounts, then the private workers' mounts of the LAN xrootd."""
    for door in doors(topology):
        host = hosts[door.host.name]
        host.script([FOLDERS])
        if door.kerberized:
            host.script([f"install -o xrootd -m 400 {KEYTAB} {XROOTD_KEYTAB}"])
        if door.copies and host.name == GATEWAY:
            host.script([f"mkdir -p {COPIES}", f"mount -t tmpfs -o mode=1777,size={COPIES_MB}m tmpfs {COPIES}"])
        if door.tls:
            certify(hosts, door)
        if door.tokens:  # it believes what their issuer publishes, and has one to be asked with
            authority = hosts[KDC].run("sh", "-c", f"cat {tokens.AUTHORITIES}/*.0").stdout
            host.put(SYSTEMS_AUTHORITIES, host.read(SYSTEMS_AUTHORITIES) + authority.encode())
            host.put(SHOWN, tokens.issued(hosts[KDC], tokens.claims()), 0o600)
        daemon(host, door.name, "xrootd", door.name, f"/etc/xrootd/{door.name}.cfg")
    wait_for(ask_servers(hosts, topology))
    source = f"root://{GATEWAY}.{PRIVATE.zone}:{PORT}/{MOUNT_POINT}"
    for worker in xrootdfs_workers(hosts, topology):
        worker.script([f"mkdir -p {XROOTDFS}"])
        worker.daemon("xrootdfs", "xrootdfs", XROOTDFS, "-f", "-o", f"rdr={source},allow_other")
    wait_for(ask_mounts(hosts, topology))
    read_ahead = f"echo {topology.settings.read_ahead_kb} >/sys/class/bdi/$(mountpoint -d {XROOTDFS})/read_ahead_kb"
    for worker in xrootdfs_workers(hosts, topology):
        worker.script([read_ahead])


def daemon(host: RunningHost, name: str, program: str, instance: str, configuration: str) -> None:
    """Start one of XRootD's daemons as its own user."""
    become = ("setpriv", "--reuid=xrootd", "--regid=xrootd", "--init-groups")
    host.daemon(name, *become, program, "-n", instance, "-c", configuration, "-k", "fifo")


def answers(host: RunningHost, door: Door) -> bool:
    """Whether the server answers on its own host; the Kerberized one is asked with that host's ticket."""
    ask = ["xrdfs", f"{door.host.fqdn}:{door.port}", "stat", MOUNT_POINT]
    if door.kerberized:
        ask = ["env", "KRB5CCNAME=FILE:/run/mount.ccache", *ask]
    if door.tokens:
        ask = ["env", f"BEARER_TOKEN_FILE={SHOWN}", *ask]
    return host.succeeds(*ask, timeout=5)


def xrootdfs_workers(hosts: Hosts, topology: Topology) -> list[RunningHost]:
    """The workers that mount the LAN xrootd through FUSE, for programs that know only files, if there is a client."""
    workers = topology.workers if topology.settings.has_xrootdfs else ()
    return [hosts[worker.name] for worker in workers if worker.network_kind == "private"]


def xrootdfs_answers(worker: RunningHost) -> bool:
    return worker.succeeds("sh", "-c", f"mountpoint -q {XROOTDFS} && ls {XROOTDFS}", timeout=5)


def ask_servers(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    for door in doors(topology):
        server = hosts[door.host.name]
        yield Question(server, door.name, partial(answers, server, door), f"answers at {door.url}", f"{door.name}.log")


def ask_mounts(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    for worker in xrootdfs_workers(hosts, topology):
        yield Question(worker, "xrootdfs", partial(xrootdfs_answers, worker), f"{XROOTDFS} answers", "xrootdfs.log")


XROOTD = Service(
    "xrootd servers, and their mounts on the private workers",
    machines=machines,
    packages=("xrootd-server", "xrootd-client"),
    more_packages=lambda settings: ("xrootd-fuse",) if settings.has_xrootdfs else (),
    after=(MOUNTS, ISSUER),
    stage=stage,
    start=start,
    questions=lambda hosts, topology: [*ask_servers(hosts, topology), *ask_mounts(hosts, topology)],
)

# -- the redirector ----------------------------------------------------------------------------------------


def redirector_machines(settings: Settings) -> tuple[Host, ...]:
    nic = Nic("eth0", UF, 14, settings.rates_mbps.server)
    return (Host(REDIRECTOR, (nic,), in_pool=True),) if settings.redirector else ()


def stage_redirector(hosts: Hosts, topology: Topology) -> None:
    if topology.settings.redirector:
        lines = clustered("manager")
        hosts[REDIRECTOR].stage(REDIRECTORS, filled("redirector.cfg", port=PORT, mount_point=MOUNT_POINT, role=lines))


def start_redirector(hosts: Hosts, topology: Topology) -> None:
    """Start the manager, and the part of the data server that answers it."""
    if not topology.settings.redirector:
        return
    redirector, server = hosts[REDIRECTOR], hosts[BESIDE_STORAGE]
    redirector.script([FOLDERS])
    for host, program, configuration in (
        (redirector, "xrootd", REDIRECTORS),
        (redirector, "cmsd", REDIRECTORS),
        (server, "cmsd", "/etc/xrootd/xrootd.cfg"),
    ):
        daemon(host, program, program, "xrootd", configuration)


def ask_redirector(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    """Whether it finds the storage's folder at the data server."""
    if topology.settings.redirector:
        host = hosts[REDIRECTOR]
        locate = f"xrdfs {host.host.fqdn}:{PORT} locate -r {MOUNT_POINT} | grep -q ':{PORT} Server '"
        answer = f"sends clients on from root://{host.host.fqdn}/"
        yield Question(host, "redirector", partial(host.succeeds, "sh", "-c", locate), answer, "cmsd.log")


REDIRECTION = Service(
    "",
    machines=redirector_machines,
    after=(XROOTD,),
    stage=stage_redirector,
    start=start_redirector,
    questions=ask_redirector,
)
