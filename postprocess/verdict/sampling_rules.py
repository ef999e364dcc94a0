"""Rules about sampling: that samples are there, often enough and without gaps, and that counters ran on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tierbench.dags.measure import Measure
from tierbench.postprocess.records.samples import Samples, described
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Measured, rule
from tierbench.postprocess.wording import abridged


@rule(
    "host not covered",
    "hosts other than storage whose samples are missing, damaged or do not cover the window",
    unit="troubles",
    suspect=0,
    because="only the storage's samples enter the mean",
    remedy="the mean stands without them, but evidence for the bottleneck is missing",
)
def host_not_covered(data: TrialData, row: TrialRow) -> Measured:
    storage = {sampled.samples.host for sampled in data.storage}
    missing = list(data.missing_optional)
    for interfaces in by_host(data.sampled):
        if interfaces[0].samples.host not in storage:
            missing += uncovered(interfaces, data.begin_ns, data.end_ns, None)
    yield len(missing), ", ".join(abridged(missing))


def uncovered(interfaces: Sequence[Sampled], begin: int | None, end: int | None, measure: Measure | None) -> list[str]:
    """Which parts of the window are missing in a host's samples, and in what is measured if it is part of that."""
    sampled = interfaces[0]
    host = f"samples of {sampled.samples.host}"
    if not len(sampled.samples):
        return [f"{host}: not one was written"]
    if begin is None or end is None:
        return []
    times = sampled.samples.time_ns
    reasons = []
    if times[0] > begin:
        reasons.append(f"{host} begin {(times[0] - begin) / 1e9:.1f} s after the window's begin")
    if times[-1] < end:
        reasons.append(f"{host} end {(end - times[-1]) / 1e9:.1f} s before the window's end")
    if measure is not None:
        unknown = np.any([np.isnan(one.intervals.differences[measure.counter][1:]) for one in interfaces], axis=0)
        touching = (times[1:] > begin) & (times[:-1] < end)
        seconds = float(sampled.intervals.seconds[1:][unknown & touching].sum())
        if seconds:
            why = "the counter began anew or was gone"
            reasons.append(f"{host}: bytes {measure.direction} are not known over {seconds:.1f} s, {why}")
    return reasons


@rule(
    "sampler gap",
    "longest time without a sample in the window, of any sampler",
    unit="periods",
    suspect=3,
    because="on a busy host a tick may be missed and the next be late; more is a pause",
    remedy="the host was starved or its sampler paused: peak and volatility miss what happened then",
)
def sampler_gap(data: TrialData, row: TrialRow) -> Measured:
    for sampled, _, _, touching in _in_window(data, data.sampled):
        longest = float(sampled.intervals.seconds[1:][touching].max(initial=0))
        periods = longest / sampled.samples.period_s
        yield periods, f"{sampled.samples.host}'s sampler had no sample for {longest:.2f} s, {periods:.1f} periods"


@rule(
    "sampler pause",
    "time of the window in gaps of a storage server's samples",
    unit="% of the window",
    invalid=25,
    because="bytes are not lost in a gap, but where in it they went is",
    remedy="repeat it when nothing stops the sampler",
    bytes_only=True,
)
def sampler_pause(data: TrialData, row: TrialRow) -> Measured:
    storage = {sampled.samples.host for sampled in data.storage}
    for sampled, begin, end, touching in _in_window(data, data.sampled):
        if sampled.samples.host in storage:
            times = sampled.samples.time_ns
            within = np.minimum(times[1:], end) - np.maximum(times[:-1], begin)
            blind_s = float(within[touching & sampled.intervals.gap[1:]].sum()) / 1e9
            share = 100 * blind_s / ((end - begin) / 1e9)
            words = f"{sampled.samples.host}'s samples have gaps over {blind_s:.2f} s, {share:.0f} % of the window"
            yield share, words


def _in_window(data: TrialData, sampled: Sequence[Sampled]) -> Iterator[tuple[Sampled, int, int, np.ndarray]]:
    """Each host's samples, the window, and which intervals between them are in it."""
    begin, end = data.begin_ns, data.end_ns
    if begin is None or end is None:
        return
    for one, *_ in by_host(sampled):
        if len(one.samples) > 1:
            times = one.samples.time_ns
            yield one, begin, end, (times[1:] > begin) & (times[:-1] < end)


@rule(
    "late ticks",
    "ticks at which the samplers were late",
    unit="% of all",
    suspect=5,
    because="a tick is late by half a period or more",
    remedy="the host is too busy for this period: take a longer one",
)
def late_ticks(data: TrialData, row: TrialRow) -> Measured:
    for sampled, *_ in by_host(data.sampled):
        late, ticks = _late_of_all(sampled.samples)
        if ticks:
            share = 100 * late / ticks
            yield share, f"{sampled.samples.host}'s sampler was late {late} times of {ticks}, {share:.1f} %"


def _late_of_all(samples: Samples) -> tuple[int, int]:
    """Late ticks and all ticks: as the sampler counted them, or where it has left no trailer by their times."""
    trailer = samples.trailer
    if trailer and trailer.late_ticks is not None:
        return trailer.late_ticks, len(samples) + trailer.missed_ticks
    period_ns = round(samples.period_s * 1e9)
    number, after = np.divmod(samples.columns["mono_ns"] - samples.header["clock_mono_ns"], period_ns)
    missed = int(np.maximum(np.diff(number) - 1, 0).sum())
    return int((after > period_ns / 2).sum()) + missed, len(samples) + missed


@rule(
    "few samples",
    "sampling period, or how often the driver refreshes its counters if that is rarer",
    unit="% of the window",
    suspect=10,
    invalid=50,
    because="peak, volatility and the steady state want ten samples at least",
    remedy="take a shorter period, or larger replicas",
    bytes_only=True,
)
def few_samples(data: TrialData, row: TrialRow) -> Measured:
    period_s = data.trial.sample_period_s
    resolution_s = row.resolution_s or period_s
    if row.window_s and data.storage:
        share = 100 * max(period_s, resolution_s) / row.window_s
        words = f"a sampling period of {period_s:g} s is"
        if resolution_s > period_s:
            words = f"the storage's counters are refreshed every {resolution_s:.2g} s,"
        yield share, f"{words} {share:.1f} % of the window"


@rule(
    "uncertain edges",
    "most by which the mean may be wrong for what moved near the window's edges (docs/statistics.md)",
    unit="% of the mean rate",
    suspect=5,
    invalid=20,
    because="it is the sum of all that could be wrong there, and mostly far less is",
    remedy="take a shorter period or larger replicas, and see that clocks are compared well",
    bytes_only=True,
)
def uncertain_edges(data: TrialData, row: TrialRow) -> Measured:
    if row.window_s and data.storage and row.mean_error_mbps is not None and row.mean_mbps:
        share = 100 * row.mean_error_mbps / row.mean_mbps
        words = f"what moved near the window's edges may be up to {row.mean_error_mbps:.1f} Mb/s of the mean"
        yield share, f"{words}, {share:.1f} %"


@rule(
    "counter began anew",
    "counters that began anew, of any sampler and at any time while the trial has its conditions",
    unit="times",
    suspect=0,
    because="the bytes of that interval are lost",
    remedy="something restarted a service, an interface or its host: see that it stays up and repeat",
)
def counter_began_anew(data: TrialData, row: TrialRow) -> Measured:
    anew: dict[str, int] = {}  # by the interface, or what else a host counts, which is no interface's
    for sampled in data.sampled:
        samples = sampled.samples
        of_interface = {one.source for one in described(samples.header).values() if one.scope == "interface"}
        for source, times in sampled.intervals.anew.items():
            anew[samples.named if source in of_interface else f"{source} on {samples.host}"] = times
    for whose, times in anew.items():
        yield times, f"the counters of {whose} began anew {times} times"
