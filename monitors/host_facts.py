"""What a host runs, has mounted and sends by, as a header says it: what two runs must have alike to be compared."""

import re
import subprocess
from pathlib import Path

from tierbench.host import read_text
from tierbench.monitors.source import first_line

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
    listing = lines_of("ip", "-o", "route", "show", "table", "all", "type", "unicast", "dev", interface)
    routes = [route for route in listing if not route.startswith(LINK_LOCAL)]
    said = [CONGESTION_CONTROL.search(route) for route in routes]
    return ", ".join(sorted({match.group(1) if match else str(usual) for match in said})) or usual


def packages() -> "dict[str, str]":
    """The versions of those that are installed; none where neither dpkg nor rpm is there."""
    for query in QUERIES:
        pairs = [line.split() for line in lines_of(*query, *PACKAGES)]
        settings = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        if settings:
            return settings
    return {}


def lines_of(*command: str) -> "list[str]":
    """What a program says; nothing where there is no such program, or no answer."""
    try:
        asked = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASKING_S, env=SYSTEM, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return asked.stdout.decode(errors="replace").splitlines()


def mounts(proc: Path) -> "dict[str, str]":
    """File systems that come over a network, or from a program: their type and options, by where they are."""
    lines = [line.split() for line in read_text(str(proc / "self/mounts")).splitlines()]
    faraway = [line for line in lines if len(line) >= 4 and line[2].startswith(FARAWAY) and line[2] != "fuse.lxcfs"]
    return {line[1]: line[2] + " " + line[3] for line in faraway}
