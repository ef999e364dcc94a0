"""What each level gets of a level that all are compared with, where the experiment names such a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tierbench.postprocess.report.words import between, factor, figures, listed, percent
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import RatioRow, SummaryRow
from tierbench.postprocess.tables.points import level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results

SIZEABLE = 0.1  # what a difference has to come to, if two are not to be alike
APART, SAME, UNKNOWN = "apart", "same", "unknown"


class Shares(NamedTuple):
    """What can be said of all levels against the one that they are compared with."""

    clear: bool
    sentence: str
    notes: list[str]


def shares_of_baseline(results: Results, ranked: Sequence[SummaryRow], where: str, did: str) -> Shares | None:
    """The sentence that compares each level with the baseline; None where there is none, or nothing beside it.

    A level gets as much only if all of its interval is near 1: that two cannot be told apart does not make them equal.
    """
    lines, baseline = results.layout.lines, results.layout.baseline
    of = next((row for row in ranked if level_of(row, lines) == baseline), None)
    others = [row for row in ranked if row is not of]
    if of is None or not others:
        return None
    told: dict[str, list[str]] = {APART: [], SAME: [], UNKNOWN: []}
    doubtful = []
    for row in others:
        name, found = level_name(lines, level_of(row, lines)), _against(results, row, baseline)
        if found is None:
            told[UNKNOWN].append(name)
            continue
        kind = _kind(found.ratio)
        told[kind].append(f"{name} {_worded(found.ratio)}")
        if kind != UNKNOWN and found.is_doubted and _kind(found.by_valid) != kind:
            doubtful.append(name)
    parts = [f"{listed(told[APART])} of it"] if told[APART] else []
    parts += [f"as much, within {percent(SIZEABLE)}: {listed(told[SAME])}"] if told[SAME] else []
    parts += [f"not to be told apart: {listed(told[UNKNOWN])}"] if told[UNKNOWN] else []
    rate = figures(of.means[results.rate].value, results.unit)
    sentence = f"{where}, against {level_name(lines, baseline)}, whose jobs {did} {rate}: {'; '.join(parts)}."
    return Shares(not (told[UNKNOWN] or doubtful), sentence, without_suspects(doubtful))


def without_suspects(doubtful: Sequence[str]) -> list[str]:
    """Of which levels the VALID trials alone do not say the same."""
    return [f"Without the SUSPECT trials that is not so of {listed(doubtful)}."] if doubtful else []


def _against(results: Results, row: SummaryRow, baseline: str) -> RatioRow | None:
    """How a level compares with the baseline, all else being equal."""
    wanted = (results.layout.lines, baseline, results.rate)
    rows = rows_at(results.ratios, {name: level_of(row, name) for name in results.factors})
    found = next((one for one in rows if (one.factor, one.against, one.metric) == wanted), None)
    return found and replace(found, ratio=results.together(found))


def _kind(ratio: Interval) -> str:
    if ratio.interval is None:
        return UNKNOWN
    low, high = ratio.interval
    if low > 1 - SIZEABLE and high < 1 + SIZEABLE:
        return SAME
    return UNKNOWN if low <= 1 <= high else APART


def _worded(ratio: Interval) -> str:
    if ratio.value is None:
        return ""
    return factor(ratio.value) + (f" ({between(*ratio.interval)})" if ratio.interval else "")
