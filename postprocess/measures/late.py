"""What of that which was written reached the storage only after the last end: until then it was in some cache."""

from __future__ import annotations

from tierbench.dags.measure import RECEIVED
from tierbench.postprocess.measures.course import course
from tierbench.postprocess.measures.idle import MOST_AT_REST_MBPS
from tierbench.postprocess.records.trial import TrialData


def settles(data: TrialData) -> bool:
    """Whether all that its clients wrote is on the storage when they end, as they declare."""
    return data.traits.settles


def bytes_late(data: TrialData) -> float | None:
    """What of that which was written reached the storage after the window; None for trials that do not write."""
    if data.measure.direction != RECEIVED or data.window_ns is None or not data.storage:
        return None
    late = 0.0
    for server in data.storage:
        received = course(server, data.measure.counter, data.window_ns[1])
        if received.before(0) < 0 or not len(received):
            return None
        at_rest = MOST_AT_REST_MBPS * 1e6 / 8 * max(0.0, float(received.times[-1]))
        # The interval in which the window ends is not parted: what came in it may have come before.
        first = received.after(0)
        if first < len(received):
            late += max(0.0, float(received.risen[-1] - received.risen[first]) - at_rest)
    return late
