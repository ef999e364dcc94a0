"""How far a run has come, read from its directory alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

from tierbench import stored
from tierbench.dags import names
from tierbench.dags.outcome import Outcome, read_outcome
from tierbench.errors import ConfigError
from tierbench.stored import Damaged


class Stage(Enum):
    """What a trial is at."""

    WAITING = "waiting"
    FLUSHING = "flushing caches"
    GATHERING = "clients gathering at the gate"
    READING = "reading"
    FINISHED = "finished"


@dataclass(frozen=True)
class TrialProgress:
    """One trial as its files tell it; the clients are counted only while it runs."""

    directory: Path
    name: str
    jobs: int
    stage: Stage
    ready: int = 0
    done: int = 0
    state: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Whether it has been measured, or need not be."""
        return bool(self.state) and Outcome(self.state).well


class Storage(TypedDict):
    """The host whose samples tell the rate."""

    sampled: str


class Sampled(TypedDict):
    """What of site.json is needed here."""

    storage: Storage


class Submitted(TypedDict):
    """submitted.json."""

    cluster: int


class Run:
    """A run directory, whatever it has come to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        if not (self.directory / names.PLAN).is_file():
            raise ConfigError(
                f"{directory}: is not a run directory (it has no {names.PLAN}); `tierbench write` makes one"
            )
        self.plan = stored.read_table(self.directory / names.PLAN)
        self.sampled_host = stored.read_as(Sampled, self.directory / names.SITE)["storage"]["sampled"]
        self.trial_directories = [self.directory / names.trial_directory(trial["id"]) for trial in self.plan["trials"]]

    @property
    def cluster(self) -> int | None:
        """The job number of its DAG, once it was submitted by `tierbench run`."""
        path = self.directory / names.SUBMITTED
        return stored.read_as(Submitted, path)["cluster"] if path.is_file() else None

    def record_submission(self, cluster: int) -> None:
        (self.directory / names.SUBMITTED).write_text(json.dumps({"format": 1, "cluster": cluster}) + "\n")

    def trials(self) -> Iterator[TrialProgress]:
        """All trials in the plan's order."""
        for planned, directory in zip(self.plan["trials"], self.trial_directories, strict=True):
            yield progress(directory, planned["name"], planned["jobs"])


def progress(directory: Path, name: str, jobs: int) -> TrialProgress:
    """What a trial is at; one whose files are just being put aside for another try is waiting."""
    try:
        return _progress(directory, name, jobs)
    except FileNotFoundError:
        return TrialProgress(directory, name, jobs, Stage.WAITING)


def _progress(directory: Path, name: str, jobs: int) -> TrialProgress:
    outcome = read_outcome(directory)
    if outcome:
        state, reasons = outcome.state, tuple(outcome.reasons)
        return TrialProgress(directory, name, jobs, Stage.FINISHED, jobs, jobs, state, reasons)
    if not (directory / names.CLIENTS_LOG).is_file():
        stage = Stage.FLUSHING if any((directory / names.FLUSH).iterdir()) else Stage.WAITING
        return TrialProgress(directory, name, jobs, stage)
    events = [_events(directory / names.client_output(index)) for index in range(jobs)]
    ready, done = (sum(event in said for said in events) for event in ("ready", "end"))
    reading = (directory / names.GO).is_file() or any("go" in said for said in events)
    return TrialProgress(directory, name, jobs, Stage.READING if reading else Stage.GATHERING, ready, done)


def _events(output: Path) -> set[str]:
    """The kinds of records that a client has written so far."""
    try:
        lines = output.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return set()
    found = set()
    for line in lines:
        try:
            found.add(str(stored.parse_as(dict[str, Any], line, "a record").get("event")))
        except Damaged:  # a line that is still being written
            continue
    return found
