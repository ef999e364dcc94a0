"""The rows of summary.csv and ratios.csv: what the repetitions of each point of the factors say together."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tierbench.dags.levels import ACCESS, BUILT_IN, PAIR, WORKLOAD, Factor, level_text
from tierbench.postprocess.schema.columns import Row
from tierbench.postprocess.schema.rows import RATE, TrialRow
from tierbench.postprocess.stats import Compared, Interval, blocks, mean_interval
from tierbench.postprocess.tables.across import COMPARED, SUMMARISED, Mean, RatioRow, SummaryRow
from tierbench.postprocess.tables.factors import order
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, VALID, counts, valid, values_of


def summary_rows(trials: Iterable[TrialRow], axes: Sequence[Factor] = ()) -> list[SummaryRow]:
    """The rows of summary.csv: mean, spread and interval over the trials that count of each configuration and batch."""
    rows: list[SummaryRow] = []
    smaller: list[TrialRow] = []
    along = order(axes)
    trials = list(trials)
    model = _Model(trials, RATE)

    def point(row: Row) -> list[Any]:
        return [f"{row.access}/{row.workload}", *(along(row, axis.name) for axis in axes), row.jobs]

    for members in _grouped(trials, point):
        counting = [row for row in members if counts(row)]
        configuration = members[0].configuration
        gain, growth = Interval(), Interval()
        if rows and rows[-1].configuration == configuration:
            pairs = _pairs(counting, smaller, RATE)
            gain = mean_interval([a - b for a, b in pairs]) or Interval()
            grown = model.ratio(counting, smaller)
            growth = grown.ratio if grown else Interval()
        rows.append(
            SummaryRow(
                configuration=configuration,
                levels=members[0].levels,
                trials=len(counting),
                trials_left_out=len(members) - len(counting),
                **_verdicts(members),
                method="t" if len(values_of(counting, RATE)) > 1 else "",
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
    models = {metric: _Model(counting, metric) for metric in COMPARED}
    of_valid = models
    if not all(map(valid, counting)):
        of_valid = {metric: _Model(filter(valid, counting), metric) for metric in COMPARED}

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
                row = _ratio(factor, one, other, models[metric], of_valid[metric])
                rows += [row] if row else []
    return rows


def strays(trials: Iterable[TrialRow], metric: str) -> list[TrialRow]:
    """The trials that count, and are left out of ratios all the same, since they are far off all others."""
    return _Model(trials, metric).strays


class _Model:
    """What a metric is at each point, by the trials that count and have it."""

    def __init__(self, trials: Iterable[TrialRow], metric: str) -> None:
        self.metric = metric
        having = {(_point(row), row.repeat): row for row in trials if counts(row) and (row[metric] or 0) > 0}
        self._blocks, stray = blocks({at: row[metric] for at, row in having.items()})
        self.strays = [having[at] for at in stray]  # type: ignore[index]

    @functools.cached_property
    def _known(self) -> dict[tuple[Hashable, Hashable], Compared | None]:
        return {}

    def ratio(self, these: Sequence[TrialRow], those: Sequence[TrialRow]) -> Compared | None:
        """The one point's over the other's; the one turned round is the inverse of the other."""
        if not these or not those:
            return None
        one, other = _point(these[0]), _point(those[0])
        if (other, one) in self._known:
            turned = self._known[other, one]
            return turned.inverted if turned else None
        return self._known.setdefault((one, other), self._blocks.ratio(one, other))


def _point(row: TrialRow) -> Hashable:
    return tuple((name, level_text(level)) for name, level in row.levels.items())


def _ratio(
    factor: str, these: list[TrialRow], those: list[TrialRow], model: _Model, of_valid: _Model
) -> RatioRow | None:
    """The row of a pair of levels; none where no repeat links them."""
    metric = model.metric
    found = model.ratio(these, those)
    if found is None:
        return None
    pairs = [(a, b) for a, b in _pairs(these, those, metric) if a > 0 and b > 0]
    valid_pairs = len(_pairs(list(filter(valid, these)), list(filter(valid, those)), metric))
    by_valid = of_valid.ratio(these, those) if valid_pairs < len(pairs) else None
    return RatioRow(
        factor=factor,
        levels=these[0].levels,
        against=str(those[0].level(factor)),
        metric=metric,
        ratio=found.ratio,
        more=mean_interval([a - b for a, b in pairs]) or Interval(),
        df=found.df,
        pairs=len(pairs),
        by_valid=by_valid.ratio if by_valid else Interval(),
        valid_pairs=valid_pairs,
        method="moderated t" if found.df else "",
    )


def _grouped(trials: Iterable[TrialRow], key: Callable[[TrialRow], Any]) -> Iterator[list[TrialRow]]:
    for _, group in itertools.groupby(sorted(trials, key=key), key=key):
        yield list(group)


def _verdicts(trials: list[TrialRow]) -> dict[str, Any]:
    """How many trials have each verdict; not known where none was given."""
    given = [trial.verdict for trial in trials]
    return {word.lower(): given.count(word) if any(given) else None for word in (VALID, SUSPECT, INVALID)}


def _mean(values: list[float]) -> Mean:
    bounded = _not_negative(mean_interval(values) or Interval())
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Mean(bounded.value, bounded.low, bounded.high, spread)


def _by_valid(counting: list[TrialRow]) -> Interval:
    """The rate by the VALID trials alone, where others count as well: a reader sees what the doubtful ones change."""
    if all(map(valid, counting)):
        return Interval()
    return _not_negative(mean_interval(values_of(filter(valid, counting), RATE)) or Interval())


def _not_negative(bounded: Interval) -> Interval:
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
