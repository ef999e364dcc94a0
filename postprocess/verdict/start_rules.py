"""Rules about how a trial's clients began, and where; which apply follows from its kind of start and placement."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter

from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Measured, rule
from tierbench.postprocess.wording import abridged


@rule(
    "not all active",
    "the window without the time in which all clients with work were at it, where they began together or naturally",
    unit="% of the window",
    suspect=67,
    invalid=90,
    because="a third is left when one client gets four times what the others get",
    remedy="some clients began late or were served far better than others: see jobs.csv",
)
def not_all_active(data: TrialData, row: TrialRow) -> Measured:
    share = row.slices.all_active_share
    if data.start.overlapping and row.jobs > 1 and share is not None:
        active = f"all clients {data.measure.did} together for {row.slices.all_active_s:.1f} s"
        yield 100 * (1 - share), f"{active}, {share:.0%} of the window"


@rule(
    "late begin",
    "latest begin after the go time, or after the client's own",
    unit="% of the window",
    suspect=5,
    because="of 192 clients on two cores the last begins 0.3 s late, half within 0.1 s: the first ones take the cores",
    remedy="the worker was busy or its clock is wrong",
)
def late_begin(data: TrialData, row: TrialRow) -> Measured:
    latest = {job.index: late / 1e6 for job in data.jobs if (late := job.last_late_ns) is not None}
    if data.start.gated and latest and row.window_s:
        last = max(latest, key=lambda index: latest[index])
        share = latest[last] / 10 / row.window_s
        yield share, f"client {last} began {latest[last]:.0f} ms after the go, {share:.1f} % of the window"


@rule(
    "empty begin",
    "time from the go, or from each client's own, until the first began",
    unit="% of the window",
    suspect=5,
    invalid=20,
    because="the rate is over a window in which nobody was at work",
    remedy="the rate is over a window in which nobody was at work: see whether the workers' clocks are all ahead of the"
    " access point's, and what kept them",
)
def empty_begin(data: TrialData, row: TrialRow) -> Measured:
    after = _after_go_ms(data)
    if after and row.window_s:
        first_ms = min(after.values())
        share = first_ms / 10 / row.window_s
        yield share, f"no client was at work before {first_ms:.0f} ms after the go, {share:.1f} % of the window"


@rule(
    "early begin",
    "earliest begin or first byte before the go time",
    unit="ms",
    invalid=1,
    because="what is read before the go is not in the window",
    remedy="a client did not wait for the gate, or its clock was set back",
)
def early_begin(data: TrialData, row: TrialRow) -> Measured:
    before = {client: -late_ms for client, late_ms in _after_go_ms(data).items()}
    for job in data.jobs if before else ():
        if job.go_wall_ns and job.first_byte_wall_ns:
            before[job.index] = max(before[job.index], (job.go_wall_ns - job.first_byte_wall_ns) / 1e6)
    if before:
        first = max(before, key=lambda index: before[index])
        yield before[first], f"client {first} {data.measure.did} {before[first]:.1f} ms before the go"


def _after_go_ms(data: TrialData) -> dict[int, float]:
    """How long after its go each client began, where they were told when to."""
    return {job.index: job.late_ns / 1e6 for job in data.jobs if data.start.gated and job.late_ns is not None}


@rule(
    "fast client",
    "the fastest client's rate over the median, where all began at one instant",
    unit="times",
    suspect=5,
    because="TCP shares unfairly, by two or three to one between flows of one kind",
    remedy="its replica was in some cache, or others were starved",
)
def fast_client(data: TrialData, row: TrialRow) -> Measured:
    rates = {job.index: job.bytes_app * 8e-6 / job.run_s for job in data.jobs if job.ok and job.run_s and job.bytes_app}
    if not data.start.at_one_instant or len(rates) < 2:
        return
    usual, fastest = statistics.median_low(rates.values()), max(rates, key=lambda index: rates[index])
    if usual:
        times = rates[fastest] / usual
        rate = f"client {fastest} {data.measure.did} at {rates[fastest]:.1f} Mb/s"
        yield times, f"{rate}, {times:.1f} times the median of {usual:.1f}"


@rule(
    "not alone",
    "time in which more than one client read, where they take turns",
    unit="% of the window",
    suspect=1,
    invalid=5,
    because="the clocks of two workers may be some ms apart, and a turn lasts seconds",
    remedy="a client did not wait for its turn: see begin and end in jobs.csv",
)
def not_alone(data: TrialData, row: TrialRow) -> Measured:
    if not data.start.in_turn or not row.window_s:
        return
    ends = [(job.go.wall_ns, job.ended_wall_ns) for job in data.jobs if job.go and job.ended_wall_ns is not None]
    changes = sorted([(begin, 1) for begin, _ in ends] + [(end or 0, -1) for _, end in ends])
    active, shared_ns = 0, 0
    for (when, change), (then, _) in itertools.pairwise(changes):
        active += change
        shared_ns += then - when if active > 1 else 0
    share = shared_ns / 1e7 / row.window_s
    yield share, f"more than one client read for {shared_ns / 1e9:.2f} s, {share:.1f} % of the window"


@rule(
    "wrong place",
    "clients on other workers than those that the experiment places them on",
    unit="clients",
    invalid=0,
    because="it is something else than was asked",
    remedy="see lists/ and clients.log, and whether two workers of the pool have one name",
)
def wrong_place(data: TrialData, row: TrialRow) -> Measured:
    meant = dict(enumerate(data.trial.placement.hosts))
    astray = [job for job in data.jobs if job.start and meant.get(job.index, job.host) != job.host]
    where = abridged([f"client {job.index} on {job.host}, not {meant[job.index]}" for job in astray])
    yield len(astray), f"{len(astray)} clients did not run where they were placed: {', '.join(where)}"


@rule(
    "not pinned",
    "clients without a core of their own, where each was to be pinned to one",
    unit="clients",
    invalid=0,
    because="it is something else than was asked",
    remedy="place no more clients on a worker than it has cores that jobs may use",
)
def not_pinned(data: TrialData, row: TrialRow) -> Measured:
    if data.trial.placement.pinned:
        cores = {job.index: (job.host, job.go.core) for job in data.jobs if job.go and job.start}
        taken = Counter(cores.values())
        free = [str(client) for client, core in cores.items() if core[1] is None or taken[core] > 1]
        yield len(free), f"{len(free)} clients had no core of their own: {', '.join(abridged(free))}"
