"""The interface's counters, with the clocks that they belong to, so that they come first in a record; and TCP's."""

import argparse
import operator
import re
from pathlib import Path
from typing import Any

from tierbench.host import NoInterface, find_interfaces, mono_ns, wall_ns
from tierbench.monitors.source import Column, Refusal, Source, first_line

# A virtual machine's cards state a speed, but may carry more or less; a part of a card has not all of it.
VIRTUAL = ("vmxnet3", "hv_netvsc", "virtio_net", "xen_netfront", "vif", "ixgbevf", "iavf", "i40evf", "igbvf")
REAL_KINDS = ("bond", "team")  # their drivers state the speed of the cards below them; so does a VLAN's, one of several
MOST_BETWEEN_NS = 1000000  # more between the clocks and the counters: we were preempted
UNKNOWN = (-1,) * 6
CLOCKS = (Column("mono_ns", 18, "ns", "clock", "machine"), Column("wall_ns", 19, "ns", "clock", "machine"))
COUNTERS = (
    Column("rx_bytes", 19, "B", "counter", "interface"),
    Column("tx_bytes", 19, "B", "counter", "interface"),
    Column("rx_packets", 16, "1", "counter", "interface"),
    Column("tx_packets", 16, "1", "counter", "interface"),
    Column("rx_dropped", 14, "1", "counter", "interface"),
    Column("tx_dropped", 14, "1", "counter", "interface"),
)
FIELDS = operator.itemgetter(0, 8, 1, 9, 3, 11)  # where /proc/net/dev has them
LINE = b"\nTcp: "  # there are two: the names, the values
COUNTED = (b"RetransSegs", b"InSegs", b"OutSegs")


class Net(Source):
    """What /proc/net/dev says of one interface, or of several: then each has columns of its own, name.interface."""

    columns: "tuple[Column, ...]" = (*CLOCKS, *COUNTERS)
    file_name = "self/net/dev"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        try:
            self.names = find_interfaces(options.interface, options.proc, options.sys)
        except (NoInterface, OSError) as error:
            raise Refusal(3 if isinstance(error, NoInterface) else 4, str(error)) from None
        if len(self.names) > 1:
            several = (c._replace(name=f"{c.name}.{name}") for name in self.names for c in COUNTERS)
            self.columns = (*CLOCKS, *several)
        self.marks = [name.encode() + b":" for name in self.names]
        self.links = [options.sys / "class/net" / name for name in self.names]

    def header(self) -> "dict[str, Any]":
        interfaces = [{"name": link.name, **stated_speed(link)} for link in self.links]
        speeds = [interface["link_speed_mbps"] for interface in interfaces]
        return {
            "interface": "+".join(self.names),
            "interfaces": interfaces,
            "link_speed_mbps": None if None in speeds else sum(speeds),
            "link_speed_real": all(interface["link_speed_real"] for interface in interfaces),
        }

    def look(self) -> "tuple[int, int, bytes]":
        for _ in range(3):
            mono, wall = mono_ns(), wall_ns()
            text = self.file.read()
            if mono_ns() - mono < MOST_BETWEEN_NS:
                break
        return mono, wall, text

    def values(self, look: "tuple[int, int, bytes]") -> "tuple[int, ...]":
        mono, wall, text = look
        values = [mono, wall]
        for mark in self.marks:
            at = text.find(mark)
            while at > 0 and text[at - 1] not in b" \n":  # it is the end of another one's name
                at = text.find(mark, at + 1)
            counts = text[at + len(mark) : text.find(b"\n", at)].split()
            values += map(int, FIELDS(counts)) if at >= 0 else UNKNOWN
        return tuple(values)


def stated_speed(link: Path) -> "dict[str, Any]":
    """What an interface's driver states, and whether hardware has that: a virtual one's says nothing."""
    speed, kind = first_line(link / "speed"), re.search(r"DEVTYPE=(\w+)", first_line(link / "uevent") or "")
    driver = (link / "device/driver").resolve().name
    real = ((link / "device").exists() and driver not in VIRTUAL) or bool(kind and kind.group(1) in REAL_KINDS)
    return {"link_speed_mbps": int(speed) if speed and int(speed) > 0 else None, "link_speed_real": real}


class Tcp(Source):
    """What /proc/net/snmp says of TCP."""

    columns = (
        Column("tcp_retrans", 14, "1", "counter", "namespace"),
        Column("tcp_in_segs", 16, "1", "counter", "namespace"),
        Column("tcp_out_segs", 16, "1", "counter", "namespace"),
    )
    file_name = "self/net/snmp"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        names = self.file.read().partition(LINE)[2].partition(b"\n")[0].split()
        self.places = [names.index(name) for name in COUNTED] if names else []

    def values(self, text: bytes) -> "tuple[int, ...]":
        begin = text.rfind(LINE) + len(LINE)
        values = text[begin : text.find(b"\n", begin)].split()
        return tuple([int(values[place]) for place in self.places]) if self.places and values else (-1, -1, -1)
