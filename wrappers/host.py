"""What every shipped script asks of the host that it runs on: its clocks, its name, its small files."""

import time
from pathlib import Path

CLOCK_SECONDS = 0.03  # three steps of /proc/uptime


def wall_ns() -> int:
    """The wall clock; Python 3.6 has it as a float only, good to a quarter of a microsecond."""
    return int(time.time() * 1e9)


def mono_ns() -> int:
    """The monotonic clock, good to some nanoseconds."""
    return int(time.monotonic() * 1e9)


def now() -> "tuple[int, int]":
    """Wall clock and monotonic clock, read together."""
    return wall_ns(), mono_ns()


def clock_bounds() -> "dict[str, int | str]":
    """Between which bounds this wall clock is ahead of the uptime, which has steps of 10 ms, and the uptime itself."""
    low, high = [], []  # type: list[int], list[int]
    began = time.monotonic()
    while not low or time.monotonic() < began + CLOCK_SECONDS:  # the more reads, the nearer to a step of the uptime
        before = wall_ns()
        uptime = round(float(Path("/proc/uptime").read_text().split()[0]) * 100) * 10**7
        low.append(before - uptime - 10**7)
        high.append(wall_ns() - uptime)
    return {"low_ns": max(low), "high_ns": min(high), "uptime_ns": uptime, "boot_id": boot_id()}


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def read_text(path: str) -> str:
    """The text of a file, or nothing if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
