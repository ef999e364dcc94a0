"""The rows of scaling.csv: by how much of what it could the rate grows along a factor, and what follows elsewhere.

The scale factor of a level is the rate over that at the least level, over the one level over the other: 1 where
twice as many bring twice as much. Where the least level alone was measured, rates at the others are extrapolated by
the factor found at the point that the experiment names; their interval adds both distances up, as squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tierbench.dags.levels import level_text
from tierbench.dags.scaling import Scaling
from tierbench.postprocess.schema.rows import RATE
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import EXTRAPOLATED, MEASURED, RatioRow, ScalingRow, SummaryRow

Texts = Mapping[str, str]


def scaling_rows(
    scaling: Scaling | None, summary: Sequence[SummaryRow], ratios: Sequence[RatioRow]
) -> list[ScalingRow]:
    """The measured points along the factor, each with its scale factor, then those that are extrapolated."""
    if scaling is None:
        return []
    known = [row for row in summary if row.means[RATE].value is not None]
    measured = list(_measured(scaling.along, known, ratios))
    tried = [_texts(row.levels) for row in summary]  # also what was measured in vain
    return [*measured, *_extrapolated(scaling, measured, tried)]


def _measured(along: str, summary: Sequence[SummaryRow], ratios: Sequence[RatioRow]) -> Iterator[ScalingRow]:
    for row in summary:
        point = _texts(row.levels)
        least = min((_texts(other.levels)[along] for other in summary if _alike(other, row, along)), key=float)
        mean = row.means[RATE]
        ratio = next(
            (
                one for one in ratios
                if (one.factor, one.against, one.metric) == (along, least, RATE) and _texts(one.levels) == point
            ),
            None,
        )  # fmt: skip
        steps = float(point[along]) / float(least)
        yield ScalingRow(
            factor=along,
            levels=row.levels,
            against=least,
            kind=MEASURED,
            delivered=Interval(mean.value, mean.low, mean.high),
            scale=ratio.ratio.over(steps) if ratio else Interval(),
            pairs=ratio.pairs if ratio else None,
            method=ratio.method if ratio else "",
        )


def _extrapolated(scaling: Scaling, measured: Sequence[ScalingRow], tried: Sequence[Texts]) -> Iterator[ScalingRow]:
    """What the other levels of the factor would bring where the least one alone was to be measured."""
    along, by = scaling.along, {factor: level_text(level) for factor, level in scaling.by.items()}
    levels: dict[str, Any] = {_texts(row.levels)[along]: row.levels[along] for row in measured}
    for row in measured if by else ():
        point = _texts(row.levels)
        if sum(_alike(other, row, along) for other in measured) > 1:
            continue
        for text in sorted(levels.keys() - {point[along]}, key=float):
            if {**point, along: text} in tried:
                continue
            like = {**point, **by, along: text}
            model = next((one for one in measured if _texts(one.levels) == like and one.scale.value), None)
            if model is None or model.against != point[along]:
                continue
            steps = float(text) / float(point[along])
            yield ScalingRow(
                factor=along,
                levels={**row.levels, along: levels[text]},
                against=point[along],
                kind=EXTRAPOLATED,
                delivered=_times(row.delivered, model.scale.over(1 / steps)),
                scale=model.scale,
                by=" ".join(f"{factor}={level}" for factor, level in by.items()),
            )


def _texts(levels: Mapping[str, Any]) -> Texts:
    return {factor: level_text(level) for factor, level in levels.items()}


def _alike(one: SummaryRow | ScalingRow, other: SummaryRow | ScalingRow, along: str) -> bool:
    """Whether two differ in nothing but their level of a factor, if in that."""
    return {**_texts(one.levels), along: ""} == {**_texts(other.levels), along: ""}


def _times(rate: Interval, factor: Interval) -> Interval:
    """A product of two that were found apart: on a scale of ratios their distances add up as squares."""
    if rate.value is None or factor.value is None:
        return Interval()
    reaches = [_reach(one) for one in (rate, factor)]
    value = rate.value * factor.value
    if None in reaches:
        return Interval(value)
    reach = math.exp(math.hypot(*(one or 0.0 for one in reaches)))
    return Interval(value, value / reach, value * reach)


def _reach(bounded: Interval) -> float | None:
    """How far the farther end of an interval is from its value, as the logarithm of a ratio."""
    if not bounded.value or not bounded.low or not bounded.high or bounded.low <= 0:
        return None
    return max(math.log(bounded.value / bounded.low), math.log(bounded.high / bounded.value))
