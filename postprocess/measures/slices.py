"""The parts of a window that are looked at by themselves: the steady state, and all clients being active."""

from __future__ import annotations

from dataclasses import replace

from tierbench.postprocess.measures.delivered import Delivered
from tierbench.postprocess.measures.steady import steady
from tierbench.postprocess.measures.traffic import traffic, window_rates
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import Slices

# What interfaces carry has headers in it and what is sent again, a ceiling has not. What is beyond that has not reached
# the clients: a server on the way reads ahead in a burst, which is no steady state.
MOST_OVER_CEILING = 1.1
DELIVERED = "delivered"


def slices(data: TrialData, taken: Delivered, ceiling_mbps: float | None = None) -> Slices:
    """The steady-state slice and the all-active window of a trial."""
    if data.start.in_turn:  # no part of its window is like another, and at no time is more than one active
        return Slices()
    steadily, active, begin, end = _steady(data, taken, ceiling_mbps), data.all_active_ns, data.begin_ns, data.end_ns
    if active is None or begin is None or end is None or end <= begin:
        return steadily
    active_ns = max(0, active[1] - active[0])
    return replace(
        steadily,
        all_active_s=active_ns / 1e9,
        all_active_share=active_ns / (end - begin),
        all_active_delivered_mbps=taken.mean_mbps(*active),
        all_active_mbps=traffic(data.storage, *active, data.window_ns, data.measure.counter).mean_mbps,
    )


def _steady(data: TrialData, taken: Delivered, ceiling_mbps: float | None) -> Slices:
    """The slice is that of what was delivered, or where nobody knows when that came, of what the storage carried."""
    begin, end = data.begin_ns, data.end_ns
    rates = taken.rates(begin, end) if taken.workers else window_rates(data.storage, begin, end, data.measure.counter)
    slice_ = steady(*rates)
    if (
        slice_ is None
        or begin is None
        or (ceiling_mbps is not None and slice_.mean_mbps > MOST_OVER_CEILING * ceiling_mbps)
    ):
        return Slices()
    first, last = (begin + round(edge * 1e9) for edge in (slice_.begin_s, slice_.end_s))
    carried = traffic(data.storage, first, last, data.window_ns, data.measure.counter)
    return Slices(
        steady_begin_s=slice_.begin_s,
        steady_end_s=slice_.end_s,
        steady_from=DELIVERED if taken.workers else data.measure.direction,
        steady_delivered_mbps=slice_.mean_mbps if taken.workers else None,
        steady_mbps=carried.mean_mbps,
        steady_volatility_mbps=carried.volatility_mbps,  # the thesis' Table 6.2
        steady_peak_mbps=carried.peak_mbps,
    )
