"""The page cache."""

import argparse
import re

from tierbench.monitors.source import Column, ProcFile, Source

CACHED = re.compile(rb"^Cached:\s+(\d+)", re.M)


class Memory(Source):
    """What /proc/meminfo says of it."""

    columns = (Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),)

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "meminfo")

    def read(self) -> "tuple[int, ...]":
        cached = CACHED.search(self.file.read())
        return (int(cached.group(1)) if cached else -1,)
