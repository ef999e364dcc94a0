"""What more bring: the rate with each number of jobs over that with fewer, where it saturates, and how it scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.dags.levels import JOBS, Factor
from tierbench.postprocess.plots.canvas import DOT, INK, MUTED, PAPER
from tierbench.postprocess.plots.ladder import (
    BESIDE,
    Ladder,
    Plot,
    Series,
    draw_line,
    drawn,
    ladder_along,
    ladder_of,
    line_handles,
)
from tierbench.postprocess.schema.rows import RATE, TrialRow
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, MEASURED
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import level_of
from tierbench.postprocess.verdict.counting import counts

Step = tuple[int, float]  # the larger number of jobs, and what became of the rate


def slopes(rates: Mapping[int, float], batches: Sequence[int]) -> list[Step]:
    """The rate of each number of jobs over that of the next smaller one; no step over one that is missing."""
    steps = [(before, after) for before, after in pairwise(batches) if before in rates and after in rates]
    return [(after, rates[after] / rates[before]) for before, after in steps]


def slope_ladder(plots: Sequence[Plot]) -> Figure:
    """The thesis' rate of increase: its mean with its interval, and of each repetition."""
    full = ladder_of(plots)
    batches, ladder = [int(level) for level in full.factor.levels], full.from_second()
    linear = slopes({jobs: jobs for jobs in batches}, batches)  # if each job brought its share
    dashed: dict[str, Any] = {"color": MUTED, "linestyle": (0, (3, 3)), "linewidth": 1}

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(1, color=INK, linewidth=0.9)
        places, factors = zip(*((ladder.place(str(jobs)), factor) for jobs, factor in linear), strict=True)
        axes.plot(places, factors, marker="_", markersize=14, **dashed)
        for number, line in enumerate(plot.series):
            place = (number, len(plot.series))
            rows = [row for row in line.summary if row.growth.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, *place), row.growth) for row in rows])
            steps = list(_of_repetitions(line.trials, batches))
            beside = [ladder.aside(str(jobs), *place, BESIDE) for jobs, _ in steps]
            look = line.look
            axes.plot(
                beside, [step for _, step in steps], linestyle="none", color=look.color, marker=look.marker,
                markersize=DOT,
            )  # fmt: skip
        axes.set_ylim(bottom=0)

    dashes = Line2D([], [], label="each job brings its share", **dashed)
    level = Line2D([], [], color=INK, linewidth=0.9, label="more jobs bring nothing")
    handles = [*line_handles(plots), dashes, level]
    return drawn(plots, ladder, "rate over that with fewer jobs", draw, handles, from_zero=False)


def gain_ladder(plots: Sequence[Plot]) -> Figure:
    """What the step to each number of jobs adds to the rate, with its interval."""
    ladder = ladder_of(plots).from_second()

    def draw(axes: Axes, plot: Plot) -> None:
        axes.axhline(0, color=INK, linewidth=0.9)
        for number, line in enumerate(plot.series):
            rows = [row for row in line.summary if row.gain.value is not None]
            draw_line(axes, line, [(ladder.dodged(row, number, len(plot.series)), row.gain) for row in rows])

    return drawn(plots, ladder, "gain over fewer jobs [Mb/s]", draw, line_handles(plots), from_zero=False)


def _of_repetitions(trials: Sequence[TrialRow], batches: Sequence[int]) -> Iterator[Step]:
    rates: dict[int, dict[int, float]] = {}
    for trial in trials:
        if counts(trial) and trial.delivered_mbps:
            rates.setdefault(trial.repeat, {})[trial.jobs] = trial.delivered_mbps
    for repeat in sorted(rates):
        yield from slopes(rates[repeat], batches)


def saturation_plot(plots: Sequence[Plot]) -> Figure:
    """Means without bars; a cross where they bend, as wide and high as the intervals; the prediction, hollow."""
    later = {line.saturation.predicted_jobs for plot in plots for line in plot.series if line.saturation}
    jobs = {trial.jobs for plot in plots for trial in plot.trials} | set(filter(None, later))
    scale = "log" if Ladder(plots[0].along).even else "linear"
    ladder = Ladder(Factor(JOBS, tuple(sorted(jobs)), plots[0].along.label), scale)

    def draw(axes: Axes, plot: Plot) -> None:
        for line in plot.series:
            color, marker, saturation = line.look.color, line.look.marker, line.saturation
            rows = [row for row in line.summary if row.means[RATE].value is not None]
            rates = [row.means[RATE].value or 0.0 for row in rows]
            axes.plot([row.jobs for row in rows], rates, color=color, marker=marker, markersize=DOT)
            if (
                saturation
                and saturation.full_with.interval
                and saturation.plateau.interval
                and saturation.full_with.value
                and saturation.plateau.value
            ):
                broad: dict[str, Any] = {"color": color, "linewidth": 2.6, "alpha": 0.6}
                axes.plot(saturation.full_with.interval, [saturation.plateau.value] * 2, gid="saturation", **broad)
                axes.plot([saturation.full_with.value] * 2, saturation.plateau.interval, **broad)
            if saturation and saturation.predicted_jobs:
                _draw_hollow(axes, line, [(saturation.predicted_jobs, saturation.predicted)], "predicted")

    none: dict[str, Any] = {"color": MUTED, "linestyle": "none"}
    cross = Line2D([], [], marker="+", markersize=11, label="saturation point and plateau", **none)
    hollow = Line2D([], [], marker="o", markerfacecolor=PAPER, label="predicted of more jobs", **none)
    return drawn(plots, ladder, "delivered throughput [Mb/s]", draw, [*line_handles(plots), cross, hollow])


def _draw_hollow(axes: Axes, line: Series, points: Sequence[tuple[float, Interval]], what: str) -> None:
    """Marks of what nobody measured."""
    draw_line(axes, line, points, linestyle="none", markerfacecolor=PAPER, gid=what)


def scaling_plot(plots: Sequence[Plot], along: Factor) -> Figure:
    """The mean at each level of a factor; dotted and hollow where it is extrapolated."""
    rows = [row for plot in plots for line in plot.series for row in line.scaling]
    ladder = ladder_along(along, rows)

    def draw(axes: Axes, plot: Plot) -> None:
        for line in plot.series:
            placed = [(ladder.place(level_of(row, along.name)), row) for row in line.scaling]
            points = sorted(placed, key=lambda pair: pair[0])
            if any(row.kind == EXTRAPOLATED for row in line.scaling):
                values = [row.delivered.value or 0.0 for _, row in points]
                axes.plot([place for place, _ in points], values, linestyle=":", color=line.look.color)
            measured = [(place, row.delivered) for place, row in points if row.kind == MEASURED]
            draw_line(axes, line, measured, gid=MEASURED)
            guessed = [(place, row.delivered) for place, row in points if row.kind == EXTRAPOLATED]
            _draw_hollow(axes, line, guessed, EXTRAPOLATED)

    hollow = Line2D([], [], linestyle=":", color=MUTED, marker="o", markerfacecolor=PAPER, label=EXTRAPOLATED)
    handles = [*line_handles(plots), *([hollow] if any(row.kind == EXTRAPOLATED for row in rows) else [])]
    return drawn(plots, ladder, "delivered throughput [Mb/s]", draw, handles)
