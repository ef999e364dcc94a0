"""XCache on the gateway: XRootD's proxy with a cache in memory, of what the xrootd server beside the storage has.

Where the storage server has a door itself, it is of that one: there nobody reads ahead between the origin and the WAN.
"""

from __future__ import annotations

from importlib import resources

from tierbench.testbed.host import filled
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.conditions import WORDS, offer
from tierbench.testbed.services.filesystem import MOUNT_POINT, STORAGE
from tierbench.testbed.services.xrootd import BESIDE_STORAGE, CACHE_PORT, PORT, XROOTD, daemon, storage_has_door
from tierbench.testbed.topology import GATEWAY, Topology

CACHE, CACHE_MB = "/xcache", 2048
CONFIGURATION = "/etc/xrootd/xcache.cfg"
STATE = "xcache-state"  # the word, and the program that an admin installs for it


def stage(hosts: Hosts, topology: Topology) -> None:
    host, door = hosts[GATEWAY], f"root://{topology.host(GATEWAY).fqdn}:{CACHE_PORT}/"
    origin = f"{topology.host(STORAGE if storage_has_door(topology) else BESIDE_STORAGE).fqdn}:{PORT}"
    text = filled("xcache.cfg", port=CACHE_PORT, mount_point=MOUNT_POINT, origin=origin, cache=CACHE)
    host.stage(CONFIGURATION, text)
    anew = filled("xcache-anew", configuration=CONFIGURATION, door=door)
    host.stage("/usr/local/lib/tierbench/xcache-anew", anew, 0o755)
    offer(host, "xcache-block")
    offer(host, "xcache-prefetch")
    program = resources.files("tierbench.site_configs") / "arrange.d" / STATE
    host.stage(f"{WORDS}/{STATE}", program.read_bytes(), 0o755)
    host.stage("/etc/tierbench/xcache", f"DOOR={door} CACHE={CACHE} LOG=/var/log/xcache.log\n")


def start(hosts: Hosts, _: Topology) -> None:
    mount = f"mount -t tmpfs -o mode=755,uid=$(id -u xrootd),gid=$(id -g xrootd),size={CACHE_MB}m tmpfs {CACHE}"
    hosts[GATEWAY].script([f"mkdir -p {CACHE}", mount])
    daemon(hosts[GATEWAY], "xcache", "xrootd", "xcache", CONFIGURATION)


def questions(hosts: Hosts, _: Topology) -> list[Question]:
    host = hosts[GATEWAY]
    door = f"{host.host.fqdn}:{CACHE_PORT}"

    def answers() -> bool:  # of a folder of which it has files it knows nothing
        return host.succeeds("xrdfs", door, "query", "config", "version", timeout=5)

    return [Question(host, "xcache", answers, f"answers at root://{door}/", "xcache.log")]


XCACHE = Service("XCache", packages=("xrootd-server",), after=(XROOTD,), stage=stage, start=start, questions=questions)
