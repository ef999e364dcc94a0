"""All physical disks of the machine together, those that are there at the start."""

import argparse
import os
from pathlib import Path
from typing import Any

from tierbench.monitors.source import Column, ProcFile, Source


class Disk(Source):
    """What /proc/diskstats says of them."""

    columns = (
        Column("disk_read_bytes", 19, "B", "counter", "machine"),
        Column("disk_written_bytes", 19, "B", "counter", "machine"),
        Column("disk_busy_ms", 16, "ms", "counter", "machine"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "diskstats")
        self.disks = physical_disks(options.sys)
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


def physical_disks(sys_: Path) -> "list[bytes]":
    """Disks with a device behind them: neither partitions nor the loop, RAID and LVM devices stacked upon them."""
    return [os.fsencode(disk.name) for disk in sorted(sys_.glob("block/*")) if (disk / "device").exists()]
