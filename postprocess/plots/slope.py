"""What more jobs bring: the rate of a batch against that of the next smaller one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.postprocess.columns import RATE
from tierbench.postprocess.counting import counts
from tierbench.postprocess.plots.canvas import DOT, MEAN, canvas, legend
from tierbench.postprocess.plots.ladder import Ladder, Series, ladder_of
from tierbench.postprocess.plots.style import HEIGHT_IN, INK, MUTED
from tierbench.postprocess.results import Row

Step = tuple[int, float]  # the larger batch, and what became of the rate


def slopes(rows: Sequence[Row], batches: Sequence[int]) -> list[Step]:
    """The delivered rate of each batch over that of the next smaller one; no step over a batch that is missing."""
    rates = {int(row["jobs"]): row[RATE] for row in rows if row.get(RATE)}
    steps = [(before, after) for before, after in pairwise(batches) if before in rates and after in rates]
    return [(after, rates[after] / rates[before]) for before, after in steps]


def linear(batches: Sequence[int]) -> list[Step]:
    """What the slopes would be if each job brought its share."""
    return [(after, after / before) for before, after in pairwise(batches)]


def slope_ladder(series: Sequence[Series]) -> Figure:
    """The thesis' rate of increase: its mean with its interval, and of each repetition."""
    figure, (axes,) = canvas(HEIGHT_IN)
    full = ladder_of(series)
    ladder = Ladder(full.batches[1:])
    axes.axhline(1, color=INK, linewidth=0.9)
    places, factors = zip(*((ladder.place(jobs), factor) for jobs, factor in linear(full.batches)), strict=True)
    axes.plot(places, factors, color=MUTED, linestyle=(0, (3, 3)), linewidth=1, marker="_", markersize=14)
    for number, one in enumerate(series):
        look = one.look
        rows = [row for row in one.summary if row.get("growth") is not None]
        axes.errorbar(
            [ladder.dodged(row["jobs"], number, len(series)) for row in rows],
            [row["growth"] for row in rows],
            yerr=_reaches(rows, "growth", "growth"),
            color=look.color, marker=look.marker, markersize=MEAN, elinewidth=1.2, label=one.label,
        )  # fmt: skip
        for jobs, step in _of_repetitions(one.trials, full.batches):
            place = ladder.beside(jobs, number, len(series))
            axes.plot([place], [step], linestyle="none", marker=look.marker, markersize=DOT, color=look.color)
    ladder.mark(axes)
    axes.set_ylabel("rate over that of the batch before")
    axes.set_ylim(bottom=0)
    lines = [
        Line2D([], [], color=one.look.color, marker=one.look.marker, markersize=MEAN, label=one.label) for one in series
    ]
    dashes = Line2D([], [], color=MUTED, linestyle=(0, (3, 3)), linewidth=1, label="each job brings its share")
    legend(figure, [*lines, dashes, Line2D([], [], color=INK, linewidth=0.9, label="more jobs bring nothing")])
    return figure


def gain_ladder(series: Sequence[Series]) -> Figure:
    """What the step to each batch adds to the rate, with its interval."""
    figure, (axes,) = canvas(HEIGHT_IN)
    ladder = Ladder(ladder_of(series).batches[1:])
    axes.axhline(0, color=INK, linewidth=0.9)
    for number, one in enumerate(series):
        rows = [row for row in one.summary if row.get("gain_mbps") is not None]
        axes.errorbar(
            [ladder.dodged(row["jobs"], number, len(series)) for row in rows],
            [row["gain_mbps"] for row in rows],
            yerr=_reaches(rows, "gain_mbps", "gain"),
            color=one.look.color, marker=one.look.marker, markersize=MEAN, elinewidth=1.2, label=one.label,
        )  # fmt: skip
    ladder.mark(axes)
    axes.set_ylabel("gain over the batch before [Mb/s]")
    lines = [
        Line2D([], [], color=one.look.color, marker=one.look.marker, markersize=MEAN, label=one.label) for one in series
    ]
    legend(figure, lines)
    return figure


def _reaches(rows: Sequence[Row], value: str, name: str) -> list[list[float]]:
    """How far the intervals reach below and above their values; nowhere where there is none."""
    lows = [row[value] - row[f"{name}_low"] if row.get(f"{name}_low") is not None else 0.0 for row in rows]
    highs = [row[f"{name}_high"] - row[value] if row.get(f"{name}_high") is not None else 0.0 for row in rows]
    return [[max(low, 0.0) for low in lows], [max(high, 0.0) for high in highs]]


def _of_repetitions(trials: Sequence[Row], batches: Sequence[int]) -> Iterator[Step]:
    usable = [trial for trial in trials if counts(trial)]
    for repeat in sorted({trial["repeat"] for trial in usable}):
        yield from slopes([trial for trial in usable if trial["repeat"] == repeat], batches)
