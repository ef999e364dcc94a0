"""The longest time in which nothing moved although clients were reading, before it went on.

Neither from the storage nor, where they are sampled, to the workers: a server on the way that has read ahead serves its
clients while the storage rests.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.course import course
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.idle import MOST_AT_REST_MBPS
from tierbench.postprocess.traffic import MEGABITS, window_rates
from tierbench.postprocess.trial import TrialData

NOTHING = 0.05  # of the rate at which those clients read that are active
GOES_ON = 0.01  # of what was sent in all, before a pause as after it: else it is the beginning or the end
USUAL_PAUSES = 4  # from so many on there is a usual one, as where a server on the way reads ahead in bursts
UNUSUAL = 3.0  # times the usual one


@dataclass(frozen=True)
class Stall:
    """A pause, in seconds since the window began."""

    begin_s: float
    seconds: float


def longest_stall(data: TrialData, at_rest_mbps: float) -> Stall | None:
    """The longest pause between what was sent first and last, as far as it is not like others and clients waited."""
    times, rates = window_rates(data.storage, data.begin_ns, data.end_ns)
    if data.begin_ns is None or len(rates) < 1:
        return None
    expected = NOTHING * _expected_mbps(data, data.begin_ns, (times[1:] + times[:-1]) / 2)
    still = rates <= at_rest_mbps + expected  # false where the rate is not known
    still &= ~(_received_mbps(data, data.begin_ns, times) > MOST_AT_REST_MBPS + expected)
    sent = np.cumsum(np.nan_to_num(rates * np.diff(times)))
    busy = np.flatnonzero(~still)
    pauses = [
        Stall(float(times[before + 1]), float(times[after] - times[before + 1]))
        for before, after in itertools.pairwise(busy)
        if after > before + 1 and GOES_ON <= sent[before] / sent[-1] <= 1 - GOES_ON
    ]
    longest = max(pauses, key=lambda pause: pause.seconds, default=None)
    if longest is None:
        return None
    usual = float(np.median([pause.seconds for pause in pauses])) if len(pauses) >= USUAL_PAUSES else 0.0
    if longest.seconds < UNUSUAL * usual:
        return None
    return Stall(longest.begin_s, min(longest.seconds, _most_waited_s(data, longest)))


def _expected_mbps(data: TrialData, begin_ns: int, times: Numbers) -> Numbers:
    """What the clients that are active at these times would take together, each at its own mean rate."""
    expected: Numbers = np.zeros(len(times))
    for job in data.jobs:
        if job.bytes_read and job.run_s and job.go and job.ended_wall_ns is not None:
            active = (times >= (job.go["wall_ns"] - begin_ns) / 1e9) & (times < (job.ended_wall_ns - begin_ns) / 1e9)
            expected += np.where(active, job.bytes_read * MEGABITS / job.run_s, 0.0)
    return expected


def _received_mbps(data: TrialData, begin_ns: int, times: Numbers) -> Numbers:
    """What the workers with clients received between each two of these times; NaN where that is not known."""
    workers = data.reading_workers
    if not workers:
        return np.full(len(times) - 1, np.nan)
    rates = (course(worker, "rx_bytes", begin_ns).rates(times) * MEGABITS for worker in workers)
    return sum(rates, np.zeros(len(times) - 1))


def _most_waited_s(data: TrialData, stall: Stall) -> float:
    """The most for which all the clients that had not ended can have waited: the time in which none computed."""
    begin_ns = data.begin_ns or 0
    waited = [
        job.run_s - (job.computing_s or 0.0)
        for job in data.jobs
        if job.run_s and job.ended_wall_ns is not None and (job.ended_wall_ns - begin_ns) / 1e9 > stall.begin_s
    ]
    return max(0.0, min(waited, default=stall.seconds))
