"""What the rules look at, as measured in a trial: each finding has its value in the rule's unit, and words."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

import numpy as np

from tierbench.postprocess.measures import closure, mounted, proxies, software
from tierbench.postprocess.measures.idle import MOST_AT_REST_MBPS, idle_rates
from tierbench.postprocess.measures.stalls import longest_at_an_edge, longest_stall
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.samples import Samples
from tierbench.postprocess.records.sources import described
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.metrics import uncovered
from tierbench.postprocess.verdict import begun
from tierbench.postprocess.verdict.rules import BY_NAME, OF_BYTES, Evidence
from tierbench.postprocess.wording import abridged

OWN_BYTES = 1_000_000  # that a process may take in beside its file's
STARTING_S = 1.0  # a job takes to be started: its shadow, starter and files before HTCondor tells of it, Python after


def findings(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """All that can be measured of a trial; what is not known is no finding, unless a rule is about that."""
    of_bytes = data.measure.of == "bytes"
    yield from (one for one in _measured(data, row) if of_bytes or one.rule not in OF_BYTES)


def _measured(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    yield from closure.findings(data, row)
    yield from proxies.findings(data)
    yield from software.findings(data)
    yield from mounted.findings(data)
    yield from _other_direction(data)
    yield from _stall(data, row)
    yield from _caches(data, row)
    yield from _clients(data, row)
    yield from _sampling(data, row)
    yield from _idle(data, row)
    yield from _clocks(data, row)
    yield from _ceiling(row)
    yield from _beside(data, row)


def _ceiling(row: TrialRow) -> Iterator[Evidence]:
    """Of what the jobs took in: as a measured ceiling it is without headers, and without what never reached them."""
    if not row.limit.ceiling_mbps or not row.delivered_mbps:
        return
    above = 100 * (row.delivered_mbps / row.limit.ceiling_mbps - 1)
    where = f" ({row.limit.ceiling_from})" if row.limit.ceiling_from else ""
    words = f"the jobs took in {row.delivered_mbps:.1f} Mb/s, over a ceiling of {row.limit.ceiling_mbps:.1f}{where}"
    yield Evidence("above the ceiling", above, words)


def _beside(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """A job that waits does nothing; one is being started when HTCondor tells of it, and for some time around that."""
    if data.beside is None or not row.window_s:
        return
    lasted_s = data.beside.last_wall_s - data.beside.first_wall_s + STARTING_S
    share = 100 * min(1.0, lasted_s / row.window_s)
    words = f"{data.beside.jobs} jobs of the next trial were started within {lasted_s:.1f} s"
    yield Evidence("started beside", share, f"{words}, {share:.1f} % of the window")


# -- caches ----------------------------------------------------------------------------------------------


def _caches(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    if data.measure.did == "wrote" or data.trial.streamed:  # nothing of what the trial moves was in a cache before
        return
    left, whole = row.resident_bytes, row.bytes_expected
    if left is not None and whole:
        yield Evidence(
            "resident pages", 100 * left / whole, f"{closure.mb(left)} of the replicas were in memory after the flush"
        )
    flush = data.trial.flush
    if flush.strategy == "none":
        yield Evidence("caches not proven cold", 1, "no cache was flushed")
    elif flush.hosts and left is None:
        yield Evidence(
            "caches not proven cold",
            len(flush.hosts),
            f"not all of {len(flush.hosts)} flushes could tell what was left in memory",
        )


# -- clients ---------------------------------------------------------------------------------------------


def _clients(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    workers = data.trial.workers
    hosts = [job.host for job in data.jobs if job.start]
    strangers = Counter(host for host in hosts if host not in workers) if workers else Counter[str]()
    for rule, elsewhere, where in (
        ("wrong worker", True, f"outside the pool {row.pool}"),
        ("new worker", False, f"which the pool {row.pool} did not have"),
    ):
        these = {host: clients for host, clients in strangers.items() if (host in data.other_pools) == elsewhere}
        count = sum(these.values())
        yield Evidence(rule, count, f"{count} clients ran on {', '.join(abridged(sorted(these)))}, {where}")
    readers = Counter(job.start.url for job in data.jobs if job.start and data.measure.did != "wrote")
    shared = [url for url, clients in readers.items() if clients > 1]
    count = sum(readers[url] for url in shared)
    yield Evidence("shared replica", count, f"{count} clients read {', '.join(shared[:3])} between them")
    yield from _fetches(data)
    yield from begun.findings(data, row)
    of_counts: dict[str, Evidence] = {}
    for finding in _counts(data):  # the worst client stands for all
        of_counts[finding.rule] = max(of_counts.get(finding.rule, finding), finding, key=lambda one: one.value)
    yield from of_counts.values()


def _fetches(data: TrialData) -> Iterator[Evidence]:
    if data.trial.work.for_s is None:
        return  # any that failed has made its job fail
    done = [job.work for job in data.jobs if job.work]
    failed = sum(one.failed for one in done)
    messages = sum((Counter(one.failures) for one in done), Counter[str]())
    if failed:
        count = failed + sum(one.fetches for one in done)
        often = ", ".join(f"{times} times {message}" for message, times in messages.most_common(2))
        yield Evidence("failed fetches", 100 * failed / count, f"{failed} of {count} fetches failed: {often}")


def _counts(data: TrialData) -> Iterator[Evidence]:
    """Two counts of the same bytes, files that are alike, and their sizes: a wrong count would be in the rate."""
    did, once = data.measure.did, data.trial.work.for_s is None
    counted = [(job, job.bytes_app) for job in data.jobs if job.ok and job.bytes_app is not None]
    for job, app in counted:
        words = f"client {job.index} {did} {closure.mb(app)}, its process {closure.mb(job.bytes_client or 0)}"
        if job.bytes_client:
            yield Evidence("counts apart", 100 * (app / job.bytes_client - 1), words)
        if job.bytes_client and app and data.traits.taken_in == "bytes_client":
            own = OWN_BYTES * (job.work.fetches if job.work else 1)
            yield Evidence("uncounted bytes", 100 * (job.bytes_client - app - own) / app, words)
    shares = {job.index: 100 * app / job.expected_bytes for job, app in counted if job.expected_bytes and once}
    if shares:
        usual = statistics.median_low(shares.values())
        odd = max(shares, key=lambda index: abs(shares[index] - usual))
        words = f"client {odd} {did} {shares[odd]:.1f} % of its file, where {usual:.1f} % is usual"
        yield Evidence("unlike the others", abs(shares[odd] - usual), words)
    whole = [job for job in data.jobs if job.ok and job.expected_bytes and once and data.traits.reads_whole]
    for job in whole:
        size, taken = job.expected_bytes or 0, job.bytes_taken or 0
        words = f"client {job.index} {did} {closure.mb(taken)} of a file of {closure.mb(size)}"
        yield Evidence("not whole", 100 * max(size - taken, taken - OWN_BYTES - size) / size, words)


# -- samplers --------------------------------------------------------------------------------------------


def _sampling(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    begin, end, window_s = data.begin_ns, data.end_ns, row.window_s
    for whose, times in _anew(data).items():
        yield Evidence("counter began anew", times, f"the counters of {whose} began anew {times} times")
    measured = {sampled.samples.host for sampled in data.storage}
    for sampled, *_ in by_host(data.sampled):
        host = sampled.samples.host
        late, ticks = _late(sampled.samples)
        if ticks:
            share = 100 * late / ticks
            yield Evidence("late ticks", share, f"{host}'s sampler was late {late} times of {ticks}, {share:.1f} %")
        if begin is None or end is None or len(sampled.samples) < 2:
            continue
        yield from _gaps(sampled, begin, end, measured=host in measured)
    lacking = list(data.lacking)
    for interfaces in by_host(data.sampled):
        if interfaces[0].samples.host not in measured:
            lacking += uncovered(interfaces, begin, end, None)
    yield Evidence("host not covered", len(lacking), ", ".join(abridged(lacking)))
    period_s = data.trial.sample_period_s
    if window_s and data.storage:
        yield _few(period_s, row.resolution_s or period_s, window_s)
        if row.mean_error_mbps is not None and row.mean_mbps:
            share = 100 * row.mean_error_mbps / row.mean_mbps
            words = f"what moved near the window's edges may be up to {row.mean_error_mbps:.1f} Mb/s of the mean"
            yield Evidence("uncertain edges", share, f"{words}, {share:.1f} %")


def _anew(data: TrialData) -> dict[str, int]:
    """Whose counters began anew and how often: an interface's, or what else a host counts, which is no interface's."""
    found: dict[str, int] = {}
    for sampled in data.sampled:
        samples = sampled.samples
        of_interface = {one.source for one in described(samples.header).values() if one.scope == "interface"}
        for source, times in sampled.intervals.anew.items():
            found[samples.named if source in of_interface else f"{source} on {samples.host}"] = times
    return found


def _few(period_s: float, resolution_s: float, window_s: float) -> Evidence:
    share = 100 * max(period_s, resolution_s) / window_s
    if resolution_s > period_s:
        words = f"the storage's counters are refreshed every {resolution_s:.2g} s, {share:.1f} % of the window"
    else:
        words = f"a sampling period of {period_s:g} s is {share:.1f} % of the window"
    return Evidence("few samples", share, words)


def _late(samples: Samples) -> tuple[int, int]:
    """Late ticks and all ticks: as the sampler counted them, or where it has left no trailer by their times."""
    trailer = samples.trailer
    if trailer and trailer.late_ticks is not None:
        return trailer.late_ticks, len(samples) + trailer.missed_ticks
    period_ns = round(samples.period_s * 1e9)
    number, after = np.divmod(samples.columns["mono_ns"] - samples.header["clock_mono_ns"], period_ns)
    missed = int(np.maximum(np.diff(number) - 1, 0).sum())
    return int((after > period_ns / 2).sum()) + missed, len(samples) + missed


def _gaps(sampled: Sampled, begin_ns: int, end_ns: int, *, measured: bool) -> Iterator[Evidence]:
    times, seconds = sampled.samples.time_ns, sampled.intervals.seconds[1:]
    touching = (times[1:] > begin_ns) & (times[:-1] < end_ns)
    longest = float(seconds[touching].max(initial=0))
    periods, host = longest / sampled.samples.period_s, sampled.samples.host
    words = f"{host}'s sampler had no sample for {longest:.2f} s, {periods:.1f} periods"
    yield Evidence("sampler gap", periods, words)
    if measured:
        within = np.minimum(times[1:], end_ns) - np.maximum(times[:-1], begin_ns)
        blind_s = float(within[touching & sampled.intervals.gap[1:]].sum()) / 1e9
        share = 100 * blind_s / ((end_ns - begin_ns) / 1e9)
        yield Evidence(
            "sampler pause", share, f"{host}'s samples have gaps over {blind_s:.2f} s, {share:.0f} % of the window"
        )


def _idle(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    known = idle_rates(data, row)
    if not known and row.mean_mbps is not None:
        yield Evidence("idle traffic unknown", 1, "the storage's traffic without clients is not known")
    direction = data.measure.direction
    if known and row.mean_mbps:
        mbps, when, share = max(known)
        what = f"the storage {direction} {mbps:.2f} Mb/s {when} the trial"
        words = f"{what}, {share:.1f} % of its rate in it beyond the usual"
        yield Evidence("idle traffic", share, words)
        least, when, _ = min(known)
        share = 100 * least / row.mean_mbps
        words = f"the storage {direction} {least:.2f} Mb/s {when} the trial, at rest, {share:.1f} % of its rate in it"
        if not data.trial.reads_again:  # its caches are meant to leave the storage at rest
            yield Evidence("slow beside rest", share, words)


def _stall(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    if data.measure.of != "bytes":  # what it does need not go through the storage's interfaces
        return
    at_rest = min([mbps for mbps in (row.idle_before_mbps, row.idle_after_mbps) if mbps is not None], default=0.0)
    stall = longest_stall(data, at_rest)
    if stall and row.window_s:
        share = 100 * stall.seconds / row.window_s
        words = f"the storage {data.measure.direction} nothing for {stall.seconds:.1f} s while clients were at work,"
        words += f" {share:.0f} % of the window, from {stall.begin_s:.1f} s on"
        if data.trial.protocol != "file" and not data.far_end:  # a server may have read ahead
            share = min(share, BY_NAME["stall"].invalid or share)
            words += f", and what their workers {data.measure.far_direction} then is not known"
        yield Evidence("stall", share, words)
    edge = longest_at_an_edge(data, at_rest)
    if edge and row.window_s:
        share = 100 * edge.seconds / row.window_s
        when = "from the go on" if edge.begin_s == 0 else "before the last end"
        words = f"nothing moved for {edge.seconds:.1f} s {when} while clients were active, {share:.0f} % of the window"
        yield Evidence("still at an edge", share, words)


def _other_direction(data: TrialData) -> Iterator[Evidence]:
    """What the storage moved the other way in the window, beyond what belongs to the trial and what moves at rest."""
    measure = data.measure
    if data.window_ns is None or not data.storage or measure.of != "bytes" or measure.far_end == "storage":
        return
    carried = closure.together(data, data.storage, measure.direction)
    back = closure.together(data, data.storage, measure.far_direction)
    if carried is None or back is None or not carried.bytes:
        return
    window_s = (data.window_ns[1] - data.window_ns[0]) / 1e9
    at_rest = MOST_AT_REST_MBPS * 1e6 / 8 * window_s * len(by_host(data.storage))
    share = 100 * (back.bytes - at_rest) / carried.bytes - closure.BELONGS_TO_THE_OTHER
    moved = f"{closure.mb(back.bytes)} while it {measure.direction} {closure.mb(carried.bytes)}"
    yield Evidence("other direction", share, f"the storage {measure.far_direction} {moved}")


# -- clocks ----------------------------------------------------------------------------------------------


def _clocks(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    errors: list[tuple[float, str]] = []
    matter = clocks.reading_and_storage(data)
    largest = clocks.widest(data)
    if largest:
        periods = largest.proven_ms / 1e3 / data.trial.sample_period_s
        yield Evidence("clock offset", periods, f"{_apart(largest)}, {periods:.1f} periods")
    if between := clocks.widest(data, matter):
        errors.append((between.proven_ms, _apart(between)))
    steps = clocks.steps_ms(data)
    if steps:
        host = max(steps, key=lambda name: steps[name])
        yield Evidence("clock step", steps[host], _set(host, steps[host]))
    errors += [(step, _set(host, step)) for host, step in steps.items() if host in matter]
    if errors and row.window_s:
        error_ms, words = max(errors)
        share = error_ms / 10 / row.window_s
        yield Evidence("clock error", share, f"{words}, {share:.1f} % of the window")
    if row.window_s:
        possible = clocks.most_apart_ms(data, matter)
        share = possible / 10 / row.window_s
        words = f"the clocks of storage and workers can be {possible:.0f} ms apart, {share:.1f} % of the window"
        yield Evidence("clock comparison", share, words)
    unknown = clocks.not_compared(data)
    yield Evidence("clock not compared", len(unknown), f"the clock of {', '.join(abridged(unknown))} was not compared")


def _apart(clocks_of: clocks.Difference) -> str:
    return (
        f"the clock of {clocks_of.ahead} is {clocks_of.milliseconds:.1f} ± {clocks_of.error_ms:.1f} ms"
        f" ahead of that of {clocks_of.behind}"
    )


def _set(host: str, step_ms: float) -> str:
    return f"the clock of {host} was set by {step_ms:.1f} ms during the trial"
