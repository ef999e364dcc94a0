"""XRootD's own counters: what the servers of this host report each second, by `xrd.report` in their configuration."""

import argparse
import contextlib
import re
import socket
import struct
import threading
from typing import NamedTuple

from tierbench.host import mono_ns, wall_ns
from tierbench.monitors.source import Column, Source

PAUSE_S = 0.2  # until the port is free: the sampler of the trial before may still have it
PATIENCE_S = 1.0
LARGEST = 65536
RECEIVED_AT = 35  # SO_TIMESTAMPNS, which Python has no name for
STAMP = struct.Struct("@ll")
REPORT = re.compile(
    rb'<statistics [^>]*tos="(\d+)"[^>]* pid="(\d+)".*?<stats id="link">.*?<out>(\d{1,18})</out>.*?'
    rb"<ops><open>(\d{1,12})</open>.*?<rd>(\d{1,12})</rd>.*?<rv>(\d{1,12})</rv><rs>(\d{1,15})</rs>",
    re.DOTALL,
)
UNKNOWN = (-1,) * 7


class ProcessReport(NamedTuple):
    """What a process has counted since it was started, in its first report and in its last one."""

    first: "list[int]"
    last: "list[int]"
    received_ns: int


class XRootD(Source):
    """The sums over all processes that have reported, each from its first report on.

    So what a process did between its start, or the window's, and its first report is not among them: a rise is whole
    where all processes were known before it and have reported after it.
    """

    columns = (
        Column("xrootd_sent_bytes", 19, "B", "counter", "namespace"),
        Column("xrootd_opens", 14, "files", "counter", "namespace"),
        Column("xrootd_reads", 14, "reads", "counter", "namespace"),
        Column("xrootd_vector_reads", 14, "reads", "counter", "namespace"),
        Column("xrootd_vector_pieces", 16, "pieces", "counter", "namespace"),
        Column("xrootd_processes", 5, "processes", "gauge", "namespace"),
        Column("xrootd_report_age_ms", 10, "ms", "gauge", "namespace"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        host, _, port = options.xrootd_reports.rpartition(":")
        self.address = (host, int(port))
        self.reports: dict[tuple[bytes, ...], ProcessReport] = {}  # by when a process was started, and its number
        self.latest: tuple[int, ...] = ()
        self.ended = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def look(self) -> "tuple[int, ...]":
        if not self.latest:
            return UNKNOWN
        *values, oldest_ns = self.latest
        return (*values, max(0, mono_ns() - oldest_ns) // 10**6)

    def _listen(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, RECEIVED_AT, 1)
            receiver.settimeout(PATIENCE_S)
            while not self._binds(receiver):
                if self.ended.wait(PAUSE_S):
                    return
            while not self.ended.is_set():
                with contextlib.suppress(socket.timeout):
                    self._receive(receiver)

    def _binds(self, receiver: socket.socket) -> bool:
        try:
            receiver.bind(self.address)
        except OSError:
            return False
        return True

    def _receive(self, receiver: socket.socket) -> None:
        report, more, _, _ = receiver.recvmsg(LARGEST, socket.CMSG_SPACE(STAMP.size))
        waited_ns = 0  # until this thread had its turn
        if more:
            seconds, nanoseconds = STAMP.unpack(more[0][2])
            waited_ns = max(0, wall_ns() - seconds * 10**9 - nanoseconds)
        self._add(report, mono_ns() - waited_ns)

    def _add(self, report: bytes, received_ns: int) -> None:
        match = REPORT.match(report)
        if not match:
            return  # a manager's, or of a server that does not report all
        process, counts = match.groups()[:2], [int(number) for number in match.groups()[2:]]
        first = self.reports[process].first if process in self.reports else counts
        self.reports[process] = ProcessReport(first, counts, received_ns)
        reports = self.reports.values()
        rises = [sum(report.last[n] - report.first[n] for report in reports) for n in range(len(counts))]
        self.latest = (*rises, len(reports), min(report.received_ns for report in reports))
