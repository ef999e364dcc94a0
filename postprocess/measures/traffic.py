"""What hosts sent or received, from their interfaces' counters: the one place where samples become amounts.

Between two samples a counter is taken to have risen evenly. That is right inside a trial, and wrong at its edges, where
traffic begins and stops: of the sampling interval that holds an edge it is known how much moved, not when. But outside
the window no client moves anything. So there the counter is given the rate that it had just outside, and the rest of
the interval's rise lies inside (docs/statistics.md has what is left of the bias).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tierbench.dags.measure import RECEIVED
from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.increments import INTERFACE
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow

LEAST_S = 1e-6  # a shorter time is a rounding error
THESIS_INTERVAL_S = 5.0
MEGABITS = 8 / 1e6

Window = tuple[int, int]


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

    def known_rise(self, first: int, last: int) -> float | None:
        """By how much it rose from one sample to another; None unless it is known throughout."""
        begin, end = (float(time) for time in self.times[[first, last]])
        return None if end - begin - self.covered_s(begin, end) > LEAST_S else self.rise(begin, end)

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
    """A host's counter, in seconds since a moment, by the samples in which its driver had something new to say.

    One that the host does not count has no samples.
    """
    samples, intervals = sampled.samples, sampled.intervals
    if counter not in intervals.differences:
        return CounterCurve(np.empty(0), np.empty(0), np.empty(0))
    times: Numbers = (samples.time_ns - since_ns) / 1e9
    difference = intervals.differences[counter][1:]
    sound = np.isfinite(difference)
    steps = np.where(sound, difference, 0.0), np.where(sound, 0.0, np.diff(times))
    risen, unknown = (np.concatenate([[0.0], np.cumsum(step)])[: len(times)] for step in steps)
    covered = times - times[:1] - unknown
    news = intervals.fresh[counter[:2]] if counter in INTERFACE else np.full(len(times), True)
    return CounterCurve(times[news], risen[news], covered[news])


def edge(curve: CounterCurve, time: float, *, ends: bool) -> Edge | None:
    """The interval in which a window begins, or ends; None where the samples do not reach so far."""
    outer = curve.after(time) if ends else curve.before(time)
    inner = outer - 1 if ends else outer + 1
    if min(inner, outer) < 0 or max(inner, outer) >= len(curve):
        return None
    within, beyond = curve.times[inner], curve.times[outer]
    farther = np.clip(beyond - (within - beyond), curve.times[0], curve.times[-1])
    quiet = curve.rate(min(beyond, farther), max(beyond, farther)) or 0.0
    outside_s, rise = abs(float(beyond - time)), abs(float(curve.risen[inner] - curve.risen[outer]))
    return Edge(outside_s, rise, min(quiet * outside_s, rise))


def with_window(curve: CounterCurve, begin: float, end: float) -> CounterCurve:
    """The same curve, with the window's edges in it: outside them moves only what moved there just before or after."""
    first, last = edge(curve, begin, ends=False), edge(curve, end, ends=True)
    low = curve.risen[curve.before(begin)] + first.outside if first else np.interp(begin, curve.times, curve.risen)
    high = curve.risen[curve.after(end)] - last.outside if last else np.interp(end, curve.times, curve.risen)
    times = np.array([begin, end])
    where = np.searchsorted(curve.times, times, "right")
    return CounterCurve(
        np.insert(curve.times, where, times),
        np.insert(curve.risen, where, [low, max(low, high)]),
        np.insert(curve.covered, where, np.interp(times, curve.times, curve.covered)),
    )


@dataclass(frozen=True)
class Traffic:
    """The storage servers' traffic over a window; None where it is unknown."""

    bytes: float | None = None
    mean_mbps: float | None = None
    volatility_mbps: float | None = None
    volatility_5s_mbps: float | None = None
    peak_mbps: float | None = None


@dataclass(frozen=True)
class Counted:
    """Interfaces, the counter that is added up over them, and the window outside which clients move nothing, if any."""

    interfaces: Sequence[Sampled]
    counter: str
    window_ns: Window | None = None

    @property
    def resolution_s(self) -> float:
        """How finely their traffic is known: by the samplers' period, or by a driver that says less often."""
        return max(interface.intervals.resolution_s(self.counter) for interface in self.interfaces)

    def curves(self, since_ns: int) -> list[CounterCurve]:
        """What each had moved by what it counted, in seconds since a moment."""
        return [counter_curve(interface, self.counter, since_ns) for interface in self.interfaces]

    def rates(self, begin_ns: int | None, end_ns: int | None) -> tuple[Numbers, Numbers]:
        """Their rate in Mb/s between each two samples in this time of the one that knows least, and their times."""
        several = self._sampled_twice
        if not several.interfaces or begin_ns is None or end_ns is None:
            return np.empty(0), np.empty(0)
        resolutions = [interface.intervals.resolution_s(self.counter) for interface in several.interfaces]
        curves = several.curves(begin_ns)
        times = curves[resolutions.index(max(resolutions))].times
        times = times[(times >= 0) & (times <= (end_ns - begin_ns) / 1e9)]
        return times, _rates(curves, times)

    def traffic(self, begin_ns: int | None, end_ns: int | None) -> Traffic:
        """What they moved between two times."""
        several = self._sampled_twice
        if not several.interfaces or begin_ns is None or end_ns is None or end_ns <= begin_ns:
            return Traffic()
        curves = several.curves(begin_ns)
        if self.window_ns is not None:
            begin, end = ((time - begin_ns) / 1e9 for time in self.window_ns)
            curves = [with_window(curve, begin, end) for curve in curves]
        window_s = (end_ns - begin_ns) / 1e9
        times, rates = several.rates(begin_ns, end_ns)
        rates = rates[np.diff(times) >= several.resolution_s / 2]
        covered_s = min(curve.covered_s(0, window_s) for curve in curves)
        means = [curve.rate(0, window_s) for curve in curves]
        mbps = [mean * MEGABITS for mean in means if mean is not None]
        return Traffic(
            bytes=sum(curve.rise(0, window_s) for curve in curves) if window_s - covered_s < LEAST_S else None,
            mean_mbps=sum(mbps) if len(mbps) == len(curves) else None,
            volatility_mbps=_spread(rates),
            volatility_5s_mbps=_spread(_rates(curves, np.arange(0, window_s + LEAST_S, THESIS_INTERVAL_S))),
            peak_mbps=float(np.nanmax(rates)) if np.isfinite(rates).any() else None,
        )

    @property
    def _sampled_twice(self) -> Counted:
        return replace(self, interfaces=[each for each in self.interfaces if len(each.samples) > 1])


def by_storage(data: TrialData) -> Counted:
    """What the storage of a trial counts of it."""
    return Counted(data.storage, data.measure.counter, data.window_ns)


def _rates(curves: list[CounterCurve], times: Numbers) -> Numbers:
    """All interfaces' rate in Mb/s between each two of these times; NaN where a part of it is not known."""
    rates: Numbers = sum((curve.rates(times) for curve in curves), np.zeros(max(0, len(times) - 1))) * MEGABITS
    return rates


def _spread(rates: Numbers) -> float | None:
    finite = rates[np.isfinite(rates)]
    return float(np.std(finite, ddof=1)) if len(finite) > 1 else None


IN_SEGMENTS = "tcp_in_segs"
SETTLE_S = 0.2  # what is on its way when the last client ends is no background
LATE_S = 3.0  # for so long a server on the way may go on with what it reads ahead
JUST_BEFORE_S = 10.0  # a trial may have waited for hours for its last client, and their mean hides who has just begun
LEAST_IDLE_S = 0.5  # over a shorter time a single keepalive would be a rate
MOST_AT_REST_MBPS = 0.5  # of a storage server: HTCondor's and the sampler's own are 0.1 to 0.4


def without_clients(data: TrialData, counted: Counted, factor: float = MEGABITS) -> tuple[float | None, float | None]:
    """The rates of some hosts without clients, before the window and after it; None unless known of each."""

    def together(edge_ns: int | None, rate_of: Callable[[CounterCurve], float | None]) -> float | None:
        curves = [] if edge_ns is None else counted.curves(edge_ns)
        rates = [rate for curve in curves if (rate := rate_of(curve)) is not None]
        return sum(rates) * factor if rates and len(rates) == len(curves) else None

    before = [together(data.begin_ns, partial(_idle_before, most_s=most_s)) for most_s in (np.inf, JUST_BEFORE_S)]
    return max((mbps for mbps in before if mbps is not None), default=None), together(data.end_ns, _idle_after)


def _idle_before(curve: CounterCurve, most_s: float) -> float | None:
    """The rate from the first sample, or so long before, to the last one before the window, if enough is known."""
    last = curve.before(0)
    if last < 1:
        return None
    begin = max(curve.times[0], curve.times[last] - most_s)
    return curve.rate(begin, curve.times[last]) if curve.covered_s(begin, curve.times[last]) >= LEAST_IDLE_S else None


def _idle_after(curve: CounterCurve) -> float | None:
    """The rate from the window's end to the last sample, or from where what came late had come, if that is less."""
    first = curve.after(SETTLE_S)
    samples = slice(first, max(first, curve.before(LATE_S)) + 1)
    if not len(curve):
        return None
    rise, seconds = curve.risen[-1] - curve.risen[samples], curve.covered[-1] - curve.covered[samples]
    enough = seconds >= LEAST_IDLE_S
    return float((rise[enough] / seconds[enough]).min()) if enough.any() else None


def at_rest_bytes(servers: int, seconds: float) -> float:
    """The most that so many servers move at rest in a time."""
    return MOST_AT_REST_MBPS * 1e6 / 8 * servers * seconds


def idle_rates(data: TrialData, row: TrialRow) -> list[tuple[float, str, float]]:
    """The storage's rates before and after the trial, and what is beyond servers at rest, in % of the mean."""
    rates = []
    # What clients wrote and did not wait for goes on coming after they have ended, and is nobody else's.
    late = data.measure.direction == RECEIVED and not data.trial.declared.settles
    for when, mbps in (("before", row.idle_before_mbps), ("after", None if late else row.idle_after_mbps)):
        if mbps is not None:
            beyond = max(0.0, mbps - MOST_AT_REST_MBPS * len(by_host(data.storage)))
            # Where caches serve what is read again, the storage's rate is the lesser part of what was measured.
            rate = max(row.mean_mbps or 0.0, (row.delivered_mbps or 0.0) if data.cached else 0.0)
            rates.append((mbps, when, 100 * beyond / rate if rate else 0.0))
    return rates


def bytes_late(data: TrialData) -> float | None:
    """What of that which was written, or copied, is sure to have come after the window; None for trials that read."""
    copied = data.measure.far_end == "storage"
    ends = data.far_end if copied else data.storage
    if not (copied or data.measure.direction == RECEIVED) or data.window_ns is None or not ends:
        return None
    counted, period_s = Counted(ends, data.measure.counters[RECEIVED]), data.trial.sample_period_s
    late, at_edge, inside_s = 0.0, 0.0, 0.0
    for interface, received in zip(ends, counted.curves(data.window_ns[1]), strict=True):
        last, first = received.before(0), received.after(0)
        if last < 0:  # or there are no samples
            return None
        at_rest = at_rest_bytes(1, max(0.0, float(received.times[-1])))
        if first < len(received):
            after = max(0.0, float(received.risen[-1] - received.risen[first]) - at_rest)
            edge = float(received.risen[first] - received.risen[last])
            # A driver may tell late what has come; TCP does not.
            most = np.inf if data.trial.on_disk else _most_since(interface, received, last, data.window_ns[1])
            late += after if after + edge <= most else 0.0
            at_edge += edge if after + edge <= most else most
            inside_s = max(inside_s, -float(received.times[last]))
    # Of the interval in which the window ends, what the highest rate in the window had not brought by then.
    _, rates = counted.rates(*data.window_ns)
    if np.isfinite(rates).any():
        inside_s += period_s * (counted.resolution_s > period_s)  # a slow driver's last news are as much older
        late += max(0.0, at_edge - float(np.nanmax(rates)) / MEGABITS * inside_s)
    return late


def _most_since(interface: Sampled, curve: CounterCurve, sample: int, since_ns: int) -> float:
    """What came after a sample at most, by the segments that TCP has counted; no limit where it counts none."""
    segments = counter_curve(interface, IN_SEGMENTS, since_ns)
    whole = float(segments.risen[-1] - segments.risen[0]) if len(segments) else 0.0
    if not whole > 0:
        return np.inf
    return float(curve.risen[-1] - curve.risen[0]) * segments.rise(curve.times[sample], segments.times[-1]) / whole


def mean_error_mbps(data: TrialData, excess_bytes: float | None) -> float | None:
    """By how much the mean may be wrong for what moved near the window's edges, given bytes that no client received.

    Four things are not known: whether background traffic kept its rate in the edges' intervals; what was asked for and
    not received, and came after the last end; what a driver counted only in the interval after that end's; and what
    the clocks of storage and readers hand over. docs/statistics.md argues it; None where it cannot be computed.
    """
    if data.window_ns is None or not data.storage:
        return None
    begin, window_s = data.window_ns[0], data.window_s
    apart_s = clocks.most_apart_ms(data) / 1e3
    beside, late, counted_late, handed = 0.0, 0.0, 0.0, 0.0
    for moved in by_storage(data).curves(begin):
        first, last = edge(moved, 0, ends=False), edge(moved, window_s, ends=True)
        if first is None or last is None:
            return None
        beside += first.outside + last.outside
        late += min(moved.rise(0, window_s) / window_s * last.outside_s, last.rise - last.outside)
        counted_late += _counted_late(moved, moved.after(window_s))
        # Beyond the edges' intervals, but within what the clocks may be apart of the edges:
        outer_begin, outer_end = moved.times[moved.before(0)], moved.times[moved.after(window_s)]
        handed += moved.rise(min(-apart_s, outer_begin), outer_begin)
        handed += moved.rise(outer_end, max(outer_end, window_s + apart_s))
    late = late if excess_bytes is None else min(late, max(0.0, excess_bytes))
    return (beside + late + counted_late + handed) * MEGABITS / window_s


def _counted_late(curve: CounterCurve, sample: int) -> float:
    """What came in the interval after this sample, beyond what came thereafter."""
    if sample + 2 >= len(curve):
        return 0.0
    begin, end, after = map(float, curve.times[sample : sample + 3])
    return max(0.0, curve.rise(begin, end) - (curve.rate(end, after) or 0.0) * (end - begin))
