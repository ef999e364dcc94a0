"""Trials over time: what the jobs moved, and the rate at which the storage servers did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tierbench.postprocess.measures.over_time import TimeSeries
from tierbench.postprocess.plots.canvas import canvas, legend
from tierbench.postprocess.plots.style import GRID, INK, MUTED, Look
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.direction import worded
from tierbench.postprocess.verdict.counted import counts

ROW_IN = 1.3


@dataclass(frozen=True)
class Course:
    """One trial over time: what the storage moved, and what was delivered where that is known."""

    trial: TrialRow
    look: Look
    moved: TimeSeries
    delivered: TimeSeries | None = None


def typical(trials: Sequence[TrialRow]) -> TrialRow | None:
    """Of the trials that count, the one whose rate is nearest their median."""
    rates = [(trial, trial.delivered_mbps) for trial in trials if counts(trial) and trial.delivered_mbps is not None]
    if not rates:
        return None
    median = float(np.median([rate for _, rate in rates]))
    return min(rates, key=lambda pair: (abs(pair[1] - median), pair[0].repeat))[0]


def timelines(courses: Sequence[Course]) -> Figure:
    """A panel for each trial, all to one scale."""
    figure, panels = canvas(0.5 + ROW_IN * len(courses), rows=len(courses), sharex=True, sharey=True)
    for axes, course in zip(panels, courses, strict=True):
        trial, moved, taken = course.trial, course.moved, course.delivered
        begin, end = trial.slices.steady_begin_s, trial.slices.steady_end_s
        if begin is not None and end is not None:
            axes.axvspan(begin, end, color=GRID, alpha=0.55, linewidth=0, gid="steady")
        axes.stairs(moved.values, moved.edges, color=MUTED, linewidth=0.8, baseline=None)
        if taken is not None:
            axes.stairs(taken.values, taken.edges, color=course.look.color, linewidth=1.4, baseline=None)
        for edge in (0.0, trial.window_s):
            if edge is not None:
                axes.axvline(edge, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        if trial.delivered_mbps is not None:
            window_s = trial.window_s or float(moved.edges[-1])
            axes.plot([0, window_s], [trial.delivered_mbps] * 2, color=INK, linewidth=1.1)
        axes.set_title(trial.trial, loc="left", pad=3)
        axes.set_ylim(bottom=0)
    panels[-1].set_xlabel("time since the window began [s]")
    figure.supylabel("rate [Mb/s]", fontsize=10)
    by_storage = worded("sent by the storage", [course.trial.direction for course in courses])
    handles = [
        Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (2, 2)), label="first begin, last end"),
        Line2D([], [], color=INK, linewidth=1.1, label="mean delivered"),
        Line2D(
            [],
            [],
            color=MUTED,
            linewidth=0.8,
            label=by_storage,
        ),
    ]
    if any(course.trial.slices.steady_end_s is not None for course in courses):
        handles.append(Patch(color=GRID, alpha=0.55, linewidth=0, label="steady state"))  # type: ignore[arg-type]
    legend(figure, handles)
    return figure
