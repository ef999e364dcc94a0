"""A nightly: what was asked for, its lock, and the record of each night, in files that do not depend on the database.

Whoever looks at a nightly next leaves the records of nights that did not come, and of nights whose DAG died. `check`
looks, too, so little is loaded here before it is needed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from pathlib import Path

from tierbench import files, json_files, names
from tierbench.checked_text import Folder, Key, shown
from tierbench.dags.levels import SAME_WITHIN
from tierbench.errors import BusyError, ConfigError
from tierbench.json_files import Damaged
from tierbench.spec import unknown_name
from tierbench.submit import pool
from tierbench.submit.nightly.schedule import SUMMER_TIME, Calendar, local_zone, parse_calendar

HOME_VARIABLE = "TIERBENCH_NIGHTS"
FOLDER_NAME = re.compile(r"\d{8}T\d{4}(\d\d)?Z")  # of a night

Say = Callable[[str], None]
DELIVERED, NOBODY = "delivered", "nobody"
CHECKED_NIGHTS = 14  # the last ones, whose DAGs may linger
ENDING_S = 60.0  # a DAG leaves the queue within seconds of its night's end,
ELSEWHERE_S = 2 * 86_400.0  # a night on another access point is left to that for so long
LINGERING_S = 1800.0  # and finishes the night within minutes of the last trial's, also where the links hang


@dataclass(frozen=True)
class Terms:
    """nightly.json: what `tierbench nightly add` was asked for, and whether it is paused."""

    site: str
    at: str
    days: str
    by: str  # "condor" or "systemd"
    control: str  # a configuration's name, or "" where only the links are
    since_wall_s: float  # nights before that are not expected
    paused: bool = False
    webhook: str = ""  # its host; the URL is in a file of its own
    mail: str = ""
    textfile: str = ""
    history: str = ""  # the database of whoever has added it
    patience_s: float = 1800.0  # how long a night waits for a pool that does not answer
    size_pct: float = 100 * SAME_WITHIN  # what is less is no change
    floors: dict[str, float] = field(default_factory=dict)  # the least rate of a configuration
    zone: str = ""  # whose clock its times are by, whoever looks


class Nightly:
    def __init__(self, directory: Path, say: Say = lambda _: None) -> None:
        self.directory, self.say = directory, say  # where its steps tell what they do

    @property
    def name(self) -> str:
        return self.directory.name

    @cached_property
    def terms(self) -> Terms:
        return json_files.read_as(Terms, self.directory / names.NIGHTLY)

    @property
    def calendar(self) -> Calendar:
        return parse_calendar(self.terms.at, self.terms.days)

    @property
    def zone(self) -> tzinfo:
        return local_zone(self.terms.zone)

    def label(self, night: Night) -> str:
        """As its admin knows it: by the clock that its calendar goes by, whoever looks."""
        return night.planned.astimezone(self.zone).strftime("%Y-%m-%d %H:%M")

    @property
    def experiment(self) -> Path:
        return self.directory / names.NIGHTLY_EXPERIMENT

    @property
    def starter(self) -> Path:
        return self.directory / names.NIGHTLY_STARTER

    def change(self, terms: Terms) -> None:
        json_files.write(self.directory / names.NIGHTLY, terms)
        self.__dict__.pop("terms", None)


def duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.0f} h" if minutes >= 120 else f"{minutes:.0f} min"


def home() -> Path:
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / "tierbench-nights").absolute()


def all_nightlies() -> Iterator[Nightly]:
    for path in sorted(home().glob(f"*/{names.NIGHTLY}")):
        yield Nightly(path.parent)


def find_nightly(name: str, say: Say = lambda _: None) -> Nightly:
    nightlies = {nightly.name: nightly for nightly in all_nightlies()}
    if name not in nightlies:
        raise ConfigError(f"{unknown_name('nightly', name, nightlies)}; they are in {home()} (${HOME_VARIABLE})")
    nightly = Nightly(nightlies[name].directory, say)
    with suppress(Damaged):
        if zone := nightly.terms.zone:  # days in sentences are by its clock, whoever looks
            os.environ["TZ"] = zone
            time.tzset()
    return nightly


def new_nightly(name: str) -> Nightly:
    """A directory for one that is not there yet."""
    if not Key.fits(name):
        raise ConfigError(f"--name {name}: must be {Key.must_be}")
    nightly = Nightly(home() / name)
    if not Folder.fits(str(nightly.directory)):
        raise ConfigError(f"${HOME_VARIABLE} {shown(str(home()))}: must be {Folder.must_be}")
    if (nightly.directory / names.NIGHTLY).exists():
        raise ConfigError(f"{name}: is there already, in {nightly.directory}; `tierbench nightly remove {name}` first")
    nightly.directory.mkdir(parents=True, exist_ok=True)
    return nightly


def locked(place: Path, patience_s: float = 30.0) -> AbstractContextManager[None]:
    """The lock of a nightly's directory, so that one process at a time starts, finishes or changes a night; or of all.

    That of all nightlies of this user, in `home()`, is held for a moment as a night is put on record.
    """
    busy = BusyError(f"{place.name}: another `tierbench nightly` is starting or finishing a night")
    return files.locked(place / names.NIGHTLY_LOCK, patience_s, held=busy)


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
    acknowledged_ns: int = 0  # when somebody last did so of its configuration

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self.since_ns / 1e9, UTC)

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
    host: str = ""  # in whose queue that is
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
    def undelivered(self) -> dict[str, str]:
        """The channels that its message did not reach, and why."""
        return {to: how for to, how in self.deliveries.items() if to != NOBODY and how != DELIVERED}

    def now(self, **changes: object) -> Night:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def folder(nightly: Nightly, night: Night) -> Path:
    return nightly.directory / names.NIGHTS / night.folder_name


def run_directories(directory: Path) -> list[Path]:
    """The runs that were written in a night's folder: its own, and the one that confirms it."""
    runs = (directory / name for name in (names.NIGHT_RUN, names.NIGHT_AGAIN))
    return [run for run in runs if (run / names.PLAN).exists()]


def write(nightly: Nightly, night: Night) -> Night:
    directory = folder(nightly, night)
    directory.mkdir(parents=True, exist_ok=True)
    json_files.write(directory / names.NIGHT_RECORD, night)
    return night


def read(directory: Path) -> Night:
    return json_files.read_as(Night, directory / names.NIGHT_RECORD)


def nights(nightly: Nightly) -> list[Night]:
    return [*newest_first(nightly)][::-1]


def newest_first(nightly: Nightly) -> Iterator[Night]:
    """The nights on record, each read when it is asked for: `check` needs the last ones of years."""
    ahead = datetime.now(UTC) + SUMMER_TIME  # what is later is by a clock that was wrong
    for name in sorted((name for name in recorded(nightly) if _start(name) < ahead), key=_start, reverse=True):
        directory = nightly.directory / names.NIGHTS / name
        try:
            yield read(directory)
        except Damaged as error:  # its runs may be whole; the message and `list` say that its record is not
            yield Night(_start(name).timestamp(), "failed", f"{error}")
        except FileNotFoundError:
            continue


def recorded(nightly: Nightly) -> set[str]:
    """The folders of its nights; what else lies there, as a copy of one, is none."""
    folders = (path.parent.name for path in (nightly.directory / names.NIGHTS).glob(f"*/{names.NIGHT_RECORD}"))
    return set(filter(FOLDER_NAME.fullmatch, folders))


def _start(folder_name: str) -> datetime:
    return datetime.strptime(folder_name.removesuffix("Z").ljust(15, "0"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)


def record_missed(nightly: Nightly, until: datetime) -> list[Night]:
    """Record the nights that should have started since the last one on record and did not; folders may be deleted."""
    already = recorded(nightly)
    starts = [start for start in map(_start, already) if start < until]  # others are by a clock that was wrong
    since = max([datetime.fromtimestamp(nightly.terms.since_wall_s, UTC), *starts])
    due = [] if nightly.terms.paused else nightly.calendar.due(since, until - timedelta(seconds=1), nightly.zone)
    why = "nothing started it: were HTCondor or the machine down?"
    missed = [Night(planned.timestamp(), "missed", why) for planned in due]
    return [write(nightly, night) for night in missed if night.folder_name not in already]


def finish_dead_nights(nightly: Nightly) -> Night | None:
    """The night that is at work; one whose DAG died is finished.

    A DAG that stays in the queue though all is done is taken out of it: when the scheduler was killed DAGMan goes on,
    and the one that the new scheduler starts after it finds everything done in the log and waits for ever.
    """
    at_work = None
    for night in _recent(nightly):
        place, elsewhere = folder(nightly, night), pool.is_elsewhere(night.host)
        if elsewhere and time.time() - (night.begun_wall_s or 0.0) < ELSEWHERE_S:
            at_work = night if night.outcome == "running" else at_work
            continue
        waiting = night.cluster is not None and not elsewhere and pool.in_queue(night.cluster, nightly.directory)
        if waiting and night.cluster is not None and _is_over(night, place):
            if pool.forget(night.cluster, nightly.directory):
                nightly.say(
                    f"the night of {nightly.label(night)} is over, and its job {night.cluster} was in the queue still"
                )
            waiting = False
        if night.outcome == "running" and waiting:
            at_work = night
        elif (night.outcome == "running" and _can_be_noted(nightly, night)) or (
            not waiting and _is_untold(nightly, night)
        ):
            from tierbench.submit.nightly.steps import finish  # which loads much, and mostly no night is dead

            why = "its DAG was gone from the queue before it had finished the night"
            finish(nightly, place, why if night.cluster else "it was interrupted as it started")
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


def _is_untold(nightly: Nightly, night: Night) -> bool:
    """Whether who finished a night of late was ended before its message was sent; and it can be noted that it is."""
    since_s = time.time() - (night.ended_wall_s or 0.0)
    if night.outcome not in ("measured", "failed") or night.deliveries or not ENDING_S < since_s < 2 * 86_400:
        return False
    return _can_be_noted(nightly, night)


def _can_be_noted(nightly: Nightly, night: Night) -> bool:
    """Whether its record can be written, or whoever looks next would finish it, and send its message, once more."""
    try:
        return bool(write(nightly, night))
    except OSError:
        return False


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
