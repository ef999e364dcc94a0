"""What the rules look at in how a trial's clients began, and where: which of it matters follows from the experiment."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator

from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.postprocess.wording import abridged
from tierbench.starts import settling


def findings(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """All of it that the kind of start and the placement ask for."""
    if data.start.overlapping:
        yield from _together(data, row)
    if data.start.gated:
        yield from _told(data, row)
    if data.start.at_one_instant:
        yield from _fast(data)
    if data.start.in_turn:
        yield from _alone(data, row)
    yield from _placed(data)


def _together(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    share = row.slices.all_active_share
    if row.jobs < 2 or share is None:
        return
    words = f"all clients {data.measure.did} together for {row.slices.all_active_s:.1f} s, {share:.0%} of the window"
    yield Evidence("not all active", 100 * (1 - share), words)


def _told(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    after = {job.index: job.late_ns / 1e6 for job in data.jobs if job.late_ns is not None}
    if not after:
        return
    latest = {job.index: late / 1e6 for job in data.jobs if (late := job.last_late_ns) is not None}
    last = max(latest, key=lambda index: latest[index])
    yield Evidence("late begin", latest[last], f"client {last} began {latest[last]:.1f} ms after the go")
    if row.window_s:
        waking = data.trial.work.processes * (len(data.jobs) if data.start.at_one_instant else 1)
        first_ms = min(after.values()) + 1e3 * settling(waking)
        share = first_ms / 10 / row.window_s
        words = f"no client was at work before {first_ms:.0f} ms after the go, {share:.1f} % of the window"
        yield Evidence("empty begin", share, words)
    before = {client: -late_ms for client, late_ms in after.items()}
    for job in data.jobs:
        if job.go_wall_ns and job.first_byte_wall_ns:
            early_ms = (job.go_wall_ns - job.first_byte_wall_ns) / 1e6
            before[job.index] = max(before[job.index], early_ms)
    first = max(before, key=lambda index: before[index])
    yield Evidence(
        "early begin", before[first], f"client {first} {data.measure.did} {before[first]:.1f} ms before the go"
    )


def _fast(data: TrialData) -> Iterator[Evidence]:
    rates = {job.index: job.bytes_app * 8e-6 / job.run_s for job in data.jobs if job.ok and job.run_s and job.bytes_app}
    if len(rates) < 2:
        return
    usual, fastest = statistics.median_low(rates.values()), max(rates, key=lambda index: rates[index])
    if usual:
        times = rates[fastest] / usual
        rate = f"client {fastest} {data.measure.did} at {rates[fastest]:.1f} Mb/s"
        words = f"{rate}, {times:.1f} times the median of {usual:.1f}"
        yield Evidence("fast client", times, words)


def _alone(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """For how long more than one client was at work, where each was to have the way for itself."""
    if not row.window_s:
        return
    ends = [(job.go.wall_ns, job.ended_wall_ns) for job in data.jobs if job.go and job.ended_wall_ns is not None]
    changes = sorted([(begin, 1) for begin, _ in ends] + [(end or 0, -1) for _, end in ends])
    active, shared_ns = 0, 0
    for (when, change), (then, _) in itertools.pairwise(changes):
        active += change
        shared_ns += then - when if active > 1 else 0
    share = shared_ns / 1e7 / row.window_s
    words = f"more than one client read for {shared_ns / 1e9:.2f} s, {share:.1f} % of the window"
    yield Evidence("not alone", share, words)


def _placed(data: TrialData) -> Iterator[Evidence]:
    placement = data.trial.placement
    meant = dict(enumerate(placement.hosts))
    ran = {job.index: job.host for job in data.jobs if job.start}
    astray = [client for client, host in ran.items() if meant.get(client, host) != host]
    where = ", ".join(abridged([f"client {client} on {ran[client]}, not {meant[client]}" for client in astray]))
    yield Evidence("wrong place", len(astray), f"{len(astray)} clients did not run where they were placed: {where}")
    if placement.pinned:
        cores = {job.index: (ran[job.index], job.go.core) for job in data.jobs if job.go and job.index in ran}
        taken = Counter(cores.values())
        free = [client for client, core in cores.items() if core[1] is None or taken[core] > 1]
        words = f"{len(free)} clients had no core of their own: {', '.join(abridged([str(one) for one in free]))}"
        yield Evidence("not pinned", len(free), words)
