"""What more jobs bring: the rate of a batch against that of the next smaller one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.postprocess.plots.canvas import DOT, MEAN, line_handle
from tierbench.postprocess.plots.ladder import Ladder, Plot, Series, drawn, ladder_of
from tierbench.postprocess.plots.style import INK, MUTED
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import SummaryRow
from tierbench.postprocess.verdict.counted import counts

Step = tuple[int, float]  # the larger batch, and what became of the rate


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
        for number, one in enumerate(plot.series):
            _steps(axes, one, ladder, (number, len(plot.series)), lambda row: row.growth)
            steps = list(_of_repetitions(one.trials, batches))
            beside = [ladder.beside(str(jobs), number, len(plot.series)) for jobs, _ in steps]
            axes.plot(beside, [step for _, step in steps], linestyle="none", **_mark(one, DOT))
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
            _steps(axes, one, ladder, (number, len(plot.series)), lambda row: row.gain)

    label = "gain over the batch before [Mb/s]"
    return drawn(plots, ladder, label, draw, _handles(plots), from_zero=False)


def _steps(
    axes: Axes, one: Series, ladder: Ladder, place: tuple[int, int], step: Callable[[SummaryRow], Interval]
) -> None:
    """A line of steps, with their intervals."""
    steps = [(row, value) for row in one.summary if (value := step(row).value) is not None]
    reaches = [step(row).reach for row, _ in steps]
    axes.errorbar(
        [ladder.dodged(row, *place) for row, _ in steps],
        [value for _, value in steps],
        yerr=[[below for below, _ in reaches], [above for _, above in reaches]],
        elinewidth=1.2,
        label=one.label,
        **_mark(one, MEAN),
    )


def _mark(one: Series, size: float) -> dict[str, Any]:
    return {"color": one.look.color, "marker": one.look.marker, "markersize": size}


def _handles(plots: Sequence[Plot]) -> list[Line2D]:
    looks = {one.label: one.look for plot in plots for one in plot.series}
    return [line_handle(label, look) for label, look in looks.items()]


def _of_repetitions(trials: Sequence[TrialRow], batches: Sequence[int]) -> Iterator[Step]:
    rates: dict[int, dict[int, float]] = {}
    for trial in trials:
        if counts(trial) and trial.delivered_mbps:
            rates.setdefault(trial.repeat, {})[trial.jobs] = trial.delivered_mbps
    for repeat in sorted(rates):
        yield from slopes(rates[repeat], batches)
