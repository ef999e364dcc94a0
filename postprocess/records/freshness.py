"""Which samples of an interface's counters say something new: some drivers refresh them far less often than we sample.

Such a driver shows as counters that stand still and jump, again and again at one distance, while data flow. What is
really quiet for a moment looks otherwise: its pauses differ, and TCP, which counts in the kernel, rests in them too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tierbench.postprocess.digits import Integers, Numbers

Booleans = NDArray[np.bool_]

FEWEST = 3  # distances between refreshes; of fewer it cannot be said that they are alike
SLOWER = 1.3  # periods: a distance that is shorter is the sampler's own
ALIKE = 0.9  # of the distances, so many are within a period of their mean
BUSY = 0.1  # of the usual rate: refreshes that carry less are those of a server at rest
ALIVE = 0.5  # of the samples without news, so many have TCP at work, where it is counted


def resolution_s(
    times: Numbers, period_s: float, news: Booleans, byte_rises: Numbers, segments: Integers | None
) -> float | None:
    """How far apart a driver's refreshes are, if that is more than the samples are; from the samples with news."""
    at = np.flatnonzero(news)
    distances, carried = np.diff(times[at]), byte_rises[at[1:]]
    if len(at) <= FEWEST or not carried.sum() > 0:
        return None
    rates = carried / distances
    busy = rates > BUSY * (rates * carried).sum() / carried.sum()
    between = distances[busy][1:]  # the first may have begun in a pause
    if len(between) < FEWEST:
        return None
    alike = np.abs(between - np.median(between)) <= 1.01 * period_s
    if alike.mean() < ALIKE:
        return None
    found = float(between[alike].mean())
    if found < SLOWER * period_s:
        return None
    flowing = slice(at[:-1][busy][0], at[1:][busy][-1] + 1)
    return None if _rests(segments, news, flowing) else found


def fresh(times: Numbers, news: Booleans, resolution_s: float) -> Booleans:
    """The samples with news, and those of a pause that is too long for a refresh to be awaited."""
    latest = np.maximum.accumulate(np.where(news, np.arange(len(times)), 0))
    waited: Booleans = times - times[latest] > SLOWER * resolution_s
    return news | waited


def _rests(segments: Integers | None, news: Booleans, flowing: slice) -> bool:
    """Whether TCP is counted, and rested in most of the samples without news, so that there was none to be had."""
    if segments is None:
        return False
    sent, still = np.diff(segments[flowing]) > 0, ~news[flowing][1:]
    return bool(sent.any() and still.any() and sent[still].mean() < ALIVE)
