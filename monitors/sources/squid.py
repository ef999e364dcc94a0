"""Squid's own counters, where one listens on this host when sampling begins."""

import argparse
import operator
import re
import socket
import threading

from tierbench.monitors.source import Column, Source

ASK = b"GET /squid-internal-mgr/counters HTTP/1.0\r\nHost: %s\r\n\r\n"
PATIENCE_S = 2.0
PAUSE_S = 0.2  # between two questions: Squid adds up what its processes count
ABSENT_PAUSE_S = 1.0  # where none answers: there is none, or it is only just starting, as after a condition
NAMES = ("client_http.requests", "client_http.hits", "client_http.kbytes_out", "server.all.kbytes_in")


class Squid(Source):
    """What its cache manager tells; asked beside the sampling, which must not wait for it.

    While it is too busy to answer, its counters stand where they were: what came meanwhile is in the next answer. It
    counts our own questions as requests, which are taken off again; their answers stay among what it sent. Where any
    of its counters has fallen it was restarted, and all of them begin anew.
    """

    columns = (
        Column("squid_requests", 14, "requests", "counter", "namespace"),
        Column("squid_hits", 14, "requests", "counter", "namespace"),
        Column("squid_sent_kb", 16, "KiB", "counter", "namespace"),
        Column("squid_fetched_kb", 16, "KiB", "counter", "namespace"),
    )

    def __init__(self, options: argparse.Namespace) -> None:
        host, _, port = options.squid.rpartition(":")
        self.address = (host, int(port))
        self.questions, self.counters = 0, (-1,) * len(NAMES)
        self.restarted = False
        self.latest = self._ask()
        self.ended = threading.Event()
        threading.Thread(target=self._keep_asking, daemon=True).start()

    def look(self) -> "tuple[int, ...]":
        return self.latest

    def _keep_asking(self) -> None:
        while not self.ended.wait(PAUSE_S if min(self.latest) >= 0 else ABSENT_PAUSE_S):
            answer = self._ask()
            if min(answer) >= 0:  # a question that it never got to is not among what it counts
                requests = answer[0] if self.restarted else max(self.latest[0], answer[0])
                self.latest = (requests, *answer[1:])

    def _ask(self) -> "tuple[int, ...]":
        """The counters as they are now; all unknown where it does not answer."""
        answer = b""
        try:
            with socket.socket() as connection:
                connection.settimeout(PATIENCE_S)
                connection.connect(self.address)
                connection.sendall(ASK % self.address[0].encode())
                self.questions += 1
                for piece in iter(lambda: connection.recv(65536), b""):
                    answer += piece
        except OSError:
            if not answer:
                return (-1,) * len(NAMES)
        numbers = dict(re.findall(r"^(\S+) = (\d+)", answer.decode(errors="replace"), re.M))
        counters = tuple(int(numbers.get(name, -1)) for name in NAMES)
        if min(counters) >= 0:
            self.restarted = any(map(operator.lt, counters, self.counters))
            self.questions, self.counters = 1 if self.restarted else self.questions, counters
        return (counters[0] if counters[0] < 0 else max(0, counters[0] - self.questions), *counters[1:])
