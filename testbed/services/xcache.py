"""XCache on the gateway: XRootD's proxy with a cache in memory, of what the xrootd server beside the storage has.

Where the storage server has a door itself, it is of that one: there nobody reads ahead between the origin and the WAN.
"""

from __future__ import annotations

from importlib import resources

from tierbench.testbed.host import filled
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services.conditions import WORDS, offer
from tierbench.testbed.services.filesystem import MOUNT_POINT, STORAGE
from tierbench.testbed.services.xrootd import BESIDE_STORAGE, CACHE_PORT, PORT, XROOTD, daemon, storage_has_door
from tierbench.testbed.topology import GATEWAY

CACHE, CACHE_MB = "/xcache", 2048
CONFIGURATION = "/etc/xrootd/xcache.cfg"
STATE = "xcache-state"  # the word, and the program that an admin installs for it


def stage(bed: Bed) -> None:
    host = bed[GATEWAY]
    door = f"root://{host.fqdn}:{CACHE_PORT}/"
    origin = f"{bed[STORAGE if storage_has_door(bed.topology) else BESIDE_STORAGE].fqdn}:{PORT}"
    text = filled("xcache.cfg", port=CACHE_PORT, mount_point=MOUNT_POINT, origin=origin, cache=CACHE)
    host.stage(CONFIGURATION, text)
    anew = filled("xcache-anew", configuration=CONFIGURATION, door=door)
    host.stage("/usr/local/lib/tierbench/xcache-anew", anew, 0o755)
    offer(host, "xcache-block", "xcache-prefetch")
    program = resources.files("tierbench.site_configs") / "arrange.d" / STATE
    host.stage(f"{WORDS}/{STATE}", program.read_bytes(), 0o755)
    host.stage("/etc/tierbench/xcache", f"DOOR={door} CACHE={CACHE} LOG=/var/log/xcache.log\n")


def start(bed: Bed) -> None:
    mount = f"mount -t tmpfs -o mode=755,uid=$(id -u xrootd),gid=$(id -g xrootd),size={CACHE_MB}m tmpfs {CACHE}"
    bed[GATEWAY].script([f"mkdir -p {CACHE}", mount])
    daemon(bed[GATEWAY], "xcache", "xrootd", "xcache", CONFIGURATION)


def questions(bed: Bed) -> list[Question]:
    door = f"{bed[GATEWAY].fqdn}:{CACHE_PORT}"
    ask = ("xrdfs", door, "query", "config", "version")  # of a folder of which it has files it knows nothing
    return [Question(bed[GATEWAY], "xcache", ask, f"answers at root://{door}/", "xcache.log")]


XCACHE = Service("XCache", packages=("xrootd-server",), after=(XROOTD,), stage=stage, start=start, questions=questions)
