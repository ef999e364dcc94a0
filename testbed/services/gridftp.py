"""GridFTP: a server on vmuf, on top of its mount, one on dgt, into memory, and a way to steer both from far away.

By its first door neither asks who comes: anonymous FTP, shut up in one folder. By the second, to the same folder, come
those with a grid certificate, who may have their data protected.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tierbench.testbed.host import RunningHost, verbatim
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services.certificates import CERTIFICATE, CERTIFICATES, KEY, MAP, PROXY, SERVERS_USER, users
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.topology import GATEWAY, USER, Host, Topology

PORT, SECURED_PORT = 2811, 2813
MEMORY = "/gridftp"
MEMORY_MB = 2048
FAR_RTT_MS = 150  # the 100G paper: "more than 150 ms"
FAR_AWAY = ACCESS_POINT  # the host that stands for one far away, as those who steer see it
FORWARDER = "/usr/local/lib/tierbench/far-away.py"
ANYBODY = ("-aa", "-anonymous-user", SERVERS_USER, "-anonymous-group", "nogroup", "-auth-level", "0")
CREDENTIALS = (f"X509_USER_CERT={CERTIFICATE}", f"X509_USER_KEY={KEY}", f"GRIDMAP={MAP}")


@dataclass(frozen=True)
class Server:
    """One GridFTP server: the folder that it lets others into, how, and its port on the host that is far away."""

    host: Host
    folder: str
    rights: str
    far_port: int

    @property
    def url(self) -> str:
        return f"ftp://{self.host.fqdn}:{PORT}{self.folder}/"

    @property
    def secured_url(self) -> str:
        return f"gsiftp://{self.host.fqdn}:{SECURED_PORT}{self.folder}/"


def servers(topology: Topology) -> list[Server]:
    """The one that is read from, and the one that is written to."""
    source, destination = topology.host(BESIDE_STORAGE), topology.host(GATEWAY)
    return [Server(source, MOUNT_POINT, "R", PORT), Server(destination, MEMORY, "RW", PORT + 1)]


def stage(bed: Bed) -> None:
    bed[FAR_AWAY].stage(FORWARDER, verbatim("far-away.py"))


def start(bed: Bed) -> None:
    """Start them when their mount is there, near by and far away."""
    memory = f"mount -t tmpfs -o mode=1777,size={MEMORY_MB}m tmpfs {MEMORY}"
    bed[GATEWAY].script([f"mkdir -p {MEMORY}", memory])
    for server in servers(bed.topology):
        doors = (("gridftp", PORT, (), ANYBODY), ("gridftp-secured", SECURED_PORT, CREDENTIALS, ()))
        for name, port, credentials, how in doors:
            bed[server.host.name].daemon(
                name, "setpriv", f"--reuid={SERVERS_USER}", "--regid=nogroup", "--clear-groups",
                "env", f"GLOBUS_HOSTNAME={server.host.fqdn}", *credentials, "globus-gridftp-server", *how,
                "-allow-disabled-login", "-restrict-paths", f"{server.rights}{server.folder}", "-p", str(port),
                "-control-interface", server.host.address, "-data-interface", server.host.address,
            )  # fmt: skip
    forwarded = [f"{server.far_port}={server.host.fqdn}:{PORT}" for server in servers(bed.topology)]
    bed[FAR_AWAY].daemon("far-away", "python3", FORWARDER, str(FAR_RTT_MS), *forwarded)


def answers(host: RunningHost, url: str) -> bool:
    """Whether a server lists its folder; where the host has a proxy, its owner asks."""
    environment = (f"GLOBUS_HOSTNAME={host.fqdn}", f"X509_USER_PROXY={PROXY}")
    command = ("env", *environment, "globus-url-copy", "-list", url)
    return host.succeeds(*command, user=USER)


def questions(bed: Bed) -> Iterator[Question]:
    far = bed[FAR_AWAY]
    for server in servers(bed.topology):
        host, far_url = bed[server.host.name], f"ftp://{far.fqdn}:{server.far_port}{server.folder}/"
        for thing, where, asker, url, whom in (
            ("gridftp", host, host, server.url, ""),
            *(("gridftp-secured", host, user, server.secured_url, " a proxy") for user in users(bed)[:1]),
            ("far-away", far, far, far_url, ""),
        ):
            yield Question(where, thing, partial(answers, asker, url), f"answers{whom} at {url}", f"{thing}.log")


GRIDFTP = Service(
    "GridFTP",
    packages=(
        "globus-gridftp-server-progs", "globus-gass-copy-progs", "tcpdump", "gfal2-util-scripts",
        "gfal2-plugin-gridftp", "gfal2-plugin-xrootd", "gfal2-plugin-file",
    ),
    after=(MOUNTS, CERTIFICATES), stage=stage, start=start, questions=questions,
)  # fmt: skip
