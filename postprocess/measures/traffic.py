"""What hosts sent or received within the window, from their interfaces' counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.dags.measure import RECEIVED
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.counter_curve import LEAST_S, CounterCurve, counter_curve, edge, with_window
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow

THESIS_INTERVAL_S = 5.0
MEGABITS = 8 / 1e6

Window = tuple[int, int]


@dataclass(frozen=True)
class Traffic:
    """The storage servers' traffic over a window; None where it cannot be told."""

    bytes: float | None = None
    mean_mbps: float | None = None
    volatility_mbps: float | None = None
    volatility_5s_mbps: float | None = None
    peak_mbps: float | None = None


def traffic(
    servers: list[Sampled],
    begin_ns: int | None,
    end_ns: int | None,
    window_ns: Window | None,
    counter: str,
) -> Traffic:
    """The hosts' traffic between two times, given the window outside which clients move nothing, if there is one."""
    servers = [server for server in servers if len(server.samples) > 1]
    if not servers or begin_ns is None or end_ns is None or end_ns <= begin_ns:
        return Traffic()
    moved = counter_curves(servers, begin_ns, window_ns, counter)
    window_s = (end_ns - begin_ns) / 1e9
    times, rates = window_rates(servers, begin_ns, end_ns, counter)
    rates = rates[np.diff(times) >= resolution_s(servers, counter) / 2]
    rates_5s = _rates(moved, np.arange(0, window_s + LEAST_S, THESIS_INTERVAL_S))
    covered_s = min(server.covered_s(0, window_s) for server in moved)
    means = [server.rate(0, window_s) for server in moved]
    mbps = [mean * MEGABITS for mean in means if mean is not None]
    return Traffic(
        bytes=sum(server.rise(0, window_s) for server in moved) if window_s - covered_s < LEAST_S else None,
        mean_mbps=sum(mbps) if len(mbps) == len(moved) else None,
        volatility_mbps=_spread(rates),
        volatility_5s_mbps=_spread(rates_5s),
        peak_mbps=float(np.nanmax(rates)) if np.isfinite(rates).any() else None,
    )


def window_rates(
    servers: list[Sampled], begin_ns: int | None, end_ns: int | None, counter: str
) -> tuple[Numbers, Numbers]:
    """All hosts' rate in Mb/s between each two samples in the window of the one that knows least, and their times."""
    servers = [server for server in servers if len(server.samples) > 1]
    if not servers or begin_ns is None or end_ns is None:
        return np.empty(0), np.empty(0)
    moved = counter_curves(servers, begin_ns, None, counter)
    coarsest = max(range(len(servers)), key=lambda server: servers[server].intervals.resolution_s(counter))
    times = moved[coarsest].times
    times = times[(times >= 0) & (times <= (end_ns - begin_ns) / 1e9)]
    return times, _rates(moved, times)


def counter_curves(servers: list[Sampled], since_ns: int, window_ns: Window | None, counter: str) -> list[CounterCurve]:
    """What each host had moved, in seconds since a moment; outside a window, if there is one, clients move nothing."""
    moved = [counter_curve(server, counter, since_ns) for server in servers]
    if window_ns is None:
        return moved
    begin, end = ((time - since_ns) / 1e9 for time in window_ns)
    return [with_window(server, begin, end) for server in moved]


def resolution_s(servers: list[Sampled], counter: str) -> float:
    """How finely the servers' traffic is known: by the samplers' period, or by a driver that says less often."""
    return max(server.intervals.resolution_s(counter) for server in servers)


def _rates(moved: list[CounterCurve], times: Numbers) -> Numbers:
    """All servers' rate in Mb/s between each two of these times; NaN where a part of it is not known."""
    rates: Numbers = sum((server.rates(times) for server in moved), np.zeros(max(0, len(times) - 1))) * MEGABITS
    return rates


def _spread(rates: Numbers) -> float | None:
    finite = rates[np.isfinite(rates)]
    return float(np.std(finite, ddof=1)) if len(finite) > 1 else None


SETTLE_S = 0.2  # what is on its way when the last client ends is no background
LATE_S = 3.0  # for so long a server on the way may go on with what it reads ahead
LEAST_IDLE_S = 0.5  # over a shorter time a single keepalive would be a rate
MOST_AT_REST_MBPS = 0.5  # of a storage server: HTCondor's and the sampler's own are 0.1 to 0.4


def idle_mbps(data: TrialData) -> tuple[float | None, float | None]:
    """The storage's rates without clients, before the window and after it; None unless known of each server."""
    idle = []
    for edge_ns, rate_of in ((data.begin_ns, _idle_before), (data.end_ns, _idle_after)):
        curves = [] if edge_ns is None else counter_curves(data.storage, edge_ns, None, data.measure.counter)
        rates = [rate for curve in curves if (rate := rate_of(curve)) is not None]
        idle.append(sum(rates) * MEGABITS if rates and len(rates) == len(curves) else None)
    return idle[0], idle[1]


def _idle_before(moved: CounterCurve) -> float | None:
    """The rate from the first sample to the last one before the window, if enough of that time is known."""
    last = moved.before(0)
    if last < 1 or moved.covered_s(moved.times[0], moved.times[last]) < LEAST_IDLE_S:
        return None
    return moved.rate(moved.times[0], moved.times[last])


def _idle_after(moved: CounterCurve) -> float | None:
    """The rate from the window's end to the last sample, or from where what came late had come, if that is less."""
    first = moved.after(SETTLE_S)
    samples = slice(first, max(first, moved.before(LATE_S)) + 1)
    if not len(moved):
        return None
    rise, seconds = moved.risen[-1] - moved.risen[samples], moved.covered[-1] - moved.covered[samples]
    enough = seconds >= LEAST_IDLE_S
    return float((rise[enough] / seconds[enough]).min()) if enough.any() else None


def at_rest_bytes(servers: int, seconds: float) -> float:
    """The most that so many servers move at rest in a time."""
    return MOST_AT_REST_MBPS * 1e6 / 8 * servers * seconds


def idle_rates(data: TrialData, row: TrialRow) -> list[tuple[float, str, float]]:
    """The storage's rates before and after the trial, and what is beyond servers at rest, in % of the mean."""
    rates = []
    for when, mbps in (("before", row.idle_before_mbps), ("after", row.idle_after_mbps)):
        if mbps is not None:
            beyond = max(0.0, mbps - MOST_AT_REST_MBPS * len(by_host(data.storage)))
            # Where caches serve what is read again, the storage's rate is the lesser part of what was measured.
            rate = max(row.mean_mbps or 0.0, (row.delivered_mbps or 0.0) if data.cached else 0.0)
            rates.append((mbps, when, 100 * beyond / rate if rate else 0.0))
    return rates


def bytes_late(data: TrialData) -> float | None:
    """What of that which was written reached the storage after the window; None for trials that do not write."""
    if data.measure.direction != RECEIVED or data.window_ns is None or not data.storage:
        return None
    late = 0.0
    for received in counter_curves(data.storage, data.window_ns[1], None, data.measure.counter):
        if received.before(0) < 0:  # or there are no samples
            return None
        at_rest = at_rest_bytes(1, max(0.0, float(received.times[-1])))
        # The interval in which the window ends is not parted: what came in it may have come before.
        first = received.after(0)
        if first < len(received):
            late += max(0.0, float(received.risen[-1] - received.risen[first]) - at_rest)
    return late


def mean_error_mbps(data: TrialData, excess_bytes: float | None) -> float | None:
    """By how much the mean may be wrong for what moved near the window's edges, given bytes that no client received.

    Four things are not known: whether background traffic kept its rate in the edges' intervals; what was asked for and
    not received, and came after the last end; what a driver counted only in the interval after that end's; and what
    the clocks of storage and readers hand over. docs/statistics.md argues it; None where it cannot be computed.
    """
    if data.window_ns is None or not data.storage:
        return None
    begin, window_s = data.window_ns[0], data.window_s
    apart_s = clocks.most_apart_ms(data, clocks.reading_and_storage(data)) / 1e3
    beside, late, counted_late, handed = 0.0, 0.0, 0.0, 0.0
    for moved in counter_curves(data.storage, begin, None, data.measure.counter):
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


def _counted_late(moved: CounterCurve, sample: int) -> float:
    """What came in the interval after this sample, beyond what came thereafter."""
    if sample + 2 >= len(moved):
        return 0.0
    begin, end, after = map(float, moved.times[sample : sample + 3])
    return max(0.0, moved.rise(begin, end) - (moved.rate(end, after) or 0.0) * (end - begin))
