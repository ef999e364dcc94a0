"""The rows of summary.csv and ratios.csv: what the repetitions of each point of the factors say together."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tierbench.dags.levels import ACCESS, BUILT_IN, PAIR, WORKLOAD, Factor
from tierbench.postprocess.measures.uncertainty import Interval, mean_interval, ratio_interval
from tierbench.postprocess.tables.across import COMPARED, SUMMARISED, Bounded, Mean, RatioRow, SummaryRow
from tierbench.postprocess.tables.columns import Row
from tierbench.postprocess.tables.factors import order
from tierbench.postprocess.tables.rows import RATE, TrialRow
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, VALID, counts, valid, values_of


def summary_rows(trials: Iterable[TrialRow], axes: Sequence[Factor] = ()) -> list[SummaryRow]:
    """The rows of summary.csv: mean, spread and interval over the trials that count of each configuration and batch."""
    rows: list[SummaryRow] = []
    smaller: list[TrialRow] = []
    along = order(axes)

    def point(row: Row) -> list[Any]:
        return [f"{row.access}/{row.workload}", *(along(row, axis.name) for axis in axes), row.jobs]

    for members in _grouped(trials, point):
        counting = [row for row in members if counts(row)]
        configuration = members[0].configuration
        gain, growth = Bounded(), Bounded()
        if rows and rows[-1].configuration == configuration:
            pairs = _pairs(counting, smaller, RATE)
            gain = _bounded(mean_interval([a - b for a, b in pairs]))
            growth = _bounded(ratio_interval(_ratios(counting, smaller, RATE)))
        rows.append(
            SummaryRow(
                configuration=configuration,
                levels=members[0].levels,
                trials=len(counting),
                trials_left_out=len(members) - len(counting),
                **_verdicts(members),
                method=(mean_interval(values_of(counting, RATE)) or Interval(0)).method,
                means={name: _mean(values_of(counting, name)) for name in SUMMARISED},
                by_valid=_by_valid(counting),
                gain=gain,
                growth=growth,
            )
        )
        smaller = counting
    return rows


def ratio_rows(trials: Iterable[TrialRow], axes: Sequence[Factor] = (), *, pairs: bool = False) -> list[RatioRow]:
    """The rows of ratios.csv, from two trials of the same repeat each, which ran within one round of the plan.

    `pairs`: accesses are compared with their workloads too.
    """
    counting = [row for row in trials if counts(row)]
    factors = (*BUILT_IN, *(axis.name for axis in axes))
    along = order(axes)

    def others(factor: str) -> Callable[[Row], list[Any]]:
        varied = (ACCESS, WORKLOAD) if factor == PAIR else (factor,)
        return lambda row: [along(row, name) for name in factors if name not in varied]

    def level(factor: str) -> Callable[[Row], Any]:
        return lambda row: along(row, factor)

    rows = []
    for factor in (*factors, PAIR) if pairs else factors:
        for members in _grouped(counting, others(factor)):
            levels = list(_grouped(members, level(factor)))
            for metric, (one, other) in itertools.product(COMPARED, itertools.permutations(levels, 2)):
                row = _ratio(factor, one, other, metric)
                rows += [row] if row else []
    return rows


def _ratio(factor: str, these: list[TrialRow], those: list[TrialRow], metric: str) -> RatioRow | None:
    """The row of a pair of levels; none where no repeat has both."""
    ratios = _ratios(these, those, metric)
    differences = [a - b for a, b in _pairs(these, those, metric) if a > 0 and b > 0]
    of_valid = _ratios(list(filter(valid, these)), list(filter(valid, those)), metric)
    interval = ratio_interval(ratios)
    if interval is None:
        return None
    return RatioRow(
        factor=factor,
        levels=these[0].levels,
        against=str(those[0].level(factor)),
        metric=metric,
        ratio=_bounded(interval),
        more=_bounded(mean_interval(differences)),
        pairs=len(ratios),
        by_valid=_bounded(ratio_interval(of_valid)) if len(of_valid) < len(ratios) else Bounded(),
        valid_pairs=len(of_valid),
        method=interval.method,
    )


def _ratios(these: list[TrialRow], those: list[TrialRow], metric: str) -> list[float]:
    return [a / b for a, b in _pairs(these, those, metric) if a > 0 and b > 0]


def _grouped(trials: Iterable[TrialRow], key: Callable[[TrialRow], Any]) -> Iterator[list[TrialRow]]:
    for _, group in itertools.groupby(sorted(trials, key=key), key=key):
        yield list(group)


def _verdicts(trials: list[TrialRow]) -> dict[str, Any]:
    """How many trials have each verdict; not known where none was given."""
    given = [trial.verdict for trial in trials]
    return {word.lower(): given.count(word) if any(given) else None for word in (VALID, SUSPECT, INVALID)}


def _mean(values: list[float]) -> Mean:
    bounded = _not_negative(_bounded(mean_interval(values)))
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Mean(bounded.value, bounded.low, bounded.high, spread)


def _by_valid(counting: list[TrialRow]) -> Bounded:
    """The rate by the VALID trials alone, where others count as well: a reader sees what the doubtful ones change."""
    if all(map(valid, counting)):
        return Bounded()
    return _not_negative(_bounded(mean_interval(values_of(filter(valid, counting), RATE))))


def _bounded(interval: Interval | None) -> Bounded:
    return Bounded(interval.value, interval.low, interval.high) if interval else Bounded()


def _not_negative(bounded: Bounded) -> Bounded:
    """The interval of what is never below 0."""
    return bounded if bounded.low is None else replace(bounded, low=max(bounded.low, 0.0))


def _pairs(these: list[TrialRow], those: list[TrialRow], metric: str) -> list[tuple[float, float]]:
    """The values of both in each repeat that both have."""
    by_repeat = {trial.repeat: trial[metric] for trial in those if trial[metric] is not None}
    return [
        (trial[metric], by_repeat[trial.repeat])
        for trial in these
        if trial[metric] is not None and trial.repeat in by_repeat
    ]
