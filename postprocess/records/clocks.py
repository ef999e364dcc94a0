"""How the hosts' wall clocks stood to the access point's and to each other, and whether one was set during the trial.

Each sampler and each client has compared its wall clock with the access point's uptime, by bounds; the trial's last
step has compared the access point's own. Hosts with one boot id share one clock.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.records.jobs import Job, Record
from tierbench.postprocess.records.trial import TrialData

Bounds = tuple[int, int]


@dataclass(frozen=True)
class Difference:
    """By how much one host's wall clock is ahead of another's."""

    ahead: str
    behind: str
    milliseconds: float
    error_ms: float

    @property
    def proven_ms(self) -> float:
        return max(0.0, self.milliseconds - self.error_ms)


def widest(data: TrialData, among: Collection[str] | None = None) -> Difference | None:
    """The largest proven difference between the clocks of two hosts, of all or of those named.

    Both are known against the same uptime, so the access point's own wall clock does not enter.
    """
    bounds = {host: pair for host, pair in _bounds(data).items() if among is None or host in among}
    if len(bounds) < 2:
        return None
    ahead, behind = max(bounds, key=lambda host: bounds[host][0]), min(bounds, key=lambda host: bounds[host][1])
    if ahead == behind:  # known best of all: the difference to each other host is within the error
        return None
    (low, high), (other_low, other_high) = bounds[ahead], bounds[behind]
    least, most = low - other_high, high - other_low
    return Difference(ahead, behind, (least + most) / 2e6, (most - least) / 2e6)


def most_apart_ms(data: TrialData) -> float:
    """The most by which the clocks of readers and storage can differ; 0 where none or one has compared its own."""
    among = reading_and_storage(data)
    bounds = {host: pair for host, pair in _bounds(data).items() if host in among}
    apart = [high - low for host, (_, high) in bounds.items() for other, (low, _) in bounds.items() if other != host]
    return max([0, *apart]) / 1e6


def reading_and_storage(data: TrialData) -> set[str]:
    """The hosts whose clocks say what was done in the window: those of clients set it, those of storage date bytes."""
    dated = data.both_ends if data.measure.of == "bytes" else []
    return {server.samples.host for server in dated} | data.client_hosts


def largest_offset_ms(data: TrialData) -> float | None:
    """By how much the clock of a host is ahead of the access point's, where that is proven to be most."""
    if not data.clock:
        return None
    own_low, own_high = data.clock.low_ns, data.clock.high_ns
    apart = [
        ((low + high - own_low - own_high) / 2e6, (high - low + own_high - own_low) / 2e6)
        for low, high in _bounds(data).values()
    ]  # with the error
    return max(apart, key=lambda pair: (max(0.0, abs(pair[0]) - pair[1]), abs(pair[0])), default=(None,))[0]


def not_compared(data: TrialData) -> list[str]:
    """Hosts that read or are storage and have not compared their clock; none if all of them share one clock."""
    boots = {(sampled.samples.host, sampled.samples.header.boot_id) for sampled in data.both_ends}
    boots |= {(job.host, job.start.boot_id) for job in data.jobs if job.start}
    if len({boot for _, boot in boots}) == 1 and all(boot for _, boot in boots):
        return []
    return sorted({host for host, _ in boots} - _bounds(data).keys())


def steps_ms(data: TrialData) -> dict[str, float]:
    """How far each host's wall clock has moved against its monotonic clock during the trial."""
    steps: dict[str, float] = {}
    for sampled in data.sampled:
        columns = sampled.samples.columns
        if "wall_ns" in columns and len(columns["wall_ns"]) > 1:
            apart = columns["wall_ns"] - columns["mono_ns"]
            if len(apart) > 2:  # a sampler that was preempted between its two clocks is no step
                apart = np.median(np.stack([apart[:-2], apart[1:-1], apart[2:]]), axis=0)
            steps[sampled.samples.host] = float(apart.max() - apart.min()) / 1e6
    watched = set(steps)
    for job in data.jobs:
        if job.start:
            apart_ns = [record.wall_ns - record.mono_ns for record in (job.start, job.go, job.end) if record]
            # One preempted between its two clocks at the go is no step: the sampler there would have seen that.
            apart_ns = apart_ns[:: len(apart_ns) - 1 or 1] if job.host in watched else apart_ns
            steps[job.host] = max(steps.get(job.host, 0.0), (max(apart_ns) - min(apart_ns)) / 1e6)
    if step_ms := step_of_access_point_ms(data):
        steps["the access point"] = step_ms
    return steps


def step_of_access_point_ms(data: TrialData) -> float:
    """By how much at least the access point's wall clock was set between the trial's begin and its end."""
    first, last = data.begin_clock, data.clock
    return max(0, first.low_ns - last.high_ns, last.low_ns - first.high_ns) / 1e6 if first and last else 0.0


def drifts_ms(data: TrialData) -> dict[str, float]:
    """How far at least each host's clock ran apart from the access point's uptime during the trial, where it did.

    Its wall and monotonic clocks do so together where a virtual machine is paused, or a clock is slewed fast.
    """
    apart = {host: max(low for low, _ in of) - min(high for _, high in of) for host, of in _compared(data).items()}
    return {host: apart_ns / 1e6 for host, apart_ns in apart.items() if apart_ns > 0}


def wall_time(data: TrialData) -> tuple[float | None, float | None]:
    """From the submission to the last end in seconds, by the access point's uptime, and by how much it may be wrong.

    The stamp of the submission is by its wall clock. If that was set meanwhile, or the stamp is not between the trial's
    begin and its first client's, all that is known of the submission is that it was between these two.
    """
    own = data.begin_clock or data.clock
    jobs = [job for job in data.working if job.start and job.end]
    if data.submit_wall_ns is None or data.submit_error_s is None or data.window_ns is None or not jobs:
        return None, None
    was_set = step_of_access_point_ms(data) > 0
    on_access_point = own and own.boot_id and all(job.start and job.start.boot_id == own.boot_id for job in jobs)
    if own is None or not all(job.clock for job in jobs) or (on_access_point and not was_set):
        seconds = (data.window_ns[1] - data.submit_wall_ns) / 1e9
        is_possible = not was_set and seconds * 1e9 >= data.window_ns[1] - data.window_ns[0]
        return (seconds, data.submit_error_s) if is_possible else (None, None)
    error_ns = data.submit_error_s * 1e9 + (own.high_ns - own.low_ns) / 2
    low, high = (data.submit_wall_ns - own.ahead_ns + error for error in (-error_ns, error_ns))
    earliest = own.uptime_ns if data.begin_clock else None
    latest, latest_error = min(_uptime(job, job.start) for job in jobs if job.start)
    if was_set or high < (earliest or 0) or low > latest + latest_error:
        if earliest is None or latest < earliest:
            return None, None
        low, high = earliest, latest
    ended, ended_error = max(_uptime(job, job.end) for job in jobs if job.end)
    return (ended - (low + high) / 2) / 1e9, ((high - low) / 2 + ended_error) / 1e9


def _uptime(job: Job, record: Record) -> tuple[float, float]:
    """The access point's uptime at a client's record, and its error, carried on from where the client compared them."""
    if job.clock is None:
        raise ValueError(f"client {job.index} has not compared its clock")
    compared = job.clock.wall_ns - (job.clock.low_ns + job.clock.high_ns) / 2
    return compared + record.mono_ns - job.clock.mono_ns, (job.clock.high_ns - job.clock.low_ns) / 2


def _bounds(data: TrialData) -> dict[str, Bounds]:
    """Between which two times each host's wall clock is ahead of the access point's uptime."""
    narrowest = {}
    for host, pairs in _compared(data).items():
        # All bounds hold at once, unless the clock was set, or ran apart; then those of the first moment are taken.
        low, high = max(low for low, _ in pairs), min(high for _, high in pairs)
        narrowest[host] = (low, high) if low <= high else pairs[0]
    return narrowest


def _compared(data: TrialData) -> dict[str, list[Bounds]]:
    """The same, each time that a host has compared them."""
    bounds: dict[str, list[Bounds]] = defaultdict(list)
    for sampled in data.sampled:
        clocks = sampled.samples.trailer.clocks if sampled.samples.trailer else []
        bounds[sampled.samples.host] += [(clock.low_ns, clock.high_ns) for clock in clocks]
    for job in data.jobs:
        compared = (job.clock, job.clock_after) if job.start else ()
        bounds[job.host] += [(clock.low_ns, clock.high_ns) for clock in compared if clock]
    return {host: pairs for host, pairs in bounds.items() if pairs}
