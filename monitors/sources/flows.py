"""What the kernel says of the TCP connections that send (TCP_INFO, by sock_diag): sums and medians."""

import argparse
import socket
import statistics
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tierbench.host import mono_ns
from tierbench.monitors.source import Column, Source

PERIOD_S = 1.0  # of 400 sockets a dump takes some ms of CPU
PATIENCE_S = 10.0
LEAST = 0.1  # of what the fastest flow sent: who sends less is no client that reads, but HTCondor or a login
FULL = 0.7  # of what a window brings in a round trip
SOCK_DIAG, DUMP, ESTABLISHED, WITH_INFO = 4, 0x301, 1 << 1, 1 << 1
BY_FAMILY, ERROR, DONE = 20, 2, 3
REQUEST = struct.Struct("=IHHIIBBBxI48x")
HEADER, MESSAGE, INFO = 16, 72, 2
INFO_FIELDS = struct.Struct("=7xB 8xI 48xI8xI16xI 16xQ 20xI")  # to min_rtt, which kernels have from 4.6 on
PEER_WINDOW = 228  # where that is, from Linux 5.4 on
UNKNOWN = (-1,) * 8


class Flow(NamedTuple):
    """A connection, from the sender's side."""

    peer_window: int
    flags: int
    mss: int
    rtt_us: int
    cwnd: int
    retrans: int
    acked: int
    min_rtt_us: int

    @property
    def waits(self) -> bool:
        """Whether its program had nothing more to send."""
        return bool(self.flags & 1)

    @property
    def window(self) -> int:
        """The most that may be on the way."""
        congestion = self.cwnd * self.mss
        return congestion if self.peer_window < 0 else min(congestion, self.peer_window)


class Flows(Source):
    """The flows that sent a tenth or more of what the fastest did; asked beside the sampling, each second.

    A flow fills its window where it sends what that brings in its least round trip, and its program would send more:
    behind a link that is full round trips are longer, as packets queue there.
    """

    columns = (
        Column("tcp_flows", 6, "flows", "gauge", "namespace"),
        Column("tcp_flows_window_full", 6, "flows", "gauge", "namespace"),
        Column("tcp_flows_retrans_per_s", 9, "1/s", "gauge", "namespace"),
        Column("tcp_flows_bytes_per_s", 12, "B/s", "gauge", "namespace"),
        Column("tcp_flow_cwnd_bytes", 11, "B", "gauge", "namespace"),
        Column("tcp_flow_peer_window_bytes", 11, "B", "gauge", "namespace"),
        Column("tcp_flow_rtt_us", 9, "us", "gauge", "namespace"),
        Column("tcp_flow_min_rtt_us", 9, "us", "gauge", "namespace"),
    )

    def __init__(self, _: argparse.Namespace) -> None:
        self.latest = UNKNOWN  # type: tuple[int, ...]
        threading.Thread(target=self._keep_asking, daemon=True).start()

    def look(self) -> "tuple[int, ...]":
        return self.latest

    def _keep_asking(self) -> None:
        before, asked_ns = None, 0  # type: dict[bytes, Flow] | None, int
        pause = threading.Event()
        try:
            while True:
                now_ns, flows = mono_ns(), sending_flows()
                both = before is not None and flows is not None
                self.latest = summary(before or {}, flows or {}, (now_ns - asked_ns) / 1e9) if both else UNKNOWN
                before, asked_ns = flows, now_ns
                pause.wait(PERIOD_S)
        finally:  # or the last values would be repeated for ever
            self.latest = UNKNOWN


def summary(before: "Mapping[bytes, Flow]", after: "Mapping[bytes, Flow]", seconds: float) -> "tuple[int, ...]":
    """The source's columns; a flow that is in one of the two dumps alone is left out."""
    sent = {key: flow.acked - before[key].acked for key, flow in after.items() if key in before}
    least = max(1.0, LEAST * max(sent.values(), default=0))
    keys = [key for key in sent if sent[key] >= least]
    if not keys:
        return (0, 0, *UNKNOWN[2:])
    flows = [after[key] for key in keys]
    full = sum(
        not flow.waits and sent[key] / seconds * flow.min_rtt_us / 1e6 >= FULL * flow.window
        for key, flow in zip(keys, flows)  # noqa: B905 - Python 3.6 cannot be strict
    )
    totals = sum(after[key].retrans - before[key].retrans for key in keys), sum(sent[key] for key in keys)
    medians = (
        [flow.cwnd * flow.mss for flow in flows],
        [flow.peer_window for flow in flows],
        [flow.rtt_us for flow in flows],
        [flow.min_rtt_us for flow in flows],
    )
    of_flow = [round(statistics.median(values)) for values in medians]
    return (len(flows), full, *[round(total / seconds) for total in totals], *of_flow)


def sending_flows() -> "dict[bytes, Flow] | None":
    """The established connections with other hosts, by their addresses and the kernel's cookie; None if it is mute."""
    flows, too_short = {}, False
    try:
        for family in (socket.AF_INET, socket.AF_INET6):  # a server that listens on :: has all of its in the latter
            for message in _dump(family):
                info = _info(message)
                too_short |= len(info) < INFO_FIELDS.size
                if message[8:24] != message[24:40] and len(info) >= INFO_FIELDS.size:
                    window = struct.unpack_from("=i", info, PEER_WINDOW)[0] if len(info) >= PEER_WINDOW + 4 else -1
                    flows[message[4:52]] = Flow(window, *INFO_FIELDS.unpack_from(info))
    except (OSError, struct.error):
        return None
    return None if too_short and not flows else flows


def _dump(family: int) -> "Iterator[bytes]":
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as kernel:
        kernel.settimeout(PATIENCE_S)
        flows = (family, socket.IPPROTO_TCP, WITH_INFO, ESTABLISHED)
        kernel.send(REQUEST.pack(REQUEST.size, BY_FAMILY, DUMP, 1, 0, *flows))
        while True:
            answer = kernel.recv(1 << 16)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("the kernel does not tell of its connections")
                yield answer[HEADER:length]
                answer = answer[max(HEADER, (length + 3) & ~3) :]


def _info(message: bytes) -> bytes:
    """The attribute with TCP_INFO, as much as this kernel has of it."""
    at = MESSAGE
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == INFO:
            return message[at + 4 : at + length]
        at += max(4, (length + 3) & ~3)
    return b""
