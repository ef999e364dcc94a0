"""All figures of a run, one after the other, each with the figure of the papers that it corresponds to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure as Canvas

from tierbench.dags.levels import ACCESS, JOBS, WORKLOAD, Factor
from tierbench.postprocess.compare.judgement import run_names
from tierbench.postprocess.measures.over_time import read_over_time
from tierbench.postprocess.plots import ladder
from tierbench.postprocess.plots.canvas import FOLDED, LINES, SHOWN, Missing, Picture, looks_of
from tierbench.postprocess.plots.single_trials import bottleneck_chart, start_skew, timelines, typical, uses
from tierbench.postprocess.schema import rows as tables
from tierbench.postprocess.schema.run_rows import SummaryRow
from tierbench.postprocess.tables.factors import Panel, level_name, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, counts, verdict
from tierbench.postprocess.wording import worded

FEW, MANY = 4, 12  # panels of a workload: those that all have their trials over time, and those that share a figure
ALIKE = 4  # workloads whose highest values are within this factor are drawn to one scale, in one figure


Plots = Sequence[tuple[Panel, ladder.Plot]]  # of each panel
Drawn = Iterator[Picture | Missing]


@dataclass(frozen=True)
class Figure:
    """A figure of the report: of which column, how it is called and drawn, and which runs have it."""

    name: str
    title: str
    kind: Callable[[Figure, Results, Plots], Drawn]
    column: str = tables.RATE
    caption: str = ""
    papers: str = ""  # its counterpart there, said of figures that are laid out as the papers' are
    missing: str = ""  # why it is not drawn where there is nothing to draw, if a reader may look for it
    when: Callable[[Results], bool] = lambda _: True

    @property
    def label(self) -> str:
        """Of the axis, with the unit."""
        column = tables.trial_column(self.column)
        return f"{column.label or column.meaning}{f' [{column.shown_unit}]' if column.shown_unit else ''}"

    def caption_of(self, results: Results) -> str:
        """With its counterpart, where a run is laid out as the papers are: access methods over jobs."""
        layout = results.layout
        as_the_papers = (layout.lines, layout.x, layout.counterpart) == (ACCESS, JOBS, "")
        return f"{self.caption} {self.papers if as_the_papers else ''}".strip()


@dataclass(frozen=True)
class Sheet:
    """What makes one figure of a metric: the panels that one scale can show, in small plots if they are several."""

    id: str
    name: str
    plots: Sequence[ladder.Plot]


def pictures(results: Results) -> Drawn:
    """Every figure for which the run has the data, the one that shows the answer first; or why it has not."""
    plots = [(panel, plot_of(results, panel)) for panel in results.panels]
    for figure in (figure for figure in FIGURES if figure.when(results)):
        drawn = figure.kind(figure, results, plots)
        if first := next(drawn, None):
            yield first
            yield from drawn
        elif figure.missing:
            yield Missing(figure.title, figure.missing)


def _scaling(figure: Figure, results: Results, plots: Plots) -> Drawn:
    of_lines = [replace(plot, series=[line for line in plot.series if line.scaling]) for _, plot in plots]
    along = results.factors[results.scaling[0].factor]
    scaling = ladder.scaling_plot([plot for plot in of_lines if plot.series], along)
    yield Picture(figure.name, figure.title, figure.caption, scaling, SHOWN)


def _start_skew(figure: Figure, results: Results, _: Plots) -> Drawn:
    if any(trial.natural_skew_ms is not None for trial in results.trials):
        plot = start_skew(results.trials, results.factors[results.layout.x], results.layout.lines, looks_of(results))
        yield Picture(figure.name, figure.title, figure.caption, plot)


def _of_panels(draw: Callable[[Figure, Results, Panel], Drawn]) -> Callable[[Figure, Results, Plots], Drawn]:
    """A figure for each panel (of many of a workload, the first and the last)."""

    def drawn(figure: Figure, results: Results, _: Plots) -> Drawn:
        by_workload: dict[str, list[Panel]] = {}
        for panel in results.panels:
            by_workload.setdefault(panel.levels.get(WORKLOAD, ""), []).append(panel)
        for panels in by_workload.values():
            for panel in panels if len(panels) <= FEW else (panels[0], panels[-1]):
                yield from draw(figure, results, panel)

    return drawn


def plot_of(results: Results, panel: Panel) -> ladder.Plot:
    """A panel's lines, one for each level of the factor that was asked about."""
    looks, series = looks_of(results), []
    for line in results.lines(panel):
        point = results.at(panel, line)
        saturations = [row for row in rows_at(results.saturations, point) if row.predicted.value is not None]
        scaling = [
            row for row in results.scaling
            if rows_at([row], {name: text for name, text in point.items() if name != row.factor})
        ]  # fmt: skip
        of_line = results.summaries_at(point), results.trials_at(point)
        saturation = next(iter(saturations), None)
        series.append(
            ladder.Series(results.line_name(line), looks[line], *of_line, saturation=saturation, scaling=scaling)
        )
    return ladder.Plot(results.factors[results.layout.x], series, panel.without(WORKLOAD).name)


def sheets_of(plots: Plots, column: str) -> Iterator[Sheet]:
    """The figures of a column: workloads whose values are of a size have their panels in one, to one scale."""
    by_workload: dict[str, list[ladder.Plot]] = {}
    for panel, plot in plots:
        if any(trial[column] is not None for trial in plot.trials):
            by_workload.setdefault(panel.levels.get(WORKLOAD, ""), []).append(plot)
    highest = {
        workload: max(trial[column] or 0.0 for plot in own for trial in plot.trials)
        for workload, own in by_workload.items()
    }
    groups: list[list[str]] = []
    for workload in by_workload:
        for group in groups:
            tops = [highest[name] for name in (*group, workload)]
            if max(tops) <= ALIKE * min(tops):
                group.append(workload)
                break
        else:
            groups.append([workload])
    for group in groups:
        several = len(group) > 1
        own = [
            replace(plot, title=_together(workload, plot.title)) if several else plot
            for workload in group
            for plot in by_workload[workload]
        ]
        id_, name = ("all", "") if several and len(groups) == 1 else ("+".join(group), ", ".join(group))
        for start in range(0, len(own), MANY):
            part = f"part {start // MANY + 1}" if len(own) > MANY else ""
            part_id = ".".join(filter(None, [id_, part.replace(" ", "-")]))
            yield Sheet(part_id, _together(name, part), own[start : start + MANY])


def _together(*names: str) -> str:
    """What is shown, by those of its names that say something."""
    return ", ".join(filter(None, names))


def _picture(figure: Figure, of: Sheet | Panel, caption: str, plot: Canvas, place: str = FOLDED) -> Picture:
    """A figure of some panels, named by what they show."""
    title = _together(figure.title, of.name)
    return Picture(f"{figure.name}.{of.id or 'all'}", title, caption, plot, place)


def _ladder(figure: Figure, results: Results, plots: Plots) -> Drawn:
    """A column along x, of all panels that have it."""
    place = SHOWN if figure.column == results.rate else FOLDED
    for sheet in sheets_of(plots, figure.column):
        yield ladder_picture(figure, sheet, figure.caption_of(results), place)


def ladder_picture(figure: Figure, sheet: Sheet, caption: str, place: str = SHOWN) -> Picture:
    """A metric along x, with a caption that says what its bars are."""
    trials = [trial for plot in sheet.plots for trial in plot.trials]
    directions = {trial.direction for trial in trials}
    bars = ladder.error_bars(sheet.plots, figure.column)
    meaning = f"Error bars: {bars}; cut off where they leave the figure." if bars else "No error bars: single trials."
    # Along a single level there is nothing: its lines stand below each other instead.
    flat = len(ladder.ladder_of(sheet.plots).factor.levels) == 1
    words = f"Mean over the trials of a point; small marks {'below' if flat else 'beside'} it are the trials. {meaning}"
    invalid = sum(verdict(trial) == INVALID for trial in trials)
    words += f" {invalid} of {len(trials)} trials INVALID and left out." if invalid else ""
    draw = ladder.metric_strip if flat else ladder.metric_ladder
    plot = draw(sheet.plots, figure.column, worded(figure.label, directions))
    return _picture(figure, sheet, f"{words} {worded(caption, directions)}".strip(), plot, place)


def volatility_column(rows: list[SummaryRow]) -> str:
    """The volatility over the thesis' 5 s where all trials lasted long enough for it, or else of single samples."""
    sent = [row.means for row in rows if row.means[tables.SENT].value is not None]
    long_enough = all(means["volatility_5s_mbps"].value is not None for means in sent)
    return "volatility_5s_mbps" if rows and long_enough else "volatility_mbps"


def interval_words(results: Results, column: str) -> str:
    """Over what time the rates were taken whose standard deviation a volatility is."""
    if column == "volatility_5s_mbps":
        return "over 5 s each"
    periods = {trial.sample_period_s for trial in results.trials if trial.sample_period_s}
    return "over " + " or ".join(f"{period:g} s" for period in sorted(periods)) + " each"


def _volatility(figure: Figure, results: Results, plots: Plots) -> Drawn:
    """How much the rates sent fluctuate: drawn for itself, since as a bar about its mean it would leave the figure."""
    column = volatility_column([row for _, plot in plots for line in plot.series for row in line.summary])
    rates = "of 5 s each" if column == figure.column else "between two samples"
    yield from _ladder(replace(figure, column=column, caption=figure.caption.format(rates=rates)), results, plots)


def _steps(
    draw: Callable[[Sequence[ladder.Plot]], Canvas], has: Callable[[ladder.Plot], bool], place: str = FOLDED
) -> Callable[[Figure, Results, Plots], Drawn]:
    """A figure of what more jobs bring, of the panels that have it; none where no ladder was fitted says why."""

    def drawn(figure: Figure, results: Results, plots: Plots) -> Drawn:
        having = [(panel, plot) for panel, plot in plots if has(plot)]
        for sheet in sheets_of(having, figure.column):
            yield _picture(figure, sheet, figure.caption_of(results), draw(sheet.plots), place)
        if draw is ladder.saturation_plot and not having:
            reasons = [Missing(figure.title, row.why) for row in results.saturations if row.why]
            yield from reasons[:1]

    return drawn


def _rated(plot: ladder.Plot) -> list[SummaryRow]:
    return [row for line in plot.series for row in line.summary if row.means[tables.RATE].value]


def _timelines(figure: Figure, results: Results, panel: Panel) -> Iterator[Picture]:
    """One typical trial of each line, of its last place along x, mostly the one with most jobs."""
    courses = []
    for line in results.lines(panel):
        for x in reversed(results.ladder(panel)):
            trial = typical(results.trials_at(results.at(panel, line, x)))
            if trial is None:
                continue
            course = read_over_time(results.directory, trial.trial_id)
            if course.storage is not None:
                courses.append((trial, looks_of(results)[line], course.storage, course.taken_in))
            break
    if courses:
        x = results.layout.x
        place = f"at its {'largest' if results.factors[x].numeric else 'last'} {x}" if x != JOBS else "with most jobs"
        caption = f"For each {results.layout.lines} the trial {place} whose rate is nearest the median."
        yield _picture(figure, panel, replace(figure, caption=caption).caption_of(results), timelines(courses))


def _resources(figure: Figure, results: Results, panel: Panel) -> Iterator[Picture]:
    usable = {trial.trial for trial in results.trials_at(panel.levels) if counts(trial)}
    resources = [row for row in rows_at(results.resources, panel.levels) if row.trial in usable]
    measured = [row for row in resources if row.utilisation is not None]
    x = next((x for x in reversed(results.ladder(panel)) if rows_at(measured, {results.layout.x: x})), None)
    rows = rows_at(resources, {results.layout.x: x}) if x is not None else []
    if x is None or not uses(rows, results.layout.lines):
        return
    at = level_name(results.layout.x, x)
    short = f" \N{MULTIPLICATION SIGN}{x}" if results.layout.x == JOBS else f", {at}"
    caption = (
        f"How much of each resource was in use {'with' if results.layout.x == JOBS else 'at'} {at}, from the data to"
        " the jobs: mean over the trials; lines reach from the least to the most of them. Of several hosts alike, the"
        " busiest. Resources without a known ceiling, or of which no trial used 5 %, are in resources.csv only."
    )
    chart = bottleneck_chart(rows, results.layout.lines, looks_of(results))
    yield _picture(figure, Sheet(panel.id, f"{panel.name}{short}", ()), caption, chart, SHOWN)


def _of_bytes(results: Results) -> bool:
    return results.rate == tables.RATE


def _of_jobs(results: Results) -> bool:
    return results.layout.x == JOBS and results.factors[JOBS].several


RATE_FIGURE = Figure("rate", "Delivered throughput", _ladder, missing="no jobs counted what they moved", when=_of_bytes)
# Where clients took turns there is no steady state, and between two turns nothing is sent.
STEADY_FIGURE = Figure(
    "steady-rate", "Delivered throughput in the steady state", _ladder, "steady_delivered_mbps",
    missing="no trial had a steady state", when=_of_bytes,
)  # fmt: skip
WALL_TIME_FIGURE = Figure(
    "wall-time", "Wall time", _ladder, "wall_time_s",
    papers="Corresponds to the thesis’ Figures 5-3 and 5-6 and the CHEP paper’s Figures 4 and 5.",
)  # fmt: skip
FIGURES = (
    Figure(
        "scaling", "Scaling", _scaling,
        caption="Mean delivered throughput at each point. Error bars: 95 % interval. Hollow marks on dotted lines are"
        " extrapolated: nothing of them was measured.",
        when=lambda results: bool(results.scaling),
    ),
    RATE_FIGURE,
    Figure(
        "rate", "Rates of the clients, summed", _ladder, tables.SUMMED, when=lambda results: not _of_bytes(results)
    ),
    Figure("events", "Event rate", _ladder, tables.EVENTS),
    Figure("operations", "Rate of operations", _ladder, tables.OPERATIONS),
    STEADY_FIGURE,
    Figure(
        "sent", "Storage throughput", _ladder, tables.SENT, when=_of_bytes,
        papers="Corresponds to the thesis’ Figures 5-1 and 5-4 and the CHEP paper’s Figures 2 and 3.",
        missing="no interface of the storage was sampled",
    ),
    Figure(
        "amplification", "Amplification", _ladder, "amplification",
        caption="Storage over delivered throughput: above 1 are headers, what was read ahead in vain or sent again.",
    ),
    Figure(
        "server-cpu", "Server CPU", _ladder, "server_cpu_s_per_gb",
        caption="CPU time of the servers that the data passed, over what the jobs moved.",
    ),
    Figure(
        "volatility", "Volatility", _volatility, "volatility_5s_mbps", when=_of_bytes,
        caption="Standard deviation of the rates {rates}, within a trial. It says how uneven a transfer was, not how"
        " well its mean is known.",
        papers="The thesis’ Figures 5-1 and 5-4 have it as error bars.",
        missing="no interface of the storage was sampled",
    ),
    Figure(
        "saturation", "Saturation point",
        _steps(ladder.saturation_plot, lambda plot: any(line.saturation for line in plot.series), SHOWN), when=_of_jobs,
        caption="Mean delivered throughput. A cross is the saturation point, where the straight line meets the plateau:"
        " as wide and high as the 95 % intervals. A hollow mark is predicted of more jobs.",
        missing="no two numbers of jobs have rates",
    ),
    Figure(
        "slope", "Rate of increase",
        _steps(ladder.slope_ladder, lambda plot: len({row.jobs for row in _rated(plot)}) > 1), when=_of_jobs,
        caption="Delivered throughput over that with the next smaller number of jobs; small marks are repetitions."
        " Where the line lies at 1, more jobs bring nothing more.",
        papers="Corresponds to the thesis’ Figures 5-2 and 5-5, which are of the rate sent.",
        missing="fewer than two numbers of jobs have a rate",
    ),
    Figure(
        "gain", "Gain by more jobs",
        _steps(ladder.gain_ladder, lambda plot: any(row.gain.value is not None for row in _rated(plot))), when=_of_jobs,
        caption="Delivered throughput less that with the next smaller number of jobs. Error bars: 95 % interval.",
    ),
    WALL_TIME_FIGURE,
    Figure("window", "Gated time", _ladder, "window_s", "Wall time without HTCondor’s own part of it."),
    Figure(
        "over-time", "Trials over time", _of_panels(_timelines), papers="Corresponds to the thesis’ Figure 6-1.",
        missing="no usable trial has samples that can be read",
    ),
    Figure(
        "bottleneck", "Resources along the way", _of_panels(_resources),
        missing="no resource with a known ceiling was in use",
    ),
    Figure(
        "start-skew", "Start skew", _start_skew,
        caption="From the first to the last job of a trial: when HTCondor started their processes, and when they"
        " began to read. A mark is a trial.",
        missing="no job recorded when its process started",
    ),
)  # fmt: skip


def comparison_pictures(runs: Sequence[Results]) -> Iterator[Picture]:
    """For each metric a figure with a plot for each panel and line, in which each run has a line, to one scale."""
    first = runs[0]
    own = next(figure for figure in FIGURES if figure.column == first.rate and figure.kind is _ladder)
    for metric in (own, STEADY_FIGURE, WALL_TIME_FIGURE):
        plots = [
            (panel, plot)
            for panel in first.panels
            for line in first.compared.texts
            if len((plot := _plot_of_runs(runs, panel, line, metric.column)).series) > 1
        ]
        for sheet in sheets_of(plots, metric.column):
            yield ladder_picture(metric, sheet, metric.caption_of(first))


def _plot_of_runs(runs: Sequence[Results], panel: Panel, line: str, metric: str) -> ladder.Plot:
    """A line for each run that has the metric, of one panel and one level of what the runs compare."""
    x, look = runs[0].layout.x, looks_of(runs[0])[line]
    point = runs[0].at(panel, line)
    series = [
        ladder.Series(name, look, run.summaries_at(point), run.trials_at(point), dashes)
        for name, run, dashes in zip(run_names(runs), runs, itertools.cycle(LINES), strict=False)
        if any(trial[metric] is not None for trial in run.trials_at(point))
    ]
    levels = dict.fromkeys(level for run in runs if x in run.factors for level in run.factors[x].levels)
    title = _together(runs[0].line_name(line), panel.without(WORKLOAD).name)
    return ladder.Plot(Factor(x, tuple(levels), runs[0].factors[x].label), series, title)
