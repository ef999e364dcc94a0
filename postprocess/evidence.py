"""What the rules look at, as measured in a trial: each finding has its value in the rule's unit, and words."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tierbench.postprocess import clocks
from tierbench.postprocess.rules import USUAL_BYTES_PER_CLIENT, USUAL_EXCESS
from tierbench.postprocess.shown import shown
from tierbench.postprocess.trial import Sampled, TrialData

Row = dict[str, Any]

HEADERS = 66  # bytes of Ethernet, IP and TCP with time stamps
IP_AND_TCP = 52
USUAL_MTU = 1500


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
    yield from _idle(row)
    yield from _clocks(data, row)
    if row.get("ceiling_mbps") and row["mean_mbps"]:
        above = 100 * (row["mean_mbps"] / row["ceiling_mbps"] - 1)
        where = f" ({row['ceiling_from']})" if row.get("ceiling_from") else ""
        yield Finding(
            "above the ceiling",
            above,
            f"{row['mean_mbps']:.1f} Mb/s over a ceiling of {row['ceiling_mbps']:.1f}{where}",
        )


# -- bytes and caches ------------------------------------------------------------------------------------


def _bytes(data: TrialData, row: Row) -> Iterator[Finding]:
    read = min((row[name] for name in ("bytes_app", "bytes_client") if row[name]), default=0)
    around = _sent_around(data)
    if not read or not data.storage:
        return
    if around is not None:
        missing = 100 * (1 - around / read)
        yield Finding("missing bytes", missing, f"the storage sent {_mb(around)} of {_mb(read)} that the clients read")
    if row["closure"] is not None:
        share, explained = _usual(data, row, read)
        yield Finding(
            "excess bytes",
            100 * (row["closure"] - share),
            f"the storage sent {row['closure']:+.1%} beyond what was read, of which {share:.1%} {explained}",
        )


def _sent_around(data: TrialData) -> float | None:
    """What the storage servers sent from the last sample before the window to the second one after it.

    A sampling interval at an edge counts whole, so nothing that was sent for the clients is left out; one more,
    because a driver may count late.
    """
    if data.begin_ns is None or data.end_ns is None:
        return None
    total = 0.0
    for server in data.storage:
        times = server.samples.time_ns
        if not len(times) or times[0] > data.begin_ns or times[-1] < data.end_ns:
            return None
        first = int(np.searchsorted(times, data.begin_ns, "right")) - 1
        last = min(int(np.searchsorted(times, data.end_ns, "left")) + 1, len(times) - 1)
        total += float(server.intervals.differences["tx_bytes"][first + 1 : last + 1].sum())
    return total if np.isfinite(total) else None


def _usual(data: TrialData, row: Row, read: float) -> tuple[float, str]:
    """Which excess is explained, as a share of what was read, and by what."""
    own = USUAL_EXCESS.get(row["program"], max(USUAL_EXCESS.values())) + USUAL_BYTES_PER_CLIENT * row["jobs"] / read
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
    strangers = sorted({str(job.start["host"]) for job in data.jobs if job.start} - set(workers)) if workers else []
    count = sum(job.start.get("host") in strangers for job in data.jobs)
    yield Finding(
        "wrong worker", count, f"{count} clients ran on {', '.join(shown(strangers))}, outside the pool {row['pool']}"
    )
    readers = Counter(str(job.start["url"]) for job in data.jobs if job.start)
    shared = [url for url, clients in readers.items() if clients > 1]
    count = sum(readers[url] for url in shared)
    yield Finding("shared replica", count, f"{count} clients read {', '.join(shared[:3])} between them")
    yield from _together(data, row)
    if data.trial["gate"]:
        yield from _gate(data)
        yield from _fast(data)


def _together(data: TrialData, row: Row) -> Iterator[Finding]:
    if len(data.jobs) < 2 or not all(job.go and job.end for job in data.jobs) or not row["window_s"]:
        return
    begin, end = max(job.go["wall_ns"] for job in data.jobs), min(job.end["wall_ns"] for job in data.jobs)
    together_s = max(0.0, (end - begin) / 1e9)
    share = together_s / row["window_s"]
    words = f"all clients read together for {together_s:.1f} s, {share:.0%} of the window"
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
        trailer = sampled.samples.trailer or {}
        ticks = len(sampled.samples) + trailer.get("missed_ticks", 0)
        late = trailer.get("late_ticks", 0)
        if ticks:
            share = 100 * late / ticks
            yield Finding("late ticks", share, f"{host}'s sampler was late {late} times of {ticks}, {share:.1f} %")
        if begin is None or end is None or len(sampled.samples) < 2:
            continue
        yield from _gaps(sampled, begin, end)
    if window_s and data.storage:
        share = 100 * row["sample_period_s"] / window_s
        words = f"a sampling period of {row['sample_period_s']:g} s is {share:.1f} % of the window"
        yield Finding("few samples", share, words)


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


def _idle(row: Row) -> Iterator[Finding]:
    known = {when: row[f"idle_{when}_mbps"] for when in ("before", "after") if row[f"idle_{when}_mbps"] is not None}
    if not known and row["mean_mbps"] is not None:
        yield Finding("idle traffic unknown", 1, "the storage's traffic without clients is not known")
    if known and row["mean_mbps"]:
        when = max(known, key=lambda name: known[name])
        share = 100 * known[when] / row["mean_mbps"]
        words = f"the storage sent {known[when]:.2f} Mb/s {when} the trial, {share:.1f} % of its rate in it"
        yield Finding("idle traffic", share, words)


# -- clocks ----------------------------------------------------------------------------------------------


def _clocks(data: TrialData, row: Row) -> Iterator[Finding]:
    errors: list[tuple[float, str]] = []
    largest = clocks.largest_offset(data)
    if largest:
        periods = largest.proven_ms / 1e3 / row["sample_period_s"]
        words = (
            f"the clock of {largest.host} is {largest.milliseconds:+.1f} ± {largest.error_ms:.1f} ms"
            " from the access point's"
        )
        errors.append((largest.proven_ms, words))
        yield Finding("clock offset", periods, f"{words}, {periods:.1f} periods")
    steps = clocks.steps_ms(data)
    if steps:
        host = max(steps, key=lambda name: steps[name])
        words = f"the clock of {host} was set by {steps[host]:.1f} ms during the trial"
        errors.append((steps[host], words))
        yield Finding("clock step", steps[host], words)
    if errors and row["window_s"]:
        error_ms, words = max(errors)
        share = error_ms / 10 / row["window_s"]
        yield Finding("clock error", share, f"{words}, {share:.1f} % of the window")
    unknown = clocks.not_compared(data)
    yield Finding("clock not compared", len(unknown), f"the clock of {', '.join(shown(unknown))} was not compared")


def _mb(value: float) -> str:
    return f"{value / 1e6:.2f} MB"
