"""A nightly named quick, its nights, a webhook that receives, and what the history says has changed."""

import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

from tests.unit.stand_ins import serving
from tests.unit.synthetic_report import Shape, write_run
from tierbench import json_files, names
from tierbench.postprocess.history.rows import NightMark
from tierbench.submit.nightly import messages, record, steps
from tierbench.submit.nightly.record import Change, Night, Nightly, Terms

NOW = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
LAST = datetime(2026, 6, 10, 2, 30, tzinfo=UTC)
SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(8,), samples=False)
SINCE_NS = round((LAST - timedelta(days=1)).timestamp() * 1e9)
SENTENCE = "Worse: lan-xrootd/root, 152 → 131 Mb/s (−14 %, −17…−11)."  # noqa: RUF001
WORSE = Change("worse", "lan", SINCE_NS, "WARNING", sentence=SENTENCE)


@pytest.fixture(autouse=True)
def _alone_here(monkeypatch, tmp_path):
    """Nights and their history lie in a folder of the test's own."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TIERBENCH_NIGHTS", str(tmp_path / "nights"))
    monkeypatch.setenv("TIERBENCH_HISTORY", str(tmp_path / "history.sqlite"))
    monkeypatch.setattr(messages, "PATIENCE_S", 600.0)  # a busy machine takes its time to answer
    monkeypatch.setattr(messages, "LIMIT_S", 600.0)
    monkeypatch.setattr(steps, "_make_report", lambda _: None)  # which takes many seconds


@pytest.fixture
def define(tmp_path):
    """Defines a nightly of two days ago, at 02:30 unless told otherwise."""

    def define(since=NOW - timedelta(days=2), webhook="", **terms):
        nightly = Nightly(tmp_path / "nights" / "quick")
        nightly.directory.mkdir(parents=True)
        messages.write_webhook(nightly, webhook)
        asked = {"site": "testbed", "at": "02:30", "days": "", "by": "condor", "control": "", **terms}
        asked["webhook"] = "127.0.0.1" if webhook else ""
        nightly.change(Terms(**asked, since_wall_s=since.timestamp()))
        return nightly

    return define


def measured(nightly, planned=LAST, run=True, **changes):
    """A night that has ended well, and of which nobody was told yet."""
    night = Night(planned.timestamp(), "measured", counts={"VALID": 6}, ended_wall_s=planned.timestamp() + 600)
    night = record.write(nightly, night.now(**changes))
    if run:
        directory = write_run(record.folder(nightly, night) / names.NIGHT_RUN, SHAPE)
        json_files.write(directory / names.NIGHT, NightMark("quick", int(planned.timestamp() * 1e9)))
    return night


def close(nightly, night):
    return steps.finish(nightly, record.folder(nightly, night))


def damage(directory):
    """Leave a nightly there that cannot be read."""
    directory.mkdir()
    (directory / names.NIGHTLY).write_text("{")


@pytest.fixture
def receiver():
    """A webhook's end, which keeps what was posted there."""

    class Posted(BaseHTTPRequestHandler):
        def do_POST(self):
            received.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    received = SimpleNamespace(bodies=[])
    with serving(Posted) as url:
        received.url = f"{url}/hook"
        yield received
