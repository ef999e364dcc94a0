"""What the history holds, as rows that know nothing of the database; and a run's own note of its night."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tierbench import json_files, names
from tierbench.postprocess.compare.differences import Environment, Link

MEASURED, MISSED, FAILED = "measured", "missed", "failed"


@dataclass(frozen=True)
class Night:
    """A night of a nightly: when it was meant to run, and what became of it.

    A night is known by its nightly, its planned time and its run; `run` is the name of the run directory, empty where
    nothing was run. What confirms a night is a night of the same planned time, with `rerun`.
    """

    nightly: str
    planned_ns: int
    outcome: str
    run: str = ""
    directory: str = ""
    reason: str = ""
    rerun: bool = False
    started_ns: int | None = None
    ended_ns: int | None = None
    control: str = ""  # the reference configuration, as trials are named, without repeat
    metric: str = ""  # the column of trials.csv that is watched
    unit: str = ""
    environment: str = ""  # digest, by which its settings are found
    id: int = 0  # of its row, once it has one

    @property
    def day(self) -> str:
        """The day it was planned for, by the clock on the wall, as its messages name it."""
        return f"{datetime.fromtimestamp(self.planned_ns / 1e9, UTC).astimezone():%Y-%m-%d}"

    @property
    def named(self) -> str:
        return f"{self.day}{', a rerun' if self.rerun else ''}"


@dataclass(frozen=True)
class Value:
    """The VALID trials of a configuration in a night, by one metric; the interval is that of their mean."""

    configuration: str
    metric: str
    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Verdicts:
    """How many trials of a configuration had which verdict in a night."""

    configuration: str
    valid: int
    suspect: int
    invalid: int

    @property
    def trials(self) -> int:
        return self.valid + self.suspect + self.invalid


@dataclass(frozen=True)
class Measured:
    """All that a run says of its night, beside the night itself."""

    values: tuple[Value, ...] = ()
    verdicts: tuple[Verdicts, ...] = ()
    links: tuple[Link, ...] = ()
    environment: Environment = field(default_factory=dict)


@dataclass(frozen=True)
class Acknowledgement:
    """Somebody has seen what changed in a configuration (all of them: empty) since a night; it is reported no more.

    `accepted` says besides that it is to stay: the baseline begins anew at that night.
    """

    nightly: str
    configuration: str
    since_ns: int  # planned time of the first night of the level that it had
    by: str
    at_ns: int
    note: str = ""
    accepted: bool = False


@dataclass(frozen=True)
class NightMark:
    """night.json of a run directory: which night it is, and what is its control."""

    nightly: str
    planned_wall_ns: int
    format: int = 1
    rerun: bool = False
    control: str = ""


def read_night_mark(run: Path, nightly: str, control: str) -> NightMark:
    try:
        return json_files.read_as(NightMark, run / names.NIGHT)
    except FileNotFoundError:
        return NightMark(nightly, 0, control=control)
