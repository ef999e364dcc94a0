"""The page cache."""

import argparse

from tierbench.monitors.source import Column, ProcFile, Source

CACHED = b"\nCached:"


class Memory(Source):
    """What /proc/meminfo says of it."""

    columns = (Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),)

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "meminfo")

    def look(self) -> bytes:
        return self.file.read()

    def values(self, text: bytes) -> "tuple[int, ...]":
        at = text.find(CACHED)
        return (int(text[at + len(CACHED) : text.index(b"kB", at)]) if at >= 0 else -1,)
