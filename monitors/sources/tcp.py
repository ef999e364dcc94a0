"""TCP's segments, of all interfaces of the network namespace together."""

import argparse
import re

from tierbench.monitors.source import Column, ProcFile, Source

TWO_LINES = re.compile(rb"^Tcp:(.*)\nTcp:(.*)$", re.M)  # the names, the values
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
        lines = TWO_LINES.search(self.file.read())
        if not lines:
            return -1, -1, -1
        names, values = lines.group(1).split(), lines.group(2).split()
        return tuple(int(values[names.index(name)]) for name in COUNTED)
