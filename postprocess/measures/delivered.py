"""What the jobs received: the clients report how much it was, the interfaces of their workers when it came.

What the storage sent is no measure of that: a server or a mount on the way that reads ahead what nobody asks for
makes the storage send more, and the jobs faster by nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.measures.closure import together
from tierbench.postprocess.measures.traffic import Counted
from tierbench.postprocess.records.definition import Definition
from tierbench.postprocess.records.jobs import Job, WorkDone
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import Fetches
from tierbench.wrappers.work import PERCENTILES, rank

LEAST_RECEIVED = 0.98  # of what the jobs received; with less, data reached them past the sampled interfaces


@dataclass(frozen=True)
class Delivered:
    """What the jobs received over the window; None where it is unknown."""

    bytes: int | None = None
    mbps: float | None = None
    client_mbps: float | None = None  # of a client, while it ran
    summed_mbps: float | None = None  # of all clients, each while it ran
    by: Counted | None = None  # what says when it came: the workers' interfaces, if none of it went past them
    payload: float = 0.0  # what the jobs received of each byte that these received

    def rates(self, begin_ns: int | None, end_ns: int | None) -> tuple[Numbers, Numbers]:
        """The rate in Mb/s between each two samples in this part of the window, and the samples' times."""
        times, received = self.by.rates(begin_ns, end_ns) if self.by else (np.empty(0), np.empty(0))
        return times, received * self.payload

    def mean_mbps(self, begin_ns: int, end_ns: int) -> float | None:
        received = self.by.traffic(begin_ns, end_ns).mean_mbps if self.by else None
        return None if received is None else received * self.payload


def delivered(data: TrialData) -> Delivered:
    counts = [count for job in data.jobs if (count := job.bytes_taken) is not None]
    silent = any(job.ok and job.bytes_taken is None for job in data.jobs)
    if not counts or silent or data.window_ns is None:
        return Delivered()
    begin, end = data.window_ns
    taken = sum(counts)
    rates = [job.bytes_taken * 8e-6 / job.run_s for job in data.working if job.bytes_taken is not None and job.run_s]
    around = together(data, data.far_end, data.measure.far_direction)  # in whole intervals: none of it is left out
    received = around.bytes if around and around.bytes >= LEAST_RECEIVED * taken else 0.0
    return Delivered(
        bytes=taken,
        mbps=taken * 8e3 / (end - begin),
        client_mbps=float(np.mean(rates)) if rates else None,
        summed_mbps=float(np.sum(rates)) if rates and len(rates) == len(data.working) else None,
        by=Counted(data.far_end, data.measure.far_counter, data.window_ns) if received else None,
        payload=taken / received if received else 0.0,
    )


LIKE_OTHERS = 1.1  # times the longest
FEW = 0.02  # of a job's fetches: by no more is a file's time too large if the time of those that were cut is in it


def of_job(job: Job) -> Fetches:
    return _fetches([job.work], job.work.latency_s, job.run_s) if job.work else Fetches()


def of_jobs(jobs: Iterable[Job], window_s: float | None) -> Fetches:
    """All jobs' together; of their latencies the jobs tell but the classes, and the longest."""
    done = [job.work for job in jobs if job.work]
    if not done:
        return Fetches()
    counts = sum((work.counted(work.latency_classes) for work in done), Counter[float]())
    cut_after = sum((work.counted(work.cut_classes) for work in done), Counter[float]())
    longest = max((work.latency_s["max"] or 0.0 for work in done), default=0.0) or None
    overdue = sum(work.overdue for work in done)
    latencies = {name: _percentile(counts, share, longest, overdue, cut_after) for name, share in PERCENTILES.items()}
    return _fetches(done, {**latencies, "max": longest}, window_s)


def _fetches(done: Sequence[WorkDone], latencies: Mapping[str, float | None], seconds: float | None) -> Fetches:
    fetches = sum(work.fetches for work in done)
    return Fetches(
        fetches=fetches,
        fetch_failures=sum(work.failed for work in done),
        fetches_cut=sum(work.cut for work in done),
        fetches_overdue=sum(work.overdue for work in done),
        fetches_per_s=fetches / seconds if seconds else None,
        latency_p50_s=latencies["p50"],
        latency_p95_s=latencies["p95"],
        latency_p99_s=latencies["p99"],
        latency_max_s=latencies["max"],
    )


def each_s(data: TrialData) -> float | None:
    """What a file has cost whoever was at it: the time of all that were under way, over the files.

    None where a timetable says when each begins: between two of them nobody has one under way; and where one that was
    cut had been under way for longer than any that ended: it leaves out what is slow.
    """
    done = [(job.work, _under_way_s(job.work, job.run_s, data.trial)) for job in data.jobs if job.work]
    times = [seconds for _, seconds in done if seconds is not None]
    fetches = sum(work.fetches for work, _ in done)
    longest_s = max((work.latency_s["max"] or 0.0 for work, _ in done), default=0.0)
    cut_s = max((seconds for work, _ in done for seconds in work.counted(work.cut_classes)), default=0.0)
    is_known = len(times) == len(done) and data.trial.work.fetch_every_s is None and cut_s <= LIKE_OTHERS * longest_s
    return sum(times) / fetches if fetches and is_known else None


def _under_way_s(work: WorkDone, run_s: float | None, trial: Definition) -> float | None:
    """As the job tells; else by its whole run, in which all of its processes had files under way."""
    if work.under_way_s is not None:
        return work.under_way_s
    if run_s is None or work.cut > FEW * work.fetches:
        return None
    return work.processes * trial.declared.at_once * run_s


def cached_share(data: TrialData, carried_bytes: float | None, taken_bytes: int | None) -> float | None:
    """Of what caches were meant to serve, the share that the storage did not send."""
    if not data.cached or carried_bytes is None or not taken_bytes:
        return None
    return max(0.0, 1 - carried_bytes / taken_bytes)


def _percentile(
    counts: Counter[float], share: float, longest: float | None, overdue: int, cut_after: Counter[float]
) -> float | None:
    """Within how long so large a share was done, of those that were meant to begin.

    None overdue is known to be, and none that was cut off by then unless it had been under way for less.
    """
    done, longer = 0, overdue + cut_after.total()
    cut = sorted(cut_after)
    for seconds in sorted(counts):
        done += counts[seconds]
        while cut and cut[0] < seconds:
            longer -= cut_after[cut.pop(0)]
        if done >= rank(share, counts.total() + longer):
            return min(seconds, longest or seconds)
    return None
