"""What more jobs bring: the rate of a batch against that of the next smaller one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.dags.levels import JOBS
from tierbench.postprocess.plots.canvas import DOT, MEAN, line_handle
from tierbench.postprocess.plots.ladder import Ladder, Plot, Series, drawn, ladder_of
from tierbench.postprocess.plots.style import INK, MUTED
from tierbench.postprocess.tables.columns import RATE
from tierbench.postprocess.tables.results import Row
from tierbench.postprocess.verdict.counted import counts

Step = tuple[int, float]  # the larger batch, and what became of the rate


def slopes(rows: Sequence[Row], batches: Sequence[int]) -> list[Step]:
    """The delivered rate of each batch over that of the next smaller one; no step over a batch that is missing."""
    rates = {int(row[JOBS]): row[RATE] for row in rows if row.get(RATE)}
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
        for number, one in enumerate(plot.series):
            _steps(axes, one, ladder, (number, len(plot.series)), "growth", "growth")
            for jobs, step in _of_repetitions(one.trials, batches):
                place = ladder.beside({JOBS: jobs}, number, len(plot.series))
                axes.plot([place], [step], linestyle="none", **_mark(one, DOT))
        axes.set_ylim(bottom=0)

    dashes = Line2D([], [], color=MUTED, linestyle=(0, (3, 3)), linewidth=1, label="each job brings its share")
    level = Line2D([], [], color=INK, linewidth=0.9, label="more jobs bring nothing")
    label = "rate over that of the batch before"
    return drawn(plots, ladder, label, draw, [*_handles(plots), dashes, level], from_zero=False)


def gain_ladder(plots: Sequence[Plot]) -> Figure:
    """What the step to each batch adds to the rate, with its interval."""
    ladder = ladder_of(plots).from_second()

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(0, color=INK, linewidth=0.9)
        for number, one in enumerate(plot.series):
            _steps(axes, one, ladder, (number, len(plot.series)), "gain_mbps", "gain")

    label = "gain over the batch before [Mb/s]"
    return drawn(plots, ladder, label, draw, _handles(plots), from_zero=False)


def _steps(axes: Axes, one: Series, ladder: Ladder, place: tuple[int, int], value: str, bounds: str) -> None:
    """A line of steps, with their intervals."""
    rows = [row for row in one.summary if row.get(value) is not None]
    axes.errorbar(
        [ladder.dodged(row, *place) for row in rows],
        [row[value] for row in rows],
        yerr=_reaches(rows, value, bounds),
        elinewidth=1.2,
        label=one.label,
        **_mark(one, MEAN),
    )


def _mark(one: Series, size: float) -> dict[str, Any]:
    return {"color": one.look.color, "marker": one.look.marker, "markersize": size}


def _handles(plots: Sequence[Plot]) -> list[Line2D]:
    looks = {one.label: one.look for plot in plots for one in plot.series}
    return [line_handle(label, look) for label, look in looks.items()]


def _reaches(rows: Sequence[Row], value: str, name: str) -> list[list[float]]:
    """How far the intervals reach below and above their values; nowhere where there is none."""
    lows = [row[value] - row[f"{name}_low"] if row.get(f"{name}_low") is not None else 0.0 for row in rows]
    highs = [row[f"{name}_high"] - row[value] if row.get(f"{name}_high") is not None else 0.0 for row in rows]
    return [[max(low, 0.0) for low in lows], [max(high, 0.0) for high in highs]]


def _of_repetitions(trials: Sequence[Row], batches: Sequence[int]) -> Iterator[Step]:
    usable = [trial for trial in trials if counts(trial)]
    for repeat in sorted({trial["repeat"] for trial in usable}):
        yield from slopes([trial for trial in usable if trial["repeat"] == repeat], batches)
