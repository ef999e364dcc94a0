"""What servers did in a trial by their own reports: proxies, caches of software, and XRootD's servers.

A proxy's counters are compared from before the window to the end of the sampling, when all that was under way has ended
and a proxy that was too busy has counted all that it did.
"""

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.arrays import Integers
from tierbench.postprocess.measures.traffic import at_rest_bytes, counter_curve
from tierbench.postprocess.records.trial import Cache, Sampled, TrialData, by_host

REQUESTS, HITS, SENT_KB, FETCHED_KB = "squid_requests", "squid_hits", "squid_sent_kb", "squid_fetched_kb"
HEAD = 1024  # bytes of an answer's header
OWN_ANSWERS = 20_000  # bytes a second that a proxy sends to the sampler that asks for its counters
ORIGIN = "door"  # the role of a server that a proxy fetches from
XROOTD_READS, XROOTD_SENT = ("xrootd_reads", "xrootd_vector_reads"), "xrootd_sent_bytes"
PROCESSES, AGE = "xrootd_processes", "xrootd_report_age_ms"
MOST_MISSED = 0.1  # of the window, before and after all of XRootD's processes had reported
MOST_HEADERS = 1.05  # what an interface carries over what an application sends through it


@dataclass(frozen=True)
class Proxied:
    """What went through the proxies of a trial, in bytes, by their own counters."""

    read: int  # by the clients
    requests: float
    hits: float
    sent: float
    fetched: float
    usual: float  # sent beyond what the clients report: headers, answers to the sampler, what was broken off
    origin: float | None  # what the server sent that they fetch from
    origin_at_rest: float


def proxied(data: TrialData) -> Proxied | str | None:
    """What the proxies of a trial counted, or why that is not known; None where its way leads through none."""
    read = sum(job.bytes_read or 0 for job in data.jobs)
    if not data.trial.options.get("proxy") or data.window_ns is None or not read:
        return None
    proxies = _proxies(data)
    requests, hits, sent_kb, fetched_kb = (
        _risen(data, proxies, each) for each in (REQUESTS, HITS, SENT_KB, FETCHED_KB)
    )
    if requests is None or hits is None or sent_kb is None or fetched_kb is None:
        return "no sampled host reports what the proxy sent and fetched"
    if hits > requests:  # a sampler of an earlier version let requests stand where they were
        return "the proxy counts more hits than requests, as after a restart"
    # What was under way when time was over has been sent in part, and its client has reported less or nothing of it.
    broken_off = sum(
        (job.work.cut + job.work.failed) * (job.bytes_once or 0) / max(1, job.work.files)
        for job in data.jobs
        if job.work
    )
    seconds = data.window_s + 5
    usual = HEAD * requests + OWN_ANSWERS * seconds * len(proxies) + broken_off
    path = data.trial.path  # where the site says none, any door may be its origin
    doors = [each for each in data.sampled if each.samples.role == ORIGIN]
    doors = [each for each in doors if not path or each.samples.host in path]
    origin = _risen(data, doors, "tx_bytes")
    sent, fetched = 1024 * sent_kb, 1024 * fetched_kb
    return Proxied(read, requests, hits, sent, fetched, usual, origin, at_rest_bytes(1, seconds))


def hit_share(data: TrialData) -> float | None:
    """Of the requests that reached proxies, the share that they served from their caches, by their own counts."""
    requests, hits = (_risen(data, _proxies(data), counter) for counter in (REQUESTS, HITS))
    return hits / requests if requests and hits is not None and hits <= requests else None


def software_bytes(data: TrialData) -> int | None:
    """What the software caches of the clients' hosts received; None where there is none, or not all have reported."""
    fetched = [cache.fetched for cache in software_caches(data)]
    amounts = [amount for amount in fetched if amount is not None]
    return sum(amounts) if fetched and len(amounts) == len(fetched) else None


def software_caches(data: TrialData) -> list[Cache]:
    """The caches of software of the hosts that clients ran on."""
    return [cache for cache in data.caches if cache.host in data.client_hosts and not cache.of_data]


def caches(data: TrialData) -> list[Cache]:
    """Those, and the ones that the files are read through."""
    return [*software_caches(data), *data.data_caches]


def _proxies(data: TrialData) -> list[Sampled]:
    """The hosts whose proxy answered the sampler."""
    return [host for host, *_ in by_host(data.sampled) if host.samples.reports(REQUESTS)]


def _risen(data: TrialData, hosts: list[Sampled], counter: str) -> float | None:
    """By how much a counter of all these rose from before the window to the end; None unless it is known throughout."""
    if not hosts or data.window_ns is None:
        return None
    curves = [counter_curve(host, counter, data.window_ns[0]) for host in hosts]
    if any(len(curve) < 2 or curve.times[0] > 0 for curve in curves):
        return None
    rises = [rise for curve in curves if (rise := curve.known_rise(curve.before(0), -1)) is not None]
    return sum(rises) if len(rises) == len(hosts) else None


def bytes_per_server_read(data: TrialData) -> float | None:
    """What the servers sent over the reads and vector reads that they were asked for; None unless all is known."""
    reporting = [host for host, *_ in by_host(data.sampled) if host.samples.reports(PROCESSES, least=1)]
    risen = [rise for host in reporting if data.window_ns and (rise := rises(host, *data.window_ns)) is not None]
    reads = sum(sum(rise[name] for name in XROOTD_READS) for rise in risen)
    return sum(rise[XROOTD_SENT] for rise in risen) / reads if reads and len(risen) == len(reporting) else None


def rises(host: Sampled, begin_ns: int, end_ns: int) -> dict[str, int] | None:
    """From the last record before the window to the first one by which all processes had reported after it.

    A server reports once a second, or after two, so that one may be heard of first when a short window has begun, or
    last before it ends. Nobody waits: little of a window may be missing, as a ratio of what was counted together.
    """
    columns, times = host.samples.columns, host.samples.time_ns
    most_ns = MOST_MISSED * (end_ns - begin_ns)
    after = [*reported_by(host, end_ns)[:1], *reported_by(host, end_ns - most_ns)[-1:]]
    known = np.flatnonzero(columns[PROCESSES] == columns[PROCESSES][after[0]]) if after else np.array([])
    if not len(known) or times[known[0]] - begin_ns > most_ns:
        return None
    first = max(known[0], np.searchsorted(times, begin_ns, "right") - 1)
    return {name: int(columns[name][after[0]] - columns[name][first]) for name in (*XROOTD_READS, XROOTD_SENT)}


def reported_by(host: Sampled, time_ns: float) -> Integers:
    """The places of the records by which all processes had reported since a time."""
    columns = host.samples.columns
    return np.flatnonzero((host.samples.time_ns - columns[AGE] * 10**6 >= time_ns) & (columns[PROCESSES] > 0))
