"""A metric over the ladder of batches: means with error bars, and the single trials beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench.postprocess.columns import SENT
from tierbench.postprocess.counting import counts, verdict
from tierbench.postprocess.plots.canvas import MEAN, canvas, legend, verdict_handles, verdict_marks
from tierbench.postprocess.plots.style import HEIGHT_IN, Look
from tierbench.postprocess.results import Row

TALLEST = 1.5  # of the highest mean or trial; what error bars reach beyond it is cut off, so that they hide no data
UNEVEN = 4  # gaps that differ by more than this factor are drawn alike
DODGE, ROOM = 0.16, 0.6  # of a gap: from series to series at most, and for all of them together
BESIDE = 0.45  # of the way to the next series: where the trials stand beside their mean

INTERVAL = "95 % interval of the mean over the trials of a batch"
SPREAD = "standard deviation over the trials of a batch"
VOLATILITY = "standard deviation of the rates within a trial (volatility), as in the thesis"


@dataclass(frozen=True)
class Series:
    """What one line of a ladder shows: an access, or a run."""

    label: str
    look: Look
    summary: Sequence[Row]
    trials: Sequence[Row]
    line: Any = "-"


@dataclass(frozen=True)
class Ladder:
    """Where the batches stand on the axis: by their size, or evenly where sizes are far from even."""

    batches: tuple[int, ...]

    @property
    def even(self) -> bool:
        gaps = [after - before for before, after in pairwise(self.batches)]
        return bool(gaps) and max(gaps) > UNEVEN * min(gaps)

    def place(self, jobs: int) -> float:
        return float(self.batches.index(jobs) if self.even else jobs)

    @property
    def gap(self) -> float:
        places = [self.place(jobs) for jobs in self.batches]
        return min((after - before for before, after in pairwise(places)), default=1.0)

    def dodged(self, jobs: int, number: int, of: int) -> float:
        """The place of one of several series, so that they do not hide each other."""
        return self.place(jobs) + (number - (of - 1) / 2) * self.step(of)

    def beside(self, jobs: int, number: int, of: int) -> float:
        """Where the trials of one of several series are."""
        return self.dodged(jobs, number, of) + BESIDE * self.step(of)

    def step(self, of: int) -> float:
        return min(DODGE, ROOM / of) * self.gap

    def mark(self, axes: Axes) -> None:
        axes.set_xticks([self.place(jobs) for jobs in self.batches], [str(jobs) for jobs in self.batches])
        axes.set_xlim(self.place(self.batches[0]) - 0.5 * self.gap, self.place(self.batches[-1]) + 0.5 * self.gap)
        axes.set_xlabel("simultaneous jobs" + (" (evenly spaced)" if self.even else ""))


def ladder_of(series: Sequence[Series]) -> Ladder:
    """All batches that any of the series has."""
    return Ladder(tuple(sorted({int(row["jobs"]) for one in series for row in one.trials})))


def error_bars(series: Sequence[Series], metric: str) -> str:
    """What the error bars of a metric's means are; empty where there are none."""
    rows = [row for one in series for row in one.summary]
    if any(row.get(f"{metric}_low") is not None for row in rows):
        return INTERVAL
    return SPREAD if any(row.get(f"{metric}_sd") is not None for row in rows) else ""


def metric_ladder(series: Sequence[Series], metric: str, label: str) -> Figure:
    """Means over the trials of each batch, and the trials."""
    figure, (axes,) = canvas(HEIGHT_IN)
    ladder, bars = ladder_of(series), error_bars(series, metric)
    for number, one in enumerate(series):
        places = [ladder.dodged(row["jobs"], number, len(series)) for row in one.summary]
        _means(axes, one, places, metric, bars)
        for trial in one.trials:
            if trial.get(metric) is not None:
                place = ladder.beside(trial["jobs"], number, len(series))
                marks = verdict_marks(verdict(trial), one.look)
                axes.plot([place], [trial[metric]], linestyle="none", zorder=3, gid=trial["trial"], **marks)
    _finish(figure, axes, ladder, series, label)
    return figure


def volatility_ladder(series: Sequence[Series], label: str, volatility: str) -> Figure:
    """Mean rates with the fluctuation within the trials as error bars, as the thesis drew them."""
    figure, (axes,) = canvas(HEIGHT_IN)
    ladder = ladder_of(series)
    for number, one in enumerate(series):
        rows = [row for row in one.summary if row.get(SENT) is not None]
        places = [ladder.dodged(row["jobs"], number, len(series)) for row in rows]
        bars = [row.get(volatility) or 0.0 for row in rows]
        axes.errorbar(places, [row[SENT] for row in rows], yerr=bars, **_line(one))
    _finish(figure, axes, ladder, series, label, trials=False)
    return figure


def _means(axes: Axes, one: Series, places: Sequence[float], metric: str, bars: str) -> None:
    known = [(place, row) for place, row in zip(places, one.summary, strict=True) if row.get(metric) is not None]
    if not known:
        return
    spans = [_span(row, metric, bars) for _, row in known]
    axes.errorbar(
        [place for place, _ in known],
        [row[metric] for _, row in known],
        yerr=[[below for below, _ in spans], [above for _, above in spans]],
        **_line(one),
    )


def _span(row: Row, metric: str, bars: str) -> tuple[float, float]:
    """How far an error bar reaches below and above its mean."""
    if bars == INTERVAL:
        low, high = row.get(f"{metric}_low"), row.get(f"{metric}_high")
        return (0.0, 0.0) if low is None or high is None else (max(row[metric] - low, 0), max(high - row[metric], 0))
    spread = row.get(f"{metric}_sd") or 0.0
    return spread, spread


def _line(one: Series) -> dict[str, Any]:
    return {
        "label": one.label, "color": one.look.color, "marker": one.look.marker, "linestyle": one.line,
        "markersize": MEAN, "elinewidth": 1.2,
    }  # fmt: skip


def _finish(
    figure: Figure, axes: Axes, ladder: Ladder, series: Sequence[Series], label: str, trials: bool = True
) -> None:
    ladder.mark(axes)
    axes.set_ylabel(label)
    axes.set_ylim(0, _top(axes))
    lines = [Line2D([], [], **{k: v for k, v in _line(one).items() if k != "elinewidth"}) for one in series]
    shown = [trial for one in series for trial in one.trials] if trials else []
    legend(figure, [*lines, *(verdict_handles({verdict(trial) for trial in shown}) if shown else [])])


def _top(axes: Axes) -> float | None:
    """As high as the error bars reach, but not so high that the data lie on the ground."""
    data = [line for line in axes.lines if line.get_marker() not in ("_", "None")]
    values = [float(value) for line in data for value in np.asarray(line.get_ydata(), float)]
    limit = TALLEST * max(values, default=0.0)
    return limit if 0 < limit < axes.get_ylim()[1] else None


def left_out(trials: Sequence[Row]) -> str:
    """How many trials do not count, for a caption."""
    number = sum(not counts(trial) for trial in trials)
    return f" {number} of {len(trials)} trials INVALID and left out." if number else ""
