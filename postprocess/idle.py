"""The storage servers' traffic while no client reads: before the go, and after the last end."""

from __future__ import annotations

from tierbench.postprocess.course import course
from tierbench.postprocess.traffic import MEGABITS
from tierbench.postprocess.trial import Sampled, TrialData

SETTLE_NS = 200_000_000  # what is on its way when the last client ends is no background
LEAST_S = 0.5  # over a shorter time a single keepalive would be a rate


def idle_before_mbps(data: TrialData) -> float | None:
    """The rate from the first sample to the last one before the window."""
    return _rate(data.storage, None, data.begin_ns)


def idle_after_mbps(data: TrialData) -> float | None:
    """The rate from the first sample after the window to the last one."""
    end = data.end_ns
    return _rate(data.storage, None if end is None else end + SETTLE_NS, None)


def _rate(servers: list[Sampled], begin_ns: int | None, end_ns: int | None) -> float | None:
    """All servers' rate over the whole intervals between these times; None unless it is known of each."""
    since = begin_ns if begin_ns is not None else end_ns
    if not servers or since is None:
        return None
    total = 0.0
    for server in servers:
        sent = course(server, "tx_bytes", since)
        first = 0 if begin_ns is None else sent.after(0)
        last = len(sent) - 1 if end_ns is None else sent.before(0)
        if first >= last:
            return None
        times = sent.times[[first, last]]
        rate = sent.rate(*times)
        if rate is None or sent.known_s(times)[0] < LEAST_S:
            return None
        total += rate * MEGABITS
    return total
