"""The last step of a trial, run as DAGMan runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tierbench.submit import finish


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A trial of two clients, the first of which has read its file; no sampler to wait for."""
    (tmp_path / "trial.json").write_text(json.dumps({"name": "direct/dd", "jobs": 2, "samplers": []}))
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients/0.jsonl").write_text('{"event": "end", "status": "ok", "message": ""}\n')
    return tmp_path


def finished(trial: Path) -> int:
    # Without tierbench on the PATH, as on an access point that has none.
    command = [sys.executable, finish.__file__, "0", "0"]
    return subprocess.run(command, cwd=trial, env={"PATH": "/usr/bin"}, capture_output=True, check=False).returncode


def test_a_client_that_never_started_makes_the_trial_incomplete(trial: Path) -> None:
    assert finished(trial) == 1
    outcome = json.loads((trial / "outcome.json").read_text())
    assert (outcome["state"], outcome["reasons"]) == ("incomplete", ["client 1 never started"])


def test_all_clients_done_make_it_complete(trial: Path) -> None:
    (trial / "clients/1.jsonl").write_text('{"event": "end", "status": "ok", "message": ""}\n')
    assert finished(trial) == 0


def test_the_stop_file_is_not_empty_since_htcondor_25_delivers_no_empty_files(trial: Path) -> None:
    finished(trial)
    assert (trial / "stop").stat().st_size > 0
