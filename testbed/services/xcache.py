"""XCache on the gateway: XRootD's proxy with a cache in memory, of what the xrootd server beside the storage has."""

from __future__ import annotations

from tierbench.testbed.host import filled
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import MOUNT_POINT
from tierbench.testbed.services.xrootd import BESIDE_STORAGE, CACHE_PORT, PORT, XROOTD, daemon
from tierbench.testbed.topology import GATEWAY, Topology

CACHE, CACHE_MB = "/xcache", 2048
CONFIGURATION = "/etc/xrootd/xcache.cfg"


def stage(hosts: Hosts, topology: Topology) -> None:
    origin = f"{topology.host(BESIDE_STORAGE).fqdn}:{PORT}"
    text = filled("xcache.cfg", port=CACHE_PORT, mount_point=MOUNT_POINT, origin=origin, cache=CACHE)
    hosts[GATEWAY].stage(CONFIGURATION, text)


def start(hosts: Hosts, _: Topology) -> None:
    mount = f"mount -t tmpfs -o mode=755,uid=$(id -u xrootd),gid=$(id -g xrootd),size={CACHE_MB}m tmpfs {CACHE}"
    hosts[GATEWAY].script([f"mkdir -p {CACHE}", mount])
    daemon(hosts[GATEWAY], "xcache", "xrootd", "xcache", CONFIGURATION)


def questions(hosts: Hosts, _: Topology) -> list[Question]:
    host = hosts[GATEWAY]
    door = f"{host.host.fqdn}:{CACHE_PORT}"
    return [
        Question(
            host,
            "xcache",
            lambda: host.succeeds("xrdfs", door, "stat", MOUNT_POINT, timeout=5),
            f"answers at root://{door}/",
            "xcache.log",
        )
    ]


XCACHE = Service("XCache", packages=("xrootd-server",), after=(XROOTD,), stage=stage, start=start, questions=questions)
