"""By what factor a metric changed from one run to another, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.postprocess.counting import counts
from tierbench.postprocess.results import Results, Row

LEVEL = 0.95
LEAST_TRIALS = 2  # of each run
METHOD = "Welch’s t of the logarithms, the trials of the two runs being independent"


@dataclass(frozen=True)
class Change:
    """A configuration and batch in two runs: what their trials had, and the later over the earlier."""

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
        if after:
            yield Change(access, workload, jobs, tuple(before), tuple(after), *ratio(before, after))


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


def _values(results: Results, metric: str) -> dict[tuple[str, str, int], list[float]]:
    found: dict[tuple[str, str, int], list[float]] = {}
    rows: list[Row] = [trial for trial in results.trials if counts(trial) and (trial.get(metric) or 0) > 0]
    for trial in sorted(rows, key=lambda row: (row["workload"], results.accesses.index(row["access"]), row["jobs"])):
        found.setdefault((trial["workload"], trial["access"], trial["jobs"]), []).append(trial[metric])
    return found
