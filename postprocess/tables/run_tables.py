"""The rows of the tables over all trials: summary.csv, ratios.csv, saturation.csv and scaling.csv.

The scale factor of a level is the rate over that at the least level, over the one level over the other: 1 where
twice as many bring twice as much. Where the least level alone was measured, rates at the others are extrapolated by
the factor found at the point that the experiment names; their interval adds both distances up, as squares.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD, Factor, Scaling, level_text
from tierbench.postprocess.measures.saturation import Rung, saturation
from tierbench.postprocess.schema.columns import Row
from tierbench.postprocess.schema.rows import COMPARED, RATE, SUMMARISED, TrialRow
from tierbench.postprocess.schema.run_rows import (
    EXTRAPOLATED,
    MEASURED,
    Mean,
    RatioRow,
    SaturationRow,
    ScalingRow,
    SummaryRow,
)
from tierbench.postprocess.stats import ApartBlocks, Compared, Interval, Values, mean_interval
from tierbench.postprocess.tables.factors import order
from tierbench.postprocess.verdict.counting import (
    INVALID,
    SUSPECT,
    VALID,
    comparable,
    counts,
    grouped,
    valid,
    values_of,
)
from tierbench.starts import OVERLAPPING

RESOLVED = "resolution"  # trials that are more alike than they resolve say no more than that
Point = tuple[tuple[str, str], ...]  # levels as texts, with their factors


def summary_rows(trials: Iterable[TrialRow], axes: Sequence[Factor] = ()) -> list[SummaryRow]:
    """The rows of summary.csv: mean, spread and interval over the trials that count of each configuration and batch."""
    rows: list[SummaryRow] = []
    smaller: list[TrialRow] = []
    along = order(axes)
    trials = list(trials)
    model = Ratios(trials, RATE)

    def point(row: Row) -> list[Any]:
        return [f"{row.access}/{row.workload}", *(along(row, axis.name) for axis in axes), row.jobs]

    for members in grouped(trials, point):
        usable = [row for row in members if counts(row)]
        rates = values_of(usable, RATE)
        verdicts = [row.verdict for row in members]
        configuration = members[0].configuration
        gain, growth = Interval(), Interval()
        if rows and rows[-1].configuration == configuration:
            pairs = _pairs(usable, smaller, RATE)
            gain = mean_interval([a - b for a, b in pairs])
            grown = model.ratio(usable, smaller)
            growth = grown.ratio if grown else Interval()
        rows.append(
            SummaryRow(
                configuration=configuration,
                levels=members[0].levels,
                trials=len(usable),
                trials_left_out=len(members) - len(usable),
                **{word.lower(): verdicts.count(word) if any(verdicts) else None for word in (VALID, SUSPECT, INVALID)},
                method="" if len(rates) < 2 else "t" if len(set(rates)) > 1 else RESOLVED,
                means={name: _mean(values_of(usable, name)) for name in SUMMARISED},
                by_valid=Interval() if all(map(valid, usable)) else _mean(values_of(filter(valid, usable), RATE)),
                gain=gain,
                growth=growth,
            )
        )
        smaller = usable
    return rows


def ratio_rows(trials: Iterable[TrialRow], axes: Sequence[Factor] = (), *, pairs: bool = False) -> list[RatioRow]:
    """The rows of ratios.csv, from two trials of the same repeat each, which ran within one round of the plan.

    `pairs`: accesses are compared with their workloads too.
    """
    usable = [row for row in trials if counts(row)]
    factors = (*BUILT_IN, *(axis.name for axis in axes))
    along = order(axes)
    alone = list(filter(valid, usable))

    @functools.cache
    def models(metric: str, across: bool) -> tuple[Ratios, Ratios]:
        """By all that count, and by those alone that are VALID."""
        every = Ratios(usable, metric, across)
        return every, every if len(alone) == len(usable) else Ratios(alone, metric, across)

    def others(row: Row) -> list[Any]:
        return [along(row, name) for name in factors if name not in varied]

    def level(row: Row) -> Any:
        return along(row, factor)

    rows = []
    for factor in (*factors, PAIR) if pairs else factors:
        varied = (ACCESS, WORKLOAD) if factor == PAIR else (factor,)
        for members in grouped(usable, others):
            levels = list(grouped(members, level))
            for metric, (these, those) in itertools.product(COMPARED, itertools.permutations(levels, 2)):
                row = _ratio(factor, these, those, *models(metric, WORKLOAD in varied))
                rows += [row] if row else []
    return rows


def strays(trials: Iterable[TrialRow], metric: str, *, across: bool = False) -> list[TrialRow]:
    """The trials that count, and are left out of ratios, also `across` workloads, since they are far off all others."""
    return Ratios(trials, metric, across).strays


class Ratios:
    """What a metric is at each point, by the trials that count and have it; of workloads apart, or `across` them."""

    def __init__(self, trials: Iterable[TrialRow], metric: str, across: bool = False) -> None:
        self.metric = metric
        rows = {(_point(row), row.repeat): row for row in comparable(trials, metric)}
        values: Values = {at: row[metric] for at, row in rows.items()}
        self._blocks = ApartBlocks(values, (lambda _: None) if across else _level_of(WORKLOAD), _level_of(ACCESS))
        self.strays = [rows[at] for at in self._blocks.strays]  # type: ignore[index]
        self._compared: dict[tuple[Hashable, Hashable], Compared | None] = {}

    def ratio(self, these: Sequence[TrialRow], those: Sequence[TrialRow]) -> Compared | None:
        """The one point's over the other's; the one turned round is the inverse of the other."""
        if not these or not those:
            return None
        point, against = _point(these[0]), _point(those[0])
        if (against, point) in self._compared:
            turned = self._compared[against, point]
            return turned.inverted if turned else None
        return self._compared.setdefault((point, against), self._blocks.ratio(point, against))


def _point(row: Row, without: str = "") -> Point:
    """Where a row is, but for one factor."""
    return tuple((factor, text) for factor, text in row.point.items() if factor != without)


def _level_of(factor: str) -> Callable[[Any], str]:
    return lambda point: str(dict(point)[factor])


def _ratio(
    factor: str, these: list[TrialRow], those: list[TrialRow], model: Ratios, of_valid: Ratios
) -> RatioRow | None:
    """The row of a pair of levels; none where no repeat links them."""
    metric = model.metric
    compared = model.ratio(these, those)
    if compared is None:
        return None
    pairs = _pairs(these, those, metric)
    valid_pairs = len(_pairs(list(filter(valid, these)), list(filter(valid, those)), metric))
    own = [trial for trial in (*these, *those) if trial[metric]]
    doubted = of_valid is not model and not (pairs and all(map(valid, own)))  # without pairs, others link the two
    by_valid = of_valid.ratio(these, those) if doubted else None
    return RatioRow(
        factor=factor,
        levels=these[0].levels,
        against=str(those[0].level(factor)),
        metric=metric,
        ratio=compared.ratio,
        more=mean_interval([a - b for a, b in pairs]),
        df=compared.df,
        pairs=len(pairs),
        by_valid=by_valid.ratio if by_valid else Interval(),
        valid_df=(by_valid.df if by_valid else 0.0) if doubted else None,
        valid_pairs=valid_pairs,
        method=(RESOLVED if compared.at_resolution else "moderated t") if compared.df else "",
    )


def _mean(values: list[float]) -> Mean:
    """The mean of what is never below 0, nor is its interval."""
    mean = mean_interval(values)
    low = None if mean.low is None else max(mean.low, 0.0)
    return Mean(mean.value, low, mean.high, statistics.stdev(values) if len(values) > 1 else None)


def _pairs(these: list[TrialRow], those: list[TrialRow], metric: str) -> list[tuple[float, float]]:
    """The values of both in each repeat in which both have some."""
    by_repeat = {trial.repeat: trial[metric] for trial in those if (trial[metric] or 0) > 0}
    return [
        (trial[metric], by_repeat[trial.repeat])
        for trial in these
        if (trial[metric] or 0) > 0 and trial.repeat in by_repeat
    ]


def saturation_rows(trials: Sequence[TrialRow], summary: Sequence[SummaryRow]) -> list[SaturationRow]:
    """A row for each ladder of two batches or more, in the order of summary.csv."""
    climbed: dict[Point, list[TrialRow]] = {}
    for trial in trials:
        if counts(trial) and trial.delivered_mbps is not None and (trial.started or "") in OVERLAPPING:
            climbed.setdefault(_point(trial, JOBS), []).append(trial)
    rungs: dict[Point, list[SummaryRow]] = {}
    for row in summary:
        rungs.setdefault(_point(row, JOBS), []).append(row)
    return [
        _saturation_row(climbed[ladder], sorted(rows, key=lambda row: row.jobs))
        for ladder, rows in rungs.items()
        if len({trial.jobs for trial in climbed.get(ladder, [])}) > 1
    ]


def _saturation_row(trials: list[TrialRow], summary: list[SummaryRow]) -> SaturationRow:
    fit = saturation([Rung(trial.repeat, trial.jobs, trial.delivered_mbps or 0.0) for trial in trials])
    top = max(trials, key=lambda trial: trial.jobs)
    steps = (after.gain.over(after.jobs - before.jobs) for before, after in pairwise(summary) if after.jobs == top.jobs)
    return replace(
        fit,
        levels=top.levels,
        further=next(steps, Interval()),
        batches=len({trial.jobs for trial in trials}),
        repeats=len({trial.repeat for trial in trials}),
    )


def scaling_rows(
    scaling: Scaling | None, summary: Sequence[SummaryRow], ratios: Sequence[RatioRow]
) -> list[ScalingRow]:
    """The measured points along the factor, each with its scale factor, then those that are extrapolated."""
    if scaling is None:
        return []
    with_rate = [row for row in summary if row.means[RATE].value is not None]
    measured = list(_measured_rows(scaling.along, with_rate, ratios))
    return [*measured, *_extrapolated_rows(scaling, measured, summary)]


def _measured_rows(along: str, summary: Sequence[SummaryRow], ratios: Sequence[RatioRow]) -> Iterator[ScalingRow]:
    ratio_at = {(row.against, _point(row)): row for row in ratios if (row.factor, row.metric) == (along, RATE)}
    for row in summary:
        least = min((other.point[along] for other in summary if _point(other, along) == _point(row, along)), key=float)
        mean, ratio = row.means[RATE], ratio_at.get((least, _point(row)))
        steps = float(row.point[along]) / float(least)
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


def _extrapolated_rows(
    scaling: Scaling, measured: Sequence[ScalingRow], summary: Sequence[SummaryRow]
) -> Iterator[ScalingRow]:
    """What the other levels of the factor would bring where the least one alone was to be measured."""
    tried = [row.point for row in summary]  # also what was measured in vain
    along, by = scaling.along, {factor: level_text(level) for factor, level in scaling.by.items()}
    levels: dict[str, Any] = {row.point[along]: row.levels[along] for row in measured}
    for row in measured if by else ():
        point = row.point
        if sum(_point(other, along) == _point(row, along) for other in measured) > 1:
            continue
        for text in sorted(levels.keys() - {point[along]}, key=float):
            if {**point, along: text} in tried:
                continue
            like = {**point, **by, along: text}
            model = next((base for base in measured if base.point == like and base.scale.value), None)
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


def _times(rate: Interval, factor: Interval) -> Interval:
    """A product of two that were found apart: on a scale of ratios their distances add up as squares."""
    if rate.value is None or factor.value is None:
        return Interval()
    value, reaches = rate.value * factor.value, []
    for of in (rate, factor):
        if not of.value or not of.low or not of.high or of.low <= 0:
            return Interval(value)
        reaches.append(math.log(max(of.value / of.low, of.high / of.value)))
    reach = math.exp(math.hypot(*reaches))
    return Interval(value, value / reach, value * reach)
