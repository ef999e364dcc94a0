"""Squid's counters as the sampler reads them: from its cache manager, here a web server that answers like it."""

import argparse
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.unit.client_process import until
from tierbench.monitors.sources import squid
from tierbench.monitors.sources.squid import Squid


class Manager(BaseHTTPRequestHandler):
    requests, hits, questions, busy = 8, 5, 0, False

    def do_GET(self):
        if Manager.busy:
            return
        Manager.questions += 1
        self.send_response(200 if self.path == "/squid-internal-mgr/counters" else 404)
        self.end_headers()
        # As Squid does, it counts whoever asks for its counters among its requests.
        told = {"sample_time": "1 (x)", "client_http.requests": Manager.requests + Manager.questions}
        told["client_http.hits"] = Manager.hits
        told |= {"client_http.kbytes_out": 640, "server.all.kbytes_in": 80}
        self.wfile.write("".join(f"{name} = {value}\n" for name, value in told.items()).encode())

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A manager that is there answers; when, is this machine's matter."""
    monkeypatch.setattr(squid, "PATIENCE_S", 60.0)


@contextmanager
def bound():
    """A manager that has its port, and refuses who asks until it is served."""
    Manager.requests, Manager.hits, Manager.questions, Manager.busy = 8, 5, 0, False
    with ThreadingHTTPServer(("127.0.0.1", 0), Manager, bind_and_activate=False) as server:
        server.server_bind()
        yield server


@contextmanager
def served(server):
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    server.shutdown()


@contextmanager
def asking(address):
    source = Squid(argparse.Namespace(squid=address))
    yield source
    source.ended.set()


@pytest.fixture
def source():
    with bound() as server, served(server), asking(f"127.0.0.1:{server.server_port}") as source:
        yield source


def test_its_counters_are_followed(source):
    assert source.look() == (8, 5, 640, 80)
    Manager.hits = 7
    until(lambda: source.look()[1] == 7)


@pytest.mark.parametrize("hits", [0, 5], ids=["all begin anew", "only requests have fallen"])
def test_requests_begin_anew_when_it_was_restarted(source, hits):
    Manager.requests, Manager.hits, Manager.questions = 2, hits, 0
    until(lambda: source.look()[:2] == (2, hits))


@pytest.mark.parametrize("not_counted", [0, 3])
def test_the_samplers_own_questions_are_no_requests_whether_it_counted_them_or_not(source, not_counted):
    source.questions += not_counted
    until(lambda: Manager.questions > 3)
    assert source.look()[0] == 8


def test_while_it_is_too_busy_to_answer_what_it_counted_before_stands(source):
    Manager.busy = True
    assert min(source._ask()) < 0
    assert source.look() == (8, 5, 640, 80)


def test_where_there_is_none_nothing_is_known_until_there_is_one(monkeypatch):
    monkeypatch.setattr(squid, "ABSENT_PAUSE_S", 0.01)
    with bound() as server, asking(f"127.0.0.1:{server.server_port}") as source:
        assert source.look() == (-1, -1, -1, -1)
        with served(server):
            until(lambda: source.look() == (8, 5, 640, 80))
