"""What an experiment requires: accesses by name, workloads, sets of replicas, and how often."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tierbench.dags.repeats import MOST, Until
from tierbench.dags.replicas import KINDS, Replicas
from tierbench.dags.workloads import CLIENTS, CmsswWorkload, Workload
from tierbench.definitions import find, misnamed, shipped, unknown
from tierbench.errors import ConfigError
from tierbench.spec import bounded, build, read_toml

SHIPPED = Path(__file__).parent / "experiments"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question about ways of access, and the trials that answer it."""

    name: str
    question: str
    access: tuple[str, ...]
    batches: tuple[int, ...]
    repeats: int | Until = field(default=3, metadata={"bounds": (1, MOST)})
    seed: int = 1
    sample_period_s: float = bounded(1.0, 0.05, 60)
    gate: bool = True
    flush: bool = True
    retries: int = bounded(1, 0, 100)
    time_limit_s: int = bounded(7200, 1, 604_800)
    workloads: dict[str, Workload] = field(default_factory=dict)
    replicas: dict[str, Replicas] = field(default_factory=dict)

    def access_of(self, workload: str) -> tuple[str, ...]:
        """The accesses by which a workload is run."""
        own = self.workloads[workload].access
        return self.access if own is None else own

    def batches_of(self, workload: str) -> tuple[int, ...]:
        """The ladder of simultaneous clients that a workload climbs."""
        own = self.workloads[workload].batches
        return self.batches if own is None else own

    @property
    def used_replicas(self) -> dict[str, Replicas]:
        """The sets of replicas that a workload reads; a variant may have inherited others."""
        used = {workload.replicas for workload in self.workloads.values()}
        return {name: replicas for name, replicas in self.replicas.items() if name in used}


def find_experiment(name_or_path: str) -> Experiment:
    """An experiment that comes with tierbench, by its name, or one of the user's own, by its path."""
    return load_experiment(find("experiment", SHIPPED, name_or_path))


def shipped_experiments() -> list[str]:
    """The names of the experiments that come with tierbench."""
    return shipped(SHIPPED)


def load_experiment(path: Path) -> Experiment:
    """The experiment that a file describes, with what it takes over from those it extends."""
    tables, source = _resolved(path)
    attempts = _Attempts()
    workloads = _variants(tables.pop("workloads", {}), "client", CLIENTS, source, "workloads", attempts)
    replicas = _variants(tables.pop("replicas", {}), "kind", KINDS, source, "replicas", attempts)
    bare = attempts.run(build, Experiment, tables, source)
    if bare is None or attempts.problems:
        raise ConfigError("\n".join(attempts.problems))
    experiment: Experiment = dataclasses.replace(bare, workloads=workloads, replicas=replicas)
    problems = [f"{source}: {problem}" for problem in _problems(experiment)]
    if problems:
        raise ConfigError("\n".join(problems))
    return experiment


class _Attempts:
    """Collects what is wrong with several parts of a file, so that all of it can be said at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def run(self, attempt: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return attempt(*arguments)
        except ConfigError as error:
            self.problems.append(str(error))
            return None


def _resolved(path: Path, extended_by: tuple[Path, ...] = ()) -> tuple[dict[str, Any], str]:
    """A file's tables on top of those it extends, and how to call the two in an error."""
    chain = (*extended_by, path.resolve())
    tables = read_toml(path)
    _find_psets(tables, path.parent)
    base = tables.pop("extends", None)
    if base is None:
        return tables, str(path)
    if not isinstance(base, str):
        raise ConfigError(f"{path}: extends: must be the name of an experiment or a path, in quotes, not {base}")
    if "name" not in tables:
        raise ConfigError(f"{path}: name: missing; a variant takes over all but the name")
    try:
        base_path = path.parent / find("experiment", SHIPPED, base)
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from None
    if base_path.resolve() in chain:
        raise ConfigError(f"{path}: extends: {base} extends this one in turn")
    base_tables, _ = _resolved(base_path, chain)
    return _merged(base_tables, tables), f"{path} (extends {base})"


def _find_psets(tables: Mapping[str, Any], directory: Path) -> None:
    """Make the paths of CMSSW configurations absolute; relative ones are to the file that names them."""
    workloads = tables.get("workloads")
    for workload in workloads.values() if isinstance(workloads, Mapping) else ():
        options = workload.get("options") if isinstance(workload, Mapping) else None
        if isinstance(options, dict) and isinstance(options.get("pset"), str) and options["pset"]:
            options["pset"] = str((directory / options["pset"]).resolve())


def _merged(base: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; all else in the variant replaces what the base says."""
    merged = dict(base)
    for key, value in variant.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _variants(
    tables: Any, tag: str, classes: Mapping[str, type[T]], source: str, key: str, attempts: _Attempts
) -> dict[str, T]:
    """Each [key.NAME] table as the class that its tag (client, kind) chooses."""
    if not isinstance(tables, Mapping) or not tables:
        attempts.problems.append(f"{source}: {key}: missing; at least one [{key}.NAME] table is needed")
        return {}
    built = {}
    for name, table in tables.items():
        value = attempts.run(_variant, table, tag, classes, source, f"{key}.{name}")
        if value is not None:
            built[name] = value
    return built


def _variant(table: Any, tag: str, classes: Mapping[str, type[T]], source: str, key: str) -> T:
    chosen = table.get(tag) if isinstance(table, Mapping) else None
    if chosen is None:
        possible = ", ".join(f'"{name}"' for name in classes)
        raise ConfigError(f"{source}: {key}.{tag}: missing; one of {possible} is needed")
    if not isinstance(chosen, str) or chosen not in classes:
        raise ConfigError(f"{source}: {unknown(f'{key}.{tag}', str(chosen), classes)}")
    return build(classes[chosen], table, source, key)


def _problems(experiment: Experiment) -> Iterator[str]:
    yield from misnamed("workloads", experiment.workloads)
    yield from misnamed("replicas", experiment.replicas)
    yield from _list_problems("access", experiment.access)
    yield from _list_problems("batches", experiment.batches)
    for name, workload in experiment.workloads.items():
        key = f"workloads.{name}"
        yield from _list_problems(f"{key}.access", experiment.access_of(name))
        yield from _list_problems(f"{key}.batches", experiment.batches_of(name))
        if workload.replicas not in experiment.replicas:
            yield unknown(f"{key}.replicas", workload.replicas, experiment.replicas)
        else:
            yield from _reading_problems(experiment, name)
        if isinstance(workload, CmsswWorkload) and not Path(workload.options.pset).is_file():
            yield f"{key}.options.pset: {workload.options.pset}: no such file"


def _list_problems(key: str, values: tuple[Any, ...]) -> Iterator[str]:
    if not values:
        yield f"{key}: must not be empty"
    for value in sorted(value for value in set(values) if values.count(value) > 1):
        yield f"{key}: names {value} twice"
    for value in values:
        if isinstance(value, int) and value < 1:
            yield f"{key}: a batch has at least 1 client, not {value}"


def _reading_problems(experiment: Experiment, name: str) -> Iterator[str]:
    """Whether a workload can read the set of replicas that it names."""
    workload = experiment.workloads[name]
    replicas = experiment.replicas[workload.replicas]
    largest = max(experiment.batches_of(name), default=0)
    if largest > replicas.count:
        yield (
            f"replicas.{workload.replicas}.count: {replicas.count} replicas are too few for the {largest} clients of"
            f" workloads.{name}, each of which reads one of its own; make it {largest} or more, or the batches smaller"
        )
    if replicas.kind not in workload.kinds:
        possible = ", ".join(f'"{kind}"' for kind in workload.kinds)
        yield (
            f'workloads.{name}.replicas: client "{workload.client}" cannot read replicas of kind "{replicas.kind}"'
            f" (possible: {possible})"
        )
