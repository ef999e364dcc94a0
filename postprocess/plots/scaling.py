"""Rates along a factor that was asked to scale: measured ones on a line, extrapolated ones hollow, on a dotted line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.postprocess.plots.canvas import MEAN, canvas, legend, line_handle
from tierbench.postprocess.plots.style import HEIGHT_IN, MUTED, PAPER, Look
from tierbench.postprocess.tables.across import EXTRAPOLATED, MEASURED, ScalingRow
from tierbench.postprocess.tables.points import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results

GUESSED = Line2D(
    [], [], linestyle=":", color=MUTED, marker="o", markersize=MEAN, markerfacecolor=PAPER, label="extrapolated"
)


def scaling_plot(results: Results, looks: Mapping[str, Look]) -> Figure:
    """A pair of axes for each panel that has such points."""
    lines, along = results.layout.lines, results.scaling[0].factor
    panels = [panel for panel in results.panels if rows_at(results.scaling, _without(panel, along))]
    figure, several = canvas(HEIGHT_IN * (0.9 if len(panels) == 1 else 0.55) * len(panels), rows=len(panels))
    shown = [line for line in results.compared.texts if rows_at(results.scaling, {lines: line})]
    for axes, panel in zip(several, panels, strict=True):
        for line in shown:
            rows = rows_at(results.scaling, {**_without(panel, along), lines: line})
            _draw(axes, sorted(rows, key=lambda row: float(level_of(row, along))), along, looks[line])
        axes.set_ylim(bottom=0)
        axes.set_ylabel("taken in [Mb/s]")
        axes.set_title(panel.name, loc="left", pad=3)
    several[-1].set_xlabel(results.factors[along].label or along)
    guessed = [GUESSED] if any(row.kind == EXTRAPOLATED for row in results.scaling) else []
    legend(figure, [*(line_handle(level_name(lines, line), looks[line]) for line in shown), *guessed])
    return figure


def _without(panel: Panel, along: str) -> dict[str, str]:
    return {name: text for name, text in panel.levels.items() if name != along}


def _draw(axes: Axes, rows: Sequence[ScalingRow], along: str, look: Look) -> None:
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
