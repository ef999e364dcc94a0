"""What the rules look at, as measured in a trial: each finding has its value in the rule's unit, and words."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tierbench.postprocess import clocks
from tierbench.postprocess.course import LEAST_S
from tierbench.postprocess.metrics import uncovered
from tierbench.postprocess.rules import BY_NAME, QUIET_MBPS, READ_WHOLE, USUAL_BYTES_PER_CLIENT, USUAL_EXCESS
from tierbench.postprocess.samples import Samples
from tierbench.postprocess.shown import shown
from tierbench.postprocess.traffic import courses
from tierbench.postprocess.trial import Sampled, TrialData

Row = dict[str, Any]

HEADERS = 66  # bytes of Ethernet, IP and TCP with time stamps
IP_AND_TCP = 52
USUAL_MTU = 1500
IDLE = BY_NAME["idle traffic"]


@dataclass(frozen=True)
class Finding:
    """What was measured for a rule, in the rule's unit and in words."""

    rule: str
    value: float
    words: str


def findings(data: TrialData, row: Row) -> Iterator[Finding]:
    """All that can be measured of a trial; what is not known is no finding, unless a rule is about that."""
    yield from _bytes(data, row)
    yield from _caches(data, row)
    yield from _clients(data, row)
    yield from _sampling(data, row)
    yield from _idle(data, row)
    yield from _clocks(data, row)
    yield from _ceiling(data, row)


def _ceiling(data: TrialData, row: Row) -> Iterator[Finding]:
    """The rate is of whole packets and of all that was sent; a measured ceiling is of what a program receives."""
    if not row.get("ceiling_mbps") or not row["mean_mbps"]:
        return
    read = _read(data)
    share = _usual(data, row, read)[0] if read and data.storage else 0.0
    above = 100 * (row["mean_mbps"] / (1 + share) / row["ceiling_mbps"] - 1)
    where = f" ({row['ceiling_from']})" if row.get("ceiling_from") else ""
    words = f"{row['mean_mbps']:.1f} Mb/s, of which {share:.1%} is usual excess, over a ceiling of"
    yield Finding("above the ceiling", above, f"{words} {row['ceiling_mbps']:.1f}{where}")


# -- bytes and caches ------------------------------------------------------------------------------------


def _bytes(data: TrialData, row: Row) -> Iterator[Finding]:
    read, around = _read(data), _sent_around(data)
    if row["mean_mbps"] is not None:
        silent = sum(job.ok and not job.bytes_read for job in data.jobs)
        yield Finding("bytes not compared", silent, f"{silent} clients do not tell how many bytes they read")
        words = "what the storage sent around the window is not known"
        yield Finding("bytes not compared", around is None, words)
    if not read or not data.storage:
        return
    if around is not None:
        missing = 100 * (1 - around / read)
        yield Finding("missing bytes", missing, f"the storage sent {_mb(around)} of {_mb(read)} that the clients read")
    if row["closure"] is not None:
        share, explained = _usual(data, row, read)
        quiet = max((share for _, _, share in _idle_rates(data, row)), default=0.0) <= (IDLE.suspect or 0.0)
        yield Finding(
            "excess bytes" if quiet and row["program"] not in READ_WHOLE else "foreign bytes",
            100 * (row["closure"] - share),
            f"the storage sent {row['closure']:+.1%} beyond what was read, of which {share:.1%} {explained}",
        )


def _read(data: TrialData) -> int:
    """What all clients together read, as far as they tell."""
    return sum(job.bytes_read or 0 for job in data.jobs)


def _sent_around(data: TrialData) -> float | None:
    """What the storage servers sent from the last sample before the window to the second one after it.

    A sampling interval at an edge counts whole, so nothing that was sent for the clients is left out; one more,
    because a driver may count late.
    """
    if data.begin_ns is None or data.end_ns is None:
        return None
    total, window_s = 0.0, (data.end_ns - data.begin_ns) / 1e9
    for sent in courses(data.storage, data.begin_ns):
        first, last = sent.before(0), sent.after(window_s)
        if first < 0 or last >= len(sent):
            return None
        times = sent.times[[first, min(last + 1, len(sent) - 1)]]
        if times[1] - times[0] - sent.known_s(times)[0] > LEAST_S:
            return None
        total += sent.rise(*times)
    return total


def _usual(data: TrialData, row: Row, read: float) -> tuple[float, str]:
    """Which excess is explained, as a share of what was read, and by what."""
    at_rest = QUIET_MBPS * 1e6 / 8 * (row["window_s"] or 0.0) * len(data.storage)
    own = USUAL_EXCESS.get(row["program"], max(USUAL_EXCESS.values()))
    own += (USUAL_BYTES_PER_CLIENT * row["jobs"] + at_rest) / read
    mtus = [_mtu(server) for server in data.storage]
    payload = min(mtus) - IP_AND_TCP
    again = sum(_sent_again(server, data.begin_ns, data.end_ns) for server in data.storage) * min(mtus) / read
    return own + HEADERS / payload + again, f"are usual, {again:.1%} of them sent again"


def _mtu(server: Sampled) -> int:
    told = (server.samples.header.get("tuning") or {}).get("mtu")
    return int(told) if told and int(told) > IP_AND_TCP else USUAL_MTU


def _sent_again(server: Sampled, begin_ns: int | None, end_ns: int | None) -> float:
    """TCP segments that the server sent again in the window."""
    again = server.intervals.differences.get("tcp_retrans")
    if again is None or begin_ns is None or end_ns is None:
        return 0.0
    times = server.samples.time_ns
    return float(np.nansum(again[1:][(times[1:] > begin_ns) & (times[:-1] < end_ns)]))


def _caches(data: TrialData, row: Row) -> Iterator[Finding]:
    left, whole = row["resident_bytes"], row["bytes_expected"]
    if left is not None and whole:
        yield Finding(
            "resident pages", 100 * left / whole, f"{_mb(left)} of the replicas were in memory after the flush"
        )
    flush = data.trial["flush"]
    if flush["strategy"] == "none":
        yield Finding("caches not proven cold", 1, "no cache was flushed")
    elif flush["hosts"] and left is None:
        yield Finding(
            "caches not proven cold",
            len(flush["hosts"]),
            f"not all of {len(flush['hosts'])} flushes could tell what was left in memory",
        )


# -- clients ---------------------------------------------------------------------------------------------


def _clients(data: TrialData, row: Row) -> Iterator[Finding]:
    workers = data.trial["workers"]
    hosts = [str(job.start["host"]) for job in data.jobs if job.start]
    strangers = Counter(host for host in hosts if host not in workers) if workers else Counter[str]()
    for rule, elsewhere, where in (
        ("wrong worker", True, f"outside the pool {row['pool']}"),
        ("new worker", False, f"which the pool {row['pool']} did not have"),
    ):
        these = {host: clients for host, clients in strangers.items() if (host in data.other_pools) == elsewhere}
        count = sum(these.values())
        yield Finding(rule, count, f"{count} clients ran on {', '.join(shown(sorted(these)))}, {where}")
    readers = Counter(str(job.start["url"]) for job in data.jobs if job.start)
    shared = [url for url, clients in readers.items() if clients > 1]
    count = sum(readers[url] for url in shared)
    yield Finding("shared replica", count, f"{count} clients read {', '.join(shared[:3])} between them")
    yield from _together(row)
    if data.trial["gate"]:
        yield from _gate(data)
        yield from _fast(data)


def _together(row: Row) -> Iterator[Finding]:
    share = row.get("all_active_share")
    if row["jobs"] < 2 or share is None:
        return
    words = f"all clients read together for {row['all_active_s']:.1f} s, {share:.0%} of the window"
    yield Finding("not all active", 100 * (1 - share), words)


def _gate(data: TrialData) -> Iterator[Finding]:
    after = {
        job.index: (job.go["wall_ns"] - job.go["go_wall_ns"]) / 1e6 for job in data.jobs if job.go.get("go_wall_ns")
    }
    if not after:
        return
    last = max(after, key=lambda index: after[index])
    yield Finding("late begin", after[last], f"client {last} began {after[last]:.1f} ms after the go")
    before = {
        job.index: max(-after[job.index], (job.go["go_wall_ns"] - job.end["first_byte_wall_ns"]) / 1e6)
        if job.end.get("first_byte_wall_ns")
        else -after[job.index]
        for job in data.jobs
        if job.index in after
    }
    first = max(before, key=lambda index: before[index])
    yield Finding("early begin", before[first], f"client {first} read {before[first]:.1f} ms before the go")


def _fast(data: TrialData) -> Iterator[Finding]:
    rates = {job.index: job.end["bytes_app"] * 8e-6 / job.run_s for job in data.jobs if job.ok and _rated(job)}
    if len(rates) < 2:
        return
    usual, fastest = statistics.median_low(rates.values()), max(rates, key=lambda index: rates[index])
    if usual:
        times = rates[fastest] / usual
        words = f"client {fastest} read at {rates[fastest]:.1f} Mb/s, {times:.1f} times the median of {usual:.1f}"
        yield Finding("fast client", times, words)


def _rated(job: Any) -> bool:
    return bool(job.run_s and job.end.get("bytes_app"))


# -- samplers --------------------------------------------------------------------------------------------


def _sampling(data: TrialData, row: Row) -> Iterator[Finding]:
    begin, end, window_s = data.begin_ns, data.end_ns, row["window_s"]
    for sampled in data.sampled:
        host = sampled.samples.host
        resets = int(sampled.intervals.reset.sum())
        yield Finding("counter began anew", resets, f"a counter of {host} began anew {resets} times")
        late, ticks = _late(sampled.samples)
        if ticks:
            share = 100 * late / ticks
            yield Finding("late ticks", share, f"{host}'s sampler was late {late} times of {ticks}, {share:.1f} %")
        if begin is None or end is None or len(sampled.samples) < 2:
            continue
        yield from _gaps(sampled, begin, end)
    lacking = list(data.lacking)
    for sampled in data.sampled:
        if sampled.samples.role != "storage":
            lacking += uncovered(sampled, begin, end)
    yield Finding("host not covered", len(lacking), ", ".join(shown(lacking)))
    if window_s and data.storage:
        yield _few(row["sample_period_s"], row["resolution_s"], window_s)
        if row["mean_error_mbps"] is not None and row["mean_mbps"]:
            share = 100 * row["mean_error_mbps"] / row["mean_mbps"]
            words = f"what moved near the window's edges may be up to {row['mean_error_mbps']:.1f} Mb/s of the mean"
            yield Finding("uncertain edges", share, f"{words}, {share:.1f} %")


def _few(period_s: float, resolution_s: float, window_s: float) -> Finding:
    share = 100 * max(period_s, resolution_s) / window_s
    if resolution_s > period_s:
        words = f"the storage's counters are refreshed every {resolution_s:.2g} s, {share:.1f} % of the window"
    else:
        words = f"a sampling period of {period_s:g} s is {share:.1f} % of the window"
    return Finding("few samples", share, words)


def _late(samples: Samples) -> tuple[int, int]:
    """Late ticks and all ticks: as the sampler counted them, or where it has left no trailer by their times."""
    told = samples.trailer or {}
    if "late_ticks" in told:
        return told["late_ticks"], len(samples) + told.get("missed_ticks", 0)
    period_ns = round(samples.period_s * 1e9)
    number, after = np.divmod(samples.columns["mono_ns"] - samples.header["clock_mono_ns"], period_ns)
    missed = int(np.maximum(np.diff(number) - 1, 0).sum())
    return int((after > period_ns / 2).sum()) + missed, len(samples) + missed


def _gaps(sampled: Sampled, begin_ns: int, end_ns: int) -> Iterator[Finding]:
    times, seconds = sampled.samples.time_ns, sampled.intervals.seconds[1:]
    touching = (times[1:] > begin_ns) & (times[:-1] < end_ns)
    longest = float(seconds[touching].max(initial=0))
    periods, host = longest / sampled.samples.period_s, sampled.samples.host
    words = f"{host}'s sampler had no sample for {longest:.2f} s, {periods:.1f} periods"
    yield Finding("sampler gap", periods, words)
    if sampled.samples.role == "storage":
        within = np.minimum(times[1:], end_ns) - np.maximum(times[:-1], begin_ns)
        blind_s = float(within[touching & sampled.intervals.gap[1:]].sum()) / 1e9
        share = 100 * blind_s / ((end_ns - begin_ns) / 1e9)
        yield Finding(
            "sampler pause", share, f"{host}'s samples have gaps over {blind_s:.2f} s, {share:.0f} % of the window"
        )


def _idle(data: TrialData, row: Row) -> Iterator[Finding]:
    known = _idle_rates(data, row)
    if not known and row["mean_mbps"] is not None:
        yield Finding("idle traffic unknown", 1, "the storage's traffic without clients is not known")
    if known and row["mean_mbps"]:
        mbps, when, share = max(known)
        words = f"the storage sent {mbps:.2f} Mb/s {when} the trial, {share:.1f} % of its rate in it beyond the usual"
        yield Finding("idle traffic", share, words)


def _idle_rates(data: TrialData, row: Row) -> list[tuple[float, str, float]]:
    """The storage's rates before and after the trial, and what is beyond a quiet server's, in % of the mean."""
    found = []
    for when in ("before", "after"):
        mbps = row[f"idle_{when}_mbps"]
        if mbps is not None:
            beyond = max(0.0, mbps - QUIET_MBPS * len(data.storage))
            found.append((mbps, when, 100 * beyond / row["mean_mbps"] if row["mean_mbps"] else 0.0))
    return found


# -- clocks ----------------------------------------------------------------------------------------------


def _clocks(data: TrialData, row: Row) -> Iterator[Finding]:
    errors: list[tuple[float, str]] = []
    matter = clocks.reading_and_storage(data)
    largest = clocks.widest(data)
    if largest:
        periods = largest.proven_ms / 1e3 / row["sample_period_s"]
        yield Finding("clock offset", periods, f"{_apart(largest)}, {periods:.1f} periods")
    if between := clocks.widest(data, matter):
        errors.append((between.proven_ms, _apart(between)))
    steps = clocks.steps_ms(data)
    if steps:
        host = max(steps, key=lambda name: steps[name])
        yield Finding("clock step", steps[host], _set(host, steps[host]))
    errors += [(step, _set(host, step)) for host, step in steps.items() if host in matter]
    if errors and row["window_s"]:
        error_ms, words = max(errors)
        share = error_ms / 10 / row["window_s"]
        yield Finding("clock error", share, f"{words}, {share:.1f} % of the window")
    unknown = clocks.not_compared(data)
    yield Finding("clock not compared", len(unknown), f"the clock of {', '.join(shown(unknown))} was not compared")


def _apart(clocks_of: clocks.Difference) -> str:
    return (
        f"the clock of {clocks_of.ahead} is {clocks_of.milliseconds:.1f} ± {clocks_of.error_ms:.1f} ms"
        f" ahead of that of {clocks_of.behind}"
    )


def _set(host: str, step_ms: float) -> str:
    return f"the clock of {host} was set by {step_ms:.1f} ms during the trial"


def _mb(value: float) -> str:
    return f"{value / 1e6:.2f} MB"
