"""Closure over proxies: what they say they sent and fetched, against what the clients took in and the origin sent.

Their counters are compared from before the window to the end of the sampling, when all that was under way has ended and
a proxy that was too busy has told of all that it did.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierbench.postprocess.measures.course import course
from tierbench.postprocess.measures.idle import MOST_AT_REST_MBPS
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.verdict.rules import Evidence

REQUESTS, HITS, SENT_KB, FETCHED_KB = "squid_requests", "squid_hits", "squid_sent_kb", "squid_fetched_kb"
HEAD = 1024  # bytes of an answer's header
OWN_ANSWERS = 20_000  # bytes a second that a proxy sends to the sampler that asks for its counters
ORIGIN = "door"  # the role of a server that a proxy fetches from
MOST_HEADERS = 1.05  # what an interface carries over what an application sends through it


def findings(data: TrialData) -> Iterator[Evidence]:
    """What the rules about proxies look at, where the trial's way leads through one."""
    if not data.trial.options.get("proxy") or data.window_ns is None:
        return
    told = sum(job.bytes_read or 0 for job in data.jobs)
    if not told:
        return
    proxies = _proxies(data)
    risen = [_risen(data, proxies, counter) for counter in (REQUESTS, HITS, SENT_KB, FETCHED_KB)]
    known = [value for value in risen if value is not None]
    if len(known) < len(risen) or not proxies:
        yield Evidence("proxies not compared", 1, "no sampled host tells what the proxy sent and fetched")
        return
    if known[1] > known[0]:  # a sampler of an earlier version let requests stand where they were
        yield Evidence("proxies not compared", 1, "the proxy counts more hits than requests, as after a restart")
        return
    requests, hits, sent, fetched = known[0], known[1], 1024 * known[2], 1024 * known[3]
    # What was under way when time was over has been sent in part, and its client has told less or nothing of it.
    broken_off = sum(
        (job.work.cut + job.work.failed) * (job.bytes_once or 0) / max(1, job.work.files)
        for job in data.jobs
        if job.work
    )
    usual = HEAD * requests + OWN_ANSWERS * _span_s(data) * len(proxies) + broken_off
    apart = max(told - sent, sent - told - usual)
    yield Evidence(
        "proxies apart",
        100 * apart / told,
        f"the proxy says that it sent {_mb(sent)} of {_mb(told)} that the clients read",
    )
    origin = _risen(data, [one for one in data.sampled if one.samples.role == ORIGIN], "tx_bytes")
    if origin is not None:
        at_rest = MOST_AT_REST_MBPS * 1e6 / 8 * _span_s(data)
        past = max(fetched - origin, origin - MOST_HEADERS * fetched - at_rest)
        words = f"the origin sent {_mb(origin)} while the proxy says that it fetched {_mb(fetched)}"
        yield Evidence("origin apart", 100 * past / told, words)
    if requests > 0 and sent > 0:
        by_bytes = 1 - fetched / sent
        # A request that was joined to another one's fetch is no hit, and costs the origin nothing.
        words = f"by its counts {hits / requests:.0%} of the requests were hits, by its bytes {by_bytes:.0%}"
        yield Evidence("hits apart", 100 * (hits / requests - by_bytes), words)


def hit_share(data: TrialData) -> float | None:
    """Of the requests that reached proxies, the share that they served from their caches, by their own counts."""
    requests, hits = (_risen(data, _proxies(data), counter) for counter in (REQUESTS, HITS))
    return hits / requests if requests and hits is not None and hits <= requests else None


def _proxies(data: TrialData) -> list[Sampled]:
    return [one for one, *_ in by_host(data.sampled) if REQUESTS in one.samples.columns and _answers(one)]


def _answers(host: Sampled) -> bool:
    return bool(host.samples.columns[REQUESTS].max(initial=-1) >= 0)


def _span_s(data: TrialData) -> float:
    begin, end = data.window_ns or (0, 0)
    return (end - begin) / 1e9 + 5


def _risen(data: TrialData, hosts: list[Sampled], counter: str) -> float | None:
    """By how much a counter of all these rose from before the window to the end; None unless it is known throughout."""
    if not hosts or data.window_ns is None:
        return None
    total = 0.0
    for host in hosts:
        if counter not in host.samples.columns:
            return None
        risen = course(host, counter, data.window_ns[0])
        if len(risen) < 2 or risen.times[0] > 0:
            return None
        first = risen.times[risen.before(0)]
        last = risen.times[-1]
        if risen.known[-1] - risen.known[risen.before(0)] < last - first - 1e-6:
            return None
        total += risen.rise(first, last)
    return total


def _mb(amount: float) -> str:
    return f"{amount / 1e6:.2f} MB"
