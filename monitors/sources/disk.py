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

    def header(self) -> "dict[str, Any]":
        return {"disks": [os.fsdecode(disk) for disk in self.disks]}

    def read(self) -> "tuple[int, ...]":
        lines = [line.split() for line in self.file.read().splitlines()]
        disks = [(512 * int(line[5]), 512 * int(line[9]), int(line[12])) for line in lines if line[2] in self.disks]
        if not disks or len(disks) < len(self.disks):  # a sum without one of them would look like a reset
            return -1, -1, -1
        return tuple(sum(disk[i] for disk in disks) for i in range(3))


def physical_disks(sys_: Path) -> "list[bytes]":
    """Disks with a device behind them: neither partitions nor the loop, RAID and LVM devices stacked upon them."""
    return [os.fsencode(disk.name) for disk in sorted(sys_.glob("block/*")) if (disk / "device").exists()]
