"""What every shipped script asks of the host that it runs on: its clocks, its name, its small files."""

import time
from pathlib import Path


def wall_ns() -> int:
    """The wall clock; Python 3.6 has it as a float only, good to a quarter of a microsecond."""
    return int(time.time() * 1e9)


def mono_ns() -> int:
    """The monotonic clock, good to some nanoseconds."""
    return int(time.monotonic() * 1e9)


def now() -> "tuple[int, int]":
    """Wall clock and monotonic clock, read together."""
    return wall_ns(), mono_ns()


def read_text(path: str) -> str:
    """The text of a file, or nothing if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
