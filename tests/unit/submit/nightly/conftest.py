"""A nightly named quick, a webhook that receives, and what the history says has changed."""

from datetime import timedelta

import pytest

from tests.unit.night_of_quick import NOW
from tests.unit.webhook_receiver import receiving
from tierbench.submit.nightly import messages, steps
from tierbench.submit.nightly.record import Nightly, Terms


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

    def define(since=NOW - timedelta(days=2), **terms):
        nightly = Nightly(tmp_path / "nights" / "quick")
        nightly.directory.mkdir(parents=True)
        asked = {"site": "testbed", "at": "02:30", "days": "", "by": "condor", "control": "", **terms}
        nightly.change(Terms(**asked, since_wall_s=since.timestamp()))
        return nightly

    return define


@pytest.fixture
def receiver():
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def found(monkeypatch):
    """What the history says has changed."""
    those = []
    monkeypatch.setattr(steps, "changes", lambda _: those)
    return those
