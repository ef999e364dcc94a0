"""Rules about clocks: those of storage and readers say what was sent in the window, so they have to agree."""

from __future__ import annotations

from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Measured, rule
from tierbench.postprocess.wording import abridged


@rule(
    "clock offset",
    "proven difference between the wall clocks of two hosts, whatever their roles",
    unit="periods",
    suspect=0.5,
    because="beyond, samples belong to the wrong side of an edge",
    remedy="synchronise the clocks (chronyc tracking), or take a longer period",
)
def clock_offset(data: TrialData, row: TrialRow) -> Measured:
    if largest := clocks.widest(data):
        periods = largest.proven_ms / 1e3 / data.trial.sample_period_s
        yield periods, f"{_apart(largest)}, {periods:.1f} periods"


@rule(
    "clock step",
    "how far a host's wall clock was set during the trial",
    unit="ms",
    suspect=10,
    because="a clock that is slewed moves by 0.5 ms in a second, and the monotonic clock with it",
    remedy="have the clock slewed and not stepped",
)
def clock_step(data: TrialData, row: TrialRow) -> Measured:
    if steps := clocks.steps_ms(data):
        host = max(steps, key=lambda name: steps[name])
        yield steps[host], _set(host, steps[host])


@rule(
    "clock error",
    "the larger of difference and step of the clocks of storage servers and workers that read",
    unit="% of the window",
    suspect=0.5,
    invalid=5,
    because="the mean is wrong by about as much; other hosts' clocks are in neither the window nor the bytes",
    remedy="the window's edges are wrong by as much: synchronise the clocks and repeat",
    bytes_only=True,
)
def clock_error(data: TrialData, row: TrialRow) -> Measured:
    matter = clocks.reading_and_storage(data)
    errors = [(step, _set(host, step)) for host, step in clocks.steps_ms(data).items() if host in matter]
    if between := clocks.widest(data, matter):
        errors.append((between.proven_ms, _apart(between)))
    if errors and row.window_s:
        error_ms, words = max(errors)
        share = error_ms / 10 / row.window_s
        yield share, f"{words}, {share:.1f} % of the window"


@rule(
    "clock not compared",
    "hosts that read or are storage, and have neither compared their clock with the access point's nor share one",
    unit="hosts",
    suspect=0,
    because="not knowing is no proof",
    remedy="sample by jobs of the pool and let jobs use chirp, or see for yourself that the clocks agree",
)
def clock_not_compared(data: TrialData, row: TrialRow) -> Measured:
    unknown = clocks.not_compared(data)
    yield len(unknown), f"the clock of {', '.join(abridged(unknown))} was not compared"


@rule(
    "clock comparison",
    "most by which the clocks of storage servers and workers that read can differ, by what was compared",
    unit="% of the window",
    suspect=2,
    because="bounds that are wider than that prove nothing; on the testbed they are 9 to 16 ms",
    remedy="the comparison was slow: see that chirp answers fast, or take larger replicas",
    bytes_only=True,
)
def clock_comparison(data: TrialData, row: TrialRow) -> Measured:
    if row.window_s:
        possible_ms = clocks.most_apart_ms(data, clocks.reading_and_storage(data))
        share = possible_ms / 10 / row.window_s
        words = f"the clocks of storage and workers can be {possible_ms:.0f} ms apart"
        yield share, f"{words}, {share:.1f} % of the window"


def _apart(between: clocks.Difference) -> str:
    return (
        f"the clock of {between.ahead} is {between.milliseconds:.1f} ± {between.error_ms:.1f} ms"
        f" ahead of that of {between.behind}"
    )


def _set(host: str, step_ms: float) -> str:
    return f"the clock of {host} was set by {step_ms:.1f} ms during the trial"
