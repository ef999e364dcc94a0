"""How many round trips an operation waits for: the slope of its time over the round-trip time, by trials at several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.postprocess.stats import LEVEL, Interval

FEWEST = 3  # trials: two are always on a line


@dataclass(frozen=True)
class RoundTrips:
    """Of an operation: those that it waits for, and what it takes beside them."""

    each: Interval
    beside_s: float


def fitted(trials: Sequence[tuple[float, float]]) -> RoundTrips | None:
    """By least squares over (round-trip time, time of an operation); None where distances or trials are too few."""
    far, took = np.array(trials, dtype=float).reshape(-1, 2).T
    if len(far) < FEWEST or not np.ptp(far):
        return None
    line = stats.linregress(far, took)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, len(far) - 2) * line.stderr)
    slope = float(line.slope)
    each = Interval(slope, slope - reach, slope + reach) if math.isfinite(reach) else Interval(slope)
    return RoundTrips(each, float(line.intercept))
