"""Squid, a cache in memory, as one process or several that share it: on dgt for the workers behind it, and on proxies.

Of these there are as many at each of the two sites, where the settings say so, and with them workers beside the
storage: the clients of one site's proxies are at the other one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierbench.testbed.host import RunningHost, filled, verbatim
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, GATEWAY, UF, Host, Nic

PORT = 3128
CONFIGURATION = "/etc/squid/tierbench.conf"
SITES = {"squ": UF, "sqf": FIU}  # what proxies are called there
WORKER = "wnu"


def machines(settings: Settings) -> Iterator[Host]:
    rate = settings.rates_mbps
    for number in range(settings.proxies):
        for name, network in SITES.items():
            yield Host(f"{name}{number + 1}", (Nic("eth0", network, 61 + number, rate.server),), in_pool=True)
        nic = Nic("eth0", UF, 101 + number, rate.worker)
        yield Host(f"{WORKER}{number + 1}", (nic,), in_pool=True, is_worker=True)


def proxies(bed: Bed) -> list[RunningHost]:
    """All hosts on which Squid runs."""
    return bed.where(lambda host: host.name == GATEWAY or host.name[:3] in SITES)


def stage(bed: Bed) -> None:
    for host in proxies(bed):
        offer(host, "squid-processes", "squid-affinity")
        host.stage("/usr/local/lib/tierbench/squid-anew", verbatim("squid-anew"), 0o755)
        host.stage(CONFIGURATION, filled("squid.conf", port=PORT, workers=bed.settings.squid_workers, host=host.fqdn))


def start(bed: Bed) -> None:
    # Several processes of it talk by sockets in /run/squid, and share their cache in /dev/shm.
    for host in proxies(bed):
        host.script([
            "install -d -o proxy -g proxy /run/squid",
            "mkdir -p /dev/shm",
            "mountpoint -q /dev/shm || mount -t tmpfs tmpfs /dev/shm",
        ])  # fmt: skip
        host.daemon("squid", "squid", "--foreground", "-f", CONFIGURATION)


def questions(bed: Bed) -> Iterator[Question]:
    """Whether its cache manager shows its counters."""
    ask = ("curl", "--silent", "--fail", f"http://127.0.0.1:{PORT}/squid-internal-mgr/counters")
    for host in proxies(bed):
        yield Question(host, "squid", ask, f"answers at {host.fqdn}:{PORT}", "squid.log")


SQUID = Service("Squid", packages=("squid", "curl"), machines=machines, stage=stage, start=start, questions=questions)
