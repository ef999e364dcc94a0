"""The rows of knee.csv: for each ladder of batches where it is full, and what the next larger batch should bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tierbench.dags.levels import JOBS, level_text
from tierbench.postprocess.measures.knee import FLAT, RISING, Knee, Rung, knee
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import KneeRow, SummaryRow
from tierbench.postprocess.verdict.counted import counts
from tierbench.starts import NATURAL, TOGETHER

OVERLAPPING = ("", NATURAL, TOGETHER)  # clients that begin one by one, or take turns, do not fill a way together

Ladder = tuple[tuple[str, str], ...]  # what all its trials have alike


def knee_rows(trials: Sequence[TrialRow], summary: Sequence[SummaryRow]) -> list[KneeRow]:
    """A row for each ladder of two batches or more, in the order of summary.csv."""
    climbed: dict[Ladder, list[TrialRow]] = {}
    for trial in trials:
        if counts(trial) and trial.delivered_mbps is not None and (trial.started or "") in OVERLAPPING:
            climbed.setdefault(_ladder(trial.levels), []).append(trial)
    rungs: dict[Ladder, list[SummaryRow]] = {}
    for row in summary:
        rungs.setdefault(_ladder(row.levels), []).append(row)
    return [
        _row(climbed[ladder], sorted(rows, key=lambda row: row.jobs))
        for ladder, rows in rungs.items()
        if len({trial.jobs for trial in climbed.get(ladder, [])}) > 1
    ]


def _ladder(levels: Mapping[str, Any]) -> Ladder:
    return tuple((name, level_text(level)) for name, level in levels.items() if name != JOBS)


def _row(trials: list[TrialRow], summary: list[SummaryRow]) -> KneeRow:
    found = knee([Rung(trial.repeat, trial.jobs, trial.delivered_mbps or 0.0) for trial in trials])
    top = max(trials, key=lambda trial: trial.jobs)
    return KneeRow(
        levels=top.levels,
        state=found.state,
        why=found.why,
        knee=_clients(found),
        plateau=found.plateau or Interval(),
        each=found.each or Interval(),
        further=_further(summary, top.jobs),
        predicted_jobs=found.next_clients,
        predicted=found.predicted or Interval(),
        batches=len({trial.jobs for trial in trials}),
        repeats=len({trial.repeat for trial in trials}),
        method="profile" if found.clients else "",
    )


def _clients(found: Knee) -> Interval:
    """Without a value where the ladder bounds it on one side only."""
    bounded = found.clients or Interval()
    return Interval(None, bounded.low, bounded.high) if found.state in (FLAT, RISING) else bounded


def _further(summary: list[SummaryRow], top: int) -> Interval:
    """The gain of the last step, over the clients that it took."""
    steps = [after.gain.over(after.jobs - before.jobs) for before, after in pairwise(summary) if after.jobs == top]
    return steps[0] if steps else Interval()
