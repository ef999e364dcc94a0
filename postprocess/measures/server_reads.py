"""What XRootD's servers say that they were asked for and sent, by the reports that the sampler received of them."""

from __future__ import annotations

import numpy as np

from tierbench.postprocess.digits import Integers
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host

READS, SENT = ("xrootd_reads", "xrootd_vector_reads"), "xrootd_sent_bytes"
PROCESSES, AGE = "xrootd_processes", "xrootd_report_age_ms"
MOST_MISSED = 0.1  # of the window, before all processes had reported


def bytes_per_server_read(data: TrialData) -> float | None:
    """What the servers sent over the reads and vector reads that they were asked for; None unless all is known."""
    reporting = [
        host for host, *_ in by_host(data.sampled)
        if PROCESSES in host.samples.columns and host.samples.columns[PROCESSES].max(initial=-1) > 0
    ]  # fmt: skip
    risen = [rise for host in reporting if data.window_ns and (rise := rises(host, *data.window_ns)) is not None]
    reads = sum(sum(rise[name] for name in READS) for rise in risen)
    return sum(rise[SENT] for rise in risen) / reads if reads and len(risen) == len(reporting) else None


def rises(host: Sampled, begin_ns: int, end_ns: int) -> dict[str, int] | None:
    """From the last record before the window to the first one by which all processes had reported after it.

    A server reports once a second, so that one may be heard of first when a short window has begun. Nobody waits for
    it: little of a window may be missing, as a ratio of what was counted together.
    """
    columns, times = host.samples.columns, host.samples.time_ns
    after = reported_by(host, end_ns)
    known = np.flatnonzero(columns[PROCESSES] == columns[PROCESSES][after[0]]) if len(after) else after
    if not len(known) or times[known[0]] - begin_ns > MOST_MISSED * (end_ns - begin_ns):
        return None
    first = max(known[0], np.searchsorted(times, begin_ns, "right") - 1)
    return {name: int(columns[name][after[0]] - columns[name][first]) for name in (*READS, SENT)}


def reported_by(host: Sampled, time_ns: int) -> Integers:
    """The places of the records by which all processes had reported since a time."""
    columns = host.samples.columns
    return np.flatnonzero((host.samples.time_ns - columns[AGE] * 10**6 >= time_ns) & (columns[PROCESSES] > 0))
