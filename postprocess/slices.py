"""The parts of a window that are looked at by themselves: the steady state, and all clients being active."""

from __future__ import annotations

from typing import Any

from tierbench.postprocess.steady import steady
from tierbench.postprocess.traffic import traffic, window_rates
from tierbench.postprocess.trial import TrialData


def slice_columns(data: TrialData, ceiling_mbps: float | None = None) -> dict[str, Any]:
    """The columns of trials.csv about the steady-state slice and the all-active window."""
    return {**_steady(data, ceiling_mbps), **_all_active(data)}


# The rate counts headers and what is sent again, a ceiling does not. What is beyond that has not reached the clients:
# a server on the way reads ahead in a burst, which is no steady state.
MOST_OVER_CEILING = 1.1


def _steady(data: TrialData, ceiling_mbps: float | None) -> dict[str, Any]:
    found = steady(*window_rates(data.storage, data.begin_ns, data.end_ns))
    if found is None or (ceiling_mbps is not None and found.mean_mbps > MOST_OVER_CEILING * ceiling_mbps):
        return {}
    return {
        "steady_begin_s": found.begin_s,
        "steady_end_s": found.end_s,
        "steady_mbps": found.mean_mbps,
        "steady_volatility_mbps": found.volatility_mbps,
        "steady_peak_mbps": found.peak_mbps,
    }


def _all_active(data: TrialData) -> dict[str, Any]:
    active, begin, end = data.all_active_ns, data.begin_ns, data.end_ns
    if active is None or begin is None or end is None or end <= begin:
        return {}
    active_ns = max(0, active[1] - active[0])
    return {
        "all_active_s": active_ns / 1e9,
        "all_active_share": active_ns / (end - begin),
        "all_active_mbps": traffic(data.storage, *active, data.window_ns).mean_mbps,
    }
