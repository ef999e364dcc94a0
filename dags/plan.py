"""The plan: every trial of an experiment at a site, in the order in which they run.

A plan is frozen data. It is made by a pure function of site, experiment and pool: the only chance in it
is the experiment's seed.
"""

import dataclasses
import fnmatch
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NotRequired, TypedDict

from tierbench import json_files, names, version
from tierbench.checked_text import shown
from tierbench.dags.experiment import Experiment, Use, shipped_experiments
from tierbench.dags.levels import (
    SIMULTANEOUS,
    Factor,
    Layout,
    Level,
    Levels,
    are_apart,
    layout,
    level_text,
    named_levels,
)
from tierbench.dags.replicas import Entry, Replicas, WrittenFiles
from tierbench.dags.shipping import submission_problems
from tierbench.dags.trial_settings import most_repeats, placement_problems
from tierbench.errors import ConfigError, refuse
from tierbench.site_configs.site import Site
from tierbench.spec import meant, unknown_name
from tierbench.trials import Work

FORMAT = 3
MOST_LETTERS = 200  # of a configuration's name: files have 255, and some are called after a trial and more


@dataclass(frozen=True)
class Configuration:
    """One access method with one workload at one level of each axis: what is compared with others."""

    access: str
    workload: str
    client: str
    protocol: str
    pool: str
    levels: Levels = field(default_factory=dict)

    @property
    def id(self) -> str:
        return ".".join([self.access, self.workload, *named_levels(self.levels)])

    @property
    def name(self) -> str:
        return " ".join([f"{self.access}/{self.workload}", *named_levels(self.levels)])


@dataclass(frozen=True)
class Written:
    """How the clients of a trial write their files, and what is looked at afterwards."""

    pattern: str
    check: str


@dataclass(frozen=True)
class ReplicaSet:
    """The files that trials read, or that each writes; their true sizes where the catalogue is at hand."""

    name: str
    directory: str
    suffix: str
    count: int
    nominal_bytes: int
    sizes: tuple[int, ...] | None = None
    checksums: tuple[str, ...] | None = None  # adler32, as hexadecimal text
    written: Written | None = None  # by each trial, in a place of its own
    streamed: bool = False  # over the network, and never a file

    @property
    def files(self) -> list[str]:
        return self.first(self.count)

    def first(self, count: int) -> list[str]:
        return names.replica_files(self.name, count, self.suffix)

    @property
    def folder(self) -> str:
        return PurePath(self.directory).name

    @property
    def lies_ready(self) -> bool:
        """Whether its files are on the storage before a trial begins."""
        return not (self.written or self.streamed)

    def bytes_of(self, offset: int, count: int) -> int | None:
        """What so many files in turn hold, or None where their sizes are not known."""
        if not self.lies_ready:
            return count * self.nominal_bytes or None
        if self.sizes is None:
            return None
        beyond = max(0, offset + count - self.count)
        return sum(self.sizes[offset : offset + count]) + sum(self.sizes[:beyond])


@dataclass(frozen=True)
class Trial:
    """One batch of clients, each with replicas of its own: those of the set from `offset` on, in turn."""

    index: int
    configuration: Configuration
    jobs: int
    repeat: int
    replicas: str  # by their folder
    offset: int
    nominal_bytes: int  # of all its files, read once
    bytes: int | None
    work: Work = field(default_factory=Work)

    @property
    def files(self) -> int:
        return self.jobs * self.work.files_per_job

    @property
    def levels(self) -> Levels:
        own = self.configuration
        return {"access": own.access, "workload": own.workload, "jobs": self.jobs, **own.levels}

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
    factors: tuple[Factor, ...]
    report: Layout
    pools: dict[str, tuple[str, ...]]
    replicas: dict[str, ReplicaSet]
    configurations: tuple[Configuration, ...]
    trials: tuple[Trial, ...]
    left_out: dict[str, int] = field(default_factory=dict)  # reasons, and how many points each has cost
    cores: dict[str, int] = field(default_factory=dict)  # of each worker, where the pool could be asked
    extended: tuple[int, ...] = ()  # how many repetitions there were each time that more were asked for

    def trials_of(self, configuration: Configuration) -> list[Trial]:
        return [trial for trial in self.trials if trial.configuration == configuration]


def expand(
    site: Site,
    experiment: Experiment,
    pool: Mapping[str, Sequence[str]],
    catalogue: Mapping[str, Mapping[str, Entry]] | None = None,
    cores: Mapping[str, int] | None = None,
    only: Sequence[str] = (),
) -> Plan:
    """The plan of an experiment at a site.

    `only` are patterns of the configurations or points that are wanted, if not all are.
    `pool` names the workers that are there in each of the site's pools, for those that the site does not
    list itself, and `cores` what each has. `catalogue` holds what is known of the files of each replica set, by its
    folder and their names.
    """
    where = f"experiment {experiment.name} at site {site.name}"
    of_uses = (problem for use in experiment.uses() for problem in _problems(site, use))
    of_both = [*_access_not_offered(site, experiment), *of_uses]
    of_site = [f"the file of site {site.name}: {problem}" for problem in submission_problems(site)]
    refuse([*of_site, *(f"{where}: {problem}" for problem in dict.fromkeys(of_both))])
    left_out: Counter[str] = Counter()
    cells = list(_chosen(list(_cells(site, experiment, left_out)), only, left_out))
    if not cells:
        raise ConfigError(f"experiment {experiment.name}: except: leaves no trial; nothing would be measured")
    configurations = tuple({cell.configuration.id: cell.configuration for cell in cells}.values())
    longest = max((configuration.id for configuration in configurations), key=len)
    if len(longest) > MOST_LETTERS:
        why = f"is too long a name for a trial's folder, of its levels: it may have {MOST_LETTERS} letters"
        remedy = "shorten the names of axes, levels, accesses or workloads"
        raise ConfigError(f"experiment {experiment.name}: {longest}: {why}; {remedy}")
    used = {configuration.pool for configuration in configurations}
    offers = {name: offer.workers for name, offer in site.pools.items() if name in used}
    pools: dict[str, tuple[str, ...]] = {name: own or tuple(pool.get(name, ())) for name, own in offers.items()}
    places = ((cell.use.placement, cell.configuration.pool, cell.jobs) for cell in cells)
    unplaced = (problem for at, name, jobs in places for problem in placement_problems(at, name, pools[name], jobs))
    refuse(dict.fromkeys(unplaced), where)
    factors = tuple(_factors(experiment, cells))
    apart = are_apart((own.access, own.workload) for own in configurations)
    folders = {cell.use.replicas.folder for cell in cells}
    sets = {folder: replicas for folder, replicas in experiment.used_sets.items() if folder in folders}
    known = catalogue or {}
    replicas = {folder: _replica_set(site, folder, own, known.get(folder)) for folder, own in sets.items()}
    return Plan(
        site=site.name, experiment=experiment.name, question=experiment.question,
        scale=experiment.scale or site.scale, seed=experiment.seed,
        factors=factors,
        report=layout(experiment.report, factors, apart=apart),
        pools=pools, replicas=replicas, configurations=configurations,
        trials=tuple(_trials(experiment, cells, replicas)), left_out=dict(left_out), cores=dict(cores or {}),
    )  # fmt: skip


@dataclass(frozen=True)
class _Cell:
    """A point of the product of all factors, which each repetition has once."""

    configuration: Configuration
    jobs: int
    use: Use

    def fits(self, pattern: str) -> bool:
        """Whether a pattern is one of its access, workload or client, or of its configuration or trials."""
        own = self.configuration
        trials = f"{own.name} ×{self.jobs}", f"{own.id}.x{self.jobs:03d}"  # noqa: RUF001
        named = own.access, own.workload, own.client, own.name, own.id, *trials
        return any(fnmatch.fnmatchcase(name, pattern) for name in named)


def _cells(site: Site, experiment: Experiment, left_out: Counter[str]) -> Iterator[_Cell]:
    """All points but those that are left out, whose reasons are counted."""
    for use in experiment.uses():
        offer = site.access[use.access]
        of = use.access, use.name, use.workload.client, offer.protocol, use.pool_by(site.access)
        configuration = Configuration(*of, use.levels)
        for jobs in use.batches:
            levels = {"access": use.access, "workload": use.name, "jobs": jobs, **use.levels}
            because = next((entry.because for entry in experiment.left_out if entry.matches(levels)), None)
            if because is None:
                yield _Cell(configuration, jobs, use)
            else:
                left_out[because] += 1


def _chosen(cells: Sequence[_Cell], only: Sequence[str], left_out: Counter[str]) -> Iterator[_Cell]:
    """The points that a pattern fits, if there are any patterns; each has to fit one."""
    for pattern in only:
        if not any(cell.fits(pattern) for cell in cells):
            there = ", ".join(dict.fromkeys(cell.configuration.name for cell in cells))
            raise ConfigError(f"--only {shown(pattern)}: fits no trial; the configurations are {there}")
    for cell in cells:
        if not only or any(map(cell.fits, only)):
            yield cell
        else:
            left_out[f"--only {' '.join(only)}"] += 1


def _factors(experiment: Experiment, cells: Sequence[_Cell]) -> Iterator[Factor]:
    """The built-in factors and the axes."""
    yield Factor("access", tuple(dict.fromkeys(cell.configuration.access for cell in cells)))
    yield Factor("workload", tuple(dict.fromkeys(cell.configuration.workload for cell in cells)))
    yield Factor("jobs", tuple(sorted({cell.jobs for cell in cells})), SIMULTANEOUS)
    for axis in experiment.axes:
        there = {level_text(cell.configuration.levels[axis.name]) for cell in cells}
        levels = tuple(level for level in axis.levels if level_text(level) in there)
        yield Factor(axis.name, levels, axis.label, axis.arranged)


def _access_not_offered(site: Site, experiment: Experiment) -> Iterator[str]:
    """Access methods that a site does not have, or calls otherwise, and what it has."""
    missing: dict[str, dict[str, None]] = {}
    for use in experiment.uses():
        if use.access not in site.access:
            named = any(use.access in point.experiment.access for point in experiment.points)
            missing.setdefault("access" if named else f"workloads.{use.name}.access", {})[use.access] = None
    if not missing:
        return
    comes_with_us = experiment.name in shipped_experiments()
    own = f'have an experiment of your own say extends = "{experiment.name}" and' if comes_with_us else "say"
    for key, absent in missing.items():
        asked, offered = (f"{shown(name)}{meant(name, list(site.access))}" for name in absent), ", ".join(site.access)
        yield f"{key}: there is no {', '.join(asked)}; site {site.name} has {offered}: {own} access = [some of these]"


def _condition_problems(site: Site, use: Use) -> Iterator[str]:
    pool = use.pool_by(site.access) if use.access in site.access else None
    for name, value in use.conditions.items():
        condition = site.conditions.get(name)
        if condition is None:
            yield unknown_name("conditions", name, site.conditions)
        elif not condition.allows(value):
            yield f"conditions.{name}: must be {condition.possible}, not {shown(level_text(value))}"
        elif pool and condition.pool not in (None, pool) and not condition.hosts:
            where = f"the workers of pool {condition.pool}"
            yield f"conditions.{name}: is set on {where}, and by {use.access} clients run in pool {pool}"


def _problems(site: Site, use: Use) -> Iterator[str]:
    yield from _condition_problems(site, use)
    if use.pool is not None and use.pool not in site.pools:
        yield unknown_name("pool", use.pool, site.pools)
    if use.access not in site.access:
        return  # _access_not_offered tells of it
    offer, client, protocols = site.access[use.access], use.workload.client, use.workload.declared.protocols
    if protocols is not None and offer.protocol not in protocols:
        able = ", ".join(f'"{name}"' for name, other in site.access.items() if other.protocol in protocols)
        remedy = f"workloads.{use.name}.access can list {able}" if able else "this site offers none for it"
        whose = f'access "{use.access}", whose protocol is "{offer.protocol}"'
        why = f" ({why})" if (why := use.workload.declared.unable.get(offer.protocol)) else ""
        yield f'workloads.{use.name}: client "{client}" cannot read by {whose}{why}; {remedy}'
    elif use.replicas.is_written and offer.writes is None:
        able = ", ".join(f'"{name}"' for name, other in site.access.items() if other.writes)
        remedy = f"by {able} they may" if able else f"site {site.name} says of none where (writes)"
        yield f'workloads.{use.name}: trials may not write by access "{use.access}"; {remedy}'
    elif isinstance(use.replicas, WrittenFiles) and use.replicas.pattern == "partfile" and offer.protocol != "file":
        remedy = f"write by a mount, or replicas.{use.replicas.name} by another pattern"
        yield f'workloads.{use.name}: access "{use.access}" takes whole files, not parts of one; {remedy}'
    elif use.workload.client == "gridftp" and getattr(use.workload.options, "directory", False) and not offer.to:
        yield f"workloads.{use.name}: directory copies to where access.{use.access}.to leads, and it has none"
    elif offer.to and not use.workload.declared.third_party:
        unable = f'client "{client}" cannot have anything copied there'
        yield f'workloads.{use.name}: access "{use.access}" leads from server to server, and {unable}'


def _replica_set(site: Site, folder: str, replicas: Replicas, catalogue: Mapping[str, Entry] | None) -> ReplicaSet:
    directory = f"{site.storage.replicas}/{folder}" if replicas.made else folder
    own = replicas.name, directory, replicas.suffix, replicas.count, replicas.nominal_bytes
    if not replicas.made:
        written = Written(replicas.pattern, replicas.check) if isinstance(replicas, WrittenFiles) else None
        return ReplicaSet(*own, written=written, streamed=written is None)
    if catalogue is None:
        return ReplicaSet(*own)
    entries = [catalogue[name] for name in replicas.files if name in catalogue]
    if len(entries) < replicas.count:
        few = f"{replicas.count} are needed and the catalogue on the storage lists {len(entries)} of them"
        raise ConfigError(f"replicas.{replicas.name}: {few}; `tierbench replicas` makes the others")
    return ReplicaSet(*own, tuple(entry.bytes for entry in entries), tuple(entry.adler32 for entry in entries))


def _trials(experiment: Experiment, cells: Sequence[_Cell], sets: Mapping[str, ReplicaSet]) -> Iterator[Trial]:
    """Repetition by repetition, each holding every cell once: in a random order, and the next time in its reverse.

    Whatever drifts at the site (load, weather on the WAN) then meets all configurations alike, also where chance has
    put one of two first each time. What a site has to arrange stays for a block of trials, since changing it costs;
    the blocks are in a random order too. Each trial goes on in its set of replicas where the one before has stopped, so
    that a file is read again as late as the set allows, when caches on the way are least likely to hold it.
    """
    chance = random.Random(experiment.seed)  # noqa: S311
    position = {folder: chance.randrange(own.count) if own.lies_ready else 0 for folder, own in sets.items()}
    index = 0
    order: list[_Cell] = []
    for repeat in range(1, most_repeats(experiment.repeats) + 1):
        order = order[::-1] if repeat % 2 == 0 else list(_shuffled(cells, chance))
        for cell in order:
            folder, work = cell.use.replicas.folder, cell.use.work
            replicas, offset, files = sets[folder], position[folder], cell.jobs * work.files_per_job
            position[folder] = (offset + files) % replicas.count if replicas.lies_ready else 0
            sizes = files * replicas.nominal_bytes, replicas.bytes_of(offset, files)
            yield Trial(index, cell.configuration, cell.jobs, repeat, folder, offset, *sizes, work)
            index += 1


def _shuffled(cells: Sequence[_Cell], chance: random.Random) -> Iterator[_Cell]:
    """The cells of one repetition: blocks under the same conditions in a random order, and each in one of its own."""
    by_conditions: dict[tuple[tuple[str, Level], ...], list[_Cell]] = {}
    for cell in cells:
        by_conditions.setdefault(tuple(sorted(cell.use.conditions.items())), []).append(cell)
    blocks = list(by_conditions.values())
    chance.shuffle(blocks)
    for block in blocks:
        chance.shuffle(block)
        yield from block


def to_json(plan: Plan) -> str:
    """The plan as a file's text; trials name their configuration, and repeat what a reader would look for."""
    content: dict[str, Any] = {"format": FORMAT, "tierbench": version()}
    content |= {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    content["factors"] = [dataclasses.asdict(factor) for factor in plan.factors]
    content["report"] = dataclasses.asdict(plan.report)
    content["replicas"] = [dataclasses.asdict(replicas) for replicas in plan.replicas.values()]
    content["configurations"] = [{"id": own.id, "name": own.name, **vars(own)} for own in plan.configurations]
    content["trials"] = []
    for trial in plan.trials:
        own = {"configuration": trial.configuration.id, "levels": trial.levels, "work": trial.work._asdict()}
        content["trials"].append({"id": trial.id, "name": trial.name, **vars(trial), **own})
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


class PlannedTrial(TypedDict):
    """What its readers need of a trial in plan.json."""

    id: str
    name: str
    jobs: int
    configuration: str
    repeat: int


class PlannedReplicas(TypedDict):
    name: str
    directory: str
    count: int
    nominal_bytes: int


class PlanTable(TypedDict):
    trials: NotRequired[list[PlannedTrial]]
    configurations: NotRequired[list[dict[str, Any]]]
    replicas: NotRequired[list[PlannedReplicas]]
    pools: NotRequired[dict[str, list[str]] | None]
    extended: NotRequired[list[int] | None]
    scale: NotRequired[float | None]


def read_plan(run: Path) -> dict[str, Any]:
    """The plan of a run as it stands in its file, of this or an older version, if its readers can do with it."""
    path = run / names.PLAN
    return {"trials": [], "configurations": [], **json_files.typed(PlanTable, table_of_run(path), str(path))}


def table_of_run(path: Path) -> dict[str, Any]:
    """What is in a file that each run directory has."""
    try:
        return json_files.read_table(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; a run directory is needed, as `tierbench write` makes it") from None


def from_json(text: str) -> Plan:
    content, configurations = json_files.parse_as(dict[str, Any], text, names.PLAN), {}
    number, _ = content.pop("format", None), content.pop("tierbench", None)
    if number != FORMAT:
        raise ConfigError(f"{names.PLAN}: has format {number}; this tierbench reads format {FORMAT}")
    try:
        for table in content["configurations"]:
            configurations[table["id"]] = json_files.typed(Configuration, table, names.PLAN)
        for table in content["trials"]:
            table["configuration"] = configurations[table["configuration"]]
        content["replicas"] = {PurePath(table["directory"]).name: table for table in content["replicas"]}
    except (KeyError, TypeError) as error:
        raise json_files.Damaged(f"{names.PLAN} is damaged: it lacks or misstates {error}") from None
    content["configurations"] = list(configurations.values())
    return json_files.typed(Plan, content, names.PLAN)
