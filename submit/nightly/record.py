"""The record of each night, in a file of its own that does not depend on the database; a missed night has one, too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tierbench import files, json_files, names
from tierbench.json_files import Damaged
from tierbench.submit.nightly.definition import Nightly

RENAMED = {"told": "deliveries", "said": "reported"}  # in records of an older version


@dataclass(frozen=True)
class Reported:
    """A change that a message has reported."""

    direction: str
    configuration: str
    since_ns: int
    level: str = ""
    ratio: float = 0.0


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
    reported: list[Reported] = field(default_factory=list)  # the changes in them
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
