"""Rules about samples and clocks: that samples are there, often enough and without gaps, and that clocks agree."""

from collections.abc import Iterator, Sequence

import numpy as np

from tierbench.dags.measure import Measure
from tierbench.postprocess.measures.traffic import Window
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.samples import described
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Limits, Measured, bytes_rule, of_window, rule, worst_rule
from tierbench.postprocess.wording import enumerated


@rule(Limits("troubles", suspect=0), remedy="the mean stands without them, but evidence for the bottleneck is missing")
def host_not_covered(data: TrialData, row: TrialRow) -> Measured:
    """Hosts other than storage whose samples are missing, damaged or do not cover the window."""
    storage = {sampled.samples.host for sampled in data.storage}
    missing = list(data.missing_optional)
    for interfaces in by_host(data.sampled):
        if interfaces[0].samples.host not in storage:
            missing += uncovered(interfaces, data.window_ns)
    yield len(missing), enumerated(missing)


def uncovered(interfaces: Sequence[Sampled], window: Window | None, measure: Measure | None = None) -> list[str]:
    """Which parts of the window are missing in a host's samples, and in what is measured if it is part of that."""
    sampled = interfaces[0]
    host = f"samples of {sampled.samples.host}"
    if not len(sampled.samples):
        return [f"{host}: not one was written"]
    if window is None:
        return []
    begin, end = window
    times = sampled.samples.time_ns
    reasons = []
    if times[0] > begin:
        reasons.append(f"{host} begin {(times[0] - begin) / 1e9:.1f} s after the window's begin")
    if times[-1] < end:
        reasons.append(f"{host} end {(end - times[-1]) / 1e9:.1f} s before the window's end")
    if measure is not None:
        unknown = np.any([np.isnan(nic.intervals.differences[measure.counter][1:]) for nic in interfaces], axis=0)
        seconds = float(sampled.intervals.seconds[1:][unknown & sampled.touching(begin, end)].sum())
        if seconds:
            why = "the counter began anew or was gone"
            reasons.append(f"{host}: bytes {measure.direction} are not known over {seconds:.1f} s, {why}")
    return reasons


@rule(
    Limits("periods", suspect=3),  # a busy host may miss a tick and be late for the next; more is a pause
    remedy="the host was starved or its sampler paused: peak and volatility miss what happened then",
)
def sampler_gap(data: TrialData, row: TrialRow) -> Measured:
    """Longest time without a sample in the window, of any sampler."""
    for sampled, _, _, touching in _in_window(data):
        longest = float(sampled.intervals.seconds[1:][touching].max(initial=0))
        periods = longest / sampled.samples.period_s
        yield periods, f"{sampled.samples.host}'s sampler had no sample for {longest:.2f} s, {periods:.1f} periods"


@bytes_rule(Limits("% of the window", invalid=25), remedy="repeat it when nothing stops the sampler")
def sampler_pause(data: TrialData, row: TrialRow) -> Measured:
    """Time of the window in gaps of a storage server's samples."""
    storage = {sampled.samples.host for sampled in data.storage}
    for sampled, begin, end, touching in _in_window(data):
        if sampled.samples.host in storage:
            times = sampled.samples.time_ns
            within = np.minimum(times[1:], end) - np.maximum(times[:-1], begin)
            blind_s = float(within[touching & sampled.intervals.gap[1:]].sum()) / 1e9
            words = f"{sampled.samples.host}'s samples have gaps over {blind_s:.2f} s"
            yield from of_window(row, blind_s, words, decimals=0)


def _in_window(data: TrialData) -> Iterator[tuple[Sampled, int, int, np.ndarray]]:
    """Each host's samples, the window, and which intervals between them are in it."""
    if data.window_ns is not None:
        begin, end = data.window_ns
        for sampled, *_ in by_host(data.sampled):
            if len(sampled.samples) > 1:
                yield sampled, begin, end, sampled.touching(begin, end)


@rule(Limits("% of all", suspect=5), remedy="the host is too busy for this period: take a longer one")
def late_ticks(data: TrialData, row: TrialRow) -> Measured:
    """Ticks at which the samplers were late by half a period or more."""
    for sampled, *_ in by_host(data.sampled):
        samples, trailer = sampled.samples, sampled.samples.trailer
        if trailer and trailer.late_ticks is not None:
            late, missed = trailer.late_ticks, trailer.missed_ticks
        else:  # the sampler has not said it: by the samples' times
            period_ns = round(samples.period_s * 1e9)
            number, after = np.divmod(samples.columns["mono_ns"] - samples.header.clock_mono_ns, period_ns)
            missed = int(np.maximum(np.diff(number) - 1, 0).sum())
            late = int((after > period_ns / 2).sum()) + missed
        if ticks := len(samples) + missed:
            share = 100 * late / ticks
            yield share, f"{samples.host}'s sampler was late {late} times of {ticks}, {share:.1f} %"


@bytes_rule(
    Limits("% of the window", suspect=10, invalid=50),  # peak, volatility and the steady state want ten samples
    remedy="take a shorter period, or larger replicas",
)
def few_samples(data: TrialData, row: TrialRow) -> Measured:
    """Sampling period, or how often the driver refreshes its counters if that is rarer."""
    period_s = data.trial.sample_period_s
    if row.window_s and data.storage:
        resolution_s = max(row.resolution_s or period_s, period_s)
        share, words = 100 * resolution_s / row.window_s, f"a sampling period of {period_s:g} s is"
        if resolution_s > period_s:
            words = f"the storage's counters are refreshed every {resolution_s:.2g} s,"
        yield share, f"{words} {share:.1f} % of the window"


@bytes_rule(
    Limits("times", suspect=1.5),  # of shaped links too: clean trials have at most 1.03
    remedy="its counters stood still and then caught up, so peak and volatility are wrong: see the interface's driver,"
    " or correct the ceiling",
)
def peak_above_the_ceiling(data: TrialData, row: TrialRow) -> Measured:
    """Highest rate of the storage servers in a sample, over the ceilings of their interfaces together."""
    if data.measure.by == "interfaces" and row.peak_mbps:
        ceilings = [data.ceilings.nic(each.samples.host, "storage", each.samples.card) for each in data.storage]
        known = [ceiling.mbps for ceiling in ceilings if ceiling]
        if known and len(known) == len(ceilings):
            words = f"the storage {data.measure.direction} {row.peak_mbps:.0f} Mb/s in a sample"
            yield row.peak_mbps / sum(known), f"{words}, over a ceiling of {sum(known):.0f}"


@bytes_rule(
    Limits("% of the mean rate", suspect=5, invalid=20),  # it is the sum of all that could be wrong there
    remedy="take a shorter period or larger replicas, and see that clocks are compared well",
)
def uncertain_edges(data: TrialData, row: TrialRow) -> Measured:
    """Most by which the mean may be wrong for what moved near the window's edges (docs/statistics.md)."""
    if row.window_s and data.storage and row.mean_error_mbps is not None and row.mean_mbps and not data.is_warm:
        share = 100 * row.mean_error_mbps / row.mean_mbps
        words = f"what moved near the window's edges may be up to {row.mean_error_mbps:.1f} Mb/s of the mean"
        yield share, f"{words}, {share:.1f} %"


@rule(
    Limits("times", suspect=0),
    remedy="something restarted a service, an interface or its host: see that it stays up and repeat",
)
def counter_began_anew(data: TrialData, row: TrialRow) -> Measured:
    """Counters that were reset, of any sampler and at any time while the trial has its conditions."""
    anew: dict[str, int] = {}  # by the interface, or what else a host counts, which is no interface's
    for sampled in data.sampled:
        samples = sampled.samples
        of_nic = {column.source for column in described(samples.header).values() if column.scope == "interface"}
        for source, times in sampled.intervals.anew.items():
            anew[samples.named if source in of_nic else f"{source} on {samples.host}"] = times
    for whose, times in anew.items():
        yield times, f"the counters of {whose} began anew {times} times"


@rule(
    Limits("periods", suspect=0.5),  # beyond, samples belong to the wrong side of an edge
    remedy="synchronise the clocks (chronyc tracking), or take a longer period",
)
def clock_offset(data: TrialData, row: TrialRow) -> Measured:
    """Proven difference between the wall clocks of two hosts, whatever their roles."""
    if largest := clocks.widest(data):
        periods = largest.proven_ms / 1e3 / data.trial.sample_period_s
        yield periods, f"{_offset_words(largest)}, {periods:.1f} periods"


@worst_rule(
    Limits("ms", suspect=10),  # a slewed clock moves by 0.5 ms in a second
    remedy="have the clock slewed and not stepped",
)
def clock_step(data: TrialData, row: TrialRow) -> Measured:
    """How far a host's wall clock was set during the trial."""
    for host, step_ms in clocks.steps_ms(data).items():
        yield step_ms, _step_words(host, step_ms)


@worst_rule(
    Limits("% of the window", suspect=0.5, invalid=5),
    remedy="the window's edges are wrong by as much: synchronise the clocks and repeat",
)
def clock_error(data: TrialData, row: TrialRow) -> Measured:
    """The larger of difference and step of the clocks of storage servers and workers that read."""
    matter = clocks.reading_and_storage(data)
    for host, step_ms in clocks.steps_ms(data).items():
        if host in matter:
            yield from of_window(row, step_ms / 1e3, _step_words(host, step_ms))
    if between := clocks.widest(data, matter):
        yield from of_window(row, between.proven_ms / 1e3, _offset_words(between))


@rule(
    Limits("% of the window", suspect=0.5, invalid=5),
    remedy="a virtual machine was paused or moved, or a clock slewed fast, so times by it are wrong by as much: see its"
    " hypervisor's log and chronyc tracking, and repeat",
    worst=True,
)
def clock_drift(data: TrialData, row: TrialRow) -> Measured:
    """Drift of a storage server's or reading worker's clock against the access point's during the trial."""
    matter = clocks.reading_and_storage(data)
    for host, apart_ms in clocks.drifts_ms(data).items():
        if host in matter:
            words = f"the clock of {host} and that of the access point ran {apart_ms:.0f} ms apart during the trial"
            yield from of_window(row, apart_ms / 1e3, words)


@rule(
    Limits("hosts", suspect=0),
    remedy="sample by jobs of the pool and let jobs use chirp, or see for yourself that the clocks agree",
)
def clock_not_compared(data: TrialData, row: TrialRow) -> Measured:
    """Hosts that read or are storage, and have neither compared their clock with the access point's nor share one."""
    unknown = clocks.not_compared(data)
    yield len(unknown), f"the clock of {enumerated(unknown)} was not compared"


@rule(
    Limits("% of the window", suspect=2),  # on the testbed they are 9 to 16 ms
    remedy="the comparison was slow: see that chirp answers fast, or take larger replicas",
)
def clock_comparison(data: TrialData, row: TrialRow) -> Measured:
    """Largest clock difference still possible between storage servers and reading workers after the comparison."""
    possible_ms = clocks.most_apart_ms(data)
    yield from of_window(row, possible_ms / 1e3, f"the clocks of storage and workers can be {possible_ms:.0f} ms apart")


def _offset_words(between: clocks.Difference) -> str:
    return (
        f"the clock of {between.ahead} is {between.milliseconds:.1f} ± {between.error_ms:.1f} ms"
        f" ahead of that of {between.behind}"
    )


def _step_words(host: str, step_ms: float) -> str:
    return f"the clock of {host} was set by {step_ms:.1f} ms during the trial"
