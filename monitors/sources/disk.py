"""The page cache; the physical disks, those there at the start; and what a host that shares them had of them itself."""

import argparse
import os
import re
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source

VERSION_1 = re.compile(rb"^\d+:\d+ (Read|Write) (\d+)$", re.MULTILINE)
VERSION_2 = re.compile(rb"\b(rbytes|wbytes)=(\d+)")
READ, WRITTEN = (b"Read", b"rbytes"), (b"Write", b"wbytes")
CACHED = b"\nCached:"


class Memory(Source):
    """What /proc/meminfo says of the page cache."""

    columns = (Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),)

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "meminfo")

    def look(self) -> bytes:
        return self.file.read()

    def values(self, text: bytes) -> "tuple[int, ...]":
        at = text.find(CACHED)
        return (int(text[at + len(CACHED) : text.index(b"kB", at)]) if at >= 0 else -1,)


class Disk(Source):
    """What /proc/diskstats says of the disks."""

    columns = (
        Column("disk_read_bytes", 19, "B", "counter", "machine"),
        Column("disk_written_bytes", 19, "B", "counter", "machine"),
        Column("disk_busy_ms", 16, "ms", "counter", "machine"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "diskstats")
        # Those with a device behind them: neither partitions nor what is stacked upon disks, as loop, RAID and LVM.
        there = [disk for disk in sorted(options.sys.glob("block/*")) if (disk / "device").exists()]
        self.disks = [os.fsencode(disk.name) for disk in there]
        self.marks = [b" " + disk + b" " for disk in self.disks]

    def header(self) -> "dict[str, Any]":
        return {"disks": [os.fsdecode(disk) for disk in self.disks]}

    def look(self) -> bytes:
        return self.file.read()

    def values(self, text: bytes) -> "tuple[int, ...]":
        read = written = busy_ms = 0
        for name in self.marks:
            at = text.find(name)
            if at < 0:  # a sum without one of them would look like a reset
                return -1, -1, -1
            counts = text[at + len(name) : text.find(b"\n", at)].split()
            read += int(counts[2])
            written += int(counts[6])
            busy_ms += int(counts[9])
        return (512 * read, 512 * written, busy_ms) if self.marks else (-1, -1, -1)


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

    def values(self, seen: "tuple[bytes, bytes]") -> "tuple[int, ...]":
        old, new = seen
        if not old and self.version_2.fd < 0:
            return -1, -1
        counts = [*VERSION_1.findall(old), *VERSION_2.findall(new)]
        return tuple(sum(int(count) for what, count in counts if what in names) for names in (READ, WRITTEN))
