"""All figures of a run, one after the other, each with the figure of the papers that it corresponds to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tierbench.postprocess import columns
from tierbench.postprocess.counting import counts
from tierbench.postprocess.plots.canvas import Picture
from tierbench.postprocess.plots.ladder import (
    VOLATILITY,
    Series,
    error_bars,
    left_out,
    metric_ladder,
    volatility_ladder,
)
from tierbench.postprocess.plots.skew import start_skew
from tierbench.postprocess.plots.slope import gain_ladder, slope_ladder
from tierbench.postprocess.plots.style import Look
from tierbench.postprocess.plots.timeline import Course, timelines, typical
from tierbench.postprocess.plots.utilisation import bottleneck_chart, uses
from tierbench.postprocess.results import Results, Row
from tierbench.postprocess.series import delivered_series, host_series, storage_series

TIMELINE_STEPS = 300


@dataclass(frozen=True)
class Metric:
    """A column of trials.csv that is worth a ladder."""

    column: str
    name: str
    title: str
    label: str
    papers: str


RATE = Metric(columns.RATE, "rate", "Delivered rate", "taken in by the jobs [Mb/s]", "")
SENT = Metric(
    columns.SENT, "sent", "Transfer rate of the storage", "sent by the storage [Mb/s]",
    "Corresponds to the thesis’ Figures 5-1 and 5-4 and the CHEP paper’s Figures 2 and 3.",
)  # fmt: skip
AMPLIFICATION = Metric(
    "amplification", "amplification", "Amplification", "sent by the storage / taken in by the jobs",
    "Beyond headers it is what was read ahead in vain on the way, or sent again.",
)  # fmt: skip
STEADY = Metric(
    "steady_delivered_mbps", "steady-rate", "Delivered rate in the steady state", "taken in by the jobs [Mb/s]", ""
)
WALL_TIME = Metric(
    "wall_time_s", "wall-time", "Wall time", "submission to last end [s]",
    "Corresponds to the thesis’ Figures 5-3 and 5-6 and the CHEP paper’s Figures 4 and 5.",
)  # fmt: skip
WINDOW = Metric(
    "window_s", "window", "Gated time", "go to last end [s]", "Wall time without HTCondor’s own part of it."
)
EVENTS = Metric("events_per_s", "events", "Event rate", "events of all jobs [1/s]", "")


def pictures(results: Results, looks: dict[str, Look]) -> Iterator[Picture]:
    """Every figure for which the run has the data."""
    series = {workload: access_series(results, workload, looks) for workload in results.workloads}
    for metric in (RATE, STEADY, SENT, AMPLIFICATION):
        yield from _ladders(metric, series)
    for workload in results.workloads:
        yield from _as_in_the_thesis(series[workload], workload)
    for workload in results.workloads:
        yield from _slopes(series[workload], workload)
    for workload in results.workloads:
        yield from _gains(series[workload], workload)
    for metric in (WALL_TIME, WINDOW, EVENTS):
        yield from _ladders(metric, series)
    for workload in results.workloads:
        yield from _timelines(results, workload, looks)
    for workload in results.workloads:
        yield from _bottlenecks(results, workload, looks)
    if any(trial.get("natural_skew_ms") is not None for trial in results.trials):
        yield Picture(
            "start-skew",
            "Start skew",
            "From the first to the last job of a batch: when HTCondor started their processes, and when they"
            " began to read. A mark is a trial.",
            start_skew(results.trials, looks),
        )


def _ladders(metric: Metric, series: dict[str, list[Series]]) -> Iterator[Picture]:
    """A metric's figures, one for each workload that has it."""
    for workload, lines in series.items():
        if any(row.get(metric.column) is not None for one in lines for row in one.trials):
            yield ladder_picture(metric, lines, workload)


def access_series(results: Results, workload: str, looks: dict[str, Look]) -> list[Series]:
    """A line for each access of a workload."""
    return [
        Series(access, looks[access], results.summaries(workload, access), trials)
        for access in results.accesses
        if (trials := results.trials_of(workload, access))
    ]


def ladder_picture(metric: Metric, series: list[Series], workload: str, name: str = "", title: str = "") -> Picture:
    """A metric over the ladder of batches, with a caption that says what its bars are."""
    bars = error_bars(series, metric.column)
    told = (
        f"Error bars: {bars}; cut off where they leave the figure." if bars else "No error bars: one trial per batch."
    )
    trials: list[Row] = [trial for one in series for trial in one.trials]
    return Picture(
        name or f"{metric.name}.{workload}",
        title or f"{metric.title}, {workload}",
        f"Mean over the trials of a batch; small marks beside it are the trials. {told}"
        f"{left_out(trials)} {metric.papers}".strip(),
        metric_ladder(series, metric.column, metric.label),
    )


def volatility_column(rows: list[Row]) -> str:
    """The volatility over the thesis' 5 s where all trials lasted long enough for it, or else of single samples."""
    long_enough = all(row.get("volatility_5s_mbps") is not None for row in rows if row.get(columns.SENT) is not None)
    return "volatility_5s_mbps" if rows and long_enough else "volatility_mbps"


def interval_words(results: Results, column: str) -> str:
    """Over what time the rates were taken whose standard deviation a volatility is."""
    if column == "volatility_5s_mbps":
        return "over 5 s each"
    periods = {trial["sample_period_s"] for trial in results.trials if trial.get("sample_period_s")}
    return "over " + " or ".join(f"{period:g} s" for period in sorted(periods)) + " each"


def _as_in_the_thesis(series: list[Series], workload: str) -> Iterator[Picture]:
    rows = [row for one in series for row in one.summary]
    column = volatility_column(rows)
    if any(row.get(column) is not None for row in rows):
        interval = "of 5 s" if column == "volatility_5s_mbps" else "of the samples"
        yield Picture(
            f"volatility.{workload}",
            f"Rate and volatility, {workload}",
            f"Mean rate sent by the storage, of each batch. Error bars: {VOLATILITY}; rates {interval}. They say"
            " how much a transfer fluctuates, not how well its mean is known. Corresponds to the thesis’ Figures 5-1"
            " and 5-4.",
            volatility_ladder(series, SENT.label, column),
        )


def _slopes(series: list[Series], workload: str) -> Iterator[Picture]:
    rows = [row for one in series for row in one.summary if row.get(columns.RATE)]
    if len({row["jobs"] for row in rows}) < 2:
        return
    yield Picture(
        f"slope.{workload}",
        f"Rate of increase, {workload}",
        "Delivered rate of a batch over that of the next smaller one; small marks are single repetitions. Where the"
        " line lies at 1, more jobs bring nothing: the way is full. Corresponds to the thesis’ Figures 5-2 and 5-5,"
        " which are of the rate sent.",
        slope_ladder(series),
    )


def _gains(series: list[Series], workload: str) -> Iterator[Picture]:
    if any(row.get("gain_mbps") is not None for one in series for row in one.summary):
        yield Picture(
            f"gain.{workload}",
            f"Gain by a larger batch, {workload}",
            "Delivered rate of a batch less that of the next smaller one. Error bars: 95 % interval over the trials.",
            gain_ladder(series),
        )


def _timelines(results: Results, workload: str, looks: dict[str, Look]) -> Iterator[Picture]:
    """One typical trial of each access, of its largest batch."""
    courses = []
    for access in results.accesses:
        for jobs in reversed(results.batches(workload)):
            trial = typical(results.trials_of(workload, access, jobs))
            if trial is None:
                continue
            hosts = host_series(results.directory, trial, TIMELINE_STEPS)
            sent = storage_series(hosts)
            if sent is not None:
                courses.append(Course(trial, looks[access], sent, delivered_series(hosts, trial)))
            break
    if courses:
        yield Picture(
            f"over-time.{workload}",
            f"Trials over time, {workload}",
            "For each access the trial of its largest batch whose rate is nearest the median."
            " Corresponds to the thesis’ Figure 6-1.",
            timelines(courses),
        )


def _bottlenecks(results: Results, workload: str, looks: dict[str, Look]) -> Iterator[Picture]:
    counting = {trial["trial"] for trial in results.trials_of(workload) if counts(trial)}
    found = [row for row in results.resources if row["trial"] in counting]
    jobs = max((row["jobs"] for row in found if row.get("utilisation") is not None), default=0)
    rows = [row for row in found if row["jobs"] == jobs]
    if not uses(rows):
        return
    yield Picture(
        f"bottleneck.{workload}",
        f"Resources along the way, {workload} \N{MULTIPLICATION SIGN}{jobs}",
        f"How much of each resource was in use with {jobs} jobs, from the data to the jobs: mean over the trials;"
        " lines reach from the least to the most of them. Of several hosts alike, the busiest. Resources without"
        " a known ceiling, or of which no trial used 5 %, are in resources.csv only.",
        bottleneck_chart(rows, looks),
    )
