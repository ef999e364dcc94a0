"""The web server on vmuf, beside the storage, on top of its mount, and of software for who mounts that: nginx."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.templates import filled
from tierbench.testbed.topology import Topology

PORT = 8000
START_SECONDS = 30.0
CONFIGURATION = "/etc/nginx/tierbench.conf"
SOFTWARE = "/srv/software"  # what it serves as /software/


def stage(hosts: Hosts, _: Topology) -> None:
    text = filled("nginx.conf", port=PORT, mount_point=MOUNT_POINT, software=SOFTWARE)
    hosts[BESIDE_STORAGE].stage(CONFIGURATION, text)


def start(hosts: Hosts, _: Topology) -> None:
    """Start it when its mount is there, and wait until it answers."""
    host = hosts[BESIDE_STORAGE]
    host.script(["mkdir -p /var/lib/nginx /var/log/nginx"])
    host.daemon("nginx", "nginx", "-e", "stderr", "-c", CONFIGURATION)
    host.wait_until(partial(answers, host), START_SECONDS, f"the web server on {host.name} did not answer", "nginx.log")


def answers(host: RunningHost) -> bool:
    """Whether it serves the mount's own folder, if only to say that it does not list it."""
    url = f"http://{host.host.fqdn}:{PORT}{MOUNT_POINT}/"
    asked = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", url)
    return host.run(*asked, check=False, timeout=5).stdout == "403"


def questions(hosts: Hosts, _: Topology) -> Iterator[Question]:
    host = hosts[BESIDE_STORAGE]
    yield Question(host, "nginx", partial(answers, host), f"answers at http://{host.host.fqdn}:{PORT}/")


NGINX = Service(
    "nginx", packages=("nginx-light", "curl"), after=(MOUNTS,), stage=stage, start=start, questions=questions
)
