"""Squid on dgt, a cache in memory for the workers behind it, as one process or several that share it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.templates import filled, verbatim
from tierbench.testbed.topology import GATEWAY, Topology

PORT = 3128
START_SECONDS = 60.0
CONFIGURATION = "/etc/squid/tierbench.conf"


def stage(hosts: Hosts, topology: Topology) -> None:
    for word in ("squid-processes", "squid-affinity"):
        offer(hosts[GATEWAY], word)
    hosts[GATEWAY].stage("/usr/local/lib/tierbench/squid-anew", verbatim("squid-anew"), 0o755)
    hosts[GATEWAY].stage(CONFIGURATION, filled("squid.conf", port=PORT, workers=topology.settings.squid_workers))


def start(hosts: Hosts, _: Topology) -> None:
    """Start it, and wait until it tells of itself."""
    host = hosts[GATEWAY]
    # Several processes of it talk by sockets in /run/squid, and share their cache in /dev/shm.
    host.script(
        [
            "install -d -o proxy -g proxy /run/squid",
            "mkdir -p /dev/shm",
            "mountpoint -q /dev/shm || mount -t tmpfs tmpfs /dev/shm",
        ]
    )
    host.daemon("squid", "squid", "--foreground", "-f", CONFIGURATION)
    host.wait_until(partial(answers, host), START_SECONDS, f"Squid on {host.name} did not answer", "squid.log")


def answers(host: RunningHost) -> bool:
    """Whether its cache manager tells its counters."""
    return host.succeeds(
        "curl", "--silent", "--fail", f"http://127.0.0.1:{PORT}/squid-internal-mgr/counters", timeout=5
    )


def questions(hosts: Hosts, _: Topology) -> Iterator[Question]:
    host = hosts[GATEWAY]
    yield Question(host, "squid", partial(answers, host), f"answers at {host.host.fqdn}:{PORT}")


SQUID = Service("Squid", packages=("squid", "curl"), stage=stage, start=start, questions=questions)
