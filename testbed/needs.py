"""What a machine must have for a testbed; everything is tried in throw-away namespaces, nothing is kept."""

from __future__ import annotations

import os
import shutil
import subprocess

from tierbench.errors import UnmetNeed

PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "setsid": "util-linux", "ip": "iproute2", "tc": "iproute2"}

# Each line prints what is missing; run by sh as first process of fresh namespaces.
TRIALS = """
mount -t tmpfs tmpfs /mnt && mkdir /mnt/lower /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || echo 'overlay file systems (CONFIG_OVERLAY_FS)'
mknod /mnt/fuse c 10 229 && (: </mnt/fuse) || echo 'FUSE (CONFIG_FUSE_FS)'
ip link add v0 type veth peer name v1 || echo 'veth interfaces (CONFIG_VETH)'
ip link add b0 type bridge || echo 'bridges (CONFIG_BRIDGE)'
ip link add v2 type veth peer name v3
tc qdisc add dev v2 root tbf rate 1mbit burst 10k limit 10k || echo 'the token bucket filter (CONFIG_NET_SCH_TBF)'
tc qdisc add dev v3 root netem delay 1ms || { modprobe -q nfnetlink_queue; [ -e /proc/net/netfilter/nfnetlink_queue ]; } ||
    echo 'a way to delay packets: netem (CONFIG_NET_SCH_NETEM) or NFQUEUE (CONFIG_NETFILTER_NETLINK_QUEUE)'
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
