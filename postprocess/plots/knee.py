"""Ladders with their knees: the means, where the line meets the plateau, and what is predicted of the next batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from tierbench.postprocess.plots.canvas import DOT, canvas, legend, line_handle
from tierbench.postprocess.plots.ladder import Ladder, Plot
from tierbench.postprocess.plots.style import HEIGHT_IN, MUTED, PAPER, Look
from tierbench.postprocess.schema.rows import RATE
from tierbench.postprocess.tables.across import KneeRow

SMALL = 0.62  # of a figure's height, where several are below each other


def knee_plot(plots: Sequence[Plot], knees: Sequence[Mapping[str, KneeRow]], label: str) -> Figure:
    """A pair of axes for each plot, to one scale; its knees are by the names of its lines."""
    height = HEIGHT_IN if len(plots) == 1 else SMALL * HEIGHT_IN * len(plots)
    figure, panels = canvas(height, rows=len(plots), sharex=True, sharey=True)
    for axes, plot, of_lines in zip(panels, plots, knees, strict=True):
        for one in plot.series:
            rows = [row for row in one.summary if row.means[RATE].value is not None]
            values = [row.means[RATE].value or 0.0 for row in rows]
            axes.plot([row.jobs for row in rows], values, color=one.look.color, marker=one.look.marker, markersize=DOT)
            if row := of_lines.get(one.label):
                _knee(axes, row, one.look)
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
    looks = {one.label: one.look for plot in plots for one in plot.series}
    cross = Line2D([], [], color=MUTED, marker="+", markersize=11, linestyle="none", label="knee and plateau")
    hollow = Line2D(
        [], [], color=MUTED, marker="o", markerfacecolor=PAPER, linestyle="none", label="predicted of the next batch"
    )
    legend(figure, [*(line_handle(label, look) for label, look in looks.items()), cross, hollow])
    return figure


def _heights(plots: Sequence[Plot], knees: Sequence[Mapping[str, KneeRow]]) -> list[float]:
    means = [row.means[RATE].value or 0.0 for plot in plots for one in plot.series for row in one.summary]
    return [*means, *(row.predicted.value or 0.0 for of_lines in knees for row in of_lines.values())]


def _knee(axes: Axes, row: KneeRow, look: Look) -> None:
    """A cross as wide and high as the intervals, and the prediction, hollow."""
    if row.knee.interval and row.plateau.interval and row.knee.value and row.plateau.value:
        axes.plot(row.knee.interval, [row.plateau.value] * 2, color=look.color, linewidth=2.6, alpha=0.6, gid="knee")
        axes.plot([row.knee.value] * 2, row.plateau.interval, color=look.color, linewidth=2.6, alpha=0.6)
    if row.predicted_jobs and row.predicted.value:
        below, above = row.predicted.reach
        axes.errorbar(
            [row.predicted_jobs], [row.predicted.value], yerr=[[below], [above]], color=look.color, linestyle="none",
            marker=look.marker, markerfacecolor=PAPER, elinewidth=1.2, gid="predicted",
        )  # fmt: skip
