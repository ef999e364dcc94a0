"""How many round trips an operation on files waits for, where trials were at several distances."""

from __future__ import annotations

from collections.abc import Iterator

from tierbench.dags.levels import BUILT_IN
from tierbench.postprocess.measures.roundtrips import fitted
from tierbench.postprocess.report.words import between, figures
from tierbench.postprocess.tables.points import Panel, level_name, level_of
from tierbench.postprocess.tables.results import Results
from tierbench.postprocess.verdict.counted import counts


def round_trips(results: Results, panel: Panel) -> Iterator[str]:
    """A sentence for each group of a panel's trials that differ in nothing but their distance."""
    trials = [trial for trial in results.trials_at(panel.levels) if counts(trial) and trial.operation_s]
    alike = [name for name in results.factors if not _is_distance(results, name)]
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.round_trip_s is not None and trial.operation_s is not None:
            key = tuple(level_name(name, level_of(trial, name)) for name in alike)
            groups.setdefault(key, []).append((trial.round_trip_s, trial.operation_s))
    for levels, points in groups.items():
        fit = fitted(points)
        if fit is None:
            continue
        apart = [level for place, level in enumerate(levels) if len({other[place] for other in groups}) > 1]
        low, high = fit.each.low, fit.each.high
        interval = (
            f" (95\N{NO-BREAK SPACE}% interval {between(low, high)})" if low is not None and high is not None else ""
        )
        # A line that begins below nothing is bent: what is near waits for less.
        beside = (
            f" and takes {figures(1e3 * fit.beside_s, 'ms')} beside them" if fit.beside_s >= 0 else ", fewer if near"
        )
        trips = round(fit.each.value or 0.0, 2) + 0.0
        yield (
            f"An operation{' with ' if apart else ''}{', '.join(apart)} waits for {trips:.2f}"
            f" round trips{interval}{beside}: a straight line through {len(points)} trials."
        )


def _is_distance(results: Results, factor: str) -> bool:
    """Whether it is an axis of numbers by which alone the trials' round-trip times differ.

    Two ways, or two pools, that are not equally far differ in more than that.
    """
    if factor in BUILT_IN or not results.factors[factor].numeric:
        return False
    times: dict[str, set[float | None]] = {}
    for trial in results.trials:
        times.setdefault(level_of(trial, factor), set()).add(trial.round_trip_s)
    return all(len(those) == 1 for those in times.values()) and len(set().union(*times.values())) > 1
