"""Confidence intervals over independent repetitions, never over the samples of one trial.

With few values the interval is Student's: resampling three trials can only say what three trials said. From
BOOTSTRAP_FROM on it is the bootstrap's percentile interval, widened for the number of values (Hesterberg 2015).
docs/statistics.md has the coverage of both, measured by simulation, which is why they were chosen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95
BOOTSTRAP_FROM = 10
RESAMPLES = 9999
SEED = 1  # the same trials give the same interval


@dataclass(frozen=True)
class Interval:
    """What repetitions say of a mean; without bounds where they are fewer than two."""

    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""

    @property
    def relative_half_width(self) -> float | None:
        """The larger distance of a bound from the value, over the value."""
        if self.low is None or self.high is None or not self.value:
            return None
        return max(self.high - self.value, self.value - self.low) / abs(self.value)


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean of independent values, and its interval."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean)
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean, _method(len(values)))
    if len(values) < BOOTSTRAP_FROM:
        reach = _quantile(len(values)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        low, high = mean - reach, mean + reach
    else:
        low, high = _bootstrapped(values)
    return Interval(mean, float(low), float(high), _method(len(values)))


def ratio_interval(ratios: Sequence[float]) -> Interval | None:
    """The geometric mean of independent ratios, and its interval; that of the inverse ratios is its inverse."""
    found = mean_interval([float(np.log(ratio)) for ratio in ratios])
    if found is None:
        return None
    low, high = (None if bound is None else float(np.exp(bound)) for bound in (found.low, found.high))
    return Interval(float(np.exp(found.value)), low, high, found.method)


def _method(count: int) -> str:
    return "t" if count < BOOTSTRAP_FROM else "bootstrap"


def _bootstrapped(values: Sequence[float]) -> tuple[float, float]:
    count = len(values)
    widened = 1 - 2 * stats.norm.cdf(-np.sqrt(count / (count - 1)) * _quantile(count))
    outside = 50 * (1 - widened)
    low, high = np.percentile(_resamples(count) @ np.asarray(values), [outside, 100 - outside])
    return float(low), float(high)


@functools.cache
def _quantile(count: int) -> float:
    """Of Student's distribution for so many values."""
    return float(stats.t.ppf((1 + LEVEL) / 2, count - 1))


@functools.lru_cache(maxsize=4)
def _resamples(count: int) -> NDArray[np.float64]:
    """The share of each of so many values in each resample; the same each time: the same trials, the same interval."""
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    drawn += count * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape) / count
