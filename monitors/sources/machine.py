"""The machine's CPU time and busiest core, page cache and physical disks; and what a host that shares them has used."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source, first_line

TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
VERSION_1 = re.compile(rb"^\d+:\d+ (Read|Write) (\d+)$", re.MULTILINE)
VERSION_2 = re.compile(rb"\b(rbytes|wbytes)=(\d+)")
READ, WRITTEN = (b"Read", b"rbytes"), (b"Write", b"wbytes")
CACHED = b"\nCached:"


class Cpu(Source):
    """What /proc/stat says."""

    columns = (
        *(Column("cpu_" + time, 14, "jiffies", "counter", "machine") for time in TIMES),
        Column("cpu_busiest", 5, "core", "gauge", "machine"),
        Column("cpu_busiest_busy_pct", 4, "%", "gauge", "machine"),
        Column("softirq_busiest_pct", 4, "%", "gauge", "machine"),
    )
    file_name = "stat"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.before: dict[int, tuple[int, ...]] = {}  # of each core, in the previous record

    def header(self) -> "dict[str, Any]":
        cores = re.findall(rb"^cpu\d", self.file.read(), re.M)
        return {"jiffies_per_s": os.sysconf("SC_CLK_TCK"), "ncpu": len(cores)}

    def values(self, text: bytes) -> "tuple[int, ...]":
        together, *cores = text.partition(b"\nintr")[0].split(b"\ncpu")
        times = [int(n) for n in together.split()[1:9]] if together.startswith(b"cpu ") else []
        return (*times, *[-1] * (8 - len(times)), *self._busiest(cores))

    def _busiest(self, lines: "list[bytes]") -> "tuple[int, int, int]":
        """Index and busy percentage of the busiest core since then, and the share of softirq where that is highest."""
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

    def values(self, look: "tuple[bytes, bytes]") -> "tuple[int, ...]":
        stat, usage = dict(line.split() for line in look[0].splitlines()), look[1]
        if b"usage_usec" in stat:
            return 1000 * int(stat[b"usage_usec"]), 1000 * int(stat.get(b"throttled_usec", b"0"))
        return int(usage) if usage else -1, int(stat.get(b"throttled_time", b"-1"))


class Memory(Source):
    """What /proc/meminfo says of the page cache."""

    columns = (Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),)
    file_name = "meminfo"

    def values(self, text: bytes) -> "tuple[int, ...]":
        at = text.find(CACHED)
        return (int(text[at + len(CACHED) : text.index(b"kB", at)]) if at >= 0 else -1,)


class Disk(Source):
    """What /proc/diskstats says of the disks, those there at the start."""

    columns = (
        Column("disk_read_bytes", 19, "B", "counter", "machine"),
        Column("disk_written_bytes", 19, "B", "counter", "machine"),
        Column("disk_busy_ms", 16, "ms", "counter", "machine"),
        Column("disk_busiest_ms", 16, "ms", "counter", "machine"),
    )
    file_name = "diskstats"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.disks = [os.fsencode(disk.name) for disk in sorted(options.sys.glob("block/*")) if is_disk(disk)]
        self.marks = [b" " + disk + b" " for disk in self.disks]
        self.first_busy_ms: dict[bytes, int] = {}

    def header(self) -> "dict[str, Any]":
        return {"disks": [os.fsdecode(disk) for disk in self.disks]}

    def values(self, text: bytes) -> "tuple[int, ...]":
        read = written = busy_ms = busiest_ms = 0
        for name in self.marks:
            at = text.find(name)
            if at < 0:  # a sum without one of them would look like a reset
                return -1, -1, -1, -1
            counts = text[at + len(name) : text.find(b"\n", at)].split()
            read += int(counts[2])
            written += int(counts[6])
            own_ms = int(counts[9])
            busy_ms += own_ms
            busiest_ms = max(busiest_ms, own_ms - self.first_busy_ms.setdefault(name, own_ms))
        return (512 * read, 512 * written, busy_ms, busiest_ms) if self.marks else (-1, -1, -1, -1)


def is_disk(block: Path) -> bool:
    """Whether a device is behind it, as of no partition, loop, RAID or LVM; and no empty drive of a virtual machine.

    Of NVMe with several paths these count: the kernel long kept nothing for what stands for all of them. Fixed disks
    may call themselves removable.
    """
    nvme = re.match(r"nvme(\d+)n(\d+)$", block.name)
    has_paths = nvme and any(block.parent.glob("nvme{}c*n{}".format(*nvme.groups())))
    is_there = (block / "device").exists() and first_line(block / "size") != "0"
    return is_there and not has_paths and not block.name.startswith(("sr", "fd"))


class OwnDisk(Source):
    """Bytes of all disks together; what is in the machine's memory is not read from any."""

    columns = (
        Column("disk_own_read_bytes", 19, "B", "counter", "host"),
        Column("disk_own_written_bytes", 19, "B", "counter", "host"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.version_1 = ProcFile(options.own_cpu / "blkio.throttle.io_service_bytes")
        self.version_2 = ProcFile(options.own_cpu / "io.stat")

    def look(self) -> "tuple[bytes, bytes]":
        return self.version_1.read(), self.version_2.read()

    def values(self, look: "tuple[bytes, bytes]") -> "tuple[int, ...]":
        old, new = look
        if not old and self.version_2.fd < 0:
            return -1, -1
        counts = [*VERSION_1.findall(old), *VERSION_2.findall(new)]
        return tuple(sum(int(count) for what, count in counts if what in names) for names in (READ, WRITTEN))
