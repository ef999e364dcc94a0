"""The page cache."""

import argparse
import re

from tierbench.monitors.source import Column, ProcFile, Source


class Memory(Source):
    """What /proc/meminfo says of it."""

    columns = (Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),)

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "meminfo")

    def read(self) -> "tuple[int, ...]":
        cached = re.search(rb"^Cached:\s+(\d+)", self.file.read(), re.M)
        return (int(cached.group(1)) if cached else -1,)
