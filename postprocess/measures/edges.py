"""By how much a trial's mean rate may be wrong for what moved near its window's edges; docs/statistics.md argues it.

Four things are not known: whether what is there beside the clients kept its rate in the edges' intervals; what was
asked for, not taken in, and came after the last end; what a driver counted only in the interval after that end's; and
what the clocks of storage and readers hand over.
"""

from __future__ import annotations

from tierbench.postprocess.measures.course import Course, begin_edge, end_edge
from tierbench.postprocess.measures.traffic import MEGABITS, courses
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.trial import TrialData


def mean_error_mbps(data: TrialData, excess_bytes: float | None) -> float | None:
    """The most by which it may be wrong, given the storage's bytes that no client took in; None where that is open."""
    if data.window_ns is None or not data.storage:
        return None
    begin, end = data.window_ns
    window_s = (end - begin) / 1e9
    apart_s = clocks.most_apart_ms(data, clocks.reading_and_storage(data)) / 1e3
    beside, late, counted_late, handed = 0.0, 0.0, 0.0, 0.0
    for moved in courses(data.storage, begin, None, data.measure.counter):
        if moved.before(0) < 0 or moved.after(window_s) >= len(moved):
            return None
        first, last = begin_edge(moved, 0), end_edge(moved, window_s)
        beside += first.outside + last.outside
        late += min(moved.rise(0, window_s) / window_s * last.outside_s, last.rise - last.outside)
        counted_late += _counted_late(moved, moved.after(window_s))
        handed += _handed_over(moved, window_s, apart_s)
    late = late if excess_bytes is None else min(late, max(0.0, excess_bytes))
    return (beside + late + counted_late + handed) * MEGABITS / window_s


def _counted_late(moved: Course, sample: int) -> float:
    """What came in the interval after this sample, beyond what came thereafter."""
    if sample + 2 >= len(moved):
        return 0.0
    begin, end, after = map(float, moved.times[sample : sample + 3])
    return max(0.0, moved.rise(begin, end) - (moved.rate(end, after) or 0.0) * (end - begin))


def _handed_over(moved: Course, window_s: float, apart_s: float) -> float:
    """What moved beyond the edges' intervals, but within what the clocks may be apart of the edges."""
    outer_begin, outer_end = moved.times[moved.before(0)], moved.times[moved.after(window_s)]
    before = moved.rise(-apart_s, float(outer_begin)) if -apart_s < outer_begin else 0.0
    after = moved.rise(float(outer_end), window_s + apart_s) if window_s + apart_s > outer_end else 0.0
    return before + after
