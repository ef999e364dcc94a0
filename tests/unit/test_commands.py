"""What the commands refuse, and what they say at the end."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tierbench.submit import cli, pool
from tierbench.submit.pool import Slots

REAL = Path(__file__).parent / "data/direct-trial.tar.gz"


@pytest.fixture
def no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "matching_slots", lambda _: Slots({}))
    monkeypatch.setattr(pool, "submit_dag", lambda _: pytest.fail("submitted"))


@pytest.mark.usefixtures("no_slots")
def test_nothing_is_run_where_something_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["run", "quick", "--site", "testbed", "--into", str(tmp_path / "run")])
    told = capsys.readouterr().err
    assert status == 3
    assert "missing: pool private has 0 cores" in told
    assert "--anyway" in told
    assert not (tmp_path / "run").exists()


def test_tables_end_with_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(REAL) as archive:
        archive.extractall(tmp_path, filter="data")
    assert cli.main(["tables", str(tmp_path / "run")]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("With ")
