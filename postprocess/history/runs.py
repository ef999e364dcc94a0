"""Runs and the nights of the history: runs as nights, all recorded again, the samples of old ones removed.

And whether a run is faster or slower than the nights of a nightly since its baseline started.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.json_files import Damaged
from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.compare.differences import Difference, Link, differences, environment
from tierbench.postprocess.compare.judgement import Comparison, Judged, agreed, judgement, refuse_unlike
from tierbench.postprocess.history.database import Chronicle, DamagedHistory, History
from tierbench.postprocess.history.rows import FAILED, MEASURED, Measured, Night, Value, Verdicts, read_night_mark
from tierbench.postprocess.history.series import baseline
from tierbench.postprocess.records.ceilings import measured_links
from tierbench.postprocess.schema.rows import SUMMARISED, TrialRow
from tierbench.postprocess.stats import RESOLUTION, Interval, mean_interval, student
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results, Say, read_results
from tierbench.postprocess.tables.load_run import why as why_of
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID, valid, values_of, verdict
from tierbench.postprocess.wording import change_percent, listed

LEAST_NIGHTS = 3  # of a baseline, for an interval
LARGE = (f"{names.TRIALS}/*/{names.SAMPLES}/*.samples", f"{names.TRIALS}/*/{names.SAMPLES_CSV}", names.SAMPLES_CSV)


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
    started = min(filter(None, (row.submit_wall_ns or row.go_wall_ns for row in results.trials)), default=None)
    words = {name: [*map(verdict, rows)] for name, rows in _by_configuration(results).items()}
    verdicts = tuple(Verdicts(name, *map(own.count, (VALID, SUSPECT, INVALID))) for name, own in words.items())
    outcome, reason = MEASURED, ""
    if not any(row.valid for row in verdicts):
        why = next((reason for row in results.trials for reason in why_of(row)), "none has ended")
        outcome, reason = FAILED, f"none of its {len(results.trials)} trials is VALID: {why}"
    night = Night(
        nightly=of.nightly or str(results.plan.get("experiment") or name),
        planned_ns=of.planned_wall_ns or started or _written_ns(run),
        outcome=outcome,
        run=name,
        directory=directory,
        reason=reason,
        rerun=of.rerun,
        started_ns=started,
        ended_ns=max(filter(None, (row.end_wall_ns for row in results.trials)), default=None),
        control=of.control,
        metric=results.rate,
        unit=results.unit,
    )
    lines = measured_links(results.ceilings).items()
    links = tuple(Link(line.removeprefix("to "), rates["mbps"], rates["rtt_ms"]) for line, rates in lines)
    return night, Measured(tuple(values(results)), verdicts, links, environment(results))


def values(results: Results) -> Iterator[Value]:
    """The means of the VALID trials; a doubtful one enters no series."""
    for configuration, rows in _by_configuration(results).items():
        good = [row for row in rows if valid(row)]
        for metric in SUMMARISED:
            measured = values_of(good, metric)
            mean = mean_interval(measured)
            if mean.value is not None:
                low = None if mean.low is None else max(mean.low, 0.0)  # none of them is ever below
                yield Value(configuration, metric, mean.value, low, mean.high, len(measured))


def _by_configuration(results: Results) -> dict[str, list[TrialRow]]:
    members: dict[str, list[TrialRow]] = {}
    for row in results.trials:
        members.setdefault(batch_name(row.levels), []).append(row)
    return members


def _written_ns(run: Path) -> int:
    """When the plan was written, which is as near as one gets to when a run that left nothing else was meant."""
    return (run / names.PLAN).stat().st_mtime_ns


def add_run(history: History, run: Path, say: Say, nightly: str = "", control: str = "") -> Night:
    """One run's night; as often as one likes."""
    night, measured = night_of(run, nightly, control, say)
    if night.outcome == FAILED and not measured.verdicts and not (run / names.NIGHT).exists():
        raise ConfigError(f"{run}: {night.reason}")  # a night that a nightly has started is a failed one
    history.record(night, measured)
    return night


def rebuild(place: Path, directories: Sequence[Path], say: Say, nightly: str = "", control: str = "") -> int:
    """Put all runs at or below these directories into the history; one that is damaged is put aside first.

    What only the history knows (missed nights, acknowledgements) stays, unless it was damaged.
    """
    runs: list[Path] = []
    for directory in directories:
        # A folder of runs, a night's, a nightly's nights, or a nightly's own.
        plans = (path for above in ("", "*/", "*/*/", "*/*/*/") for path in directory.glob(f"{above}{names.PLAN}"))
        runs += [path.parent for path in plans]
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


def _opened(place: Path, say: Say) -> History:
    """The history; in place of a damaged one, which gets another name, a new one."""
    try:
        history = History(place)
        if (check := history.rows("PRAGMA quick_check(1)")) != [("ok",)]:
            history.database.close()
            raise DamagedHistory(f"{place}: {check[0][0]}")
    except DamagedHistory as error:
        aside = place.with_name(f"{place.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            place.rename(aside)
            for suffix in ("-wal", "-shm"):  # what SQLite keeps beside it
                with suppress(FileNotFoundError):
                    place.with_name(place.name + suffix).rename(aside.with_name(aside.name + suffix))
        except OSError as problem:
            raise TierbenchError(f"{place}: cannot be put aside: {problem.strerror}") from None
        say(f"{error}; it is {aside} now")
        return History(place)
    return history


@dataclass(frozen=True)
class OldNight:
    """A night whose samples can go."""

    night: Night
    files: tuple[Path, ...]
    bytes: int


def nights_with_samples(nights: list[Night], before_ns: int) -> Iterator[OldNight]:
    """The nights with trials that ended before a time, with what is left of their samples."""
    for night in nights:
        directory = Path(night.directory)
        ended = night.ended_ns or night.planned_ns
        whole = (directory / names.NIGHT).is_file() and (directory / names.TRIALS_CSV).is_file()
        if night.outcome not in (MEASURED, FAILED) or ended >= before_ns or not night.directory or not whole:
            continue
        files = tuple(path for pattern in LARGE for path in directory.glob(pattern) if path.is_file())
        if files:
            yield OldNight(night, files, sum(path.stat().st_size for path in files))


def remove_samples(old: OldNight) -> None:
    """Remove them; the run says first that it has none, so that nobody makes its tables anew of nothing."""
    (Path(old.night.directory) / names.NO_SAMPLES).touch()
    for path in old.files:
        path.unlink(missing_ok=True)


def compare_with_baseline(
    run: Results, chronicle: Chronicle, size: float, say: Say, anyway: bool = False
) -> Comparison:
    """From a baseline's nights to a run: a night is one draw, so the interval is that of one more night."""
    own_place, metric = run.directory.resolve(), run.rate
    others = replace(chronicle, nights=[night for night in chronicle.nights if Path(night.directory) != own_place])
    latest = others.latest
    if latest is None or latest.metric != metric:
        raise ConfigError(f"{chronicle.nightly}: has no nights measured by {metric}, so nothing to compare with")
    differing = _differences_from(latest, chronicle.nightly, run, say, anyway)
    judged, far = [], strays(run.trials, metric)
    rest = replace(run, trials=[row for row in run.trials if row not in far])
    own_values, of_rest = (
        [value for value in values(of) if value.metric == metric and value.mean > 0] for of in (run, rest)
    )
    without = {value.configuration: value for value in of_rest}
    for value in own_values:
        nights = baseline(others, value.configuration)
        if not len(logs := nights.rates):
            continue
        of_nights = [each.n for night in nights.nights if (each := others.value(night, value.configuration))]
        of_night = sum(of_nights) / len(of_nights)
        ratio = _of_one_more(logs, value.mean, len(own_values), of_night / value.n)
        result, words = judgement(ratio, size, metric), ""
        if far_off := [row.trial for row in far if batch_name(row.levels) == value.configuration]:
            left = without.get(value.configuration, value)
            other = _of_one_more(logs, left.mean, len(own_values), of_night / left.n)
            result = agreed(result, other, size, metric)
            words = f"{listed(far_off)} far off all others of the run; without: {change_percent(other.value or 1.0, 1)}"
        level, ends = math.exp(float(logs.mean())), (ratio.value or 1.0, ratio.low, ratio.high)
        judged.append(Judged(value.configuration, level, value.mean, (len(logs), value.n), *ends, result, words))
    if not judged:
        raise ConfigError(
            f"{run.directory} and {chronicle.nightly}: have no configuration in common whose trials are VALID"
        )
    there = {each.configuration for each in judged}
    lost = [name for name in others.counts(latest) if name not in there and len(baseline(others, name))]
    return Comparison(chronicle.nightly, run.name, metric, run.unit, judged, differing, lost, compared="VALID trials")


def _of_one_more(logs: Numbers, rate: float, together: int, fewer: float = 1.0) -> Interval:
    """A run's rate over the nights' mean, with the interval of one more night.

    Where a night has so many times more trials than the run, all its scatter is taken to be that of its trials.
    """
    factor = math.exp(math.log(rate) - float(logs.mean()))
    if len(logs) < LEAST_NIGHTS:
        return Interval(factor)
    scatter = max(float(logs.std(ddof=1)), RESOLUTION) * math.sqrt(max(fewer, 1.0) + 1 / len(logs))
    reach = student(len(logs) - 1, together) * scatter
    return Interval(factor, factor * math.exp(-reach), factor * math.exp(reach))


def _differences_from(night: Night, nightly: str, run: Results, say: Say, anyway: bool) -> Sequence[Difference] | None:
    """What a run was made differently in than a night; refused where that cannot be seen any more."""
    directory = Path(night.directory)
    if directory.is_dir():
        differing = differences(read_results(directory, say), run)
        refuse_unlike(nightly, run.name, differing, anyway)
        return differing
    if not anyway:
        raise ConfigError(
            f"{directory}: is not there any more, the run of {nightly}'s latest night, so nobody can say whether"
            f" {run.name} was made as that; --anyway compares them all the same"
        )
    return None
