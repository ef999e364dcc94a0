"""How much a host's counter rose between any two times: the one place where samples become amounts.

Between two samples a counter is taken to have risen evenly. That is right inside a trial, and wrong at its edges, where
traffic begins and stops: of the sampling interval that holds an edge it is known how much moved, not when. But outside
the window no client moves anything. So there the counter is given the rate that it had just outside, and the rest of
the interval's rise lies inside (docs/statistics.md has what is left of the bias).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.records.increments import INTERFACE
from tierbench.postprocess.records.trial import Sampled

LEAST_S = 1e-6  # a shorter time is a rounding error


@dataclass(frozen=True)
class CounterCurve:
    """What a counter had risen by at some times, in seconds since a moment; between them it rose evenly."""

    times: Numbers
    risen: Numbers
    covered: Numbers  # seconds of intervals until then over which the counter is known

    def __len__(self) -> int:
        return len(self.times)

    def rise(self, begin: float, end: float) -> float:
        """By how much it rose between two times, as far as that is known."""
        return float(self._between(np.array([begin, end]), self.risen)[0])

    def covered_s(self, begin: float, end: float) -> float:
        """How much of the time between these two is known."""
        return float(self._between(np.array([begin, end]), self.covered)[0])

    def rates(self, times: Numbers) -> Numbers:
        """How fast it rose between each two of these times; NaN where a part of it is not known."""
        seconds = np.diff(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates: Numbers = self._between(times, self.risen) / seconds
        rates[seconds - self._between(times, self.covered) > LEAST_S] = np.nan
        return rates

    def rate(self, begin: float, end: float) -> float | None:
        """How fast it rose in the known part of a time; None if nothing of it is known."""
        seconds = self.covered_s(begin, end) if end > begin else 0.0
        return self.rise(begin, end) / seconds if seconds > 0 else None

    def _between(self, times: Numbers, amounts: Numbers) -> Numbers:
        """Of what is known at the samples, how much lies between each two of these times; nothing without samples."""
        if not len(self):
            return np.zeros(max(0, len(times) - 1))
        between: Numbers = np.diff(np.interp(times, self.times, amounts))
        return between

    def before(self, time: float) -> int:
        """Which sample is the last one not after a time; -1 if there is none."""
        return int(np.searchsorted(self.times, time, "right")) - 1

    def after(self, time: float) -> int:
        """Which sample is the first one not before a time; the number of samples if there is none."""
        return int(np.searchsorted(self.times, time, "left"))


@dataclass(frozen=True)
class Edge:
    """The sampling interval that holds an edge of a window: what of it lies outside, and how much moved there."""

    outside_s: float
    rise: float  # of the whole interval
    outside: float  # what is taken to have moved outside, at the rate that was there just before or after


def counter_curve(sampled: Sampled, counter: str, since_ns: int) -> CounterCurve:
    """A host's counter, in seconds since a moment, by the samples in which its driver had something new to say."""
    samples, intervals = sampled.samples, sampled.intervals
    times: Numbers = (samples.time_ns - since_ns) / 1e9
    difference = intervals.differences[counter][1:]
    sound = np.isfinite(difference)
    steps = np.where(sound, difference, 0.0), np.where(sound, 0.0, np.diff(times))
    risen, unknown = (np.concatenate([[0.0], np.cumsum(step)])[: len(times)] for step in steps)
    covered = times - times[:1] - unknown
    news = intervals.fresh[counter[:2]] if counter in INTERFACE else np.full(len(times), True)
    return CounterCurve(times[news], risen[news], covered[news])


def edge(of: CounterCurve, time: float, *, ends: bool) -> Edge | None:
    """The interval in which a window begins, or ends; None where the samples do not reach so far."""
    outer = of.after(time) if ends else of.before(time)
    inner = outer - 1 if ends else outer + 1
    if min(inner, outer) < 0 or max(inner, outer) >= len(of):
        return None
    within, beyond = of.times[inner], of.times[outer]
    farther = np.clip(beyond - (within - beyond), of.times[0], of.times[-1])
    quiet = of.rate(min(beyond, farther), max(beyond, farther)) or 0.0
    outside_s, rise = abs(float(beyond - time)), abs(float(of.risen[inner] - of.risen[outer]))
    return Edge(outside_s, rise, min(quiet * outside_s, rise))


def with_window(of: CounterCurve, begin: float, end: float) -> CounterCurve:
    """The same curve, with the window's edges in it: outside them moves only what moved there just before or after."""
    first, last = edge(of, begin, ends=False), edge(of, end, ends=True)
    low = of.risen[of.before(begin)] + first.outside if first else np.interp(begin, of.times, of.risen)
    high = of.risen[of.after(end)] - last.outside if last else np.interp(end, of.times, of.risen)
    times = np.array([begin, end])
    where = np.searchsorted(of.times, times, "right")
    return CounterCurve(
        np.insert(of.times, where, times),
        np.insert(of.risen, where, [low, max(low, high)]),
        np.insert(of.covered, where, np.interp(times, of.times, of.covered)),
    )
