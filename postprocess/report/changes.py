"""By what factor a metric changed from one run to another, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.dags.levels import ACCESS, WORKLOAD
from tierbench.postprocess.tables.points import batch_name, level_of
from tierbench.postprocess.tables.results import Results
from tierbench.postprocess.tables.rows import TrialRow
from tierbench.postprocess.verdict.counted import SUSPECT, counts, verdict

LEVEL = 0.95
LEAST_TRIALS = 2  # of each run
Interval = tuple[float | None, float | None]
NOT_KNOWN: Interval = (None, None)
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
    by_valid: Interval | None = None  # of the ratio without SUSPECT trials, where such count, too

    @property
    def name(self) -> str:
        """The point, as trials are named."""
        return batch_name(self.point)

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def is_doubted(self) -> bool:
        """Whether it is certain by SUSPECT trials alone: those that are VALID do not say so, or the contrary."""
        if not self.certain or self.by_valid is None:
            return False
        low, high = self.by_valid
        return low is None or high is None or not (low > 1 if self.ratio > 1 else high < 1)


def changes(one: Results, other: Results, metric: str) -> Iterator[Change]:
    """Every point of the factors that both runs have trials at."""
    theirs = _trials(other, metric)
    for point, mine in _trials(one, metric).items():
        if both := theirs.get(point):
            levels = dict(point)
            before, after = ([trial[metric] for trial in trials] for trials in (mine, both))
            doubtful = any(verdict(trial) == SUSPECT for trial in (*mine, *both))
            yield Change(
                {name: levels[name] for name in one.factors}, tuple(before), tuple(after), *ratio(before, after),
                _by_valid(mine, both, metric) if doubtful else None,
            )  # fmt: skip


def _by_valid(mine: Sequence[TrialRow], theirs: Sequence[TrialRow], metric: str) -> Interval:
    before, after = ([trial[metric] for trial in trials if verdict(trial) != SUSPECT] for trials in (mine, theirs))
    return ratio(before, after)[1:] if before and after else NOT_KNOWN


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


def _trials(results: Results, metric: str) -> dict[frozenset[tuple[str, str]], list[TrialRow]]:
    """The trials that count and have the metric, by points: workload by workload, then in the order of the levels."""
    found: dict[frozenset[tuple[str, str]], list[TrialRow]] = {}
    rows = [trial for trial in results.trials if counts(trial) and (trial[metric] or 0) > 0]
    names = [WORKLOAD, ACCESS, *(name for name in results.factors if name not in (WORKLOAD, ACCESS))]
    places = {name: factor.texts for name, factor in results.factors.items()}
    for trial in sorted(rows, key=lambda row: [places[name].index(level_of(row, name)) for name in names]):
        point = frozenset((name, level_of(trial, name)) for name in names)
        found.setdefault(point, []).append(trial)
    return found
