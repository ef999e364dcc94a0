"""The storage servers' traffic while no client reads: before the go, and after the last end."""

from __future__ import annotations

import numpy as np

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
    if not servers or (begin_ns is None and end_ns is None):
        return None
    total = 0.0
    for server in servers:
        times = server.samples.time_ns
        whole = np.ones(max(0, len(times) - 1), bool)
        if begin_ns is not None:
            whole &= times[:-1] >= begin_ns
        if end_ns is not None:
            whole &= times[1:] <= end_ns
        sent = server.intervals.differences["tx_bytes"][1:][whole]
        seconds = server.intervals.seconds[1:][whole]
        known = np.isfinite(sent)
        if seconds[known].sum() < LEAST_S:
            return None
        total += float(sent[known].sum() * 8e-6 / seconds[known].sum())
    return total
