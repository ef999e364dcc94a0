"""A metric over the ladder of batches, or along another factor: means with error bars, the trials beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.dags.levels import Factor, level_text
from tierbench.postprocess.plots.canvas import (
    HEIGHT_IN,
    MEAN,
    MUTED,
    PAPER,
    Look,
    canvas,
    legend,
    line_handle,
    trial_marks,
    verdict_handles,
)
from tierbench.postprocess.schema.columns import Row
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, MEASURED, Mean, ScalingRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import counts, verdict

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
RIGHT_ROOM = 1.06  # to the right of what is farthest there
GUESSED = Line2D(
    [], [], linestyle=":", color=MUTED, marker="o", markersize=MEAN, markerfacecolor=PAPER, label="extrapolated"
)


@dataclass(frozen=True)
class Series:
    """What one line of a ladder shows: a level of the factor that is compared, or a run."""

    label: str
    look: Look
    summary: Sequence[SummaryRow]
    trials: Sequence[TrialRow]
    line: Any = "-"


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

    @cached_property
    def even(self) -> bool:
        gaps = [after - before for before, after in pairwise(self._sizes)] if self.factor.numeric else []
        return bool(gaps) and max(gaps) > UNEVEN * min(gaps)

    @property
    def _sizes(self) -> list[float]:
        return [float(level) for level in self.factor.levels]

    def place(self, text: str) -> float:
        number = self.factor.texts.index(text)
        return float(number) if self.even or not self.factor.numeric else self._sizes[number]

    @property
    def _places(self) -> list[float]:
        return [self.place(text) for text in self.factor.texts]

    @cached_property
    def gap(self) -> float:
        return min((after - before for before, after in pairwise(self._places)), default=1.0)

    def dodged(self, row: Row, number: int, of: int) -> float:
        """The place of one of several series, so that they do not hide each other."""
        return self._aside(level_of(row, self.factor.name), number, of)

    def beside(self, text: str, number: int, of: int) -> float:
        """Where the trials of one of several series are."""
        return self._aside(text, number, of) + BESIDE * self.step(of)

    def _aside(self, text: str, number: int, of: int) -> float:
        return self.place(text) + (number - (of - 1) / 2) * self.step(of)

    def step(self, of: int) -> float:
        return min(DODGE, ROOM / of) * self.gap

    def mark(self, axes: Axes) -> None:
        axes.set_xticks(self._places, self.factor.texts)
        axes.set_xlim(self._places[0] - 0.5 * self.gap, self._places[-1] + 0.5 * self.gap)
        axes.set_xlabel((self.factor.label or self.factor.name) + (" (evenly spaced)" if self.even else ""))

    def from_second(self) -> Ladder:
        """The same without its first rung, for what is told of steps."""
        return Ladder(Factor(self.factor.name, self.factor.levels[1:], self.factor.label))


def ladder_of(plots: Sequence[Plot]) -> Ladder:
    """All levels that any trial has of the factor along the axis."""
    factor = plots[0].along
    there = {level_of(trial, factor.name) for plot in plots for trial in plot.trials}
    levels = tuple(level for level in factor.in_order.levels if level_text(level) in there)
    return Ladder(Factor(factor.name, levels, factor.label))


def error_bars(plots: Sequence[Plot], metric: str) -> str:
    """What the error bars of a metric's means are; empty where there are none."""
    means = [row.means[metric] for plot in plots for line in plot.series for row in line.summary]
    if any(mean.low is not None for mean in means):
        return INTERVAL
    return SPREAD if any(mean.sd is not None for mean in means) else ""


def metric_ladder(plots: Sequence[Plot], metric: str, label: str) -> Figure:
    """Means over the trials of each batch, and the trials."""
    ladder, bars = ladder_of(plots), error_bars(plots, metric)

    def draw(axes: Axes, plot: Plot) -> None:
        for number, line in enumerate(plot.series):
            place = (number, len(plot.series))
            draw_line(axes, line, [(ladder.dodged(row, *place), bar(row.means[metric], bars)) for row in line.summary])
            trials = [trial for trial in line.trials if trial[metric] is not None]
            beside = [ladder.beside(level_of(trial, ladder.factor.name), *place) for trial in trials]
            trial_marks(axes, line.label, line.look, [(t, x, t[metric]) for t, x in zip(trials, beside, strict=True)])

    shown = {verdict(trial) for plot in plots for trial in plot.trials}
    return drawn(plots, ladder, label, draw, [*line_handles(plots), *verdict_handles(shown)])


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
    height = HEIGHT_IN if len(plots) == 1 else (SMALL_IN + TITLE_ROW_IN * lines) * rows
    figure, panels = canvas(height, rows=rows, columns=columns, sharey=True)
    for axes, plot, title in zip(panels, plots, titles, strict=False):
        draw(axes, plot)
        ladder.mark(axes)
        if len(plots) > 1:
            axes.set_title(title, loc="left", pad=3)
    for axes in panels[len(plots) :]:
        axes.set_visible(False)
    if len(plots) == 1:
        panels[0].set_ylabel(label)
    else:
        for axes in panels[: len(plots) : columns]:
            axes.set_ylabel(_in_lines(label, LABEL_LETTERS))
        for axes in panels[: len(plots) - columns]:
            axes.set_xlabel("")
    if from_zero:
        panels[0].set_ylim(0, _top(panels[: len(plots)]))
    legend(figure, handles)
    return figure


def _in_lines(title: str, letters: int) -> str:
    return textwrap.fill(title, letters, break_long_words=False, break_on_hyphens=False)


def draw_line(axes: Axes, line: Series, points: Iterable[tuple[float, Interval]]) -> None:
    """A line through the values at some places, with their error bars."""
    known = [(place, value) for place, value in points if value.value is not None]
    if known:
        places, values = zip(*known, strict=True)
        reaches = list(zip(*(value.reach for value in values), strict=True))
        axes.errorbar(places, [value.value for value in values], yerr=reaches, elinewidth=1.2, **_style(line))


def bar(mean: Mean, bars: str) -> Interval:
    """A mean with what its error bar shows."""
    if bars == INTERVAL or mean.value is None:
        return mean
    return Interval(mean.value, mean.value - (mean.sd or 0.0), mean.value + (mean.sd or 0.0))


def _style(line: Series) -> dict[str, Any]:
    look = line.look
    return {
        "label": line.label, "color": look.color, "marker": look.marker, "linestyle": line.line, "markersize": MEAN,
    }  # fmt: skip


def line_handles(plots: Sequence[Plot]) -> list[Line2D]:
    """The legend's lines, those of all plots; grey where a line has another colour in each plot."""
    looks: dict[str, list[Series]] = {}
    for line in (line for plot in plots for line in plot.series):
        looks.setdefault(line.label, []).append(line)
    grey = Look(MUTED, MUTED, "o")
    alike = [
        several[0] if len({line.look for line in several}) == 1 else replace(several[0], look=grey)
        for several in looks.values()
    ]
    return [Line2D([], [], **_style(line)) for line in alike]


def _top(panels: Sequence[Axes]) -> float | None:
    """As high as the error bars reach, but not so high that the data lie on the ground."""
    data = [line for axes in panels for line in axes.lines if line.get_marker() not in ("_", "None")]
    values = [float(value) for line in data for value in np.asarray(line.get_ydata(), float)]
    highest, top = max(values, default=0.0), panels[0].get_ylim()[1]
    if 0 < TALLEST * highest < top:
        return TALLEST * highest
    return ABOVE * highest if highest > 0 and top < LEAST_ABOVE * highest else None


def left_out(trials: Sequence[TrialRow]) -> str:
    """How many trials do not count, for a caption."""
    number = sum(not counts(trial) for trial in trials)
    return f" {number} of {len(trials)} trials INVALID and left out." if number else ""


def metric_strip(plots: Sequence[Plot], metric: str, label: str, bars: str) -> Figure:
    """A pair of axes for each plot, all to one scale."""
    rows = [len(plot.series) for plot in plots]
    titles = TITLE_IN * len(plots) if len(plots) > 1 else 0.0
    figure, panels = canvas(
        FRAME_IN + titles + ROW_IN * sum(rows),
        rows=len(plots),
        sharex=True,
        height_ratios=[count + 0.4 for count in rows],
    )
    farthest_mark = farthest_bar = 0.0
    for axes, plot in zip(panels, plots, strict=True):
        for place, line in enumerate(plot.series):
            for row in line.summary:
                mean = row.means[metric]
                if mean.value is None:
                    continue
                below, above = bar(mean, bars).reach
                axes.errorbar(
                    [mean.value], [place], xerr=[[below], [above]], color=line.look.color, marker=line.look.marker,
                    markersize=MEAN, elinewidth=1.2, label=line.label,
                )  # fmt: skip
                farthest_mark, farthest_bar = max(farthest_mark, mean.value), max(farthest_bar, mean.value + above)
            marks = [(trial, trial[metric], place + BELOW) for trial in line.trials if trial[metric] is not None]
            trial_marks(axes, line.label, line.look, marks)
            farthest_mark = max([farthest_mark, *(value for _, value, _ in marks)])
        axes.set_yticks(range(len(plot.series)), [_row_label(line.label) for line in plot.series])
        axes.set_ylim(len(plot.series) - 0.45, -0.55)
        axes.grid(axis="y", visible=False)
        if len(plots) > 1:
            axes.set_title(plot.title, loc="left", pad=3)
    if farthest_mark > 0:
        panels[0].set_xlim(0, min(max(farthest_bar, farthest_mark) * RIGHT_ROOM, TALLEST * farthest_mark))
    panels[-1].set_xlabel(label)
    legend(figure, verdict_handles({verdict(trial) for plot in plots for trial in plot.trials}))
    return figure


def _row_label(label: str) -> str:
    return textwrap.fill(label, ROW_LABEL_LETTERS, break_long_words=False)


def scaling_plot(results: Results, looks: Mapping[str, Look]) -> Figure:
    """A pair of axes for each panel that has such points."""
    lines, along = results.layout.lines, results.scaling[0].factor
    panels = [panel for panel in results.panels if rows_at(results.scaling, _without(panel, along))]
    figure, several = canvas(HEIGHT_IN * (0.9 if len(panels) == 1 else 0.55) * len(panels), rows=len(panels))
    shown = [line for line in results.compared.texts if rows_at(results.scaling, {lines: line})]
    for axes, panel in zip(several, panels, strict=True):
        for line in shown:
            rows = rows_at(results.scaling, {**_without(panel, along), lines: line})
            _draw_scaling(axes, sorted(rows, key=lambda row: float(level_of(row, along))), along, looks[line])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("delivered throughput [Mb/s]")
        axes.set_title(panel.name, loc="left", pad=3)
    several[-1].set_xlabel(results.factors[along].label or along)
    guessed = [GUESSED] if any(row.kind == EXTRAPOLATED for row in results.scaling) else []
    legend(figure, [*(line_handle(level_name(lines, line), looks[line]) for line in shown), *guessed])
    return figure


def _without(panel: Panel, along: str) -> dict[str, str]:
    return {name: text for name, text in panel.levels.items() if name != along}


def _draw_scaling(axes: Axes, rows: Sequence[ScalingRow], along: str, look: Look) -> None:
    places = [float(level_of(row, along)) for row in rows]
    values = [row.delivered.value or 0.0 for row in rows]
    measured = [number for number, row in enumerate(rows) if row.kind == MEASURED]
    if len(measured) < len(rows):
        axes.plot(places, values, linestyle=":", color=look.color)
    axes.plot([places[n] for n in measured], [values[n] for n in measured], color=look.color)
    for place, value, row in zip(places, values, rows, strict=True):
        guessed = row.kind == EXTRAPOLATED
        below, above = row.delivered.reach
        axes.errorbar(
            [place], [value], yerr=[[below], [above]], color=look.color, marker=look.marker, markersize=MEAN,
            elinewidth=1.2, gid=row.kind, markerfacecolor=PAPER if guessed else look.color,
        )  # fmt: skip
    axes.set_xticks(sorted(set(places)))
