"""Which trials are usable, those over which means and ratios are taken, and whether a batch has enough of them."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tierbench import json_files, names
from tierbench.dags.plan import read_plan, table_of_run
from tierbench.dags.trial_settings import Repeats, Until
from tierbench.errors import ConfigError
from tierbench.postprocess.schema.columns import read_rows
from tierbench.postprocess.schema.rows import RATE, RATE_OF, TrialRow
from tierbench.spec import build

VALID, SUSPECT, INVALID, UNJUDGED = "VALID", "SUSPECT", "INVALID", "not judged"
ANSWERED, LEAST_REPEATS = "answered", 3  # of `repeats.until`, and how many repetitions an answer takes
STREAM = "iperf3"  # protocol of clients that send what is no file, and for a time where their set has no size
SLOWEST = ("latency_p50_s", "latency_p95_s", "latency_p99_s", "fetch_s", "round_trips_per_fetch")  # are left empty
RUNNING = "running"  # a state, and all that can be said of such a trial
NOT_RUN, HAS_NOT_RUN = "not run", "has not run"  # of a run that goes on, or was stopped; and the reason of such a trial


def verdict(row: TrialRow) -> str:
    """What to make of a trial; one that is not complete is invalid, whatever else it is."""
    if row.state == RUNNING:
        return RUNNING
    if row.reasons == (HAS_NOT_RUN,):
        return NOT_RUN
    if row.state != "complete":
        return INVALID
    return row.verdict or UNJUDGED


def counts(row: TrialRow) -> bool:
    """Whether a trial is complete, and no verdict speaks against it; how far it lies from others is no reason."""
    return verdict(row) not in (INVALID, RUNNING, NOT_RUN)


def valid(row: TrialRow) -> bool:
    """Whether nothing at all speaks against a trial."""
    return verdict(row) == VALID


def values_of(rows: Iterable[TrialRow], column: str) -> list[float]:
    """The values of a column, of the trials that have one."""
    return [row[column] for row in with_value(rows, column)]


def with_value(rows: Iterable[TrialRow], column: str) -> list[TrialRow]:
    """The trials that have a value; none of a point where one is empty for being too slow, and the others the fast."""
    rows = list(rows)
    too_slow = [row.point for row in rows if row[column] is None and row["fetches"] is not None and column in SLOWEST]
    return [row for row in rows if row[column] is not None and row.point not in too_slow]


def comparable(trials: Iterable[TrialRow], column: str) -> list[TrialRow]:
    """The usable trials that have a value of which there are ratios."""
    return [trial for trial in with_value(filter(counts, trials), column) if trial[column] > 0]


def grouped(rows: Iterable[TrialRow], key: Callable[[TrialRow], Any]) -> Iterator[list[TrialRow]]:
    """Those that are alike by the key, in its order."""
    for _, alike in itertools.groupby(sorted(rows, key=key), key=key):
        yield list(alike)


def enough(trials: Iterable[TrialRow], rule: Repeats, rate: str = RATE) -> bool:
    """Whether these trials of one configuration and batch, rows of trials.csv, satisfy the rule."""
    values = values_of((row for row in trials if counts(row)), rate)
    if isinstance(rule, int):
        return len(values) >= rule
    if len(values) < rule.at_least:
        return False
    from tierbench.postprocess.stats import mean_interval  # here: commands that need no numpy ask for verdicts

    mean = mean_interval(values)
    is_narrow = mean.interval and mean.value and 100 * max(mean.reach) <= (rule.within_pct or 0.0) * abs(mean.value)
    return len(values) >= rule.at_most or bool(is_narrow)


def looks(at_least: int, at_most: int) -> tuple[int, ...]:
    """After how many repetitions it is asked whether they are enough: each time a third more."""
    places = [at_least]
    while places[-1] < at_most:
        places.append(min(at_most, -(-4 * places[-1] // 3)))
    return tuple(places)


def looks_of(plan: Mapping[str, Any], experiment: Mapping[str, Any]) -> tuple[int, ...]:
    """After how many repetitions it is asked whether a run's question is answered; none if that is asked once."""
    repeats, extended = experiment.get("repeats"), plan.get("extended") or ()
    until = repeats if isinstance(repeats, Mapping) and repeats.get("until") == ANSWERED else None
    if until is None and not extended:
        return ()
    at_most = max((int(trial["repeat"]) for trial in plan["trials"]), default=LEAST_REPEATS)
    if until is None:
        return (*extended, at_most)
    at_least = max(LEAST_REPEATS, int(until.get("at_least") or LEAST_REPEATS))
    ends = [*extended, at_most]  # time that more were asked for is one more
    return (*looks(at_least, ends[0]), *ends[1:])


def enough_without(run: Path, trial_id: str) -> bool:
    """Whether a trial of a run need not be run, given the others of its configuration and batch that have tables."""
    plan = read_plan(run)
    planned = next((trial for trial in plan["trials"] if trial["id"] == trial_id), None)
    if planned is None:
        raise ConfigError(f"{run}: its plan has no trial {trial_id}; the names are those of the folders in trials/")
    rule = rule_of(run)
    if not isinstance(rule, Until):
        return False
    if rule.until:
        answered: dict[str, Any] = json_files.read_or({}, run / names.ANSWERED)
        return trial_id in answered.get("spared", ())
    others = [
        trial["id"]
        for trial in plan["trials"]
        if (trial["configuration"], trial["jobs"]) == (planned["configuration"], planned["jobs"])
        and trial["repeat"] != planned["repeat"]
    ]
    measured = [row for trial in others for row in read_rows(TrialRow, run / names.trial_directory(trial))]
    return enough(measured, rule, RATE_OF[table_of_run(run / names.EXPERIMENT).get("measure") or "bytes"])


def rule_of(run: Path) -> Repeats:
    path = run / names.EXPERIMENT
    repeats = table_of_run(path).get("repeats", 1)
    if not isinstance(repeats, dict):
        return int(repeats)
    return build(Until, {key: value for key, value in repeats.items() if value is not None}, str(path), "repeats")
