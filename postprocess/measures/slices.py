"""The parts of a window that are looked at by themselves: the steady state, and all clients being active."""

from __future__ import annotations

from typing import Any

from tierbench.postprocess.measures.delivered import Delivered
from tierbench.postprocess.measures.steady import Steady, steady
from tierbench.postprocess.measures.traffic import traffic, window_rates
from tierbench.postprocess.records.trial import TrialData

# What interfaces carry has headers in it and what is sent again, a ceiling has not. What is beyond that has not reached
# the clients: a server on the way reads ahead in a burst, which is no steady state.
MOST_OVER_CEILING = 1.1
DELIVERED = "delivered"


def slice_columns(data: TrialData, taken: Delivered, ceiling_mbps: float | None = None) -> dict[str, Any]:
    """The columns of trials.csv about the steady-state slice and the all-active window."""
    if data.start.in_turn:  # no part of its window is like another, and at no time is more than one active
        return {}
    return {**_steady(data, taken, ceiling_mbps), **_all_active(data, taken)}


def _steady(data: TrialData, taken: Delivered, ceiling_mbps: float | None) -> dict[str, Any]:
    """The slice is that of what was delivered, or where nobody knows when that came, of what the storage carried."""
    begin, end = data.begin_ns, data.end_ns
    rates = taken.rates(begin, end) if taken.workers else window_rates(data.storage, begin, end, data.measure.counter)
    found = steady(*rates)
    if (
        found is None
        or begin is None
        or (ceiling_mbps is not None and found.mean_mbps > MOST_OVER_CEILING * ceiling_mbps)
    ):
        return {}
    return {
        "steady_begin_s": found.begin_s,
        "steady_end_s": found.end_s,
        "steady_from": DELIVERED if taken.workers else data.measure.direction,
        "steady_delivered_mbps": found.mean_mbps if taken.workers else None,
        **_carried_in(found, data, begin),
    }


def _carried_in(found: Steady, data: TrialData, begin_ns: int) -> dict[str, Any]:
    """What the storage servers carried in the slice; the volatility there is the thesis' Table 6.2."""
    first, last = (begin_ns + round(edge * 1e9) for edge in (found.begin_s, found.end_s))
    carried = traffic(data.storage, first, last, data.window_ns, data.measure.counter)
    return {
        "steady_mbps": carried.mean_mbps,
        "steady_volatility_mbps": carried.volatility_mbps,
        "steady_peak_mbps": carried.peak_mbps,
    }


def _all_active(data: TrialData, taken: Delivered) -> dict[str, Any]:
    active, begin, end = data.all_active_ns, data.begin_ns, data.end_ns
    if active is None or begin is None or end is None or end <= begin:
        return {}
    active_ns = max(0, active[1] - active[0])
    return {
        "all_active_s": active_ns / 1e9,
        "all_active_share": active_ns / (end - begin),
        "all_active_delivered_mbps": taken.mean_mbps(*active),
        "all_active_mbps": traffic(data.storage, *active, data.window_ns, data.measure.counter).mean_mbps,
    }
