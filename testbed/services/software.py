"""Software by HTTP in place of CVMFS: served beside the storage, through Squid, mounted on public workers with a cache.

A stand-in, since no distribution has CVMFS: rclone, which mounts what a web server lists and keeps what it has fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services import nginx, squid
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.templates import filled
from tierbench.testbed.topology import GATEWAY, Topology

SHARED = "/software"  # below it mounts come and go for jobs as well, which have a copy of all others
MOUNT_POINT = f"{SHARED}/now"
CACHES = "/var/cache/software"
COMMAND = "/usr/local/sbin/software-cache"
INSTALLED = "/usr/local/lib/python3*/dist-packages"  # where ROOT is, on every host


def clients(hosts: Hosts, topology: Topology) -> list[RunningHost]:
    workers = topology.workers if topology.settings.software_mounts else ()
    return [hosts[host.name] for host in workers if host.network_kind == "public"]


def stage(hosts: Hosts, topology: Topology) -> None:
    url = f"http://{topology.host(BESIDE_STORAGE).fqdn}:{nginx.PORT}/software/"
    proxy = f"{topology.host(GATEWAY).fqdn}:{squid.PORT}"
    script = filled("software-cache", mount_point=MOUNT_POINT, caches=CACHES, url=url, proxy=proxy)
    for client in clients(hosts, topology):
        client.stage(COMMAND, script, 0o755)
        offer(client, "software-cache")


def start(hosts: Hosts, topology: Topology) -> None:
    """Lay out what of ROOT a client opens, without the thousands of headers; then mount it, with an empty cache."""
    if not clients(hosts, topology):
        return
    hosts[BESIDE_STORAGE].script(
        [
            f"mkdir -p {nginx.SOFTWARE}/ROOT/include",
            f"ln -s {INSTALLED}/root.libs {nginx.SOFTWARE}/",
            f"ln -s {INSTALLED}/ROOT/bin {INSTALLED}/ROOT/etc {INSTALLED}/ROOT/lib {nginx.SOFTWARE}/ROOT/",
            f"ln -s {INSTALLED}/ROOT/include/*.modulemap {nginx.SOFTWARE}/ROOT/include/",
        ]
    )
    for client in clients(hosts, topology):
        client.script([f"mkdir -p {SHARED} && mount -t tmpfs none {SHARED}", f"mount --make-shared {SHARED}"])
        client.run(COMMAND, "set", "cold")


def answers(client: RunningHost) -> bool:
    return client.succeeds("test", "-e", f"{MOUNT_POINT}/ROOT/lib")


def questions(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    for client in clients(hosts, topology):
        yield Question(client, "software", partial(answers, client), f"{MOUNT_POINT} answers")


SOFTWARE = Service(
    "software by HTTP",
    packages=("rclone",),
    after=(nginx.NGINX, squid.SQUID),
    stage=stage,
    start=start,
    questions=questions,
)
