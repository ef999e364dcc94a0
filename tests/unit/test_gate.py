"""The start gate, run as HTCondor runs it: in a trial's directory, beside turn.py, without any environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tierbench.dags import names, turn
from tierbench.submit import gate

CLOSED_S = 0.4


class Gate:
    """A gate at work on a trial of two clients, a flushed host and a sampler."""

    def __init__(self, run: Path) -> None:
        scripts = run / names.SCRIPTS
        scripts.mkdir()
        for script in (gate, turn):
            Path(shutil.copy(script.__file__, scripts)).chmod(0o755)
        self.trial = run / names.TRIALS / "one"
        self.trial.mkdir(parents=True)
        for folder in names.FILLED:
            (self.trial / folder).mkdir()
        definition = {"jobs": 2, "flush": {"hosts": ["wn01"]}, "samplers": [{"host": "oss"}]}
        (self.trial / names.TRIAL).write_text(json.dumps(definition))
        (run / names.TURN).write_text("one")
        # As HTCondor's local universe does it: no environment at all.
        self.process = subprocess.Popen([scripts / "gate.py"], cwd=self.trial, env={})

    def log(self, name: str, *lines: str) -> None:
        with (self.trial / name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def flushed(self) -> None:
        (self.trial / names.flush_report("wn01")).write_text('{"status": "ok"}')

    def sampling(self) -> None:
        (self.trial / names.sample_file("oss")).write_text("header\nrecord\n")

    def ready(self, *clients: int) -> None:
        self.log(names.CLIENTS_LOG, *(f"008 (7.00{n}.000) 2026-01-01 TIERBENCH READY {n}" for n in clients))

    def said(self) -> dict[str, Any]:
        wait_until((self.trial / names.GO).exists)
        said: dict[str, Any] = json.loads((self.trial / names.GO).read_text())
        return said

    def open(self) -> None:
        self.flushed()
        self.sampling()
        self.ready(0, 1)
        self.said()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Gate]:
    trial = Gate(tmp_path)
    yield trial
    trial.process.kill()
    trial.process.wait()


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_opens_when_all_are_ready_flushed_and_sampled(trial: Gate) -> None:
    trial.open()
    assert trial.said()["go_wall_ns"] > time.time_ns() - 10**10


@pytest.mark.parametrize("lacking", ["ready", "flushed", "sampling"])
def test_it_stays_closed_while_anything_is_lacking(trial: Gate, lacking: str) -> None:
    for name, does in (
        ("ready", lambda: trial.ready(0, 1)),
        ("flushed", trial.flushed),
        ("sampling", trial.sampling),
    ):
        if name == lacking:
            trial.ready(0)
        else:
            does()
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.GO).exists()


def test_it_does_not_wait_for_a_client_that_has_ended(trial: Gate) -> None:
    trial.flushed()
    trial.sampling()
    trial.ready(0)
    trial.log(names.CLIENTS_LOG, "005 (7.001.000) 2026-01-01 Job terminated.")
    assert "go_wall_ns" in trial.said()


def test_without_a_flush_the_trial_is_called_off(trial: Gate) -> None:
    trial.ready(0, 1)
    trial.log("flush.log", "005 (6.000.000) 2026-01-01 Job terminated.")
    assert "the flush on wn01 failed" in trial.said()["called_off"]


def test_the_turn_is_passed_on_when_the_last_client_has_said_its_end(trial: Gate) -> None:
    trial.open()
    (trial.trial / names.client_output(0)).write_text('{"event": "end"}\n')
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.SERVED).exists()
    (trial.trial / names.client_output(1)).write_text('{"event": "end"}\n')
    wait_until((trial.trial / names.SERVED).exists)


def test_a_client_that_died_without_a_word_is_not_waited_for(trial: Gate) -> None:
    trial.open()
    trial.log(names.CLIENTS_LOG, *(f"005 (7.00{n}.000) 2026-01-01 Job terminated." for n in (0, 1)))
    wait_until((trial.trial / names.SERVED).exists)


def test_samplers_see_the_idle_storage_before_they_are_stopped(trial: Gate) -> None:
    trial.open()
    for number in (0, 1):
        (trial.trial / names.client_output(number)).write_text('{"event": "end"}\n')
    assert trial.process.wait(10) == 0
    idle = (trial.trial / names.STOP).stat().st_mtime - (trial.trial / names.SERVED).stat().st_mtime
    assert idle >= gate.IDLE_SECONDS


def test_it_ends_when_no_client_is_left_to_wait_for_the_samplers(trial: Gate) -> None:
    trial.log(names.CLIENTS_LOG, *(f"005 (7.00{n}.000) 2026-01-01 Job terminated." for n in (0, 1)))
    assert trial.process.wait(10) == 0
    assert not (trial.trial / names.GO).exists()
