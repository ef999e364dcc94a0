"""What a host runs, has mounted and sends by, as a header says it: what two runs must have alike to be compared."""

import re
import subprocess
from pathlib import Path

from tierbench.monitors.source import first_line

ROUTES_S = 5
LINK_LOCAL = ("fe80:", "ff00:")
CONGESTION_CONTROL = re.compile(r" congctl (?:lock )?(\w+)")
SETTINGS = (
    *("net.ipv4.tcp_" + name for name in ("rmem", "wmem", "mtu_probing", "no_metrics_save")),
    *("net.ipv4.tcp_" + name for name in ("timestamps", "window_scaling", "sack")),
    *("net.core." + name for name in ("rmem_max", "wmem_max", "netdev_max_backlog")),
)
ASKING_S = 5
SYSTEM = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}  # HTCondor may give a job another one
PACKAGES = (
    *("xrootd-" + name for name in ("server", "client", "server-libs", "client-libs", "fuse", "libs")),
    *("condor", "htcondor", "minicondor", "squid", "nginx", "nginx-light", "curl", "root", "root-core", "cvmfs"),
    *("globus-gridftp-server-progs", "globus-gass-copy-progs", "nfs-ganesha", "nfs-common", "nfs-utils", "krb5-libs"),
    *("libkrb5-3", "lustre-client", "kmod-lustre-client", "ceph-common", "ceph-osd", "moosefs-client"),
    *("moosefs-chunkserver", "moosefs-master"),
)
QUERIES = (
    ("dpkg-query", "-W", "-f", "${Package} ${Version}\\n"),
    ("rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"),
)
FARAWAY = ("nfs", "lustre", "ceph", "gpfs", "beegfs", "afs", "cvmfs2", "glusterfs", "9p", "cifs", "fuse.")


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
    return ", ".join(sorted({match.group(1) if match else str(usual) for match in said})) or usual


def packages() -> "dict[str, str]":
    """The versions of those that are installed; none where neither dpkg nor rpm is there."""
    for query in QUERIES:
        try:
            asked = subprocess.run(
                [*query, *PACKAGES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASKING_S, env=SYSTEM
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        pairs = [line.split() for line in asked.stdout.decode(errors="replace").splitlines()]
        settings = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        if settings:
            return settings
    return {}


def mounts(proc: Path) -> "dict[str, str]":
    """File systems that come over a network, or from a program: their type and options, by where they are."""
    try:
        text = (proc / "self/mounts").read_text(errors="replace")
    except OSError:
        return {}
    lines = [line.split() for line in text.splitlines()]
    faraway = [line for line in lines if len(line) >= 4 and line[2].startswith(FARAWAY) and line[2] != "fuse.lxcfs"]
    return {line[1]: line[2] + " " + line[3] for line in faraway}
