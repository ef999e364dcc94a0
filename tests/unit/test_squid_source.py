"""Squid's counters as the sampler reads them: from its cache manager, here a web server that answers like it."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.unit.client_process import until
from tierbench.monitors.sources.squid import Squid


class Manager(BaseHTTPRequestHandler):
    hits = 5

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/squid-internal-mgr/counters" else 404)
        self.end_headers()
        told = {"sample_time": "1 (x)", "client_http.requests": 8, "client_http.hits": Manager.hits}
        told |= {"client_http.kbytes_out": 640, "server.all.kbytes_in": 80}
        self.wfile.write("".join(f"{name} = {value}\n" for name, value in told.items()).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def manager() -> Iterator[str]:
    Manager.hits = 5
    server = ThreadingHTTPServer(("127.0.0.1", 0), Manager)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_its_counters_are_followed(manager: str) -> None:
    source = Squid(argparse.Namespace(squid=manager))
    assert source.read() == (8, 5, 640, 80)
    Manager.hits = 7
    until(lambda: source.read()[1] == 7)


def test_where_there_is_none_nothing_is_known_and_nobody_is_asked_again() -> None:
    before = threading.active_count()
    source = Squid(argparse.Namespace(squid="127.0.0.1:1"))
    assert source.read() == (-1, -1, -1, -1)
    assert threading.active_count() == before
