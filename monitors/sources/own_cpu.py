"""What a host that shares its kernel has used of the CPU itself, by its control group's files, v1 or v2."""

import argparse
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source, first_line


class OwnCpu(Source):
    """Nanoseconds used, and nanoseconds in which it was held back."""

    columns = (
        Column("cpu_own_ns", 19, "ns", "counter", "host"),
        Column("cpu_own_throttled_ns", 19, "ns", "counter", "host"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = options.own_cpu
        self.stat, self.usage = ProcFile(self.folder / "cpu.stat"), ProcFile(self.folder / "cpuacct.usage")

    def header(self) -> "dict[str, Any]":
        """How many cores it may use at most; None where nothing limits it."""
        quota = (first_line(self.folder / "cpu.max") or "").split() or [
            first_line(self.folder / "cpu.cfs_quota_us") or "-1",
            first_line(self.folder / "cpu.cfs_period_us") or "1",
        ]
        return {"own_cpu_limit_cores": None if quota[0] in ("max", "-1") else int(quota[0]) / int(quota[1])}

    def look(self) -> "tuple[bytes, bytes]":
        return self.stat.read(), self.usage.read()

    def values(self, seen: "tuple[bytes, bytes]") -> "tuple[int, ...]":
        stat, usage = dict(line.split() for line in seen[0].splitlines()), seen[1]
        if b"usage_usec" in stat:
            return 1000 * int(stat[b"usage_usec"]), 1000 * int(stat.get(b"throttled_usec", b"0"))
        return int(usage) if usage else -1, int(stat.get(b"throttled_time", b"-1"))
