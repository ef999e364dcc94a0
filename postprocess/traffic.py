"""What the storage servers sent within the window, from their interfaces' counters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.trial import Sampled

THESIS_INTERVAL_S = 5.0
LEAST_S = 1e-6  # a shorter time is a rounding error


@dataclass(frozen=True)
class Traffic:
    """The storage servers' traffic over a window; None where it cannot be told."""

    bytes: float | None
    mean_mbps: float | None
    volatility_mbps: float | None
    volatility_5s_mbps: float | None
    peak_mbps: float | None


@dataclass(frozen=True)
class Sent:
    """One server's bytes sent since its first sample, at times in seconds since the window began."""

    times: Numbers
    total: Numbers
    known: Numbers  # seconds of known intervals since the first sample

    def bytes_at(self, times: Numbers) -> Numbers:
        return np.interp(times, self.times, self.total)

    def unknown_s(self, times: Numbers) -> Numbers:
        """How much of each interval between these times is not known."""
        covered: Numbers = np.diff(np.interp(times, self.times, self.known))
        return np.diff(times) - covered


def traffic(servers: list[Sampled], begin_ns: int | None, end_ns: int | None) -> Traffic:
    """The servers' traffic over the window, its edges interpolated between samples."""
    servers = [server for server in servers if len(server.samples) > 1]
    if not servers or begin_ns is None or end_ns is None or end_ns <= begin_ns:
        return Traffic(None, None, None, None, None)
    sent = [_sent(server, begin_ns) for server in servers]
    window_s = (end_ns - begin_ns) / 1e9
    period_s = servers[0].samples.period_s
    times, rates = window_rates(servers, begin_ns, end_ns)
    rates = rates[np.diff(times) >= period_s / 2]
    rates_5s = _rates(sent, np.arange(0, window_s + LEAST_S, THESIS_INTERVAL_S))
    edges = np.array([0, window_s])
    totals = [float(np.diff(server.bytes_at(edges))[0]) for server in sent]
    known_s = [window_s - float(server.unknown_s(edges)[0]) for server in sent]
    means = [total * 8 / 1e6 / known for total, known in zip(totals, known_s, strict=True) if known > 0]
    return Traffic(
        bytes=sum(totals) if window_s - min(known_s) < LEAST_S else None,
        mean_mbps=sum(means) if len(means) == len(sent) else None,
        volatility_mbps=_spread(rates),
        volatility_5s_mbps=_spread(rates_5s),
        peak_mbps=float(np.nanmax(rates)) if np.isfinite(rates).any() else None,
    )


def window_rates(servers: list[Sampled], begin_ns: int | None, end_ns: int | None) -> tuple[Numbers, Numbers]:
    """All servers' rate in Mb/s between each two of the first one's samples in the window, and their times."""
    servers = [server for server in servers if len(server.samples) > 1]
    if not servers or begin_ns is None or end_ns is None:
        return np.empty(0), np.empty(0)
    sent = [_sent(server, begin_ns) for server in servers]
    times = sent[0].times[(sent[0].times >= 0) & (sent[0].times <= (end_ns - begin_ns) / 1e9)]
    return times, _rates(sent, times)


def _sent(server: Sampled, begin_ns: int) -> Sent:
    difference = server.intervals.differences["tx_bytes"][1:]
    seconds = server.intervals.seconds[1:]
    known = np.isfinite(difference)
    return Sent(
        times=(server.samples.time_ns - begin_ns) / 1e9,
        total=np.concatenate([[0.0], np.cumsum(np.where(known, difference, 0.0))]),
        known=np.concatenate([[0.0], np.cumsum(np.where(known, seconds, 0.0))]),
    )


def _rates(sent: list[Sent], times: Numbers) -> Numbers:
    """All servers' rate in Mb/s between each two of these times; NaN where a part of it is not known."""
    if len(times) < 2:
        return np.empty(0)
    rates: Numbers = sum((np.diff(server.bytes_at(times)) for server in sent), np.zeros(len(times) - 1))
    rates = rates * 8 / 1e6 / np.diff(times)
    for server in sent:
        rates[server.unknown_s(times) > LEAST_S] = np.nan
    return rates


def _spread(rates: Numbers) -> float | None:
    known = rates[np.isfinite(rates)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None
