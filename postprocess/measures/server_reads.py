"""What XRootD's servers say that they were asked for and sent, by the reports that the sampler received of them."""

from __future__ import annotations

import numpy as np

from tierbench.postprocess.records.trial import Sampled, TrialData, by_host

READS, SENT = ("xrootd_reads", "xrootd_vector_reads"), "xrootd_sent_bytes"
PROCESSES, AGE = "xrootd_processes", "xrootd_report_age_ms"


def bytes_per_server_read(data: TrialData) -> float | None:
    """What the servers sent over the reads and vector reads that they were asked for; None unless all is known."""
    reporting = [
        host for host, *_ in by_host(data.sampled)
        if PROCESSES in host.samples.columns and host.samples.columns[PROCESSES].max(initial=-1) > 0
    ]  # fmt: skip
    rises = [rise for host in reporting if (rise := _rises(host, data.window_ns)) is not None]
    reads = sum(sum(rise[name] for name in READS) for rise in rises)
    return sum(rise[SENT] for rise in rises) / reads if reads and len(rises) == len(reporting) else None


def _rises(host: Sampled, window_ns: tuple[int, int] | None) -> dict[str, int] | None:
    """From the last record before the window to the first one by which all processes had reported after it."""
    columns, times = host.samples.columns, host.samples.time_ns
    if window_ns is None:
        return None
    before = np.flatnonzero((times <= window_ns[0]) & (columns[PROCESSES] > 0))
    after = np.flatnonzero(times - columns[AGE] * 10**6 >= window_ns[1])
    if not len(before) or not len(after) or columns[PROCESSES][before[-1]] != columns[PROCESSES][after[0]]:
        return None
    return {name: int(columns[name][after[0]] - columns[name][before[-1]]) for name in (*READS, SENT)}
