"""The longest time in which nothing moved although clients were at work, before it went on.

Neither at the storage nor, where they are sampled, at the workers: a server on the way that has read ahead serves its
clients while the storage rests. Pauses at the window's edges are separate: there files are opened and programs start.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.measures.traffic import MEGABITS, MOST_AT_REST_MBPS, Counted, by_storage, without_clients
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.trial import TrialData

NOTHING = 0.05  # of the rate at which those clients read that are active
GOES_ON = 0.01  # of what moved in all, before a pause as after it: else it is the beginning or the end
USUAL_PAUSES = 4  # from so many on there is a usual one, as where a server on the way reads ahead in bursts
UNUSUAL = 3.0  # times the usual one


@dataclass(frozen=True)
class Stall:
    """A pause, in seconds since the window began, or several, of which the longest began then."""

    begin_s: float
    seconds: float
    pauses: int = 1


def stalled(data: TrialData, at_rest_mbps: float) -> Stall | None:
    """The pauses between what moved first and last, as far as they are not like others and clients waited.

    The longest alone, where all of them together are no longer when what clients computed is left out: nobody knows
    when that was. Several may also be between files or turns, or while a server serves what it has read ahead.
    """
    flow = _flow(data, at_rest_mbps)
    if flow is None:
        return None
    pauses = [pause for pause, share in flow.pauses() if GOES_ON <= share <= 1 - GOES_ON]
    longest = max(pauses, key=lambda pause: pause.seconds, default=None)
    if longest is None:
        return None
    usual = float(np.median([pause.seconds for pause in pauses])) if len(pauses) >= USUAL_PAUSES else 0.0
    unusual = [pause for pause in pauses if pause.seconds >= UNUSUAL * usual]
    if not unusual:
        return None
    alone_s, together_s = min(longest.seconds, _most_waited_s(data, longest)), flow.still_s(unusual) - _computed_s(data)
    files_at_once = data.trial.work.is_one_read and data.trial.start.overlapping
    if files_at_once and _is_seen(data) and together_s > alone_s:
        return Stall(longest.begin_s, together_s, len(unusual))
    return Stall(longest.begin_s, alone_s)


def longest_at_an_edge(data: TrialData, at_rest_mbps: float, *, ends: bool) -> Stall | None:
    """The longest pause before about anything moved, or after about all had, as far as clients waited in it."""
    flow = _flow(data, at_rest_mbps)
    if flow is None or not len(flow.moving) or (ends and not _is_seen(data)):
        return None
    first, last = (float(flow.times[place]) for place in (flow.moving[0], flow.moving[-1] + 1))
    # Between a few bytes and the rest clients may compute, as where they have read which leaves a file has.
    computed_s = _computed_s(data)
    pauses = [Stall(last, float(flow.times[-1]) - last) if ends else Stall(0.0, first)]
    pauses += [
        Stall(pause.begin_s, max(0.0, pause.seconds - computed_s))
        for pause, share in flow.pauses()
        if (share > 1 - GOES_ON if ends else share < GOES_ON)
    ]
    waited = [Stall(pause.begin_s, min(pause.seconds, _most_waited_s(data, pause))) for pause in pauses]
    return max(waited, key=lambda pause: pause.seconds)


@dataclass(frozen=True)
class _Flow:
    """What moved between each two samples in the window, at the storage or at the other end."""

    times: Numbers
    rates: Numbers  # of the storage
    moved: Numbers  # as a share of what the clients that were active take in the mean
    moving: NDArray[np.intp]  # the intervals in which more than about nothing moved
    busy: NDArray[np.intp]  # those, and the ones in which no client was active

    def pauses(self) -> Iterator[tuple[Stall, float]]:
        """Each time in which nothing moved, with the share of all that had moved before it."""
        moved = np.cumsum(np.nan_to_num(self.rates * np.diff(self.times)))
        for before, after in itertools.pairwise(map(int, self.busy)):
            if after > before + 1:
                yield self.pause(before, after), float(moved[before] / (moved[-1] or 1.0))

    def pause(self, before: int, after: int) -> Stall:
        """The pause between two busy intervals, which it began in the one and ended in the other."""
        before_s, after_s = (float(np.diff(self.times)[at] * max(0.0, 1 - self.moved[at])) for at in (before, after))
        begin, end = float(self.times[before + 1]) - before_s, float(self.times[after]) + after_s
        return Stall(begin, end - begin)

    def still_s(self, pauses: list[Stall]) -> float:
        """How long several pauses are together, of which one may end in the interval in which the next begins."""
        still = np.diff(self.times)
        still[self.busy] *= np.maximum(0.0, 1 - self.moved[self.busy])
        ends = [(pause.begin_s, pause.begin_s + pause.seconds) for pause in pauses]
        inside = [(self.times[:-1] < end) & (self.times[1:] > begin) for begin, end in ends]
        return float(still[np.any(inside, axis=0)].sum())


def _flow(data: TrialData, at_rest_mbps: float) -> _Flow | None:
    times, rates = by_storage(data).rates(data.begin_ns, data.end_ns)
    if data.begin_ns is None or len(rates) < 1:
        return None
    middles = (times[1:] + times[:-1]) / 2
    active, expected = np.zeros(len(rates), bool), np.zeros(len(rates))
    for job, begin, end in _at_work(data):
        then = (middles >= begin) & (middles < end)
        active |= then
        expected[then] += job.mbps or 0.0  # what it would take, at its own mean rate
    far, far_rest = np.full(len(rates), np.nan), 0.0  # what the other end had; NaN where that is not known
    if data.far_end:
        counted = Counted(data.far_end, data.measure.far_counter)
        far = sum((curve.rates(times) * MEGABITS for curve in counted.curves(data.begin_ns)), np.zeros(len(rates)))
        far_rest = min((mbps for mbps in without_clients(data, counted) if mbps is not None), default=0.0)
    still = rates <= at_rest_mbps + NOTHING * expected  # false where the rate is not known
    still &= ~(far > max(MOST_AT_REST_MBPS, far_rest) + NOTHING * expected)
    moving = np.flatnonzero(~still)
    if active.any():
        still &= active  # nothing has to move between two clients
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.nan_to_num(np.fmax(rates, far) / expected, nan=1.0)
    return _Flow(times, rates, moved, moving, np.flatnonzero(~still))


def _at_work(data: TrialData) -> list[tuple[Job, float, float]]:
    """The clients that began, and between which times since the window's begin each was active."""
    begin_ns = data.begin_ns or 0
    return [
        (job, (job.go.wall_ns - begin_ns) / 1e9, ((job.ended_wall_ns or math.inf) - begin_ns) / 1e9)
        for job in data.working
        if job.go
    ]


def _is_seen(data: TrialData) -> bool:
    """Whether what clients have is seen in the samples: else a server may serve what it has read ahead."""
    return data.trial.protocol == "file" or bool(data.far_end)


def _computed_s(data: TrialData) -> float:
    """The most that a client computed."""
    return max((job.computing_s or 0.0 for job in data.jobs), default=0.0) / data.trial.cores_each


def _most_waited_s(data: TrialData, stall: Stall) -> float:
    """The most for which all the clients that were active can have waited: the time in which none computed."""
    waited = [
        job.run_s - (job.computing_s or 0.0) / data.trial.cores_each - _starting_s(job, data.begin_ns or 0, stall)
        for job, begin, end in _at_work(data)
        if job.run_s and stall.begin_s < end < math.inf and begin < stall.begin_s + stall.seconds
    ]
    return max(0.0, min(waited, default=stall.seconds))


def _starting_s(job: Job, begin_ns: int, stall: Stall) -> float:
    """What a client took to start and open its file, where that was over when the pause began.

    Only of those that tell what they computed beside it: the CPU time of others is in both.
    """
    opened_ns = job.end.opened_wall_ns if job.end else None
    if opened_ns is None or job.go is None or "computed_s" not in job.detail:
        return 0.0
    return (opened_ns - job.go.wall_ns) / 1e9 if (opened_ns - begin_ns) / 1e9 <= stall.begin_s else 0.0
