"""Runs as nights of the history: read from their tables, all taken in again, and the samples of old ones removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.json_files import Damaged
from tierbench.postprocess.compare.differences import Link, environment
from tierbench.postprocess.history.database import DamagedHistory, History
from tierbench.postprocess.history.rows import FAILED, MEASURED, Measured, Night, Value, Verdicts, read_night_mark
from tierbench.postprocess.records.ceilings import measured_links
from tierbench.postprocess.schema.rows import SUMMARISED, TrialRow
from tierbench.postprocess.stats import mean_interval
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results, Say, read_results
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID, valid, values_of, verdict


def night_of(run: Path, nightly: str = "", control: str = "", say: Say = print) -> tuple[Night, Measured]:
    """The night that a run directory is; of a run that no nightly has started, under the name that is given."""
    of = read_night_mark(run, nightly, control)
    name, directory = run.resolve().name, str(run.resolve())
    try:
        results = read_results(run, say)
    except ConfigError:
        raise
    except TierbenchError as error:  # nothing measured, or damaged: a night that failed, and no gap
        reason = str(error).removeprefix(f"{run}: ")
        planned = of.planned_wall_ns or _written_ns(run)
        night = Night(of.nightly or name, planned, FAILED, name, directory, reason, rerun=of.rerun, control=of.control)
        return night, Measured()
    began = [row.submit_wall_ns or row.go_wall_ns for row in results.trials]
    started = min(filter(None, began), default=None)
    counted = verdicts(results)
    night = Night(
        nightly=of.nightly or str(results.plan.get("experiment") or name),
        planned_ns=of.planned_wall_ns or started or _written_ns(run),
        outcome=MEASURED if any(row.valid for row in counted) else FAILED,
        run=name,
        directory=directory,
        reason="" if any(row.valid for row in counted) else _why_none(results),
        rerun=of.rerun,
        started_ns=started,
        ended_ns=max(filter(None, (row.end_wall_ns for row in results.trials)), default=None),
        control=of.control,
        metric=results.rate,
        unit=results.unit,
    )
    return night, Measured(tuple(values(results)), counted, tuple(links(results)), environment(results))


def values(results: Results) -> Iterator[Value]:
    """The means of the VALID trials; a doubtful one enters no series."""
    for configuration, rows in _by_configuration(results).items():
        good = [row for row in rows if valid(row)]
        for metric in SUMMARISED:
            found = mean_interval(values_of(good, metric))
            if found and found.value is not None:
                low = None if found.low is None else max(found.low, 0.0)  # none of them is ever below
                yield Value(configuration, metric, found.value, low, found.high, len(values_of(good, metric)))


def verdicts(results: Results) -> tuple[Verdicts, ...]:
    """How many trials of each configuration had which verdict."""
    rows = []
    for configuration, members in _by_configuration(results).items():
        given = [verdict(row) for row in members]
        rows.append(Verdicts(configuration, *(given.count(word) for word in (VALID, SUSPECT, INVALID))))
    return tuple(rows)


def links(results: Results) -> Iterator[Link]:
    for line, found in measured_links(results.ceilings).items():
        yield Link(line.removeprefix("to "), found["mbps"], found["rtt_ms"])


def _by_configuration(results: Results) -> dict[str, list[TrialRow]]:
    found: dict[str, list[TrialRow]] = {}
    for row in results.trials:
        found.setdefault(batch_name(row.levels), []).append(row)
    return found


def _why_none(results: Results) -> str:
    """Why no trial is VALID: the first reason of the first trial that gives one."""
    first = next((why for row in results.trials for why in (*row.verdict_reasons, *row.reasons)), "none has ended")
    return f"none of its {len(results.trials)} trials is VALID: {first}"


def _written_ns(run: Path) -> int:
    """When the plan was written, which is as near as one gets to when a run that left nothing else was meant."""
    return (run / names.PLAN).stat().st_mtime_ns


def add_run(history: History, run: Path, say: Say, nightly: str = "", control: str = "") -> Night:
    """One run's night; as often as one likes."""
    night, measured = night_of(run, nightly, control, say)
    history.record(night, measured)
    return night


def rebuild(place: Path, directories: Sequence[Path], say: Say, nightly: str = "", control: str = "") -> int:
    """Put all runs at or below these directories into the history; one that is damaged is put aside first.

    What only the history knows (missed nights, acknowledgements, what was sent) stays, unless it was damaged.
    """
    runs = [run for directory in directories for run in _runs(directory)]
    if not runs:
        raise ConfigError(f"{', '.join(map(str, directories))}: no run directory there (none has a {names.PLAN})")
    count = 0
    with _opened(place, say) as history:
        for run in sorted(runs):
            try:
                night = add_run(history, run, say, nightly, control)
            except (ConfigError, Damaged) as error:
                say(f"left out: {error}")
            else:
                count += 1
                say(f"{run}: {night.outcome}, {night.nightly} of {night.day}")
    return count


def _runs(directory: Path) -> Iterator[Path]:
    if (directory / names.PLAN).is_file():
        yield directory
    else:
        yield from (path.parent for path in directory.glob(f"*/{names.PLAN}"))


def _opened(place: Path, say: Say) -> History:
    try:
        history = History(place)
        if (said := history.rows("PRAGMA quick_check(1)")) != [("ok",)]:
            history.database.close()
            raise DamagedHistory(f"{place}: {said[0][0]}")
    except DamagedHistory as error:
        aside = put_aside(place)
        say(f"{error}; it is {aside} now")
        return History(place)
    return history


def put_aside(place: Path) -> Path:
    """Give a damaged database another name, with what SQLite keeps beside it."""
    aside = place.with_name(f"{place.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        place.rename(aside)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                place.with_name(place.name + suffix).rename(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise TierbenchError(f"{place}: cannot be put aside: {error.strerror}") from None
    return aside


LARGE = (f"{names.TRIALS}/*/{names.SAMPLES}/*.samples", f"{names.TRIALS}/*/{names.SAMPLES_CSV}", names.SAMPLES_CSV)


@dataclass(frozen=True)
class OldNight:
    """A night whose samples can go."""

    night: Night
    files: tuple[Path, ...]
    bytes: int


def nights_with_samples(nights: list[Night], before_ns: int) -> Iterator[OldNight]:
    """The measured nights that ended before a time, with what is left of their samples."""
    for night in nights:
        directory = Path(night.directory)
        ended = night.ended_ns or night.planned_ns
        whole = (directory / names.NIGHT).is_file() and (directory / names.TRIALS_CSV).is_file()
        if night.outcome != MEASURED or ended >= before_ns or not night.directory or not whole:
            continue
        files = tuple(path for pattern in LARGE for path in directory.glob(pattern) if path.is_file())
        if files:
            yield OldNight(night, files, sum(path.stat().st_size for path in files))


def remove_samples(old: OldNight) -> None:
    """Remove them; the run says first that it has none, so that nobody makes its tables anew of nothing."""
    (Path(old.night.directory) / names.NO_SAMPLES).touch()
    for path in old.files:
        path.unlink(missing_ok=True)
