"""The record of each night, in a file of its own that does not depend on the database.

Whoever looks at a nightly next leaves those of nights that did not come, and of nights whose DAG died. `check` looks,
too, so little is loaded here before it is needed.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tierbench import files, json_files, names
from tierbench.json_files import Damaged
from tierbench.submit import pool
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.schedule import local_zone

DELIVERED, NOBODY = "delivered", "nobody"
CHECKED_NIGHTS = 14  # the last ones, whose DAGs may linger
ENDING_S = 60.0  # a DAG leaves the queue within seconds of its night's end,
LINGERING_S = 1800.0  # and finishes the night within minutes of the last trial's, also where the links hang
RENAMED = {"told": "deliveries", "said": "reported"}  # in records of an older version


@dataclass(frozen=True)
class Change:
    """Something that an admin is notified of once."""

    direction: str
    configuration: str  # "" where it is the environment of all
    since_ns: int  # the planned time of the first night that differs
    level: str = ""  # OK, WARNING or CRITICAL
    ratio: float = 0.0  # to what it was
    sentence: str = ""
    latest_ns: int = 0  # of the first night of the present level
    acknowledged: bool = False

    @property
    def alarming(self) -> bool:
        return self.level != "OK" and not self.acknowledged


@dataclass(frozen=True)
class Night:
    """A night as it was planned, and its outcome: running, measured, failed, missed or still-running."""

    planned_wall_s: float
    outcome: str
    reason: str = ""
    begun_wall_s: float | None = None
    ended_wall_s: float | None = None
    cluster: int | None = None  # of its DAG
    asked_for: bool = False  # by hand, at no time of the calendar's
    counts: dict[str, int] = field(default_factory=dict)  # of its trials, by their verdicts
    sentences: list[str] = field(default_factory=list)  # of its message
    reported: list[Change] = field(default_factory=list)  # in them
    deliveries: dict[str, str] = field(default_factory=dict)  # by channel, "delivered" or what went wrong

    @property
    def planned(self) -> datetime:
        return datetime.fromtimestamp(self.planned_wall_s, UTC)

    @property
    def folder_name(self) -> str:
        """The same however the clocks change; a night has one directory, and never gets another."""
        return self.planned.strftime("%Y%m%dT%H%M%SZ" if self.asked_for else "%Y%m%dT%H%MZ")

    @property
    def label(self) -> str:
        """As its admin knows it, by the clock on the wall."""
        return self.planned.astimezone().strftime("%Y-%m-%d %H:%M")

    @property
    def undelivered(self) -> dict[str, str]:
        """The channels that its message did not reach, and why."""
        return {to: how for to, how in self.deliveries.items() if to != NOBODY and how != DELIVERED}

    def now(self, **changes: object) -> Night:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def folder(nightly: Nightly, night: Night) -> Path:
    return nightly.directory / names.NIGHTS / night.folder_name


def run_directories(directory: Path) -> list[Path]:
    """The runs that were written in a night's folder: its own, and the one that confirms it."""
    return [
        directory / name for name in (names.NIGHT_RUN, names.NIGHT_AGAIN) if (directory / name / names.PLAN).exists()
    ]


def write(nightly: Nightly, night: Night) -> Night:
    directory = folder(nightly, night)
    directory.mkdir(parents=True, exist_ok=True)
    content = {"format": 1, **dataclasses.asdict(night)}
    files.replace(directory / names.NIGHT_RECORD, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return night


def read(directory: Path) -> Night:
    path = directory / names.NIGHT_RECORD
    content = json_files.read(path)
    if isinstance(content, dict):
        content = {RENAMED.get(name, name): value for name, value in content.items()}
    return json_files.typed(Night, content, str(path))


def nights(nightly: Nightly) -> list[Night]:
    """All nights on record, in their order."""
    return [*newest_first(nightly)][::-1]


def newest_first(nightly: Nightly) -> Iterator[Night]:
    """The nights on record, each read when it is asked for: `check` needs the last ones of years."""
    for name in sorted(recorded(nightly), key=_start, reverse=True):
        directory = nightly.directory / names.NIGHTS / name
        try:
            yield read(directory)
        except Damaged as error:  # its runs may be whole; the message and `list` say that its record is not
            yield Night(_start(name).timestamp(), "failed", f"{error}")
        except FileNotFoundError:
            continue


def recorded(nightly: Nightly) -> set[str]:
    """The names of the nights' folders."""
    return {path.parent.name for path in (nightly.directory / names.NIGHTS).glob(f"*/{names.NIGHT_RECORD}")}


def _start(folder_name: str) -> datetime:
    return datetime.strptime(folder_name.removesuffix("Z").ljust(15, "0"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)


def record_missed(nightly: Nightly, until: datetime) -> list[Night]:
    """Record the nights that should have started before and did not; those that are new."""
    already = recorded(nightly)
    since = datetime.fromtimestamp(nightly.terms.since_wall_s, UTC)
    due = [] if nightly.terms.paused else nightly.calendar.due(since, until - timedelta(seconds=1), local_zone())
    why = "nothing started it: were HTCondor or the machine down?"
    missed = [Night(planned.timestamp(), "missed", why) for planned in due]
    return [write(nightly, night) for night in missed if night.folder_name not in already]


def finish_dead_nights(nightly: Nightly, say: Say) -> Night | None:
    """The night that is at work; one whose DAG died is finished.

    A DAG that stays in the queue though all is done is taken out of it: when the scheduler was killed DAGMan goes on,
    and the one that the new scheduler starts after it finds everything done in the log and waits for ever.
    """
    at_work = None
    for night in _recent(nightly):
        place, waiting = folder(nightly, night), night.cluster is not None and pool.in_queue(night.cluster)
        if waiting and night.cluster is not None and _is_over(night, place):
            say(f"the night of {night.label} is over, and its job {night.cluster} in the queue still; it is removed")
            pool.forget(night.cluster)
            waiting = False
        if night.outcome == "running" and waiting:
            at_work = night
        elif night.outcome == "running":
            from tierbench.submit.nightly.finish_night import finish  # which loads much, and mostly no night is dead

            why = "its DAG was gone from the queue before it had finished the night"
            finish(nightly, place, say, why if night.cluster else "it was interrupted as it started")
    return at_work


def _recent(nightly: Nightly) -> list[Night]:
    """The last nights, as far back as one may be at work or its DAG linger: each that comes meanwhile says so."""
    recent, over = [], 0
    for night in newest_first(nightly):
        recent.append(night)
        over += night.outcome in ("measured", "failed")
        if over == CHECKED_NIGHTS:
            break
    return recent[::-1]


def _is_over(night: Night, place: Path) -> bool:
    """Whether a night, or all of its trials, ended so long ago that its DAG should have."""
    if night.outcome != "running":
        return bool(night.deliveries) and time.time() - (night.ended_wall_s or 0.0) > ENDING_S
    from tierbench.submit.progress import Run, Stage

    trials = [trial for run in run_directories(place) for trial in Run(run).trials()]
    if not trials or any(trial.stage is not Stage.FINISHED or trial.again for trial in trials):
        return False
    ended = max((trial.directory / names.OUTCOME).stat().st_mtime for trial in trials)
    return time.time() - ended > LINGERING_S
