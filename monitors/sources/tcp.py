"""TCP's segments, of all interfaces of the network namespace together."""

import argparse

from tierbench.monitors.source import Column, ProcFile, Source

LINE = b"\nTcp: "  # there are two: the names, the values
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
        names = self.file.read().partition(LINE)[2].partition(b"\n")[0].split()
        self.places = [names.index(name) for name in COUNTED] if names else []

    def look(self) -> bytes:
        return self.file.read()

    def values(self, text: bytes) -> "tuple[int, ...]":
        begin = text.rfind(LINE) + len(LINE)
        values = text[begin : text.find(b"\n", begin)].split()
        return tuple([int(values[place]) for place in self.places]) if self.places and values else (-1, -1, -1)
