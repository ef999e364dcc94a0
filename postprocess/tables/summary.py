"""The rows of summary.csv and ratios.csv: what the repetitions of each point of the factors say together."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tierbench.dags.levels import BUILT_IN, Factor
from tierbench.postprocess.measures.uncertainty import Interval, mean_interval, ratio_interval
from tierbench.postprocess.tables.columns import COMPARED, CONFIGURATION, RATE, SUMMARISED
from tierbench.postprocess.tables.factors import order
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, VALID, counts, known, valid

Row = dict[str, Any]


def summary_rows(trials: Iterable[Row], axes: Sequence[Factor] = ()) -> list[Row]:
    """The rows of summary.csv: mean, spread and interval over the trials that count of each configuration and batch."""
    rows: list[Row] = []
    smaller: list[Row] = []
    along = order(axes)

    def point(row: Row) -> list[Any]:
        return [f"{row['access']}/{row['workload']}", *(along(row, axis.name) for axis in axes), row["jobs"]]

    for members in _grouped(trials, point):
        counting = [row for row in members if counts(row)]
        row = {name: members[0][name] for name in (*(c.name for c in CONFIGURATION), *(axis.name for axis in axes))}
        row |= {"trials": len(counting), "trials_left_out": len(members) - len(counting), **_verdicts(members)}
        row["method"] = (mean_interval(known(counting, RATE)) or Interval(0)).method
        for name in SUMMARISED:
            row |= _averaged(name, known(counting, name))
        row |= _of_valid(counting)
        if rows and rows[-1]["configuration"] == row["configuration"]:
            row |= _gain(counting, smaller)
        rows.append(row)
        smaller = counting
    return rows


def ratio_rows(trials: Iterable[Row], axes: Sequence[Factor] = ()) -> list[Row]:
    """The rows of ratios.csv, from pairs of trials of the same repeat, which ran within one round of the plan."""
    counting = [row for row in trials if counts(row)]
    factors = (*BUILT_IN, *(axis.name for axis in axes))
    along = order(axes)

    def others(factor: str) -> Callable[[Row], list[Any]]:
        return lambda row: [along(row, name) for name in factors if name != factor]

    def level(factor: str) -> Callable[[Row], Any]:
        return lambda row: along(row, factor)

    rows = []
    for factor in factors:
        for members in _grouped(counting, others(factor)):
            levels = list(_grouped(members, level(factor)))
            for metric, (one, other) in itertools.product(COMPARED, itertools.permutations(levels, 2)):
                point = {name: one[0][name] for name in factors}
                rows += _ratio(one, other, metric, {"factor": factor, **point, "against": str(other[0][factor])})
    return rows


def _ratio(these: list[Row], those: list[Row], metric: str, leading: Row) -> list[Row]:
    """The row of a pair of levels; none where no repeat has both."""
    ratios = _ratios(these, those, metric)
    found = ratio_interval(ratios)
    if found is None:
        return []
    row = {**leading, "metric": metric, "ratio": found.value, "low": found.low, "high": found.high}
    row |= {"pairs": len(ratios), "method": found.method, **_of_valid_pairs(these, those, metric, len(ratios))}
    return [row]


def _of_valid_pairs(these: list[Row], those: list[Row], metric: str, pairs: int) -> Row:
    """The ratio by the pairs of VALID trials alone, where there are other pairs as well."""
    ratios = _ratios(list(filter(valid, these)), list(filter(valid, those)), metric)
    found = ratio_interval(ratios) if len(ratios) < pairs else None
    row: Row = {"valid_pairs": len(ratios)}
    if found is not None:
        row |= {"valid_ratio": found.value, "valid_low": found.low, "valid_high": found.high}
    return row


def _ratios(these: list[Row], those: list[Row], metric: str) -> list[float]:
    return [a / b for a, b in _pairs(these, those, metric) if a > 0 and b > 0]


def _grouped(trials: Iterable[Row], key: Callable[[Row], Any]) -> Iterator[list[Row]]:
    for _, group in itertools.groupby(sorted(trials, key=key), key=key):
        yield list(group)


def _verdicts(trials: list[Row]) -> Row:
    """How many trials have each verdict; not known where none was given."""
    given = [row.get("verdict") for row in trials]
    words = (VALID, SUSPECT, INVALID)
    return {word.lower(): given.count(word) if any(given) else None for word in words}


def _averaged(name: str, values: list[float]) -> Row:
    found = mean_interval(values)
    return {
        name: found.value if found else None,
        f"{name}_sd": statistics.stdev(values) if len(values) > 1 else None,
        f"{name}_low": _not_negative(found),
        f"{name}_high": found.high if found else None,
    }


def _of_valid(counting: list[Row]) -> Row:
    """The rate by the VALID trials alone, where others count as well: a reader sees what the doubtful ones change."""
    found = mean_interval(known(filter(valid, counting), RATE))
    if found is None or all(map(valid, counting)):
        return {}
    return {
        "delivered_valid_mbps": found.value,
        "delivered_valid_low": _not_negative(found),
        "delivered_valid_high": found.high,
    }


def _not_negative(found: Interval | None) -> float | None:
    """The lower bound of what is never below 0."""
    return None if found is None or found.low is None else max(found.low, 0.0)


def _gain(trials: list[Row], smaller: list[Row]) -> Row:
    """By how much, and how many times, a batch is faster than the next smaller one."""
    pairs = _pairs(trials, smaller, RATE)
    gain = mean_interval([a - b for a, b in pairs])
    growth = ratio_interval(_ratios(trials, smaller, RATE))
    row: Row = {}
    if gain is not None:
        row |= {"gain_mbps": gain.value, "gain_low": gain.low, "gain_high": gain.high}
    if growth is not None:
        row |= {"growth": growth.value, "growth_low": growth.low, "growth_high": growth.high}
    return row


def _pairs(these: list[Row], those: list[Row], metric: str) -> list[tuple[float, float]]:
    """The values of both in each repeat that both have."""
    by_repeat = {row["repeat"]: row[metric] for row in those if row.get(metric) is not None}
    return [
        (row[metric], by_repeat[row["repeat"]])
        for row in these
        if row.get(metric) is not None and row["repeat"] in by_repeat
    ]
