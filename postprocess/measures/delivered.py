"""What the jobs took in: the clients tell how much it was, the interfaces of their workers when it came.

What the storage sent is no measure of that: a server or a mount on the way that reads ahead what nobody asks for
makes the storage send more, and the jobs faster by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.closure import together
from tierbench.postprocess.measures.traffic import Window, traffic, window_rates
from tierbench.postprocess.records.trial import Sampled, TrialData

LEAST_RECEIVED = 0.98  # of what the jobs took in; with less, data reached them past the sampled interfaces


@dataclass(frozen=True)
class Delivered:
    """What the jobs took in over the window; None where it cannot be told."""

    bytes: int | None
    mbps: float | None
    client_mbps: float | None  # of a client, while it ran
    summed_mbps: float | None  # of all clients, each while it ran
    workers: tuple[Sampled, ...]  # whose interfaces tell when it came; none where they do not tell
    payload: float  # what the jobs took in of each byte that these received
    window_ns: Window | None = None
    counter: str = ""  # of those interfaces

    def rates(self, begin_ns: int | None, end_ns: int | None) -> tuple[Numbers, Numbers]:
        """The rate in Mb/s between each two samples in this part of the window, and the samples' times."""
        times, received = window_rates(list(self.workers), begin_ns, end_ns, self.counter)
        return times, received * self.payload

    def mean_mbps(self, begin_ns: int, end_ns: int) -> float | None:
        """The mean rate in a part of the window."""
        received = traffic(list(self.workers), begin_ns, end_ns, self.window_ns, self.counter).mean_mbps
        return None if received is None else received * self.payload


def delivered(data: TrialData) -> Delivered:
    """What the jobs of a trial took in."""
    begin, end = data.begin_ns, data.end_ns
    known = [count for job in data.jobs if (count := job.bytes_taken) is not None]
    silent = any(job.ok and job.bytes_taken is None for job in data.jobs)
    working = [job for job in data.jobs if job.has_work]
    rates = [job.bytes_taken * 8e-6 / job.run_s for job in working if job.bytes_taken is not None and job.run_s]
    if not known or silent or begin is None or end is None:
        return Delivered(None, None, None, None, (), 0.0)
    taken = sum(known)
    workers = data.far_end
    around = together(data, workers, data.measure.far_direction)  # in whole intervals: none of it is left out
    received = around.bytes if around else 0.0
    if received < LEAST_RECEIVED * taken:
        workers, received = [], 0.0
    return Delivered(
        bytes=taken,
        mbps=taken * 8e3 / (end - begin),
        client_mbps=float(np.mean(rates)) if rates else None,
        summed_mbps=float(np.sum(rates)) if rates and len(rates) == len(working) else None,
        workers=tuple(workers),
        payload=taken / received if received else 0.0,
        window_ns=data.window_ns,
        counter=data.measure.far_counter,
    )
