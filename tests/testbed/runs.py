"""Runs of experiments on the testbed, as its user makes them on the access point, and what is left of them."""

from __future__ import annotations

import csv
import functools
import json
import operator
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.machine import Machine
from tierbench import names
from tierbench.postprocess.schema.rows import TRIAL_FILES
from tierbench.testbed.host import RunningHost
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER

# Reasons of the verdict that say the machine was at fault, which is that of all hosts, and perhaps of others.
STARVED = ("the host was starved", "the host is too busy")
HOME = f"/home/{USER}/experiments"  # DAGMan does not want its logs below /tmp
RUN_SECONDS = 1200  # of a busy machine's patience; nothing waits so long where all is well
FULL_SEGMENT = 1514  # bytes on the wire


@dataclass(frozen=True)
class Ran:
    """A run's end: the exit status of the command that watched it, and the run directory as it was then."""

    status: int
    directory: Path

    def trial(self, trial: str) -> Path:
        return self.directory / names.trial_directory(trial)

    @property
    def trials(self) -> list[Path]:
        """The trials' folders, in the plan's order."""
        return [self.trial(trial["id"]) for trial in content(self.directory / names.PLAN)["trials"]]

    @property
    def ended_well(self) -> bool:
        """Whether its exit status is that of complete trials: 0, or 1 where a busy machine left none usable."""
        return self.status == int(all(row["verdict"] == "INVALID" for row in self.rows(names.TRIALS_CSV)))

    def rows(self, table: str) -> list[dict[str, str]]:
        """A table's lines; those of trials with what stands in the tables beside trials.csv."""
        parts = TRIAL_FILES if table == names.TRIALS_CSV else [table]
        lines = (csv.DictReader((self.directory / part).read_text(encoding="utf-8").splitlines()) for part in parts)
        return [functools.reduce(operator.or_, line) for line in zip(*lines, strict=True)]


def starved(row: dict[str, str]) -> bool:
    """Whether a trial's own samplers had to wait for a core."""
    return any(words in row["verdict_reasons"] for words in STARVED)


def fed(rows: list[dict[str, str]], machine: Machine) -> list[dict[str, str]]:
    """The trials in which nobody had to wait for a core: where one had, nothing is asserted of the figures."""
    rows = [row for row in rows if not starved(row) and machine.was_at_rest(*window(row))]
    if not rows:
        pytest.skip("this machine was too busy: somebody was starved in each of the trials")
    return rows


def window(row: dict[str, str]) -> tuple[float, float]:
    """By the wall clock; empty where a trial had none."""
    return int(row["go_wall_ns"] or 0) / 1e9, int(row["end_wall_ns"] or 0) / 1e9


def sent_again(run: Ran, trial: dict[str, str]) -> float:
    """The share of what the clients took in that the storage's TCP sent again."""
    mine = [row for row in run.rows(names.SAMPLES_CSV) if row["trial"] == trial["trial"] and row["role"] == "storage"]
    segments = sum(float(row["tcp_retrans_per_s"] or 0) * float(row["interval_s"] or 0) for row in mine)
    return segments * FULL_SEGMENT / int(trial["bytes_app"])


def content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def outcome(trial: Path) -> dict[str, Any]:
    """What a trial's last step said of it."""
    said: dict[str, Any] = content(trial / names.OUTCOME)
    return said


def all_read(trial: Path, clients: int) -> bool:
    """Whether all clients of a trial have told that they went on from the gate."""
    records = [trial / names.client_output(index) for index in range(clients)]
    return all(path.exists() and '"event": "go"' in path.read_text() for path in records)


def last_line(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    return said


class AccessPoint:
    """The testbed's access point and its user, who runs experiments there."""

    def __init__(self, testbed: Testbed, copies: Path) -> None:
        self._ce: RunningHost = testbed.host("ce")
        self._writer: RunningHost = testbed.host("vmuf")
        self._copies = copies

    def define(self, name: str, text: str) -> None:
        for host in (self._ce, self._writer):
            host.put(f"{HOME}/{name}.toml", text, user=USER)

    def put(self, name: str, text: str) -> None:
        self._ce.put(f"{HOME}/{name}", text, user=USER)

    def make_replicas(self, name: str) -> None:
        self._writer.run("tierbench", "replicas", *_definition(name), user=USER, timeout=RUN_SECONDS)

    def write(self, name: str) -> Path:
        """A run directory of an experiment, as this machine sees it."""
        self.tierbench("write", *_definition(name), "--into", f"{HOME}/{name}")
        return self.there(name)

    def run(self, name: str) -> Ran:
        return self._ran("run", *_definition(name), "--no-links", "--anyway", "--into", f"{HOME}/{name}", run=name)

    def more(self, name: str, repetitions: int) -> Ran:
        return self._ran(
            "run", "--more", str(repetitions), f"{HOME}/{name}", "--no-links", run=name, copy=f"{name}-more"
        )

    def submit(self, name: str, copy: str = "") -> Ran:
        return self._ran("submit", f"{HOME}/{name}", run=name, copy=copy)

    def tierbench(self, *arguments: str, check: bool = True) -> int:
        return self.command("tierbench", *arguments, check=check)[0]

    def command(self, *command: str, check: bool = True) -> tuple[int, str]:
        result = self._ce.run(*command, user=USER, check=check, timeout=RUN_SECONDS)
        return result.returncode, result.stdout

    def there(self, name: str) -> Path:
        return from_here(self._ce, f"{HOME}/{name}")

    def copy(self, name: str, copy: str = "") -> Path:
        """A run directory as it is now; it may go on to change."""
        return Path(shutil.copytree(self.there(name), self._copies / (copy or name)))

    def _ran(self, *arguments: str, run: str, copy: str = "") -> Ran:
        return Ran(self.tierbench(*arguments, check=False), self.copy(run, copy))


def from_here(host: RunningHost, path: str) -> Path:
    """Where this machine finds a path of a host; only for tests, which know what they put there."""
    return Path(f"/proc/{host.pid}/root") / path.lstrip("/")


def _definition(name: str) -> list[str]:
    return [f"{HOME}/{name}.toml", "--site", "testbed"]
