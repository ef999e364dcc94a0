"""What single trials were like: over time, the resources that they used, and how far apart their jobs began."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from tierbench.dags.levels import Factor
from tierbench.postprocess.measures.over_time import TimeSeries
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.plots.ladder import Series, draw_line, ladder_along
from tierbench.postprocess.schema.rows import ResourceRow, TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import level_name, level_of
from tierbench.postprocess.verdict.counting import counts
from tierbench.postprocess.wording import worded

COURSE_IN = 1.3
ROLES = ("storage", "metadata", "door", "wan", "gateway", "worker", "client", "machine")  # from the data to the jobs
IDLE = 0.05  # what no trial used more of than this is left out
RESOURCE_IN = 0.33
DODGE, ROOM = 0.17, 0.75  # of a row: from line to line at most, and for all of them
PANELS = {"natural_skew_ms": "processes started", "start_skew_ms": "began to read"}
LEAST_MS = 0.01  # so that a skew of nothing has a place on a logarithmic axis


def typical(trials: Sequence[TrialRow]) -> TrialRow | None:
    """Of the usable trials, the one whose rate is nearest their median."""
    rates = [(trial, trial.delivered_mbps) for trial in trials if counts(trial) and trial.delivered_mbps is not None]
    if not rates:
        return None
    median = float(np.median([rate for _, rate in rates]))
    return min(rates, key=lambda pair: (abs(pair[1] - median), pair[0].repeat))[0]


def timelines(courses: Sequence[tuple[TrialRow, canvas.Look, TimeSeries, TimeSeries | None]]) -> Figure:
    """A panel for each trial, all to one scale: what the storage moved, and what was delivered."""
    figure, panels = canvas.blank(0.5 + COURSE_IN * len(courses), rows=len(courses), sharex=True, sharey=True)
    for axes, (trial, look, moved, delivered) in zip(panels, courses, strict=True):
        begin, end = trial.slices.steady_begin_s, trial.slices.steady_end_s
        if begin is not None and end is not None:
            axes.axvspan(begin, end, color=canvas.GRID, alpha=0.55, linewidth=0, gid="steady")
        axes.stairs(moved.values, moved.edges, color=canvas.MUTED, linewidth=0.8, baseline=None)
        if delivered is not None:
            axes.stairs(delivered.values, delivered.edges, color=look.color, linewidth=1.4, baseline=None)
        window_s = trial.window_s or 0.0  # of none nothing is kept over time
        for edge in (0.0, window_s):
            axes.axvline(edge, color=canvas.INK, linewidth=0.8, linestyle=(0, (2, 2)))
        if trial.delivered_mbps is not None:
            axes.plot([0, window_s], [trial.delivered_mbps] * 2, color=canvas.INK, linewidth=1.1)
        axes.set_title(trial.trial, loc="left", pad=3)
    panels[0].set_ylim(bottom=0)  # at last: it ends the scaling of all panels, which share it
    panels[-1].set_xlabel("time since the window began [s]")
    figure.supylabel("rate [Mb/s]", fontsize=10)
    by_storage = worded("sent by the storage", [trial.direction for trial, *_ in courses])
    handles = [
        Line2D([], [], color=canvas.INK, linewidth=0.8, linestyle=(0, (2, 2)), label="first begin, last end"),
        Line2D([], [], color=canvas.INK, linewidth=1.1, label="mean delivered"),
        Line2D([], [], color=canvas.MUTED, linewidth=0.8, label=by_storage),
    ]
    if any(trial.slices.steady_end_s is not None for trial, *_ in courses):
        handles.append(Patch(color=canvas.GRID, alpha=0.55, linewidth=0, label="steady state"))  # type: ignore[arg-type]
    canvas.legend(figure, handles)
    return figure


def uses(resources: Sequence[ResourceRow], lines: str) -> dict[tuple[str, str], Interval]:
    """By resources with a known ceiling, in the order in which data meets them, and by lines: their trials' use.

    The mean over them, from the least to the most; of hosts of the same role that of the busiest.
    """
    busiest: dict[tuple[str, str], dict[str, float]] = {}
    places = {role: place for place, role in enumerate(ROLES)}
    for row in sorted(resources, key=lambda row: (places.get(row.role, len(ROLES)), row.role)):
        if row.utilisation is None or row.on_the_way == "no":
            continue
        trials = busiest.setdefault((f"{row.role}: {row.resource}", level_of(row, lines)), {})
        trials[row.trial] = max(row.utilisation, trials.get(row.trial, 0.0))
    most: dict[str, float] = {}
    for (place, _), trials in busiest.items():
        most[place] = max(most.get(place, 0.0), *trials.values())
    return {
        key: Interval(float(np.mean(shares)), min(shares), max(shares))
        for key, trials in busiest.items()
        if most[key[0]] > IDLE and (shares := list(trials.values()))
    }


def bottleneck_chart(resources: Sequence[ResourceRow], lines: str, looks: Mapping[str, canvas.Look]) -> Figure:
    """A row for each resource along the way, a mark for each line."""
    used = uses(resources, lines)
    places = list(dict.fromkeys(place for place, _ in used))
    levels = [level for level in looks if any(line == level for _, line in used)]
    figure, (axes,) = canvas.blank(0.6 + RESOURCE_IN * max(len(places), 2))
    axes.axvline(100, color=canvas.INK, linewidth=0.9)
    for number, level in enumerate(levels):
        aside = (number - (len(levels) - 1) / 2) * min(DODGE, ROOM / len(levels))
        marks = [(places.index(place) + aside, use.over(0.01)) for (place, line), use in used.items() if line == level]
        marked = Series("", looks[level], [], [], "none")
        draw_line(axes, marked, marks, sideways=True, markersize=canvas.MEAN - 1, capsize=0)
    axes.set_yticks(range(len(places)), places)
    axes.set_ylim(len(places) - 0.4, -0.6)
    highest = 100 * max((use.high or 0.0 for use in used.values()), default=1.0)
    axes.set_xlim(0, max(104, 1.05 * highest))
    axes.set_xlabel("in use [% of its ceiling]")
    axes.grid(axis="y", visible=False)
    for edge in np.arange(0.5, len(places) - 1):
        axes.axhline(edge, color=canvas.INK, linewidth=0.25)
    canvas.legend(figure, [canvas.line_handle(level_name(lines, level), looks[level]) for level in levels])
    return figure


def start_skew(trials: Sequence[TrialRow], along: Factor, lines: str, looks: Mapping[str, canvas.Look]) -> Figure:
    """Both skews of each trial, to one logarithmic scale."""
    figure, panels = canvas.blank(canvas.HEIGHT_IN - 0.3, columns=2, sharey=True)
    of_level = {level: [trial for trial in trials if level_of(trial, lines) == level] for level in looks}
    levels = [level for level, own in of_level.items() if own]
    ladder = ladder_along(along, trials)
    for axes, (metric, title) in zip(panels, PANELS.items(), strict=True):
        for number, level in enumerate(levels):
            skewed = [trial for trial in of_level[level] if trial[metric] is not None]
            places = [ladder.dodged(trial, number, len(levels)) for trial in skewed]
            skews = [max(trial[metric], LEAST_MS) for trial in skewed]
            canvas.trial_marks(axes, level, looks[level], zip(skewed, places, skews, strict=True))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=12))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(title, loc="left")
        ladder.mark(axes)
        axes.set_xlabel(along.label or along.name)
    panels[0].set_ylabel("first to last job of a trial [ms]")
    handles = [canvas.line_handle(level_name(lines, level), looks[level]) for level in levels]
    canvas.legend(figure, [*handles, *canvas.verdict_handles(trials)])
    return figure
