"""A metric over the ladder of batches, or along another factor: means with error bars, the trials beside them.

And what more bring: the rate with each number of jobs over that with fewer, where it saturates, and how it scales.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from tierbench.dags.levels import JOBS, Factor, level_text
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.schema.columns import Row
from tierbench.postprocess.schema.rows import RATE, TrialRow
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, MEASURED, Mean, SaturationRow, ScalingRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import level_of
from tierbench.postprocess.verdict.counting import counts

TALLEST = 1.5  # of the highest mean or trial; what error bars reach beyond it is cut off, so that they hide no data
LEAST_ABOVE, ABOVE = 1.03, 1.08  # where a mark would stand at the very edge, there is some room above it
UNEVEN = 4  # gaps that differ by more than this factor are drawn alike
DODGE, ROOM = 0.16, 0.6  # of a gap: from series to series at most, and for all of them together
BESIDE = 0.45  # of the way to the next series: where the trials stand beside their mean
BESIDE_EACH_OTHER, MOST_TICKS = 2, 6  # small figures in a row, if their axes have no more marks than these
SMALL_IN, TITLE_ROW_IN = 1.85, 0.17  # a small figure's height, and what each line of its title adds
TITLE_LETTERS = 26  # on a line, where two figures are side by side
LABEL_LETTERS = 17  # on a line along a small figure's height
INTERVAL = "95 % interval of the mean over the trials of a point"
SPREAD = "standard deviation over the trials of a point"
ROW_IN, FRAME_IN, TITLE_IN = 0.34, 0.55, 0.3
BELOW = 0.24  # of a row: where the trials are
ROW_LABEL_LETTERS = 22


@dataclass(frozen=True)
class Series:
    """What one line of a ladder shows: a level of the factor that is compared, or a run."""

    label: str
    look: canvas.Look
    summary: Sequence[SummaryRow]
    trials: Sequence[TrialRow]
    line: Any = "-"
    saturation: SaturationRow | None = None
    scaling: Sequence[ScalingRow] = ()


@dataclass(frozen=True)
class Plot:
    """The lines of one pair of axes, along a factor; its title tells it from others in a figure."""

    along: Factor
    series: Sequence[Series]
    title: str = ""

    @property
    def trials(self) -> list[TrialRow]:
        return [trial for line in self.series for trial in line.trials]


@dataclass(frozen=True)
class Ladder:
    """Where levels stand on the axis: numbers by their size, or evenly where far from even; words evenly."""

    factor: Factor
    scale: str = ""  # linear or log: by their size in any case

    @cached_property
    def even(self) -> bool:
        sizes = map(float, self.factor.levels if self.factor.numeric else ())
        gaps = [after - before for before, after in pairwise(sizes)]
        return bool(gaps) and not self.scale and max(gaps) > UNEVEN * min(gaps)

    def place(self, text: str) -> float:
        number = self.factor.texts.index(text)
        return float(number if self.even or not self.factor.numeric else self.factor.levels[number])

    @property
    def _places(self) -> list[float]:
        return [self.place(text) for text in self.factor.texts]

    @cached_property
    def gap(self) -> float:
        return min((after - before for before, after in pairwise(self._places)), default=1.0)

    def dodged(self, at: Row | str, number: int, of: int, beside: float = 0.0) -> float:
        """The place of one of several series, so that they do not hide each other, or `beside` on towards the next."""
        place = self.place(at if isinstance(at, str) else level_of(at, self.factor.name))
        return place + (number - (of - 1) / 2 + beside) * min(DODGE, ROOM / of) * self.gap

    def mark(self, axes: Axes) -> None:
        if self.scale == "log":
            axes.set_xscale("log", base=2)
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.set_xlim(self._places[0] - 0.5 * self.gap, self._places[-1] + 0.5 * self.gap)
        axes.set_xticks(self._places, self.factor.texts)
        axes.set_xlabel((self.factor.label or self.factor.name) + (" (evenly spaced)" if self.even else ""))

    def from_second(self) -> Ladder:
        """The same without its first rung, for what is said of steps."""
        return Ladder(Factor(self.factor.name, self.factor.levels[1:], self.factor.label))


def ladder_of(plots: Sequence[Plot]) -> Ladder:
    """All levels that any trial has of the factor along the axis."""
    return ladder_along(plots[0].along, [trial for plot in plots for trial in plot.trials])


def ladder_along(factor: Factor, rows: Sequence[Row]) -> Ladder:
    """All levels that these rows have of a factor."""
    there = {level_of(row, factor.name) for row in rows}
    return Ladder(replace(factor, levels=tuple(each for each in factor.in_order.levels if level_text(each) in there)))


def error_bars(plots: Sequence[Plot], metric: str) -> str:
    """What the error bars of a metric's means are; empty where there are none."""
    means = [row.means[metric] for plot in plots for line in plot.series for row in line.summary]
    if any(mean.low is not None for mean in means):
        return INTERVAL
    return SPREAD if any(mean.sd is not None for mean in means) else ""


def metric_ladder(plots: Sequence[Plot], metric: str, label: str) -> Figure:
    """Means over the trials of each place along the factor, and the trials."""
    ladder, bars = ladder_of(plots), error_bars(plots, metric)

    def draw(axes: Axes, plot: Plot) -> None:
        for number, line in enumerate(plot.series):
            place = (number, len(plot.series))
            draw_line(axes, line, [(ladder.dodged(row, *place), bar(row.means[metric], bars)) for row in line.summary])
            trials = [trial for trial in line.trials if trial[metric] is not None]
            marks = [(trial, ladder.dodged(trial, *place, BESIDE), trial[metric]) for trial in trials]
            canvas.trial_marks(axes, line.label, line.look, marks)

    handles = [*line_handles(plots), *canvas.verdict_handles(trial for plot in plots for trial in plot.trials)]
    return drawn(plots, ladder, label, draw, handles)


def drawn(
    plots: Sequence[Plot],
    ladder: Ladder,
    label: str,
    draw: Callable[[Axes, Plot], None],
    handles: Sequence[Line2D],
    from_zero: bool = True,
) -> Figure:
    """A figure with one pair of axes, or with small ones for several plots, to the same scale."""
    columns = BESIDE_EACH_OTHER if len(plots) > 1 and len(ladder.factor.levels) <= MOST_TICKS else 1
    rows = -(-len(plots) // columns)
    titles = [_in_lines(plot.title, TITLE_LETTERS * (BESIDE_EACH_OTHER // columns)) for plot in plots]
    lines = max(title.count("\n") + 1 for title in titles)
    height = canvas.HEIGHT_IN if len(plots) == 1 else (SMALL_IN + TITLE_ROW_IN * lines) * rows
    figure, panels = canvas.blank(height, rows=rows, columns=columns, sharey=True)
    for axes, plot, title in zip(panels, plots, titles, strict=False):
        draw(axes, plot)
        ladder.mark(axes)
        if len(plots) > 1:
            axes.set_title(title, loc="left", pad=3)
    for axes in panels[len(plots) :]:
        axes.set_visible(False)
    for axes in panels[: len(plots) : columns]:
        axes.set_ylabel(label if len(plots) == 1 else _in_lines(label, LABEL_LETTERS))
    for axes in panels[: len(plots) - columns]:
        axes.set_xlabel("")
    if from_zero:
        panels[0].set_ylim(0, _top(panels[: len(plots)]))
    canvas.legend(figure, handles)
    return figure


def _in_lines(title: str, letters: int) -> str:
    return textwrap.fill(title, letters, break_long_words=False, break_on_hyphens=False)


def draw_line(
    axes: Axes, line: Series, points: Iterable[tuple[float, Interval]], sideways: bool = False, **style: Any
) -> None:
    """A line through the values at some places, with their error bars; `sideways`: places are along the height."""
    there = [(place, value) for place, value in points if value.value is not None]
    if there:
        places, values = zip(*there, strict=True)
        reaches = list(zip(*(value.reach for value in values), strict=True))
        sizes = [value.value for value in values]
        x, y, bars = (sizes, places, "xerr") if sideways else (places, sizes, "yerr")
        axes.errorbar(x, y, elinewidth=1.2, **{bars: reaches, **_style(line), **style})


def bar(mean: Mean, bars: str) -> Interval:
    """A mean with what its error bar shows."""
    if bars == INTERVAL or mean.value is None:
        return mean
    return Interval(mean.value, mean.value - (mean.sd or 0.0), mean.value + (mean.sd or 0.0))


def _style(line: Series) -> dict[str, Any]:
    marks = {"color": line.look.color, "marker": line.look.marker, "markersize": canvas.MEAN}
    return {"label": line.label, "linestyle": line.line, **marks}


def line_handles(plots: Sequence[Plot]) -> list[Line2D]:
    """The legend's lines, those of all plots; grey where a line has another colour in each plot."""
    lines: dict[str, Series] = {}
    for line in (line for plot in plots for line in plot.series):
        first = lines.setdefault(line.label, line)
        lines[line.label] = first if first.look == line.look else replace(first, look=canvas.GREY)
    return [Line2D([], [], **_style(line)) for line in lines.values()]


def _top(panels: Sequence[Axes], along_x: bool = False) -> float | None:
    """As far as the error bars reach, but not so far that the data lie near nothing."""
    data = [line for axes in panels for line in axes.lines if line.get_marker() not in ("_", "|", "None")]
    values = [float(value) for line in data for value in np.asarray(line.get_data()[0 if along_x else 1], float)]
    highest, top = max(values, default=0.0), (panels[0].get_xlim() if along_x else panels[0].get_ylim())[1]
    if 0 < TALLEST * highest < top:
        return TALLEST * highest
    return ABOVE * highest if highest > 0 and top < LEAST_ABOVE * highest else None


def metric_strip(plots: Sequence[Plot], metric: str, label: str) -> Figure:
    """A pair of axes for each plot, all to one scale, whose lines stand below each other."""
    rows, bars = [len(plot.series) for plot in plots], error_bars(plots, metric)
    height = FRAME_IN + (TITLE_IN * len(plots) if len(plots) > 1 else 0.0) + ROW_IN * sum(rows)
    figure, panels = canvas.blank(height, rows=len(plots), sharex=True, height_ratios=[count + 0.4 for count in rows])
    for axes, plot in zip(panels, plots, strict=True):
        for place, line in enumerate(plot.series):
            draw_line(axes, line, [(place, bar(row.means[metric], bars)) for row in line.summary], sideways=True)
            marks = [(trial, trial[metric], place + BELOW) for trial in line.trials if trial[metric] is not None]
            canvas.trial_marks(axes, line.label, line.look, marks)
        labels = [textwrap.fill(line.label, ROW_LABEL_LETTERS, break_long_words=False) for line in plot.series]
        axes.set_yticks(range(len(plot.series)), labels)
        axes.set_ylim(len(plot.series) - 0.45, -0.55)
        axes.grid(axis="y", visible=False)
        if len(plots) > 1:
            axes.set_title(plot.title, loc="left", pad=3)
    panels[0].set_xlim(0, _top(panels, along_x=True))
    panels[-1].set_xlabel(label)
    canvas.legend(figure, canvas.verdict_handles(trial for plot in plots for trial in plot.trials))
    return figure


Step = tuple[int, float]  # the larger number of jobs, and what became of the rate


def slopes(rates: Mapping[int, float], batches: Sequence[int]) -> list[Step]:
    """The rate of each number of jobs over that of the next smaller one; no step over one that is missing."""
    steps = [(before, after) for before, after in pairwise(batches) if before in rates and after in rates]
    return [(after, rates[after] / rates[before]) for before, after in steps]


def slope_ladder(plots: Sequence[Plot]) -> Figure:
    """The thesis' rate of increase: its mean with its interval, and of each repetition."""
    full = ladder_of(plots)
    batches, ladder = [int(level) for level in full.factor.levels], full.from_second()
    dashed: dict[str, Any] = {"color": canvas.MUTED, "linestyle": (0, (3, 3)), "linewidth": 1}

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(1, color=canvas.INK, linewidth=0.9)
        own = [jobs for jobs in batches if any(trial.jobs == jobs for trial in plot.trials)]
        linear = slopes({jobs: jobs for jobs in own}, own)  # if each job brought its share
        places, factors = zip(*((ladder.place(str(jobs)), factor) for jobs, factor in linear), strict=True)
        axes.plot(places, factors, marker="_", markersize=14, **dashed)
        for number, line in enumerate(plot.series):
            place = (number, len(plot.series))
            rows = [row for row in line.summary if row.growth.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, *place), row.growth) for row in rows])
            steps = [(ladder.dodged(str(jobs), *place, BESIDE), step) for jobs, step in _of_repetitions(line, own)]
            marks: dict[str, Any] = {"color": line.look.color, "marker": line.look.marker, "markersize": canvas.DOT}
            axes.plot([x for x, _ in steps], [step for _, step in steps], linestyle="none", **marks)

    dashes = Line2D([], [], label="each job brings its share", **dashed)
    level = Line2D([], [], color=canvas.INK, linewidth=0.9, label="more jobs bring nothing")
    handles = [*line_handles(plots), dashes, level]
    figure = drawn(plots, ladder, "rate over that with fewer jobs", draw, handles, from_zero=False)
    figure.axes[0].set_ylim(bottom=0)  # at last: it ends the scaling of all panels, which share it
    return figure


def gain_ladder(plots: Sequence[Plot]) -> Figure:
    """What the step to each number of jobs adds to the rate, with its interval."""
    ladder = ladder_of(plots).from_second()

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(0, color=canvas.INK, linewidth=0.9)
        for number, line in enumerate(plot.series):
            rows = [row for row in line.summary if row.gain.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, number, len(plot.series)), row.gain) for row in rows])

    return drawn(plots, ladder, "gain over fewer jobs [Mb/s]", draw, line_handles(plots), from_zero=False)


def _of_repetitions(line: Series, batches: Sequence[int]) -> Iterator[Step]:
    rates: dict[int, dict[int, float]] = {}
    for trial in line.trials:
        if counts(trial) and trial.delivered_mbps:
            rates.setdefault(trial.repeat, {})[trial.jobs] = trial.delivered_mbps
    for repeat in sorted(rates):
        yield from slopes(rates[repeat], batches)


def saturation_plot(plots: Sequence[Plot]) -> Figure:
    """Means without bars; a cross where they bend, as wide and high as the intervals; the prediction, hollow."""
    later = {line.saturation.predicted_jobs for plot in plots for line in plot.series if line.saturation}
    jobs = {trial.jobs for plot in plots for trial in plot.trials} | set(filter(None, later))
    scale = "log" if Ladder(plots[0].along).even else "linear"
    ladder = Ladder(Factor(JOBS, tuple(sorted(jobs)), plots[0].along.label), scale)

    def draw(axes: Axes, plot: Plot) -> None:
        for line in plot.series:
            color, bend = line.look.color, line.saturation
            rows = [row for row in line.summary if row.means[RATE].value is not None]
            rates = [row.means[RATE].value or 0.0 for row in rows]
            axes.plot([row.jobs for row in rows], rates, color=color, marker=line.look.marker, markersize=canvas.DOT)
            if not bend:
                continue
            full, plateau = bend.full_with, bend.plateau
            if full.interval and full.value and plateau.interval and plateau.value:
                broad: dict[str, Any] = {"color": color, "linewidth": 2.6, "alpha": 0.6}
                axes.plot(full.interval, [plateau.value] * 2, gid="saturation", **broad)
                axes.plot([full.value] * 2, plateau.interval, **broad)
            if bend.predicted_jobs:
                _draw_hollow(axes, line, [(bend.predicted_jobs, bend.predicted)], "predicted")

    none: dict[str, Any] = {"color": canvas.MUTED, "linestyle": "none"}
    cross = Line2D([], [], marker="+", markersize=11, label="saturation point and plateau", **none)
    hollow = Line2D([], [], marker="o", markerfacecolor=canvas.PAPER, label="predicted of more jobs", **none)
    return drawn(plots, ladder, "delivered throughput [Mb/s]", draw, [*line_handles(plots), cross, hollow])


def _draw_hollow(axes: Axes, line: Series, points: Sequence[tuple[float, Interval]], what: str) -> None:
    """Marks of what nobody measured."""
    draw_line(axes, line, points, linestyle="none", markerfacecolor=canvas.PAPER, gid=what)


def scaling_plot(plots: Sequence[Plot], along: Factor) -> Figure:
    """The mean at each level of a factor; dotted and hollow where it is extrapolated."""
    rows = [row for plot in plots for line in plot.series for row in line.scaling]
    ladder = ladder_along(along, rows)

    def draw(axes: Axes, plot: Plot) -> None:
        for line in plot.series:
            places = [(ladder.place(level_of(row, along.name)), row) for row in line.scaling]
            points = sorted(places, key=lambda pair: pair[0])
            measured, extrapolated = (
                [(place, row.delivered) for place, row in points if row.kind == kind]
                for kind in (MEASURED, EXTRAPOLATED)
            )
            if extrapolated:
                values = [row.delivered.value or 0.0 for _, row in points]
                axes.plot([place for place, _ in points], values, linestyle=":", color=line.look.color)
            draw_line(axes, line, measured, gid=MEASURED)
            _draw_hollow(axes, line, extrapolated, EXTRAPOLATED)

    dotted: dict[str, Any] = {"linestyle": ":", "color": canvas.MUTED, "marker": "o", "markerfacecolor": canvas.PAPER}
    handles = line_handles(plots)
    if any(row.kind == EXTRAPOLATED for row in rows):
        handles.append(Line2D([], [], label=EXTRAPOLATED, **dotted))
    return drawn(plots, ladder, "delivered throughput [Mb/s]", draw, handles)
