"""The storage servers' traffic while no client reads: before the go, and after the last end."""

from __future__ import annotations

from tierbench.postprocess.measures.course import Course, course
from tierbench.postprocess.measures.traffic import MEGABITS
from tierbench.postprocess.records.trial import TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow

SETTLE_S = 0.2  # what is on its way when the last client ends is no background
LATE_S = 3.0  # for so long a server on the way may go on with what it reads ahead
LEAST_S = 0.5  # over a shorter time a single keepalive would be a rate
MOST_AT_REST_MBPS = 0.5  # of a storage server: HTCondor's and the sampler's own are 0.1 to 0.4


def idle_before_mbps(data: TrialData) -> float | None:
    """The rate from the first sample to the last one before the window."""
    if data.begin_ns is None:
        return None
    moved = [course(server, data.measure.counter, data.begin_ns) for server in data.storage]
    return _together([_rate(server, 0, server.before(0)) for server in moved])


def idle_after_mbps(data: TrialData) -> float | None:
    """The rate from the window's end to the last sample, or from where what came late had come, if that is less."""
    if data.end_ns is None:
        return None
    moved = [course(server, data.measure.counter, data.end_ns) for server in data.storage]
    return _together([_settled(server) for server in moved])


def idle_rates(data: TrialData, row: TrialRow) -> list[tuple[float, str, float]]:
    """The storage's rates before and after the trial, and what is beyond servers at rest, in % of the mean."""
    rates = []
    for when, mbps in (("before", row.idle_before_mbps), ("after", row.idle_after_mbps)):
        if mbps is not None:
            beyond = max(0.0, mbps - MOST_AT_REST_MBPS * len(by_host(data.storage)))
            # Where caches serve what is read again, the storage's rate is the lesser part of what was measured.
            rate = max(row.mean_mbps or 0.0, (row.delivered_mbps or 0.0) if data.trial.reads_again else 0.0)
            rates.append((mbps, when, 100 * beyond / rate if rate else 0.0))
    return rates


def _settled(moved: Course) -> float | None:
    """The least of the rates from a sample soon after the end to the last one."""
    first = moved.after(SETTLE_S)
    samples = slice(first, max(first, moved.before(LATE_S)) + 1)
    if not len(moved):
        return None
    rise, known = moved.risen[-1] - moved.risen[samples], moved.known[-1] - moved.known[samples]
    enough = known >= LEAST_S
    return float((rise[enough] / known[enough]).min()) if enough.any() else None


def _rate(moved: Course, first: int, last: int) -> float | None:
    """The rate from one sample to another, if enough of that time is known."""
    if not 0 <= first < last < len(moved):
        return None
    times = moved.times[[first, last]]
    return None if moved.known_s(times)[0] < LEAST_S else moved.rate(*times)


def _together(rates: list[float | None]) -> float | None:
    """All servers' rate in Mb/s; None unless it is known of each."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) * MEGABITS if known and len(known) == len(rates) else None
