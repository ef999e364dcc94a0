"""All figures of a run, one after the other, each with the figure of the papers that it corresponds to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tierbench.dags.levels import ACCESS, JOBS, WORKLOAD
from tierbench.postprocess.plots.canvas import FOLDED, SHOWN, Look, Missing, Picture
from tierbench.postprocess.plots.ladder import (
    Plot,
    Series,
    called_batch,
    error_bars,
    ladder_of,
    left_out,
    metric_ladder,
    metric_strip,
    scaling_plot,
)
from tierbench.postprocess.plots.single_trials import Course, bottleneck_chart, start_skew, timelines, typical, uses
from tierbench.postprocess.plots.steps import gain_ladder, knee_plot, slope_ladder
from tierbench.postprocess.schema import rows as tables
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.schema.run_rows import KneeRow, SummaryRow
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.tables.over_time import read_over_time
from tierbench.postprocess.verdict.counted import counts
from tierbench.postprocess.wording import worded

FEW, MANY = 4, 12  # panels of a workload: those that all have their trials over time, and those that share a figure
ALIKE = 4  # workloads whose highest values are within this factor are drawn to one scale, in one figure


@dataclass(frozen=True)
class Metric:
    """A column of trials.csv that is worth a ladder."""

    column: str
    name: str
    title: str
    label: str
    papers: str
    of_papers: bool = True  # whether that is said of figures laid out as those of the papers are
    lacking: str = ""  # why it is not drawn where no trial has it, if a reader may look for it


RATE = Metric(
    tables.RATE,
    "rate",
    "Delivered rate",
    "taken in by the jobs [Mb/s]",
    "",
    lacking="no trial’s jobs told what they moved",
)
SUMMED = Metric(tables.SUMMED, "rate", "Rates of the clients, summed", "each while at work, summed [Mb/s]", "")
SENT = Metric(
    tables.SENT, "sent", "Transfer rate of the storage", "sent by the storage [Mb/s]",
    "Corresponds to the thesis’ Figures 5-1 and 5-4 and the CHEP paper’s Figures 2 and 3.",
    lacking="no interface of the storage was sampled",
)  # fmt: skip
AMPLIFICATION = Metric(
    "amplification", "amplification", "Amplification", "sent by the storage / taken in by the jobs",
    "Beyond headers it is what was read ahead in vain on the way, or sent again.", of_papers=False,
)  # fmt: skip
STEADY = Metric(
    "steady_delivered_mbps", "steady-rate", "Delivered rate in the steady state", "taken in by the jobs [Mb/s]", "",
    lacking="no trial had a steady state",
)  # fmt: skip
WALL_TIME = Metric(
    "wall_time_s", "wall-time", "Wall time", "submission to last end [s]",
    "Corresponds to the thesis’ Figures 5-3 and 5-6 and the CHEP paper’s Figures 4 and 5.",
)  # fmt: skip
WINDOW = Metric(
    "window_s",
    "window",
    "Gated time",
    "go to last end [s]",
    "Wall time without HTCondor’s own part of it.",
    of_papers=False,
)
EVENTS = Metric("events_per_s", "events", "Event rate", "events of all jobs [1/s]", "")
OPERATIONS = Metric("operations_per_s", "operations", "Rate of operations", "operations of all jobs [1/s]", "")


@dataclass(frozen=True)
class Sheet:
    """What makes one figure of a metric: the panels that one scale can show, in small plots if they are several."""

    id: str
    name: str
    plots: Sequence[Plot]

    @property
    def rows(self) -> list[SummaryRow]:
        return [row for plot in self.plots for one in plot.series for row in one.summary]

    @property
    def trials(self) -> list[TrialRow]:
        return [trial for plot in self.plots for trial in plot.trials]

    @property
    def along(self) -> str:
        return self.plots[0].along.name

    def worded(self, text: str) -> str:
        return worded(text, {trial.direction for trial in self.trials})


Drawn = Iterator[Picture | Missing]


def pictures(results: Results, looks: dict[str, Look]) -> Drawn:
    """Every figure for which the run has the data, the one that shows the answer first."""
    plots = [(panel, plot_of(results, panel, looks)) for panel in results.panels]
    papers = as_the_papers(results)
    yield from _scaling(results, looks)
    # Where clients took turns there is no steady state, and between two turns nothing is sent.
    of_bytes = results.rate == RATE.column
    for metric in (RATE, STEADY, SENT, AMPLIFICATION) if of_bytes else (SUMMED, AMPLIFICATION):
        yield from _ladders(metric, plots, papers)
    if of_bytes:
        yield from _volatilities(plots, papers)
    if results.layout.x == JOBS:
        yield from _knees(results, plots)
        yield from _slopes(plots, papers, results.factors[JOBS].several)
        yield from _gains(plots)
    for metric in (WALL_TIME, WINDOW, EVENTS, OPERATIONS):
        yield from _ladders(metric, plots, papers)
    yield from _of_trials(results, looks, papers)


def _of_trials(results: Results, looks: dict[str, Look], papers: bool) -> Drawn:
    """What single trials were like, of the panels that are shown so."""
    shown = _shown(results.panels)
    courses = (course for panel in shown for course in _timelines(results, panel, looks, papers))
    yield from _or_missing(courses, "Trials over time", "no trial that counts has samples that can be read")
    charts = (chart for panel in shown for chart in _bottlenecks(results, panel, looks))
    yield from _or_missing(charts, "Resources along the way", "no resource with a known ceiling was in use")
    if any(trial.natural_skew_ms is not None for trial in results.trials):
        yield Picture(
            "start-skew",
            "Start skew",
            "From the first to the last job of a batch: when HTCondor started their processes, and when they"
            " began to read. A mark is a trial.",
            start_skew(results.trials, results.factors[results.layout.x], results.layout.lines, looks),
        )
    else:
        yield Missing("Start skew", "no job told when its process started")


def _or_missing(drawn: Iterator[Picture], title: str, why: str) -> Drawn:
    first = next(drawn, None)
    yield first or Missing(title, why)
    yield from drawn


def _scaling(results: Results, looks: dict[str, Look]) -> Drawn:
    if results.scaling:
        yield Picture(
            "scaling",
            "Scaling",
            "Mean rate taken in at each point. Error bars: 95 % interval. Hollow marks on dotted lines are"
            " extrapolated: nothing of them was measured.",
            scaling_plot(results, looks),
            SHOWN,
        )


def _of(sheet: Sheet, metric: Metric) -> Metric:
    """A metric as it is called where trials write."""
    return dataclasses.replace(metric, label=sheet.worded(metric.label), papers=sheet.worded(metric.papers))


def plot_of(results: Results, panel: Panel, looks: dict[str, Look]) -> Plot:
    """A panel's lines, one for each level of the factor that was asked about."""
    lines = results.layout.lines
    series = [
        Series(
            level_name(lines, line),
            looks[line],
            results.summaries_at(results.at(panel, line)),
            results.trials_at(results.at(panel, line)),
        )
        for line in results.lines(panel)
    ]
    return Plot(results.factors[results.layout.x], series, panel.without(WORKLOAD).name)


def sheets_of(plots: Sequence[tuple[Panel, Plot]], column: str) -> list[Sheet]:
    """The figures of a column: workloads whose values are of a size have their panels in one, to one scale."""
    by_workload: dict[str, list[tuple[Panel, Plot]]] = {}
    for panel, plot in plots:
        if any(trial[column] is not None for trial in plot.trials):
            by_workload.setdefault(panel.levels.get(WORKLOAD, ""), []).append((panel, plot))
    highest = {
        workload: max(trial[column] or 0.0 for _, plot in own for trial in plot.trials)
        for workload, own in by_workload.items()
    }
    groups: list[list[str]] = []
    for workload in by_workload:
        for group in groups:
            tops = [highest[one] for one in (*group, workload)]
            if max(tops) <= ALIKE * min(tops):
                group.append(workload)
                break
        else:
            groups.append([workload])
    everything = len(groups) == 1
    return [sheet for group in groups for sheet in _sheets(group, by_workload, everything)]


def _sheets(
    workloads: list[str], by_workload: dict[str, list[tuple[Panel, Plot]]], everything: bool
) -> Iterator[Sheet]:
    """The figures of some workloads, each of no more panels than one can hold."""
    several = len(workloads) > 1
    own = [
        dataclasses.replace(plot, title=", ".join(filter(None, [workload, plot.title]))) if several else plot
        for workload in workloads
        for _, plot in by_workload[workload]
    ]
    parts = [own[start : start + MANY] for start in range(0, len(own), MANY)]
    for number, part in enumerate(parts, 1):
        which = f"part {number}" if len(parts) > 1 else ""
        name = "" if several and everything else ", ".join(workloads)
        called = "all" if several and everything else "+".join(workloads)
        own_id = ".".join(filter(None, [called, which.replace(" ", "-")]))
        yield Sheet(own_id or "all", ", ".join(filter(None, [name, which])), part)


def as_the_papers(results: Results) -> bool:
    """Whether it is laid out as the papers, ways of access over batches, and has no counterpart of its own."""
    layout = results.layout
    return (layout.lines, layout.x, layout.counterpart) == (ACCESS, JOBS, "")


def _shown(panels: Sequence[Panel]) -> list[Panel]:
    """The panels whose trials are shown over time: of many of a workload, the first and the last."""
    by_workload: dict[str, list[Panel]] = {}
    for panel in panels:
        by_workload.setdefault(panel.levels.get(WORKLOAD, ""), []).append(panel)
    each = [several if len(several) <= FEW else [several[0], several[-1]] for several in by_workload.values()]
    return [panel for several in each for panel in several]


def _title(title: str, sheet: Sheet) -> str:
    return f"{title}, {sheet.name}" if sheet.name else title


def _ladders(metric: Metric, plots: Sequence[tuple[Panel, Plot]], papers: bool) -> Drawn:
    """A metric's figures, of all that have it."""
    sheets = sheets_of(plots, metric.column)
    for sheet in sheets:
        yield ladder_picture(_of(sheet, metric), sheet, papers)
    if not sheets and metric.lacking:
        yield Missing(metric.title, metric.lacking)


def ladder_picture(metric: Metric, sheet: Sheet, papers: bool = False) -> Picture:
    """A metric over the ladder of batches, with a caption that says what its bars are."""
    bars = error_bars(sheet.plots, metric.column)
    told = (
        f"Error bars: {bars}; cut off where they leave the figure." if bars else "No error bars: one trial per batch."
    )
    # A ladder of one rung has nothing along its axis: its lines stand below each other instead.
    flat = len(ladder_of(sheet.plots).factor.levels) == 1
    beside = "below" if flat else "beside"
    words = called_batch(
        f"Mean over the trials of a batch; small marks {beside} it are the trials. {told}", sheet.along
    )
    named = metric.papers if papers or not metric.of_papers else ""
    label = metric.label
    figure = (
        metric_strip(sheet.plots, metric.column, label, bars)
        if flat
        else metric_ladder(sheet.plots, metric.column, label)
    )
    return Picture(
        f"{metric.name}.{sheet.id}",
        _title(metric.title, sheet),
        f"{words}{left_out(sheet.trials)} {named}".strip(),
        figure,
        SHOWN if metric.name == RATE.name else FOLDED,
    )


def volatility_column(rows: list[SummaryRow]) -> str:
    """The volatility over the thesis' 5 s where all trials lasted long enough for it, or else of single samples."""
    sent = [row.means for row in rows if row.means[SENT.column].value is not None]
    long_enough = all(means["volatility_5s_mbps"].value is not None for means in sent)
    return "volatility_5s_mbps" if rows and long_enough else "volatility_mbps"


def interval_words(results: Results, column: str) -> str:
    """Over what time the rates were taken whose standard deviation a volatility is."""
    if column == "volatility_5s_mbps":
        return "over 5 s each"
    periods = {trial.sample_period_s for trial in results.trials if trial.sample_period_s}
    return "over " + " or ".join(f"{period:g} s" for period in sorted(periods)) + " each"


def _volatilities(plots: Sequence[tuple[Panel, Plot]], papers: bool) -> Drawn:
    """How much the rates sent fluctuate: drawn for itself, since as a bar about its mean it would leave the figure."""
    column = volatility_column([row for _, plot in plots for one in plot.series for row in one.summary])
    rates = "of 5 s each" if column == "volatility_5s_mbps" else "between two samples"
    words = (
        f"Standard deviation of the rates {rates}, within a trial. It says how uneven a transfer was, not how well its"
        " mean is known."
    )
    words += " The thesis’ Figures 5-1 and 5-4 have it as error bars." if papers else ""
    label = "within a trial, sent by the storage [Mb/s]"
    metric = Metric(column, "volatility", "Volatility", label, words, of_papers=False)
    yield from _ladders(dataclasses.replace(metric, lacking=SENT.lacking), plots, papers)


def _slopes(plots: Sequence[tuple[Panel, Plot]], papers: bool, asked: bool) -> Drawn:
    named = " Corresponds to the thesis’ Figures 5-2 and 5-5, which are of the rate sent." if papers else ""
    climbed = [(panel, plot) for panel, plot in plots if _climbs(plot)]
    for sheet in sheets_of(climbed, RATE.column):
        yield Picture(
            f"slope.{sheet.id}",
            _title("Rate of increase", sheet),
            "Delivered rate of a batch over that of the next smaller one; small marks are single repetitions. Where the"
            f" line lies at 1, more jobs bring nothing: the way is full.{named}",
            slope_ladder(sheet.plots),
        )
    if asked and not climbed:
        yield Missing("Rate of increase", "fewer than two batches have a rate")


def _knees(results: Results, plots: Sequence[tuple[Panel, Plot]]) -> Drawn:
    """Where the ladders are full, of those that climb far enough to be looked at."""
    lines = results.layout.lines
    own: dict[int, dict[str, KneeRow]] = {
        id(plot.series): {
            level_name(lines, level_of(row, lines)): row
            for row in rows_at(results.knees, panel.levels)
            if row.predicted.value is not None
        }
        for panel, plot in plots
    }
    climbed = [(panel, plot) for panel, plot in plots if own[id(plot.series)]]
    for sheet in sheets_of(climbed, RATE.column):
        yield Picture(
            f"knee.{sheet.id}",
            _title("Where it is full", sheet),
            "Mean delivered rates. A cross is the knee, the number of jobs at which the straight line meets the"
            " plateau: as wide and high as the 95 % intervals. A hollow mark is predicted of the next larger batch.",
            knee_plot(sheet.plots, [own[id(plot.series)] for plot in sheet.plots], sheet.worded("taken in [Mb/s]")),
            SHOWN,
        )
    if results.factors[JOBS].several and not climbed:
        why = next((row.why for row in results.knees if row.why), "no ladder of two batches has rates")
        yield Missing("Where it is full", why)


def _climbs(plot: Plot) -> bool:
    """Whether more than one batch has a rate."""
    return len({row.jobs for one in plot.series for row in one.summary if row.means[RATE.column].value}) > 1


def _gains(plots: Sequence[tuple[Panel, Plot]]) -> Iterator[Picture]:
    for sheet in sheets_of(plots, RATE.column):
        if any(row.gain.value is not None for row in sheet.rows):
            yield Picture(
                f"gain.{sheet.id}",
                _title("Gain by a larger batch", sheet),
                "Delivered rate of a batch less that of the next smaller one. Error bars: 95 % interval over the"
                " trials.",
                gain_ladder(sheet.plots),
            )


def _timelines(results: Results, panel: Panel, looks: dict[str, Look], papers: bool) -> Iterator[Picture]:
    """One typical trial of each line, of its last place along x, mostly its largest batch."""
    courses = []
    for line in results.lines(panel):
        for x in reversed(results.ladder(panel)):
            trial = typical(results.trials_at(results.at(panel, line, x)))
            if trial is None:
                continue
            found = read_over_time(results.directory, trial.trial_id)
            if found.storage is not None:
                courses.append(Course(trial, looks[line], found.storage, found.taken_in))
            break
    if courses:
        lines, x = results.layout.lines, results.layout.x
        place = (
            "of its largest batch"
            if x == JOBS
            else f"at its largest {x}"
            if results.factors[x].numeric
            else f"at its last {x}"
        )
        named = " Corresponds to the thesis’ Figure 6-1." if papers else ""
        yield Picture(
            f"over-time.{panel.id or 'all'}",
            f"Trials over time, {panel.name}".removesuffix(", "),
            f"For each {lines} the trial {place} whose rate is nearest the median.{named}",
            timelines(courses),
        )


def _bottlenecks(results: Results, panel: Panel, looks: dict[str, Look]) -> Iterator[Picture]:
    counting = {trial.trial for trial in results.trials_at(panel.levels) if counts(trial)}
    resources = [row for row in rows_at(results.resources, panel.levels) if row.trial in counting]
    used = [row for row in resources if row.utilisation is not None]
    x = next((x for x in reversed(results.ladder(panel)) if rows_at(used, {results.layout.x: x})), None)
    rows = rows_at(resources, {results.layout.x: x}) if x is not None else []
    if x is None or not uses(rows, results.layout.lines):
        return
    at = level_name(results.layout.x, x)
    short = f" \N{MULTIPLICATION SIGN}{x}" if results.layout.x == JOBS else f", {at}"
    yield Picture(
        f"bottleneck.{panel.id or 'all'}",
        f"Resources along the way, {panel.name}{short}",
        f"How much of each resource was in use {'with' if results.layout.x == JOBS else 'at'} {at}, from the data to"
        " the jobs: mean over the trials;"
        " lines reach from the least to the most of them. Of several hosts alike, the busiest. Resources without"
        " a known ceiling, or of which no trial used 5 %, are in resources.csv only.",
        bottleneck_chart(rows, results.layout.lines, looks),
        SHOWN,
    )
