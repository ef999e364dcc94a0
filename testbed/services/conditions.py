"""What the testbed's hosts can change for a trial: root's helper, its words, and the line for sudo."""

from tierbench.site_configs.site import SHIPPED
from tierbench.testbed.host import RunningHost, verbatim
from tierbench.testbed.service import Bed, Service
from tierbench.testbed.topology import USER, WAN, Host

WORDS = "/etc/tierbench/arrange.d"
HELPER = "/usr/local/sbin/tierbench-arrange"
SUDO = "/usr/bin/sudo"
BUCKET = "/usr/local/lib/tierbench/bucket.py"


def words(host: Host, rtt_ms: float) -> tuple[str, ...]:
    """What a host of the testbed can change of itself; what a service can change there, that service offers."""
    if host.name == WAN:
        return ("wan-rate", "wan-loss", "worker-rate", *(("rtt", "worker-rtts") if rtt_ms else ()))
    if host.is_virtual:
        return ("nic-rate", "tcp-buffer")
    return ("nic-rate", "congestion", "tcp-buffer", *(("read-ahead", "mount-requests") if host.mounts else ()))


def stage(bed: Bed) -> None:
    """Install on each host of the pool what an admin would install there."""
    helper = (SHIPPED / "tierbench-arrange").read_bytes()
    allowed = (SHIPPED / "sudoers.d/tierbench-arrange").read_text(encoding="utf-8").replace("nobody-yet", USER)
    for host in bed.pool:
        host.stage(HELPER, helper, 0o755)
        host.stage("/etc/sudoers.d/tierbench-arrange", allowed, 0o440)
        host.stage(BUCKET, verbatim("bucket.py"), 0o755)
        offer(host, *words(host.host, bed.settings.rtt_ms))


def offer(host: RunningHost, *words: str) -> None:
    """Let a host change what programs of files/arrange change."""
    for word in words:
        host.stage(f"{WORDS}/{word}", verbatim(f"arrange/{word}"), 0o755)


def start(bed: Bed) -> None:
    """Let sudo, and no other program of a host, become root there: its file system is mounted without such programs."""
    for host in bed.pool:
        host.script([f"mount --bind {SUDO} {SUDO}", f"mount -o remount,bind,suid {SUDO}"])


CONDITIONS = Service("", stage=stage, start=start)
