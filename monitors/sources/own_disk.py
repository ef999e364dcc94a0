"""What a host that shares its machine has itself had read from and written to disks, by its control group's files."""

import argparse
import re

from tierbench.monitors.source import Column, ProcFile, Source

VERSION_1 = re.compile(rb"^\d+:\d+ (Read|Write) (\d+)$", re.MULTILINE)
VERSION_2 = re.compile(rb"\b(rbytes|wbytes)=(\d+)")
READ, WRITTEN = (b"Read", b"rbytes"), (b"Write", b"wbytes")


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
        return tuple(sum(int(count) for way, count in counts if way in ways) for ways in (READ, WRITTEN))
