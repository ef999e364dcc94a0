"""GridFTP: a server on vmuf, on top of its mount, one on dgt, into memory, and a way to steer both from far away.

Neither asks who comes: anonymous FTP, each shut up in its own folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.templates import verbatim
from tierbench.testbed.topology import GATEWAY, Host, Topology

PORT = 2811
MEMORY = "/gridftp"
MEMORY_MB = 2048
FAR_RTT_MS = 150  # the 100G paper: "more than 150 ms"
FAR_AWAY = ACCESS_POINT  # the host that stands for one far away, as those who steer see it
FORWARDER = "/usr/local/lib/tierbench/far-away.py"
START_SECONDS = 30.0


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


def servers(topology: Topology) -> list[Server]:
    """The one that is read from, and the one that is written to."""
    source, destination = topology.host(BESIDE_STORAGE), topology.host(GATEWAY)
    return [Server(source, MOUNT_POINT, "R", PORT), Server(destination, MEMORY, "RW", PORT + 1)]


def stage(hosts: Hosts, _: Topology) -> None:
    hosts[FAR_AWAY].stage(FORWARDER, verbatim("far-away.py"))


def start(hosts: Hosts, topology: Topology) -> None:
    """Start them when their mount is there, and wait until they answer, near by and far away."""
    _, destination = servers(topology)
    memory = f"mount -t tmpfs -o mode=1777,size={MEMORY_MB}m tmpfs {MEMORY}"
    hosts[destination.host.name].script([f"mkdir -p {MEMORY}", memory])
    for server in servers(topology):
        address = server.host.address
        hosts[server.host.name].daemon(
            "gridftp", "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
            "env", f"GLOBUS_HOSTNAME={server.host.fqdn}", "globus-gridftp-server",
            "-aa", "-allow-disabled-login", "-anonymous-user", "nobody", "-anonymous-group", "nogroup",
            "-auth-level", "0", "-restrict-paths", f"{server.rights}{server.folder}",
            "-control-interface", address, "-data-interface", address, "-p", str(PORT),
        )  # fmt: skip
    far = hosts[FAR_AWAY]
    ways = [f"{server.far_port}={server.host.fqdn}:{PORT}" for server in servers(topology)]
    far.daemon("far-away", "python3", FORWARDER, str(FAR_RTT_MS), *ways)
    for question in questions(hosts, topology):
        complaint = f"{question.thing} on {question.host.name} did not answer"
        question.host.wait_until(partial(_says_yes, question), START_SECONDS, complaint, f"{question.thing}.log")


def _says_yes(question: Question) -> bool:
    return bool(question.ask())


def answers(host: RunningHost, url: str) -> bool:
    """Whether a server lists its folder."""
    command = ("env", f"GLOBUS_HOSTNAME={host.host.fqdn}", "globus-url-copy", "-list", url)
    return host.succeeds(*command, timeout=10)


def questions(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    far = hosts[FAR_AWAY]
    for server in servers(topology):
        host = hosts[server.host.name]
        yield Question(host, "gridftp", partial(answers, host, server.url), f"answers at {server.url}")
        url = f"ftp://{far.host.fqdn}:{server.far_port}{server.folder}/"
        yield Question(far, "far-away", partial(answers, far, url), f"answers at {url}")


GRIDFTP = Service(
    "GridFTP",
    packages=("globus-gridftp-server-progs", "globus-gass-copy-progs", "globus-simple-ca"),
    after=(MOUNTS,),
    stage=stage,
    start=start,
    questions=questions,
)
