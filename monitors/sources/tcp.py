"""TCP's segments, of all interfaces of the network namespace together."""

import argparse

from tierbench.monitors.source import Column, ProcFile, Source

COUNTED = (b"RetransSegs", b"InSegs", b"OutSegs")


class Tcp(Source):
    """What /proc/net/snmp says of TCP."""

    columns = (
        Column("tcp_retrans", 14, "1", "counter", "namespace"),
        Column("tcp_in_segs", 16, "1", "counter", "namespace"),
        Column("tcp_out_segs", 16, "1", "counter", "namespace"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = ProcFile(options.proc / "self/net/snmp")

    def read(self) -> "tuple[int, ...]":
        lines = [line.split() for line in self.file.read().splitlines() if line.startswith(b"Tcp:")]
        if len(lines) != 2:
            return -1, -1, -1
        names, values = lines
        return tuple(int(values[names.index(name)]) for name in COUNTED)
