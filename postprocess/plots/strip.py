"""A metric of levels that have no ladder: a row for each line, its mean with its bar, its trials below it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure

from tierbench.postprocess.plots.canvas import MEAN, canvas, legend, trial_marks, verdict_handles
from tierbench.postprocess.plots.ladder import TALLEST, Plot, reach
from tierbench.postprocess.verdict.counted import verdict

ROW_IN, FRAME_IN, TITLE_IN = 0.34, 0.55, 0.3
BELOW = 0.24  # of a row: where the trials are
LABEL_LETTERS = 22
ROOM = 1.06  # to the right of what is farthest there


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
        for place, one in enumerate(plot.series):
            for row in one.summary:
                mean = row.means[metric]
                if mean.value is None:
                    continue
                below, above = reach(mean, bars)
                axes.errorbar(
                    [mean.value], [place], xerr=[[below], [above]], color=one.look.color, marker=one.look.marker,
                    markersize=MEAN, elinewidth=1.2, label=one.label,
                )  # fmt: skip
                farthest_mark, farthest_bar = max(farthest_mark, mean.value), max(farthest_bar, mean.value + above)
            marks = [(trial, trial[metric], place + BELOW) for trial in one.trials if trial[metric] is not None]
            trial_marks(axes, one.label, one.look, marks)
            farthest_mark = max([farthest_mark, *(value for _, value, _ in marks)])
        axes.set_yticks(range(len(plot.series)), [_in_lines(one.label) for one in plot.series])
        axes.set_ylim(len(plot.series) - 0.45, -0.55)
        axes.grid(axis="y", visible=False)
        if len(plots) > 1:
            axes.set_title(plot.title, loc="left", pad=3)
    if farthest_mark > 0:
        panels[0].set_xlim(0, min(max(farthest_bar, farthest_mark) * ROOM, TALLEST * farthest_mark))
    panels[-1].set_xlabel(label)
    legend(figure, verdict_handles({verdict(trial) for plot in plots for trial in plot.trials}))
    return figure


def _in_lines(label: str) -> str:
    return textwrap.fill(label, LABEL_LETTERS, break_long_words=False)
