"""The control of a nightly: a configuration that is measured beside what is watched, to tell what both have met."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, Trial, expand
from tierbench.definitions import unknown
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site
from tierbench.submit.nightly.writing import point


@dataclasses.dataclass(frozen=True)
class Control:
    """The configuration by its name, and the ways of access that the experiment is to have besides its own for it."""

    name: str
    asked: str  # by which it is found again
    added: tuple[str, ...] = ()


def control(site: Site, experiment: Experiment, asked: str) -> Control:
    """The one that is asked for, by its name or its access; or else the way with the fewest servers on it.

    Where the experiment has but one way, another one of the site's is measured with it, if there is one.
    """
    plan = expand(site, experiment, {})
    points = {point(trial.configuration, trial.jobs): trial for trial in plan.trials}
    if asked in points:
        return Control(asked, asked)
    ways = {trial.configuration.access for trial in plan.trials}
    if asked in ways:
        return Control(_first(points, asked), asked)
    if asked and asked not in site.access:
        raise ConfigError(unknown("--control", asked, [*points, *site.access]))
    others = (
        [asked]
        if asked
        else sorted(ways if len(ways) > 1 else set(site.access) - ways, key=lambda way: _far(site, way))
    )
    for way in others:
        if way in ways:
            return Control(_first(points, way), way)
        try:
            wider = _points(expand(site, with_access(experiment, way), {}))
        except ConfigError as error:
            if asked:
                raise ConfigError(f"--control {asked}: {error}") from None
            continue  # not every client reads every way
        return Control(_first(wider, way), way, (way,))
    first = next(iter(points)) if len(points) > 1 else ""
    return Control(first, first)


def with_access(experiment: Experiment, way: str) -> Experiment:
    """The experiment with another way of access for its first workload, as `variant` writes it."""
    first, *_ = experiment.workloads
    own = experiment.workloads[first]
    wider = dataclasses.replace(own, access=(*experiment.access_of(first), way))  # type: ignore[arg-type]
    return dataclasses.replace(experiment, workloads={**experiment.workloads, first: wider}, variants=())


def variant(name: str, extended: str, experiment: Experiment, added: tuple[str, ...]) -> Iterator[str]:
    """The nightly's own experiment, in the few lines by which it differs from the one that it extends."""
    yield "# What is measured every night; `tierbench nightly add` wrote it, and it may be edited."
    yield f"extends = {json.dumps(extended)}"
    yield f'name = "{name}"'
    if added:
        first, *_ = experiment.workloads
        yield f"[workloads.{first}]"
        yield f"access = {json.dumps([*experiment.access_of(first), *added])}  # with the control's"


def check_floors(site: Site, experiment: Experiment, added: Sequence[str], floors: Mapping[str, float]) -> None:
    """Refuse a floor of what is not measured, which nobody would ever fall below."""
    for way in added:
        experiment = with_access(experiment, way)
    known = _points(expand(site, experiment, {}))
    for name in floors.keys() - known.keys():
        raise ConfigError(unknown("--floor", name, known))


def _points(plan: Plan) -> dict[str, Trial]:
    return {point(trial.configuration, trial.jobs): trial for trial in plan.trials}


def _first(points: dict[str, Trial], way: str) -> str:
    """The largest batch that is read this way, which is known best."""
    own = {name: trial for name, trial in points.items() if trial.configuration.access == way}
    return max(own, key=lambda name: own[name].jobs)


def _far(site: Site, way: str) -> tuple[int, str]:
    access = site.access[way]
    return len(access.path) + (access.proxy != "") + (access.to is not None), way
