"""What the testbed's hosts can change for a trial: root's helper, its words, and the line for sudo."""

from __future__ import annotations

from importlib import resources

from tierbench.testbed.host import RunningHost, verbatim
from tierbench.testbed.service import Hosts, Service, in_pool
from tierbench.testbed.topology import USER, WAN, Host, Topology

WORDS = "/etc/tierbench/arrange.d"
HELPER = "/usr/local/sbin/tierbench-arrange"
SUDO = "/usr/bin/sudo"
BUCKET = "/usr/local/lib/tierbench/bucket.py"


def words(host: Host, topology: Topology) -> tuple[str, ...]:
    """What a host of the testbed can change of itself; what a service can change there, that service offers."""
    if host.name == WAN:
        return ("wan-rate", "wan-loss", "worker-rate", *(("rtt", "worker-rtts") if topology.settings.rtt_ms else ()))
    if host.is_virtual:
        return ("nic-rate", "tcp-buffer")
    return ("nic-rate", "congestion", "tcp-buffer", *(("read-ahead",) if host.mounts else ()))


def stage(hosts: Hosts, topology: Topology) -> None:
    """Install on each host of the pool what an admin would install there."""
    shipped = resources.files("tierbench.site_configs")
    helper = (shipped / "tierbench-arrange").read_bytes()
    allowed = (shipped / "sudoers.d/tierbench-arrange").read_text(encoding="utf-8").replace("nobody-yet", USER)
    for host in in_pool(hosts):
        host.stage(HELPER, helper, 0o755)
        host.stage("/etc/sudoers.d/tierbench-arrange", allowed, 0o440)
        host.stage(BUCKET, verbatim("bucket.py"), 0o755)
        for word in words(host.host, topology):
            offer(host, word)


def offer(host: RunningHost, word: str) -> None:
    """Let a host change what a program of files/arrange changes."""
    host.stage(f"{WORDS}/{word}", verbatim(f"arrange/{word}"), 0o755)


def start(hosts: Hosts, _: Topology) -> None:
    """Let sudo, and no other program of a host, become root there: its file system is mounted without such programs."""
    for host in in_pool(hosts):
        host.script([f"mount --bind {SUDO} {SUDO}", f"mount -o remount,bind,suid {SUDO}"])


CONDITIONS = Service("", stage=stage, start=start)
