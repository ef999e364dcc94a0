"""What is left of each night, in a file of its own that no damaged database takes along: a gap is a record, too."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tierbench import json_files, names
from tierbench.json_files import Damaged
from tierbench.submit.nightly.definition import Nightly

Outcome = Literal["running", "measured", "failed", "missed", "still-running"]


@dataclass(frozen=True)
class Said:
    """A change that its admin was told of."""

    direction: str
    configuration: str
    since_ns: int
    level: str = ""
    ratio: float = 0.0


@dataclass(frozen=True)
class Night:
    """A night as it was planned, and what became of it."""

    planned_wall_s: float
    outcome: str
    reason: str = ""
    begun_wall_s: float | None = None
    ended_wall_s: float | None = None
    cluster: int | None = None  # of its DAG
    asked_for: bool = False  # by hand, at no time of the calendar's
    counts: dict[str, int] = field(default_factory=dict)  # of its trials, by their verdicts
    sentences: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)  # the changes in them
    told: dict[str, str] = field(default_factory=dict)  # how each way to tell somebody went

    @property
    def planned(self) -> datetime:
        return datetime.fromtimestamp(self.planned_wall_s, UTC)

    @property
    def folder_name(self) -> str:
        """The same however the clocks change; a night has one directory, and never gets another."""
        return self.planned.strftime("%Y%m%dT%H%M%SZ" if self.asked_for else "%Y%m%dT%H%MZ")

    @property
    def called(self) -> str:
        """As its admin knows it, by the clock on the wall."""
        return self.planned.astimezone().strftime("%Y-%m-%d %H:%M")

    def now(self, **changes: object) -> Night:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def folder(nightly: Nightly, night: Night) -> Path:
    return nightly.directory / names.NIGHTS / night.folder_name


def write(nightly: Nightly, night: Night) -> Night:
    """Keep what is known of a night, whole or as it was."""
    directory = folder(nightly, night)
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f".{names.NIGHT_RECORD}.{os.getpid()}"
    content = {"format": 1, **dataclasses.asdict(night)}
    try:
        unfinished.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(directory / names.NIGHT_RECORD)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return night


def read(directory: Path) -> Night:
    return json_files.read_as(Night, directory / names.NIGHT_RECORD)


def nights(nightly: Nightly) -> list[Night]:
    """All nights on record, in their order."""
    return sorted(_found(nightly), key=lambda night: night.planned_wall_s)


def _found(nightly: Nightly) -> Iterator[Night]:
    for path in sorted((nightly.directory / names.NIGHTS).glob(f"*/{names.NIGHT_RECORD}")):
        try:
            yield read(path.parent)
        except Damaged as error:  # its runs may be whole; that it cannot be told of is told
            yield Night(_named(path.parent), "failed", f"{error}")
        except FileNotFoundError:
            continue


def _named(directory: Path) -> float:
    stamp = directory.name.removesuffix("Z")
    return datetime.strptime(stamp.ljust(15, "0"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
