"""What more jobs bring: the rate of a batch against that of the next smaller one, and where the ladder is full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from tierbench.postprocess.plots.canvas import DOT, HEIGHT_IN, INK, MUTED, PAPER, Look, canvas, legend
from tierbench.postprocess.plots.ladder import Ladder, Plot, draw_line, drawn, ladder_of, line_handles
from tierbench.postprocess.schema.rows import RATE, TrialRow
from tierbench.postprocess.schema.run_rows import KneeRow
from tierbench.postprocess.verdict.counting import counts

Step = tuple[int, float]  # the larger batch, and what became of the rate
SMALL = 0.62  # of a figure's height, where several are below each other


def slopes(rates: Mapping[int, float], batches: Sequence[int]) -> list[Step]:
    """The delivered rate of each batch over that of the next smaller one; no step over a batch that is missing."""
    steps = [(before, after) for before, after in pairwise(batches) if before in rates and after in rates]
    return [(after, rates[after] / rates[before]) for before, after in steps]


def linear(batches: Sequence[int]) -> list[Step]:
    """What the slopes would be if each job brought its share."""
    return [(after, after / before) for before, after in pairwise(batches)]


def slope_ladder(plots: Sequence[Plot]) -> Figure:
    """The thesis' rate of increase: its mean with its interval, and of each repetition."""
    full = ladder_of(plots)
    batches, ladder = [int(level) for level in full.factor.levels], full.from_second()

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(1, color=INK, linewidth=0.9)
        places, factors = zip(*((ladder.place(str(jobs)), factor) for jobs, factor in linear(batches)), strict=True)
        axes.plot(places, factors, color=MUTED, linestyle=(0, (3, 3)), linewidth=1, marker="_", markersize=14)
        for number, line in enumerate(plot.series):
            place = (number, len(plot.series))
            rows = [row for row in line.summary if row.growth.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, *place), row.growth) for row in rows])
            steps = list(_of_repetitions(line.trials, batches))
            beside, growths = [ladder.beside(str(jobs), *place) for jobs, _ in steps], [step for _, step in steps]
            look = line.look
            axes.plot(beside, growths, linestyle="none", color=look.color, marker=look.marker, markersize=DOT)
        axes.set_ylim(bottom=0)

    dashes = Line2D([], [], color=MUTED, linestyle=(0, (3, 3)), linewidth=1, label="each job brings its share")
    level = Line2D([], [], color=INK, linewidth=0.9, label="more jobs bring nothing")
    label = "rate over that with fewer jobs"
    return drawn(plots, ladder, label, draw, [*line_handles(plots), dashes, level], from_zero=False)


def gain_ladder(plots: Sequence[Plot]) -> Figure:
    """What the step to each batch adds to the rate, with its interval."""
    ladder = ladder_of(plots).from_second()

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(0, color=INK, linewidth=0.9)
        for number, line in enumerate(plot.series):
            steps = [(row, row.gain) for row in line.summary if row.gain.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, number, len(plot.series)), gain) for row, gain in steps])

    label = "gain over fewer jobs [Mb/s]"
    return drawn(plots, ladder, label, draw, line_handles(plots), from_zero=False)


def _of_repetitions(trials: Sequence[TrialRow], batches: Sequence[int]) -> Iterator[Step]:
    rates: dict[int, dict[int, float]] = {}
    for trial in trials:
        if counts(trial) and trial.delivered_mbps:
            rates.setdefault(trial.repeat, {})[trial.jobs] = trial.delivered_mbps
    for repeat in sorted(rates):
        yield from slopes(rates[repeat], batches)


def saturation_plot(plots: Sequence[Plot], knees: Sequence[Mapping[str, KneeRow]], label: str) -> Figure:
    """A pair of axes for each plot, to one scale; its saturation points are by the names of its lines."""
    height = HEIGHT_IN if len(plots) == 1 else SMALL * HEIGHT_IN * len(plots)
    figure, panels = canvas(height, rows=len(plots), sharex=True, sharey=True)
    for axes, plot, of_lines in zip(panels, plots, knees, strict=True):
        for line in plot.series:
            rows = [row for row in line.summary if row.means[RATE].value is not None]
            values = [row.means[RATE].value or 0.0 for row in rows]
            axes.plot(
                [row.jobs for row in rows], values, color=line.look.color, marker=line.look.marker, markersize=DOT
            )
            if row := of_lines.get(line.label):
                _saturation(axes, row, line.look)
        if len(plots) > 1:
            axes.set_title(plot.title, loc="left", pad=3)
        axes.set_ylabel(label)
    batches = sorted({trial.jobs for plot in plots for trial in plot.trials})
    later = {row.predicted_jobs for of_lines in knees for row in of_lines.values() if row.predicted_jobs}
    if Ladder(plots[0].along).even:
        panels[0].set_xscale("log", base=2)
    panels[-1].set_xticks([*batches, *sorted(later - set(batches))], labels=None)
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].set_xlabel("simultaneous jobs")
    panels[0].set_ylim(0, 1.15 * max(_heights(plots, knees)))
    cross = Line2D(
        [], [], color=MUTED, marker="+", markersize=11, linestyle="none", label="saturation point and plateau"
    )
    hollow = Line2D(
        [], [], color=MUTED, marker="o", markerfacecolor=PAPER, linestyle="none", label="predicted of more jobs"
    )
    legend(figure, [*line_handles(plots), cross, hollow])
    return figure


def _heights(plots: Sequence[Plot], knees: Sequence[Mapping[str, KneeRow]]) -> list[float]:
    means = [row.means[RATE].value or 0.0 for plot in plots for line in plot.series for row in line.summary]
    return [*means, *(row.predicted.value or 0.0 for of_lines in knees for row in of_lines.values())]


def _saturation(axes: Axes, row: KneeRow, look: Look) -> None:
    """A cross as wide and high as the intervals, and the prediction, hollow."""
    if row.knee.interval and row.plateau.interval and row.knee.value and row.plateau.value:
        axes.plot(
            row.knee.interval, [row.plateau.value] * 2, color=look.color, linewidth=2.6, alpha=0.6, gid="saturation"
        )
        axes.plot([row.knee.value] * 2, row.plateau.interval, color=look.color, linewidth=2.6, alpha=0.6)
    if row.predicted_jobs and row.predicted.value:
        below, above = row.predicted.reach
        axes.errorbar(
            [row.predicted_jobs], [row.predicted.value], yerr=[[below], [above]], color=look.color, linestyle="none",
            marker=look.marker, markerfacecolor=PAPER, elinewidth=1.2, gid="predicted",
        )  # fmt: skip
