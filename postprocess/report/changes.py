"""By what factor a metric changed from one run to another, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tierbench.postprocess.results import Results, Row, counts

RESAMPLES = 9999
LEAST_TRIALS = 3  # of each run; resampling fewer says nothing
SEED = 1
METHOD = "bootstrap over the trials of each run, percentiles"

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A configuration and batch in two runs: both means, and the later over the earlier."""

    access: str
    workload: str
    jobs: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    ratio: float
    low: float | None
    high: float | None

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def changes(one: Results, other: Results, metric: str) -> Iterator[Change]:
    """Every configuration and batch that both runs have trials of."""
    theirs = _values(other, metric)
    for (workload, access, jobs), before in _values(one, metric).items():
        after = theirs.get((workload, access, jobs))
        if before and after and np.mean(before):
            low, high = interval(before, after)
            ratio = float(np.mean(after) / np.mean(before))
            yield Change(access, workload, jobs, tuple(before), tuple(after), ratio, low, high)


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float | None, float | None]:
    """The 95 % interval of the ratio of means of trials that have nothing to do with each other."""
    if min(len(before), len(after)) < LEAST_TRIALS:
        return None, None
    found = stats.bootstrap(
        (np.array(after), np.array(before)),
        _ratio_of_means,
        paired=False,
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",
        random_state=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def _ratio_of_means(after: Samples, before: Samples, axis: int = -1) -> Samples:
    ratio: Samples = np.mean(after, axis=axis) / np.mean(before, axis=axis)
    return ratio


def _values(results: Results, metric: str) -> dict[tuple[str, str, int], list[float]]:
    found: dict[tuple[str, str, int], list[float]] = {}
    rows: list[Row] = [trial for trial in results.trials if counts(trial) and trial.get(metric) is not None]
    for trial in sorted(rows, key=lambda row: (row["workload"], results.accesses.index(row["access"]), row["jobs"])):
        found.setdefault((trial["workload"], trial["access"], trial["jobs"]), []).append(trial[metric])
    return found
