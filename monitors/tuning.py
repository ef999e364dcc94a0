"""How the kernel is set up to send: what two runs must have alike to be compared."""

import re
import subprocess
from pathlib import Path

from tierbench.monitors.source import first_line

ROUTES_S = 5
LINK_LOCAL = ("fe80:", "ff00:")
SYSTEM = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}  # HTCondor may give a job another one
CONGESTION_CONTROL = re.compile(r" congctl (?:lock )?(\w+)")
SETTINGS = (
    *("net.ipv4.tcp_" + name for name in ("rmem", "wmem", "mtu_probing", "no_metrics_save")),
    *("net.ipv4.tcp_" + name for name in ("timestamps", "window_scaling", "sack")),
    *("net.core." + name for name in ("rmem_max", "wmem_max", "netdev_max_backlog")),
)


def tuning(proc: Path, sys_: Path, interface: str) -> "dict[str, str | None]":
    """The settings for all, and those of an interface."""
    settings = {name: first_line(proc / "sys" / name.replace(".", "/")) for name in SETTINGS}
    settings["congestion_control"] = congestion_control(proc, interface)
    settings["mtu"] = first_line(sys_ / "class/net" / interface / "mtu")
    settings["txqueuelen"] = first_line(sys_ / "class/net" / interface / "tx_queue_len")
    return settings


def congestion_control(proc: Path, interface: str) -> "str | None":
    """What TCP sends by through the interface: as each of its routes says, or else as is usual on this machine."""
    usual = first_line(proc / "sys/net/ipv4/tcp_congestion_control")
    listing = ["ip", "-o", "route", "show", "table", "all", "type", "unicast", "dev", interface]
    try:
        asked = subprocess.run(listing, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ROUTES_S, env=SYSTEM)
    except (OSError, subprocess.TimeoutExpired):  # no iproute2: nobody has set any by it
        return usual
    routes = [route for route in asked.stdout.decode().splitlines() if not route.startswith(LINK_LOCAL)]
    said = [CONGESTION_CONTROL.search(route) for route in routes]
    return ", ".join(sorted({found.group(1) if found else str(usual) for found in said})) or usual
