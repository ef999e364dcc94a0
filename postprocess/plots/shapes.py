"""What papers found beside what was measured here: factors between two rows, on one scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tierbench.postprocess.plots.canvas import MEAN, canvas, legend
from tierbench.postprocess.plots.style import INK, MUTED, PAPER
from tierbench.postprocess.stats import Interval

ROW_IN, FRAME_IN = 0.48, 0.55
LABEL_LETTERS, LABEL_LINES = 30, 2
ASIDE = 0.16  # of a row: theirs above, ours below
STEPS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000)
ROOM = 1.25
THEIRS: dict[str, Any] = {"color": MUTED, "marker": "D", "markerfacecolor": PAPER, "markersize": MEAN - 1}
OURS: dict[str, Any] = {"color": INK, "marker": "o", "markersize": MEAN}


@dataclass(frozen=True)
class Shape:
    """A finding: the paper's factor, and ours with its interval as far as it was measured."""

    says: str
    theirs: float
    ours: Interval


def shapes_plot(shapes: Sequence[Shape]) -> Figure:
    """A row for each finding."""
    figure, (axes,) = canvas(FRAME_IN + ROW_IN * max(len(shapes), 2))
    axes.axvline(1, color=INK, linewidth=0.9)
    for row, shape in enumerate(shapes):
        axes.plot([shape.theirs], [row - ASIDE], linestyle="none", gid="paper", **THEIRS)
        if shape.ours.value is not None:
            below, above = shape.ours.reach
            axes.errorbar([shape.ours.value], [row + ASIDE], xerr=[[below], [above]], elinewidth=1.2, **OURS)
    axes.set_xscale("log")
    ends = [end for shape in shapes for end in (shape.theirs, shape.ours.value, *(shape.ours.interval or ())) if end]
    low, high = min([*ends, 0.8]) / ROOM, max([*ends, 1.25]) * ROOM
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([step for step in STEPS if low <= step <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(shapes)), [_short(shape.says) for shape in shapes], fontsize=8.5)
    axes.set_ylim(len(shapes) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("factor between two rows (1: no difference)")
    handles = [
        Line2D([], [], linestyle="none", label="the paper", **THEIRS),
        Line2D([], [], label="here, 95 % interval", **OURS),
    ]
    legend(figure, handles)
    return figure


def _short(says: str) -> str:
    lines = textwrap.wrap(says, LABEL_LETTERS, max_lines=LABEL_LINES, placeholder=" …", break_long_words=True)
    return "\n".join(lines)
