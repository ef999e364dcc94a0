"""How far apart a batch's jobs began: as HTCondor started them, and after the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tierbench.dags.levels import Factor
from tierbench.postprocess.plots.canvas import canvas, legend, line_handle, trial_marks, verdict_handles
from tierbench.postprocess.plots.ladder import Plot, Series, ladder_of
from tierbench.postprocess.plots.style import HEIGHT_IN, Look
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.points import level_name, level_of
from tierbench.postprocess.verdict.counted import verdict

PANELS = {"natural_skew_ms": "processes started", "start_skew_ms": "began to read"}
LEAST_MS = 0.01  # so that a skew of nothing has a place on a logarithmic axis


def start_skew(trials: Sequence[TrialRow], along: Factor, lines: str, looks: Mapping[str, Look]) -> Figure:
    """Both skews of each trial, to one logarithmic scale."""
    figure, panels = canvas(HEIGHT_IN - 0.3, columns=2, sharey=True)
    there = {level_of(trial, lines) for trial in trials}
    levels = [level for level in looks if level in there]
    ladder = ladder_of([Plot(along, [Series("", looks[levels[0]], [], trials)])])
    for axes, (metric, title) in zip(panels, PANELS.items(), strict=True):
        for number, level in enumerate(levels):
            of_level = [one for one in trials if level_of(one, lines) == level and one[metric] is not None]
            marks = [(one, ladder.dodged(one, number, len(levels)), max(one[metric], LEAST_MS)) for one in of_level]
            trial_marks(axes, level, looks[level], marks)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=12))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(title, loc="left")
        ladder.mark(axes)
        axes.set_xlabel(along.label or along.name)
    panels[0].set_ylabel("first to last job of a batch [ms]")
    legend(
        figure,
        [
            *(line_handle(level_name(lines, level), looks[level]) for level in levels),
            *verdict_handles({verdict(trial) for trial in trials}),
        ],
    )
    return figure
