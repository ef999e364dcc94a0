"""The machine's CPU time, all cores together, and its busiest core."""

import argparse
import os
import re
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source

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

    def read(self) -> "tuple[int, ...]":
        text = self.file.read()
        lines = [line.split() for line in text[: text.find(b"\nintr")].splitlines() if line.startswith(b"cpu")]
        jiffies = {line[0]: [int(n) for n in line[1:9]] for line in lines}
        together = jiffies.pop(b"cpu", [])
        return tuple(together + [-1] * (8 - len(together))) + self.cores.busiest(jiffies)


class Cores:
    """Finds the core that was busiest since the previous record."""

    def __init__(self) -> None:
        self.before: dict[bytes, list[int]] = {}

    def busiest(self, now: "dict[bytes, list[int]]") -> "tuple[int, int, int]":
        """Index and busy percentage of the busiest core, and the share of softirq where that is highest."""
        before, self.before = self.before, now
        shares = []
        for core, jiffies in now.items():
            if len(jiffies) == 8 and core in before:
                # Idle and iowait may step back by a jiffy; such a step is no time at all.
                passed = [max(0, jiffies[i] - before[core][i]) for i in range(8)]
                _, _, _, idle, iowait, _, softirq, _ = passed
                shares.append((sum(passed) - idle - iowait, softirq, sum(passed), int(core[3:])))
        if not shares:
            return -1, -1, -1
        busy, _, elapsed, index = max(shares)
        _, softirq, softirq_elapsed, _ = max(shares, key=lambda share: share[1])
        return index, round(100 * busy / max(1, elapsed)), round(100 * softirq / max(1, softirq_elapsed))
