"""Finds the steady-state slice of a trial: what lies between its ramp-up and its ramp-down.

The rates over the window are fitted by a level with, on either side, nothing, a straight ramp up to it, or
a step: the weighted least squares over all pairs of edges, each shape being charged for its freedom as
in Schwarz's criterion. The shape is of no interest in itself, it only says where the level begins and ends.
docs/statistics.md has the whole algorithm, its thresholds and what it does to known edges.
"""

from dataclasses import dataclass, replace

import numpy as np

from tierbench.postprocess.arrays import Integers, Numbers
from tierbench.postprocess.measures.delivered import Delivered
from tierbench.postprocess.measures.resources import HEAD
from tierbench.postprocess.measures.resources import LEAST_SHARE as ACTIVE_SHARE
from tierbench.postprocess.measures.traffic import by_storage
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import Slices

FEWEST = 5  # intervals in a slice that deserves the name
LEAST_SHARE = 0.25  # of the window
LEAST_DEPTH = 0.2  # of the level: a ramp lies, on average, so much below it, and by more than the noise
MOST_DRIFT = 0.2  # of the level, from the slice's one end to the other
CERTAIN = 3.0  # standard errors, from which on a drift is one
FINEST = 1e-3  # of the mean rate: smaller deviations are not looked at
PRICE = 3.0  # parameters of a side with a ramp: its edge, its height, its shape
CANDIDATES = 256  # edges on each side that are tried at once


@dataclass(frozen=True)
class Steady:
    """The steady-state slice, in seconds since the window began, and the rate in it."""

    begin_s: float
    end_s: float
    mean_mbps: float


@dataclass(frozen=True)
class _Side:
    """Ways for a side to depart from the level: where the level's edge is, and the sums over the departure's shape."""

    edges: Integers
    square: Numbers  # Σ w·shape²; the sums are over the intervals, w is an interval's length
    weight: Numbers  # Σ w·shape
    rate: Numbers  # Σ w·shape·rate
    length: Numbers  # Σ w over the departure


def steady(times: Numbers, rates: Numbers) -> Steady | None:
    """The steady slice of rates over the intervals between these times; None if there is none to be found."""
    seconds = np.diff(times)
    finite = np.isfinite(rates) & (seconds > 0)
    if finite.sum() < FEWEST or not rates[finite].any():
        return None
    weights = np.where(finite, seconds, 0.0)
    filled = np.where(finite, rates, 0.0)
    first, last = _edges((times[1:] + times[:-1]) / 2, times, weights, filled)
    inside = np.zeros(len(rates), bool)
    inside[first:last] = finite[first:last]
    whole = inside & (seconds >= np.median(seconds[finite]) / 2)  # a shorter interval's rate is mostly noise
    if whole.sum() < FEWEST or weights[inside].sum() < LEAST_SHARE * (times[-1] - times[0]):
        return None
    if _drifts((times[1:] + times[:-1])[inside] / 2, filled[inside], weights[inside]):
        return None
    mean_mbps = float(np.average(filled[inside], weights=weights[inside]))
    return Steady(float(times[first]), float(times[last]), mean_mbps)


def _edges(middles: Numbers, times: Numbers, weights: Numbers, rates: Numbers) -> tuple[int, int]:
    """Between which two of the times the level lies; first coarsely, then by each single interval."""
    stride = -(-len(times) // CANDIDATES)
    coarse = np.arange(0, len(times), stride)
    coarse = np.append(coarse, len(rates)) if coarse[-1] != len(rates) else coarse
    first, last = _best(middles, times, weights, rates, coarse, coarse)
    if stride > 1:
        near = np.arange(-stride, stride + 1)
        begins = np.unique(np.clip(first + near, 0, len(rates)))
        ends = np.unique(np.clip(last + near, 0, len(rates)))
        first, last = _best(middles, times, weights, rates, begins, ends)
    return first, last


def _best(
    middles: Numbers, times: Numbers, weights: Numbers, rates: Numbers, begins: Integers, ends: Integers
) -> tuple[int, int]:
    """The pair of edges, out of these, that explains the rates best."""
    left = _side(times, middles, weights, rates, begins)
    right = _side(-times[::-1], -middles[::-1], weights[::-1], rates[::-1], len(rates) - ends)
    right = replace(right, edges=len(rates) - right.edges)
    total, count = weights.sum(), int((weights > 0).sum())
    # The departures' heights are eliminated from the normal equations, which leaves one equation for the level.
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = total - np.add.outer(left.weight**2 / left.square, right.weight**2 / right.square)
        pull = (weights * rates).sum() - np.add.outer(
            left.weight * left.rate / left.square, right.weight * right.rate / right.square
        )
        level = pull / freedom
        explained = np.add.outer(left.rate**2 / left.square, right.rate**2 / right.square) + pull**2 / freedom
        squares = np.maximum((weights * rates**2).sum() - explained, 0)
        least = np.maximum(LEAST_DEPTH * level, np.sqrt(squares / total))
        deep = (least <= _depth(left, level.T).T) & (_depth(right, level) >= least)
    floor = total * (FINEST * (weights * rates).sum() / total) ** 2
    price = PRICE * np.log(count) * np.add.outer(left.length > 0, right.length > 0, dtype=float)
    cost = count * np.log(squares + floor) + price
    inside = total - np.add.outer(left.length, right.length)
    between = (left.edges[:, None] < right.edges) & (inside > total / count / 2)
    cost = np.where(deep & between & np.isfinite(cost), cost, np.inf)
    row, column = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return int(left.edges[row]), int(right.edges[column])


def _side(times: Numbers, middles: Numbers, weights: Numbers, rates: Numbers, edges: Integers) -> _Side:
    """No departure, and a ramp and a step that end at each of these edges."""
    edges = edges[edges > 0]
    origin, edge = middles - times[0], (times - times[0])[edges]
    products = (1, rates, origin, origin**2, origin * rates)
    w, wr, wt, wtt, wtr = (np.cumsum(weights * product)[edges - 1] for product in products)
    nothing = np.zeros(1)
    return _Side(
        edges=np.concatenate([[0], edges, edges]),
        square=np.concatenate([[1.0], wtt - 2 * edge * wt + edge**2 * w, w]),
        weight=np.concatenate([nothing, wt - edge * w, -w]),
        rate=np.concatenate([nothing, wtr - edge * wr, -wr]),
        length=np.concatenate([nothing, w, w]),
    )


def _depth(side: _Side, level: Numbers) -> Numbers:
    """How far below the level each departure lies on average; without bounds where there is none."""
    height = (side.rate - level * side.weight) / side.square  # the shapes are negative
    depth: Numbers = np.where(side.length > 0, -height * side.weight / side.length, np.inf)
    return depth


def _drifts(times: Numbers, rates: Numbers, weights: Numbers) -> bool:
    """Whether the slice rises or falls as a whole, beyond what its noise can do."""
    middle, level = np.average(times, weights=weights), np.average(rates, weights=weights)
    moment = (weights * (times - middle) ** 2).sum()
    slope = (weights * (times - middle) * (rates - level)).sum() / moment
    residuals = rates - level - slope * (times - middle)
    error = np.sqrt((weights * residuals**2).sum() / moment / max(len(rates) - 2, 1))
    return bool(abs(slope) * np.ptp(times) > MOST_DRIFT * abs(level) and abs(slope) > CERTAIN * error)


# What interfaces carry has headers in it and what is sent again, a ceiling has not. What is beyond that has not reached
# the clients: a server on the way reads ahead in a burst, which is no steady state.
MOST_OVER_CEILING = 1.1
# Its cache fills or empties where the rates on its two sides differ otherwise than in the whole trial, by this share.
MOST_APART = 0.1
MOST_CACHED = 0.5  # of what was delivered: beyond, the storage carries too little to say so
DELIVERED = "delivered"


def slices(data: TrialData, taken: Delivered, ceiling_mbps: float | None = None) -> Slices:
    """The steady-state slice and the all-active window of a trial."""
    if data.trial.start.in_turn:  # no part of its window is like another, and at no time is more than one active
        return Slices()
    steadily, active = _steady(data, taken, ceiling_mbps), data.all_active_ns
    if active is None or data.window_ns is None:
        return steadily
    first, last = active
    active_ns = max(0, last - first)
    share = active_ns / (data.window_ns[1] - data.window_ns[0])
    steadily = replace(steadily, all_active_s=active_ns / 1e9, all_active_share=share)
    first, storage = round(first + HEAD * (last - first)), by_storage(data)
    if share < ACTIVE_SHARE or len(storage.rates(first, last)[1]) < FEWEST:
        return steadily
    carried, delivered_mbps = storage.traffic(first, last), taken.mean_mbps(first, last)
    mean_mbps, volatility_mbps = carried.mean_mbps, carried.volatility_mbps
    cached = _from_a_cache(data, taken, mean_mbps, delivered_mbps, ceiling_mbps)
    return replace(
        steadily,
        all_active_delivered_mbps=None if cached else delivered_mbps,
        all_active_mbps=mean_mbps,
        all_active_volatility_pct=100 * volatility_mbps / mean_mbps if mean_mbps and volatility_mbps else None,
    )


def _from_a_cache(
    data: TrialData, taken: Delivered, carried_mbps: float | None, mean_mbps: float | None, ceiling_mbps: float | None
) -> bool:
    """Whether the mean of a part is more than its way can carry, or a cache on it fills or empties there."""
    if mean_mbps is None:
        return False
    if mean_mbps > MOST_OVER_CEILING * (ceiling_mbps or np.inf):
        return True
    whole_mbps = by_storage(data).traffic(data.begin_ns, data.end_ns).mean_mbps or 0.0
    if not taken.by or not taken.mbps or not mean_mbps or whole_mbps <= MOST_CACHED * taken.mbps:
        return False
    return abs((carried_mbps or 0.0) / mean_mbps / (whole_mbps / taken.mbps) - 1) > MOST_APART


def _steady(data: TrialData, taken: Delivered, ceiling_mbps: float | None) -> Slices:
    """The slice is that of what was delivered, or where nobody knows when that came, of what the storage carried."""
    begin = data.begin_ns
    slice_ = steady(*(taken if taken.by else by_storage(data)).rates(begin, data.end_ns))
    if slice_ is None or begin is None:
        return Slices()
    first, last = (begin + round(edge * 1e9) for edge in (slice_.begin_s, slice_.end_s))
    carried = by_storage(data).traffic(first, last)
    if _from_a_cache(data, taken, carried.mean_mbps, slice_.mean_mbps, ceiling_mbps):
        return Slices()
    return Slices(
        steady_begin_s=slice_.begin_s,
        steady_end_s=slice_.end_s,
        steady_from=DELIVERED if taken.by else data.measure.direction,
        steady_delivered_mbps=slice_.mean_mbps if taken.by else None,
        steady_mbps=carried.mean_mbps,
        steady_volatility_mbps=carried.volatility_mbps,
    )
