"""The machine's CPU time and its busiest core; and what a host that shares its kernel has used of the CPU itself."""

import argparse
import os
import re
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source, first_line

TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Cpu(Source):
    """What /proc/stat says."""

    columns = (
        *(Column("cpu_" + time, 14, "jiffies", "counter", "machine") for time in TIMES),
        Column("cpu_busiest", 5, "core", "gauge", "machine"),
        Column("cpu_busiest_busy_pct", 4, "%", "gauge", "machine"),
        Column("softirq_busiest_pct", 4, "%", "gauge", "machine"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "stat")
        self.cores = Cores()

    def header(self) -> "dict[str, Any]":
        cores = re.findall(rb"^cpu\d", self.file.read(), re.M)
        return {"jiffies_per_s": os.sysconf("SC_CLK_TCK"), "ncpu": len(cores)}

    def look(self) -> bytes:
        return self.file.read()

    def values(self, text: bytes) -> "tuple[int, ...]":
        together, *cores = text.partition(b"\nintr")[0].split(b"\ncpu")
        times = [int(n) for n in together.split()[1:9]] if together.startswith(b"cpu ") else []
        return (*times, *[-1] * (8 - len(times)), *self.cores.busiest(cores))


class Cores:
    """Finds the core that was busiest since the previous record."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[int, ...]] = {}

    def busiest(self, lines: "list[bytes]") -> "tuple[int, int, int]":
        """Index and busy percentage of the busiest core, and the share of softirq where that is highest."""
        before, self.before = self.before, {}
        busiest = most_softirq = (-1, -1, 1)
        for line in lines:
            core, user, nice, system, idle, iowait, irq, softirq, steal, *_ = map(int, line.split())
            self.before[core] = now = (user + nice + system + irq + softirq + steal, idle, iowait, softirq)
            if core in before:
                earlier = before[core]
                busy, in_softirq = now[0] - earlier[0], now[3] - earlier[3]
                # Idle and iowait may step back by a jiffy; such a step is no time at all.
                elapsed = busy + max(0, now[1] - earlier[1]) + max(0, now[2] - earlier[2])
                busiest = max(busiest, (busy, core, elapsed))
                most_softirq = max(most_softirq, (in_softirq, core, elapsed))
        if busiest[1] < 0:
            return -1, -1, -1
        return busiest[1], _percent(busiest[0], busiest[2]), _percent(most_softirq[0], most_softirq[2])


def _percent(part: int, whole: int) -> int:
    return round(100 * max(0, part) / max(1, whole))


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
