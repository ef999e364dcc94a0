"""By what factor a metric changed from one run to another, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.dags.levels import ACCESS, WORKLOAD
from tierbench.postprocess.tables.points import batch_name, level_of
from tierbench.postprocess.tables.results import Results
from tierbench.postprocess.verdict.counted import counts

LEVEL = 0.95
LEAST_TRIALS = 2  # of each run
METHOD = "Welch’s t of the logarithms, the trials of the two runs being independent"


@dataclass(frozen=True)
class Change:
    """A point of the factors in two runs: what their trials had, and the later over the earlier."""

    point: Mapping[str, str]
    before: tuple[float, ...]
    after: tuple[float, ...]
    ratio: float
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        """The point, as trials are named."""
        return batch_name(self.point)

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def changes(one: Results, other: Results, metric: str) -> Iterator[Change]:
    """Every point of the factors that both runs have trials at."""
    theirs = _values(other, metric)
    for point, before in _values(one, metric).items():
        after = theirs.get(point)
        if after:
            levels = dict(point)
            yield Change(
                {name: levels[name] for name in one.factors}, tuple(before), tuple(after), *ratio(before, after)
            )


def ratio(before: Sequence[float], after: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The geometric means' ratio and its 95 % interval, which fewer than two trials each cannot give."""
    one, other = np.log(before), np.log(after)
    factor = float(np.exp(np.mean(other) - np.mean(one)))
    if min(len(before), len(after)) < LEAST_TRIALS:
        return factor, None, None
    if np.ptp(one) == np.ptp(other) == 0:
        return factor, factor, factor
    interval = stats.ttest_ind(other, one, equal_var=False).confidence_interval(LEVEL)
    return factor, float(np.exp(interval.low)), float(np.exp(interval.high))


def _values(results: Results, metric: str) -> dict[frozenset[tuple[str, str]], list[float]]:
    """What the trials that count have, by their points, workload by workload and then in the order of the levels."""
    values: dict[frozenset[tuple[str, str]], list[float]] = {}
    rows = [trial for trial in results.trials if counts(trial) and (trial[metric] or 0) > 0]
    names = [WORKLOAD, ACCESS, *(name for name in results.factors if name not in (WORKLOAD, ACCESS))]
    places = {name: factor.texts for name, factor in results.factors.items()}
    for trial in sorted(rows, key=lambda row: [places[name].index(level_of(row, name)) for name in names]):
        point = frozenset((name, level_of(trial, name)) for name in names)
        values.setdefault(point, []).append(trial[metric])
    return values
