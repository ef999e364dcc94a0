"""Where a series of nights has stepped to another level: E-divisive's splits, each put to a t-test and to a size.

The splits are those of Matteson and James (2014, arXiv:1306.4933): where the energy distance between what is before
and what is after is largest. Fleming and others (Hunter, ICPE 2023), whose program is Apache Otava, replaced its
permutation test by a t-test, which can speak of two nights and gives the same answer every time; so does this, with
the scatter taken over the whole series. Otava itself is not used: it pins NumPy and wants clients for Slack, BigQuery
and PostgreSQL, on an access point.

All values here are natural logarithms, so that a difference is a ratio.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.postprocess.digits import Numbers

LEVEL = 0.95  # of intervals
LEAST = 2  # nights on either side of a step
LEAST_IN_ALL = 7  # nights before anything is said: of fewer nobody knows how much they scatter
OUTLYING = 3.0  # standard deviations beyond which a night says no more than that one that far off would
LEAST_SCATTER = 0.003  # nights that agree by chance do not scatter less than this
MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Rule:
    """What a difference needs to be taken for a change."""

    size: float = 0.05  # as a share
    significance: float = 1e-5  # of a single test: there is one each night for each way, and each looks at all splits

    @property
    def size_of_logarithm(self) -> float:
        """A fall by the share, and a rise by its inverse."""
        return -math.log1p(-self.size)


@dataclass(frozen=True)
class Step:
    """A change of level: between which values, and by what factor."""

    index: int  # of the first value after it
    count: int  # of values after it, until the next one
    before: float  # levels, as logarithms
    after: float
    reach: float  # half the interval of their difference
    p: float

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def ratio(self) -> tuple[float, float, float]:
        """By what factor the level changed, with its interval."""
        low, high = self.difference - self.reach, self.difference + self.reach
        return math.exp(self.difference), math.exp(low), math.exp(high)


def steps(values: Numbers, rule: Rule) -> list[Step]:
    """The steps of a series, in order."""
    if len(values) < LEAST_IN_ALL:
        return []
    edges = [0, len(values)]
    while True:
        candidates = [split for begin, end in _pairs(edges) if (split := best_split(values, begin, end))]
        passing = [(gain, at) for gain, at in candidates if _passes(values, sorted([*edges, at]), at, rule)]
        if not passing:
            break
        edges = sorted([*edges, max(passing)[1]])
    while weak := [at for at in edges[1:-1] if not _passes(values, edges, at, rule)]:  # since a later split
        edges.remove(min(weak, key=lambda at: abs(tested(values, edges, at).difference)))
    return [tested(values, edges, at) for at in edges[1:-1]]


def best_split(values: Numbers, begin: int, end: int) -> tuple[float, int] | None:
    """The split of a segment with the largest energy distance, weighted by how many values are on either side.

    What is after it may end before the segment does, so that a level that came back hides none.
    """
    count = end - begin
    if count < 2 * LEAST:
        return None
    part = values[begin:end]
    distance = np.abs(part[:, None] - part[None, :])
    total = np.zeros((count + 1, count + 1))
    total[1:, 1:] = distance.cumsum(axis=0).cumsum(axis=1)
    at, to = np.meshgrid(np.arange(LEAST, count - LEAST + 1), np.arange(2 * LEAST, count + 1), indexing="ij")
    n, m = at, np.maximum(to - at, 1)
    between = total[at, to] - total[at, at]
    within = total[at, at]
    beyond = total[to, to] - total[at, to] - total[to, at] + total[at, at]
    energy = 2 * between / (n * m) - within / (n * np.maximum(n - 1, 1)) - beyond / (m * np.maximum(m - 1, 1))
    gain = np.where(to - at >= LEAST, n * m / (n + m) * energy, -np.inf)
    place = np.unravel_index(int(np.argmax(gain)), gain.shape)
    return float(gain[place]), begin + int(at[place])


def tested(values: Numbers, edges: list[int], at: int) -> Step:
    """The step at one of the edges between segments."""
    place = edges.index(at)
    before, after = (tame(values[edges[one] : edges[one + 1]]) for one in (place - 1, place))
    scatter, free = _scatter(values, edges)
    error = scatter * math.sqrt(1 / len(before) + 1 / len(after))
    difference = float(after.mean() - before.mean())
    p = float(2 * stats.t.sf(abs(difference) / error, free))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, free)) * error
    return Step(at, len(after), float(before.mean()), float(after.mean()), reach, p)


def departures(values: Numbers, edges: list[int], at: int) -> Numbers:
    """By how much each value after a step differs from the level before it, in the step's direction."""
    place = edges.index(at)
    before, after = (values[edges[one] : edges[one + 1]] for one in (place - 1, place))
    level = tame(before).mean()
    beyond: Numbers = (after - level) * np.sign(np.median(after) - level)
    return beyond


def _passes(values: Numbers, edges: list[int], at: int, rule: Rule) -> bool:
    """Whether a step is certain and large: half of its nights by themselves, and both of two, are beyond the size."""
    if tested(values, edges, at).p >= rule.significance:
        return False
    beyond = np.sort(departures(values, edges, at))
    return bool(beyond[(len(beyond) - 1) // 2] >= rule.size_of_logarithm)


def _scatter(values: Numbers, edges: list[int]) -> tuple[float, int]:
    """The standard deviation within segments, and its degrees of freedom."""
    rests = np.concatenate([(part := tame(values[begin:end])) - part.mean() for begin, end in _pairs(edges)])
    free = max(len(values) - (len(edges) - 1), 1)
    return max(math.sqrt(float(rests @ rests) / free), LEAST_SCATTER), free


def tame(values: Numbers) -> Numbers:
    """The values, with those far off brought in: one night gone wrong neither moves a level nor hides a change."""
    if len(values) < LEAST_IN_ALL:
        return values
    middle = np.median(values)
    far = OUTLYING * max(MAD_TO_SD * float(np.median(np.abs(values - middle))), LEAST_SCATTER)
    near: Numbers = np.clip(values, middle - far, middle + far)
    return near


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(edges))
