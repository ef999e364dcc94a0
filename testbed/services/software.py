"""HTTP beside the storage: nginx on top of vmuf's mount, and software from there, by Squid, in place of CVMFS.

A stand-in, since no distribution has CVMFS: rclone, which mounts what a web server lists and keeps what it has fetched.
The public workers mount it, with a cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierbench.testbed.host import RunningHost, filled
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services import squid
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.filesystem import MOUNT_POINT as DATA_MOUNT
from tierbench.testbed.services.filesystem import MOUNTS
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.topology import GATEWAY

PORT = 8000
CONFIGURATION = "/etc/nginx/tierbench.conf"
SERVED = "/srv/software"  # what nginx serves as /software/
SHARED = "/software"  # below it mounts come and go for jobs as well, which have a copy of all others
MOUNT_POINT = f"{SHARED}/now"
CACHES = "/var/cache/software"
COMMAND = "/usr/local/sbin/software-cache"
INSTALLED = "/usr/local/lib/python3*/dist-packages"  # where ROOT is, on every host


def stage_server(bed: Bed) -> None:
    text = filled("nginx.conf", port=PORT, mount_point=DATA_MOUNT, software=SERVED)
    bed[BESIDE_STORAGE].stage(CONFIGURATION, text)


def start_server(bed: Bed) -> None:
    bed[BESIDE_STORAGE].script(["mkdir -p /var/lib/nginx /var/log/nginx"])
    bed[BESIDE_STORAGE].daemon("nginx", "nginx", "-e", "stderr", "-c", CONFIGURATION)


def ask_server(bed: Bed) -> list[Question]:
    """Whether it serves the mount's own folder, if only to say that it does not list it."""
    host = bed[BESIDE_STORAGE]
    url = f"http://{host.fqdn}:{PORT}"
    ask = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", f"{url}{DATA_MOUNT}/")

    def answers() -> bool:
        return host.run(*ask, check=False, timeout=5).stdout == "403"

    return [Question(host, "nginx", answers, f"answers at {url}/", "nginx.log")]


NGINX = Service(
    "nginx", packages=("nginx-light", "curl"), after=(MOUNTS,), stage=stage_server, start=start_server,
    questions=ask_server,
)  # fmt: skip


def clients(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.is_worker and host.network_kind == "public")


def stage_mounts(bed: Bed) -> None:
    url = f"http://{bed[BESIDE_STORAGE].fqdn}:{PORT}/software/"
    proxy = f"{bed[GATEWAY].fqdn}:{squid.PORT}"
    script = filled("software-cache", mount_point=MOUNT_POINT, caches=CACHES, url=url, proxy=proxy)
    for client in clients(bed):
        client.stage(COMMAND, script, 0o755)
        offer(client, "software-cache")


def start_mounts(bed: Bed) -> None:
    """Lay out what of ROOT a client opens, without the thousands of headers; then mount it, with an empty cache."""
    bed[BESIDE_STORAGE].script([
        f"mkdir -p {SERVED}/ROOT/include",
        f"ln -s {INSTALLED}/root.libs {SERVED}/",
        f"ln -s {INSTALLED}/ROOT/bin {INSTALLED}/ROOT/etc {INSTALLED}/ROOT/lib {SERVED}/ROOT/",
        f"ln -s {INSTALLED}/ROOT/include/*.modulemap {SERVED}/ROOT/include/",
    ])  # fmt: skip
    for client in clients(bed):
        client.script([f"mkdir -p {SHARED} && mount -t tmpfs none {SHARED}", f"mount --make-shared {SHARED}"])
        client.run(COMMAND, "set", "cold")


def ask_mounts(bed: Bed) -> Iterator[Question]:
    for client in clients(bed):
        yield Question(client, "software", ("test", "-e", f"{MOUNT_POINT}/ROOT/lib"), f"{MOUNT_POINT} answers")


SOFTWARE = Service(
    "software by HTTP", packages=("rclone",), after=(NGINX, squid.SQUID), stage=stage_mounts, start=start_mounts,
    wanted=lambda settings: settings.software_mounts and settings.public_workers, questions=ask_mounts,
)  # fmt: skip
