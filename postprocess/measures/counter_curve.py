"""How much a host's counter rose between any two times: the one place where samples become amounts.

Between two samples a counter is taken to have risen evenly. That is right inside a trial, and wrong at its edges, where
traffic begins and stops: of the sampling interval that holds an edge it is known how much moved, not when. But outside
the window no client moves anything. So there the counter is given the rate that it had just outside, and the rest of
the interval's rise lies inside (docs/statistics.md has what is left of the bias).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Integers, Numbers
from tierbench.postprocess.records.increments import INTERFACE
from tierbench.postprocess.records.trial import Sampled

LEAST_S = 1e-6  # a shorter time is a rounding error


@dataclass(frozen=True)
class CounterCurve:
    """What a counter had risen by at some times, in seconds since a moment; between them it rose evenly."""

    times: Numbers
    risen: Numbers
    known: Numbers  # seconds of known intervals until then

    def __len__(self) -> int:
        return len(self.times)

    def rises(self, times: Numbers) -> Numbers:
        """By how much it rose between each two of these times, as far as that is known."""
        return self._between(times, self.risen)

    def rise(self, begin: float, end: float) -> float:
        return float(self.rises(np.array([begin, end]))[0])

    def known_s(self, times: Numbers) -> Numbers:
        """How much of the time between each two of these is known."""
        return self._between(times, self.known)

    def rates(self, times: Numbers) -> Numbers:
        """How fast it rose between each two of these times; NaN where a part of it is not known."""
        if len(times) < 2:
            return np.empty(0)
        seconds = np.diff(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates: Numbers = self.rises(times) / seconds
        rates[seconds - self.known_s(times) > LEAST_S] = np.nan
        return rates

    def rate(self, begin: float, end: float) -> float | None:
        """How fast it rose in the known part of a time; None if nothing of it is known."""
        seconds = float(self.known_s(np.array([begin, end]))[0]) if end > begin else 0.0
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


NO_EDGE = Edge(0.0, 0.0, 0.0)


def counter_curve(
    sampled: Sampled, counter: str, since_ns: int, span_ns: tuple[int, int] | None = None, *, fresh: bool = True
) -> CounterCurve:
    """A host's counter, in seconds since a moment, by all samples or those of a span and the ones next to it.

    Samples in which the interface's driver had nothing new to say are no samples of it, unless they are asked for.
    """
    samples, intervals = sampled.samples, sampled.intervals
    offset = samples.header["clock_wall_ns"] - samples.header["clock_mono_ns"]
    these = slice(0, len(samples))
    if span_ns is not None:
        first, last = np.searchsorted(samples.columns["mono_ns"], [time - offset for time in span_ns])
        these = slice(max(0, int(first) - 1), min(len(samples), int(last) + 1))
        if fresh and counter in INTERFACE:
            these = _widened(these, intervals.fresh[counter[:2]])
    times: Numbers = (samples.columns["mono_ns"][these] + (offset - since_ns)) / 1e9
    values: Integers = samples.columns[counter][these]
    if _unbroken(sampled, values, these):
        risen, known = (values - values[:1]).astype(float), times - times[:1]
    else:
        difference = intervals.differences[counter][these][1:]
        sound = np.isfinite(difference)
        risen = _summed(np.where(sound, difference, 0.0), len(times))
        known = _summed(np.where(sound, np.diff(times), 0.0), len(times))
    whole = CounterCurve(times, risen, known)
    if fresh and counter in INTERFACE and not intervals.fresh[counter[:2]][these].all():
        places = np.flatnonzero(intervals.fresh[counter[:2]][these])
        return CounterCurve(times[places], risen[places], known[places])
    return whole


def begin_edge(of: CounterCurve, begin: float) -> Edge:
    """The interval in which a window begins."""
    sample = of.before(begin)
    if sample < 0 or sample + 1 >= len(of):
        return NO_EDGE
    inner, outer = of.times[sample + 1], of.times[sample]
    quiet = of.rate(max(of.times[0], outer - (inner - outer)), outer) or 0.0
    return _edge(of, sample, float(begin - outer), quiet)


def end_edge(of: CounterCurve, end: float) -> Edge:
    """The interval in which a window ends."""
    sample = of.after(end)
    if sample < 1 or sample >= len(of):
        return NO_EDGE
    inner, outer = of.times[sample - 1], of.times[sample]
    quiet = of.rate(outer, min(of.times[-1], outer + (outer - inner))) or 0.0
    return _edge(of, sample - 1, float(outer - end), quiet)


def with_window(of: CounterCurve, begin: float, end: float) -> CounterCurve:
    """The same curve, with the window's edges in it: outside them moves only what moved there just before or after."""
    at_begin, at_end = begin_edge(of, begin), end_edge(of, end)
    first, last = of.before(begin), of.after(end)
    low = of.risen[first] + at_begin.outside if at_begin is not NO_EDGE else np.interp(begin, of.times, of.risen)
    high = of.risen[last] - at_end.outside if at_end is not NO_EDGE else np.interp(end, of.times, of.risen)
    times = np.array([begin, end])
    where = np.searchsorted(of.times, times, "right")
    return CounterCurve(
        np.insert(of.times, where, times),
        np.insert(of.risen, where, [low, max(low, high)]),
        np.insert(of.known, where, np.interp(times, of.times, of.known)),
    )


def _edge(of: CounterCurve, sample: int, outside_s: float, quiet: float) -> Edge:
    rise = float(of.risen[sample + 1] - of.risen[sample])
    return Edge(outside_s, rise, min(quiet * outside_s, rise))


def _widened(these: slice, fresh: np.ndarray) -> slice:
    """These samples, and as many around them as it takes to begin and end with fresh ones."""
    first, last = these.start, these.stop - 1
    while first > 0 and not fresh[first]:
        first -= 1
    while last < len(fresh) - 1 and not fresh[last]:
        last += 1
    return slice(first, last + 1)


def _unbroken(sampled: Sampled, values: Integers, these: slice) -> bool:
    """Whether no counter wrapped, began anew or was gone among these samples."""
    wrap, reset = sampled.intervals.wrap[these], sampled.intervals.reset[these]
    return not (wrap[1:].any() or reset[1:].any() or values.min(initial=0) < 0)


def _summed(values: Numbers, count: int) -> Numbers:
    return np.concatenate([[0.0], np.cumsum(values)])[:count]
