"""The bottleneck chart: how much of each resource along the way was in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from tierbench.postprocess.plots.canvas import MEAN, canvas, legend, line_handle
from tierbench.postprocess.plots.style import INK, Look
from tierbench.postprocess.schema.rows import ResourceRow
from tierbench.postprocess.tables.points import level_name, level_of

ROLES = ("storage", "metadata", "door", "wan", "gateway", "worker", "client", "machine")  # from the data to the jobs
IDLE = 0.05  # what no trial used more of than this is left out
ROW_IN = 0.33
DODGE, ROOM = 0.17, 0.75  # of a row: from line to line at most, and for all of them


@dataclass(frozen=True)
class Use:
    """How much of a resource the trials of one line used: the mean over them (of the busiest host), and each."""

    place: str
    line: str
    mean: float
    trials: tuple[float, ...]


def uses(resources: Sequence[ResourceRow], lines: str) -> list[Use]:
    """The use of each resource with a known ceiling, in the order in which data meets it.

    Hosts of the same role are one place on the way, whose use is that of the busiest of them.
    """
    busiest: dict[tuple[str, str], dict[str, float]] = {}
    for row in sorted(resources, key=_along):
        if row.utilisation is None or row.on_the_way == "no":
            continue
        trials = busiest.setdefault((f"{row.role}: {row.resource}", level_of(row, lines)), {})
        trials[row.trial] = max(row.utilisation, trials.get(row.trial, 0.0))
    top: dict[str, float] = {}
    for (place, _), trials in busiest.items():
        top[place] = max(top.get(place, 0.0), *trials.values())
    return [
        Use(place, line, float(np.mean(list(trials.values()))), tuple(trials.values()))
        for (place, line), trials in busiest.items()
        if top[place] > IDLE
    ]


def bottleneck_chart(resources: Sequence[ResourceRow], lines: str, looks: Mapping[str, Look]) -> Figure:
    """A row for each resource along the way, a mark for each line."""
    used = uses(resources, lines)
    places = list(dict.fromkeys(use.place for use in used))
    levels = [level for level in looks if any(use.line == level for use in used)]
    figure, (axes,) = canvas(0.6 + ROW_IN * max(len(places), 2))
    axes.axvline(100, color=INK, linewidth=0.9)
    for use in used:
        look = looks[use.line]
        aside = (levels.index(use.line) - (len(levels) - 1) / 2) * min(DODGE, ROOM / len(levels))
        row = places.index(use.place) + aside
        spread = [100 * trial for trial in use.trials]
        axes.plot([min(spread), max(spread)], [row, row], color=look.color, linewidth=1.2)
        axes.plot([100 * use.mean], [row], linestyle="none", color=look.color, marker=look.marker, markersize=MEAN - 1)
    axes.set_yticks(range(len(places)), places)
    axes.set_ylim(len(places) - 0.4, -0.6)
    highest = max((100 * trial for use in used for trial in use.trials), default=100)
    axes.set_xlim(0, max(104, 1.05 * highest))
    axes.set_xlabel("in use [% of its ceiling]")
    axes.grid(axis="y", visible=False)
    for edge in np.arange(0.5, len(places) - 1):
        axes.axhline(edge, color=INK, linewidth=0.25)
    legend(figure, [line_handle(level_name(lines, level), looks[level]) for level in levels])
    return figure


def _along(row: ResourceRow) -> tuple[int, str]:
    return (ROLES.index(row.role) if row.role in ROLES else len(ROLES), row.role)
