"""HTTP beside the storage: nginx on top of vmuf's mount, and software from there, by Squid, in place of CVMFS.

A stand-in, since no distribution has CVMFS: rclone, which mounts what a web server lists and keeps what it has fetched.
The public workers mount it, with a cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost, filled
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services import squid
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.filesystem import MOUNT_POINT as DATA_MOUNT
from tierbench.testbed.services.filesystem import MOUNTS
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.topology import GATEWAY, Topology

PORT = 8000
CONFIGURATION = "/etc/nginx/tierbench.conf"
SERVED = "/srv/software"  # what nginx serves as /software/
SHARED = "/software"  # below it mounts come and go for jobs as well, which have a copy of all others
MOUNT_POINT = f"{SHARED}/now"
CACHES = "/var/cache/software"
COMMAND = "/usr/local/sbin/software-cache"
INSTALLED = "/usr/local/lib/python3*/dist-packages"  # where ROOT is, on every host


def stage_server(hosts: Hosts, _: Topology) -> None:
    text = filled("nginx.conf", port=PORT, mount_point=DATA_MOUNT, software=SERVED)
    hosts[BESIDE_STORAGE].stage(CONFIGURATION, text)


def start_server(hosts: Hosts, _: Topology) -> None:
    hosts[BESIDE_STORAGE].script(["mkdir -p /var/lib/nginx /var/log/nginx"])
    hosts[BESIDE_STORAGE].daemon("nginx", "nginx", "-e", "stderr", "-c", CONFIGURATION)


def ask_server(hosts: Hosts, _: Topology) -> list[Question]:
    """Whether it serves the mount's own folder, if only to say that it does not list it."""
    host = hosts[BESIDE_STORAGE]
    url = f"http://{host.host.fqdn}:{PORT}"
    ask = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", f"{url}{DATA_MOUNT}/")

    def answers() -> bool:
        return host.run(*ask, check=False, timeout=5).stdout == "403"

    return [Question(host, "nginx", answers, f"answers at {url}/", "nginx.log")]


NGINX = Service(
    "nginx", packages=("nginx-light", "curl"), after=(MOUNTS,), stage=stage_server, start=start_server,
    questions=ask_server,
)  # fmt: skip


def clients(hosts: Hosts, topology: Topology) -> list[RunningHost]:
    workers = topology.workers if topology.settings.software_mounts else ()
    return [hosts[host.name] for host in workers if host.network_kind == "public"]


def stage_mounts(hosts: Hosts, topology: Topology) -> None:
    url = f"http://{topology.host(BESIDE_STORAGE).fqdn}:{PORT}/software/"
    proxy = f"{topology.host(GATEWAY).fqdn}:{squid.PORT}"
    script = filled("software-cache", mount_point=MOUNT_POINT, caches=CACHES, url=url, proxy=proxy)
    for client in clients(hosts, topology):
        client.stage(COMMAND, script, 0o755)
        offer(client, "software-cache")


def start_mounts(hosts: Hosts, topology: Topology) -> None:
    """Lay out what of ROOT a client opens, without the thousands of headers; then mount it, with an empty cache."""
    if not clients(hosts, topology):
        return
    hosts[BESIDE_STORAGE].script([
        f"mkdir -p {SERVED}/ROOT/include",
        f"ln -s {INSTALLED}/root.libs {SERVED}/",
        f"ln -s {INSTALLED}/ROOT/bin {INSTALLED}/ROOT/etc {INSTALLED}/ROOT/lib {SERVED}/ROOT/",
        f"ln -s {INSTALLED}/ROOT/include/*.modulemap {SERVED}/ROOT/include/",
    ])  # fmt: skip
    for client in clients(hosts, topology):
        client.script([f"mkdir -p {SHARED} && mount -t tmpfs none {SHARED}", f"mount --make-shared {SHARED}"])
        client.run(COMMAND, "set", "cold")


def ask_mounts(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    for client in clients(hosts, topology):
        mounted = partial(client.succeeds, "test", "-e", f"{MOUNT_POINT}/ROOT/lib")
        yield Question(client, "software", mounted, f"{MOUNT_POINT} answers")


SOFTWARE = Service(
    "software by HTTP", packages=("rclone",), after=(NGINX, squid.SQUID), stage=stage_mounts, start=start_mounts,
    questions=ask_mounts,
)  # fmt: skip
