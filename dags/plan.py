"""The plan: every trial of an experiment at a site, in the order in which they run.

A plan is frozen data. It is made by a pure function of site, experiment and pool: the only chance in it
is the experiment's seed.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tierbench.dags import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.repeats import most
from tierbench.definitions import unknown
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site

FORMAT = 1


@dataclass(frozen=True)
class Configuration:
    """One way of access with one workload: what is compared with others."""

    access: str
    workload: str
    client: str
    protocol: str
    pool: str

    @property
    def id(self) -> str:
        return f"{self.access}.{self.workload}"

    @property
    def name(self) -> str:
        return f"{self.access}/{self.workload}"


@dataclass(frozen=True)
class ReplicaSet:
    """The files on the storage that trials read; their true sizes where the catalogue is at hand."""

    name: str
    directory: str
    suffix: str
    count: int
    nominal_bytes: int
    sizes: tuple[int, ...] | None = None

    @property
    def files(self) -> list[str]:
        return [names.replica_file(self.name, number, self.suffix) for number in range(1, self.count + 1)]

    def bytes_of(self, offset: int, count: int) -> int | None:
        """What so many files in turn hold, or None where their sizes are not known."""
        if self.sizes is None:
            return None
        beyond = max(0, offset + count - self.count)
        return sum(self.sizes[offset : offset + count]) + sum(self.sizes[:beyond])


@dataclass(frozen=True)
class Trial:
    """One batch of clients, each with a replica of its own: those of the set from `offset` on, in turn."""

    index: int
    configuration: Configuration
    jobs: int
    repeat: int
    replicas: str
    offset: int
    nominal_bytes: int
    bytes: int | None

    @property
    def id(self) -> str:
        return f"{self.configuration.id}.x{self.jobs:03d}.r{self.repeat}"

    @property
    def name(self) -> str:
        return f"{self.configuration.name} ×{self.jobs} #{self.repeat}"  # noqa: RUF001


@dataclass(frozen=True)
class Plan:
    """What will happen, in order."""

    site: str
    experiment: str
    question: str
    scale: float
    seed: int
    pools: dict[str, tuple[str, ...]]
    replicas: dict[str, ReplicaSet]
    configurations: tuple[Configuration, ...]
    trials: tuple[Trial, ...]

    def trials_of(self, configuration: Configuration) -> list[Trial]:
        return [trial for trial in self.trials if trial.configuration == configuration]


def expand(
    site: Site,
    experiment: Experiment,
    pool: Mapping[str, Sequence[str]],
    catalogue: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """The plan of an experiment at a site.

    `pool` names the workers that are there in each of the site's pools, for those that the site does not
    list itself. `catalogue` holds the sizes in bytes of the files of each replica set that is known.
    """
    problems = list(_problems(site, experiment))
    if problems:
        where = f"experiment {experiment.name} at site {site.name}"
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    configurations = tuple(_configurations(site, experiment))
    used = {configuration.pool for configuration in configurations}
    replicas = _replica_sets(site, experiment, catalogue or {})
    return Plan(
        site=site.name,
        experiment=experiment.name,
        question=experiment.question,
        scale=site.scale,
        seed=experiment.seed,
        pools={name: offer.workers or tuple(pool.get(name, ())) for name, offer in site.pools.items() if name in used},
        replicas=replicas,
        configurations=configurations,
        trials=tuple(_trials(experiment, configurations, replicas)),
    )


def _problems(site: Site, experiment: Experiment) -> Iterator[str]:
    for name, workload in experiment.workloads.items():
        key = "access" if workload.access is None else f"workloads.{name}.access"
        for access in experiment.access_of(name):
            if access not in site.access:
                yield unknown(key, access, site.access)
            elif site.access[access].protocol not in workload.protocols:
                able = [other for other, offer in site.access.items() if offer.protocol in workload.protocols]
                others = ", ".join(f'"{other}"' for other in able)
                remedy = f"workloads.{name}.access can list {others}" if able else "this site offers no way for it"
                yield (
                    f'workloads.{name}: client "{workload.client}" cannot read by access "{access}", whose protocol is'
                    f' "{site.access[access].protocol}"; {remedy}'
                )


def _configurations(site: Site, experiment: Experiment) -> Iterator[Configuration]:
    for name, workload in experiment.workloads.items():
        for access in experiment.access_of(name):
            offer = site.access[access]
            yield Configuration(access, name, workload.client, offer.protocol, offer.pool)


def _replica_sets(site: Site, experiment: Experiment, catalogue: Mapping[str, Sequence[int]]) -> dict[str, ReplicaSet]:
    sets = {}
    for name, replicas in experiment.used_replicas.items():
        sizes = catalogue.get(name)
        if sizes is not None and len(sizes) < replicas.count:
            raise ConfigError(
                f"replicas.{name}: {replicas.count} are needed and the catalogue on the storage lists {len(sizes)};"
                " `tierbench replicas` makes the others"
            )
        sets[name] = ReplicaSet(
            name=name,
            directory=f"{site.storage.replicas}/{replicas.directory(name)}",
            suffix=replicas.suffix,
            count=replicas.count,
            nominal_bytes=replicas.nominal_bytes,
            sizes=None if sizes is None else tuple(sizes[: replicas.count]),
        )
    return sets


def _trials(
    experiment: Experiment, configurations: Sequence[Configuration], sets: Mapping[str, ReplicaSet]
) -> Iterator[Trial]:
    """Repetition by repetition, each holding every configuration and batch once, in a random order.

    Whatever drifts at the site (load, weather on the WAN) then meets all configurations alike. Each trial
    goes on in its set of replicas where the one before has stopped, so that a file is read again as late
    as the set allows, when caches on the way are least likely to hold it.
    """
    chance = random.Random(experiment.seed)  # noqa: S311
    position = {name: chance.randrange(replicas.count) for name, replicas in sets.items()}
    index = 0
    for repeat in range(1, most(experiment.repeats) + 1):
        round_of_trials = [
            (configuration, jobs)
            for configuration in configurations
            for jobs in experiment.batches_of(configuration.workload)
        ]
        chance.shuffle(round_of_trials)
        for configuration, jobs in round_of_trials:
            replicas = sets[experiment.workloads[configuration.workload].replicas]
            offset = position[replicas.name]
            position[replicas.name] = (offset + jobs) % replicas.count
            yield Trial(
                index=index,
                configuration=configuration,
                jobs=jobs,
                repeat=repeat,
                replicas=replicas.name,
                offset=offset,
                nominal_bytes=jobs * replicas.nominal_bytes,
                bytes=replicas.bytes_of(offset, jobs),
            )
            index += 1


def to_json(plan: Plan) -> str:
    """The plan as a file's text; trials name their configuration, and repeat what a reader would look for."""
    content: dict[str, Any] = {"format": FORMAT}
    for field in dataclasses.fields(plan):
        content[field.name] = getattr(plan, field.name)
    content["replicas"] = [dataclasses.asdict(replicas) for replicas in plan.replicas.values()]
    content["configurations"] = [
        {"id": configuration.id, "name": configuration.name, **vars(configuration)}
        for configuration in plan.configurations
    ]
    content["trials"] = [
        {"id": trial.id, "name": trial.name, **vars(trial), "configuration": trial.configuration.id}
        for trial in plan.trials
    ]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Plan:
    """The plan that to_json has written."""
    content = json.loads(text)
    found = content.pop("format", None)
    if found != FORMAT:
        raise ConfigError(f"{names.PLAN}: has format {found}; this tierbench reads format {FORMAT}")
    configurations = {table["id"]: _restored(Configuration, table) for table in content["configurations"]}
    for table in content["replicas"]:
        table["sizes"] = None if table["sizes"] is None else tuple(table["sizes"])
    for table in content["trials"]:
        table["configuration"] = configurations[table["configuration"]]
    content["pools"] = {name: tuple(workers) for name, workers in content["pools"].items()}
    content["replicas"] = {table["name"]: _restored(ReplicaSet, table) for table in content["replicas"]}
    content["configurations"] = tuple(configurations.values())
    content["trials"] = tuple(_restored(Trial, table) for table in content["trials"])
    return Plan(**content)


def _restored(cls: Any, table: Mapping[str, Any]) -> Any:
    """A dataclass from its fields, without the derived values that stand beside them."""
    return cls(**{field.name: table[field.name] for field in dataclasses.fields(cls)})
