"""What hosts sent or received within the window, from their interfaces' counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.course import LEAST_S, Course, course, with_window
from tierbench.postprocess.records.trial import Sampled

THESIS_INTERVAL_S = 5.0
MEGABITS = 8 / 1e6

Window = tuple[int, int]


@dataclass(frozen=True)
class Traffic:
    """The storage servers' traffic over a window; None where it cannot be told."""

    bytes: float | None
    mean_mbps: float | None
    volatility_mbps: float | None
    volatility_5s_mbps: float | None
    peak_mbps: float | None


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
        return Traffic(None, None, None, None, None)
    moved = courses(servers, begin_ns, window_ns, counter)
    window_s = (end_ns - begin_ns) / 1e9
    times, rates = window_rates(servers, begin_ns, end_ns, counter)
    rates = rates[np.diff(times) >= resolution_s(servers, counter) / 2]
    rates_5s = _rates(moved, np.arange(0, window_s + LEAST_S, THESIS_INTERVAL_S))
    known_s = [float(server.known_s(np.array([0, window_s]))[0]) for server in moved]
    means = [server.rate(0, window_s) for server in moved]
    known = [mean * MEGABITS for mean in means if mean is not None]
    return Traffic(
        bytes=sum(server.rise(0, window_s) for server in moved) if window_s - min(known_s) < LEAST_S else None,
        mean_mbps=sum(known) if len(known) == len(moved) else None,
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
    moved = courses(servers, begin_ns, None, counter)
    coarsest = max(range(len(servers)), key=lambda server: servers[server].intervals.resolution_s(counter))
    times = moved[coarsest].times
    times = times[(times >= 0) & (times <= (end_ns - begin_ns) / 1e9)]
    return times, _rates(moved, times)


def courses(servers: list[Sampled], since_ns: int, window_ns: Window | None, counter: str) -> list[Course]:
    """What each host had moved, in seconds since a moment; outside a window, if there is one, clients move nothing."""
    moved = [course(server, counter, since_ns) for server in servers]
    if window_ns is None:
        return moved
    begin, end = ((edge - since_ns) / 1e9 for edge in window_ns)
    return [with_window(server, begin, end) for server in moved]


def resolution_s(servers: list[Sampled], counter: str) -> float:
    """How finely the servers' traffic is known: by the samplers' period, or by a driver that says less often."""
    return max(server.intervals.resolution_s(counter) for server in servers)


def _rates(moved: list[Course], times: Numbers) -> Numbers:
    """All servers' rate in Mb/s between each two of these times; NaN where a part of it is not known."""
    rates: Numbers = sum((server.rates(times) for server in moved), np.zeros(max(0, len(times) - 1))) * MEGABITS
    return rates


def _spread(rates: Numbers) -> float | None:
    known = rates[np.isfinite(rates)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None
