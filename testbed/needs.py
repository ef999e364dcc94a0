"""What a machine must have for a testbed; everything is tried in throw-away namespaces, nothing is kept."""

from __future__ import annotations

import os
import shutil
import subprocess

from tierbench.errors import UnmetNeed

PROGRAMS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
}

# Each line prints what is missing; run by sh as first process of fresh namespaces.
TRIALS = """
lacks() { echo "$1 (CONFIG_$2)"; }
mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir lower upper work root
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root || lacks 'overlay file systems' OVERLAY_FS
mknod fuse c 10 229 && (: <fuse) || lacks FUSE FUSE_FS
ip link add v0 type veth peer name v1 || lacks 'veth interfaces' VETH
ip link add b0 type bridge || lacks bridges BRIDGE
tc qdisc add dev v0 root tbf rate 1mbit burst 10k limit 10k || lacks 'the token bucket filter' NET_SCH_TBF
tc qdisc add dev v1 root netem delay 1ms || modprobe -q nfnetlink_queue || [ -e /proc/net/netfilter/nfnetlink_queue ] ||
    lacks 'a way to delay packets, netem or NFQUEUE' 'NET_SCH_NETEM or CONFIG_NETFILTER_NETLINK_QUEUE'
"""


def check_privilege() -> None:
    """Raise unless we are root."""
    if os.geteuid() != 0:
        raise UnmetNeed("a testbed is made of network namespaces and mounts, which takes root: try again with sudo")


def check_kernel() -> None:
    """Raise if a program or kernel feature that every testbed needs is missing."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise UnmetNeed(f"{program} is not installed: apt-get install {package}")
    trial = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh"],
        input=TRIALS, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if trial.returncode and not trial.stdout:
        raise UnmetNeed(f"this machine does not let root make namespaces: {trial.stderr.strip() or 'unshare failed'}")
    missing = trial.stdout.splitlines()
    if missing:
        raise UnmetNeed("this machine's kernel lacks " + "; ".join(missing))
