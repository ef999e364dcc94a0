"""What an experiment requires: accesses by name, workloads, sets of replicas, axes, and how often."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tierbench.checked_text import Key, Line, LocalFile, Name, TableName, printable
from tierbench.dags.claims import Claim, Expected, check_claims, expected_problems, read_claims
from tierbench.dags.clients import ClientFile, Workload, find_client_file, is_path, shipped_clients, workload_class
from tierbench.dags.levels import (
    PAIR,
    Axis,
    Factors,
    LeftOut,
    Level,
    Levels,
    Report,
    Scaling,
    are_apart,
    is_level,
    named_levels,
    points,
    read_axes,
    read_left_out,
    report_problems,
    scaling_problems,
    setting_problems,
    unknown_factors,
    with_settings,
)
from tierbench.dags.measure import MEASURES
from tierbench.dags.replicas import KINDS, Replicas, WrittenFiles
from tierbench.dags.trial_settings import (
    EVENLY,
    MOST_REPEATS,
    Every,
    Placement,
    StartKind,
    Until,
    WorkKeys,
    resolved_work,
    work_problems,
)
from tierbench.errors import Attempts, ConfigError, refuse
from tierbench.site_configs.site import Access
from tierbench.spec import (
    bounded,
    build,
    build_each,
    derived,
    find_definition,
    merge_tables,
    read_toml,
    shipped_definitions,
    unknown_name,
)
from tierbench.starts import EVERY, IN_TURN
from tierbench.trials import Start, Work

SHIPPED = Path(__file__).parent / "experiments"


@dataclass(frozen=True, kw_only=True)
class Experiment(WorkKeys):
    """A question about access methods, and the trials that answer it."""

    name: Name
    question: Line
    access: tuple[Key, ...]
    batches: tuple[int, ...]
    repeats: int | Until = field(default=3, metadata={"bounds": (1, MOST_REPEATS)})
    seed: int = 1
    sample_period_s: float = bounded(1.0, 0.05, 60)
    scale: float | None = bounded(None, 0.000001, 1_000_000)  # of the site's rates, where not as the site says
    start: StartKind | Every = "together"
    pool: Key | None = None  # whose workers are the clients', where not the access method's
    placement: Placement = EVENLY
    cores: Literal["free", "pinned"] = "free"
    flush: bool = True
    retries: int = bounded(1, 0, 100)
    time_limit_s: int = bounded(7200, 1, 604_800)
    slot_limit_s: int = bounded(1200, 10, 604_800)
    measure: Literal["bytes", "events", "operations"] = "bytes"
    stall_limit_s: int = bounded(300, 5, 604_800)
    conditions: dict[TableName, Any] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    scaling: Scaling | None = None
    expects: tuple[Expected, ...] = ()
    workloads: dict[str, Workload] = field(default_factory=dict)
    replicas: dict[str, Replicas] = field(default_factory=dict)
    axes: tuple[Axis, ...] = derived(())
    left_out: tuple[LeftOut, ...] = derived(())
    variants: tuple[Variant, ...] = derived(())
    claims: tuple[Claim, ...] = derived(())

    def access_of(self, workload: str) -> tuple[Key, ...]:
        own = self.workloads[workload].access
        return self.access if own is None else own

    def batches_of(self, workload: str) -> tuple[int, ...]:
        own = self.workloads[workload].batches
        return self.batches if own is None else own

    def work_of(self, workload: str) -> Work:
        return resolved_work(self.workloads[workload], self)

    def replicas_of(self, workload: str) -> Replicas:
        return self.replicas[self.workloads[workload].replicas]

    @property
    def begins(self) -> Start:
        return Start(EVERY, self.start.every_s) if isinstance(self.start, Every) else Start(self.start)

    @property
    def flushes(self) -> bool:
        """Whether caches are emptied before a trial at any point."""
        return any(point.experiment.flush for point in self.points)

    def at(self, levels: Levels) -> Experiment:
        return next(point.experiment for point in self.points if point.levels == levels)

    def uses(self) -> Iterator[Use]:
        """Every workload by each of its accesses, at every point."""
        for point in self.points:
            own = point.experiment
            for name, workload in own.workloads.items():
                for access in own.access_of(name):
                    replicas = own.replicas[workload.replicas]
                    uses = own.batches_of(name), own.work_of(name), replicas, own.conditions, own.placement, own.pool
                    yield Use(point.levels, access, name, workload, *uses)

    @property
    def points(self) -> tuple[Variant, ...]:
        """The experiment as it is at each combination of its axes' levels: itself, where it has no axes."""
        return self.variants or (Variant({}, self),)

    @property
    def client_files(self) -> list[ClientFile]:
        return list({use.workload.client: use.workload.file for use in self.uses()}.values())

    @property
    def used_replicas(self) -> dict[str, Replicas]:
        """The sets of replicas that are read at any point, by the names of their folders."""
        return {folder: replicas for folder, replicas in self.used_sets.items() if replicas.made}

    @property
    def used_sets(self) -> dict[str, Replicas]:
        """The same, and those that trials write.

        A variant may have inherited sets that nobody reads, and an axis may ask for several of one name.
        """
        sets: dict[str, Replicas] = {}
        for point in self.points:
            read = {workload.replicas for workload in point.experiment.workloads.values()}
            for replicas in (replicas for name, replicas in point.experiment.replicas.items() if name in read):
                other = sets.setdefault(replicas.folder, replicas)
                sets[replicas.folder] = max(other, replicas, key=lambda alike: alike.count)
        return sets


@dataclass(frozen=True)
class Variant:
    """An experiment at one point of its axes."""

    levels: Levels
    experiment: Experiment


@dataclass(frozen=True)
class Use:
    """A workload by one of its accesses, as it is at one point."""

    levels: Levels
    access: str
    name: str
    workload: Workload
    batches: tuple[int, ...]
    work: Work
    replicas: Replicas
    conditions: Mapping[str, Level]
    placement: Placement
    pool: str | None

    def pool_by(self, offers: Mapping[str, Access]) -> str:
        """The pool that its clients run in: the access method's, unless the experiment asks for another."""
        return self.pool or offers[self.access].pool


def find_experiment(name_or_path: str) -> Experiment:
    return load_experiment(find_definition("experiment", SHIPPED, name_or_path))


def shipped_experiments() -> list[str]:
    return shipped_definitions(SHIPPED)


def load_experiment(path: Path) -> Experiment:
    """The experiment that a file describes, with what it takes over from those it extends."""
    tables, source = _resolved(path)
    attempts = Attempts()
    axes = attempts.run(read_axes, tables.pop("axes", {}), source) or ()
    left_out = attempts.run(read_left_out, tables.pop("except", []), source) or ()
    keys = sorted((axis.name, key) for axis in axes for key in axis.keys)
    attempts.problems += [
        f"{source}: axes.{name}: {problem}" for name, key in keys for problem in setting_problems(key, tables)
    ]
    variants = []
    for levels, settings in points(axes if not attempts.problems else ()):
        where = f"{source}, with {' '.join(named_levels(levels))}" if levels else source
        variant = attempts.run(_at_one_point, _with_files(with_settings(tables, settings), {}, path), where)
        if variant is None:  # the next point would be complained about in the same words
            break
        variants.append(Variant(levels, variant))
    refuse(attempts.problems)
    first, factors = variants[0].experiment, _factors(axes, variants)
    with_pairs: Factors = {**factors, PAIR: [f"{use.access}/{use.name}" for use in first.uses()]}
    problems = [*unknown_factors(left_out, factors), *report_problems(first.report, with_pairs)]
    problems += scaling_problems(first.scaling, factors)
    work = {field.name for field in dataclasses.fields(WorkKeys)}
    problems += [
        f"axes.{axis}: sets {key}, and workloads.{name} has its own, which holds: leave it to one of them"
        for axis, key in keys for name, workload in first.workloads.items()
        if key in work and getattr(workload, key) is not None
    ]  # fmt: skip
    if "expects" in read_toml(path):  # what another file expects may be of levels that this one has not
        problems += expected_problems(first.expects, factors)
    refuse(problems, source)
    first = dataclasses.replace(first, claims=read_claims(lineage(path)), left_out=left_out)
    pairs = {(use.access, use.name) for use in first.uses()}
    check_claims(path, first.claims, with_pairs if first.report.lines == PAIR or are_apart(pairs) else factors, pairs)
    return dataclasses.replace(first, axes=axes, variants=tuple(variants)) if axes else first


def _at_one_point(tables: Mapping[str, Any], source: str) -> Experiment:
    """The experiment of a file's tables, whatever axes they came from."""
    attempts = Attempts()
    bare = {name: table for name, table in tables.items() if name not in ("workloads", "replicas")}
    workloads = attempts.run(_workloads, tables.get("workloads", {}), source) or {}
    replicas = attempts.run(build_each, KINDS, "kind", tables.get("replicas", {}), source, "replicas") or {}
    named = {name: dataclasses.replace(replicas[name], name=name) for name in replicas}
    experiment: Experiment | None = attempts.run(build, Experiment, bare, source)
    refuse(attempts.problems)
    assert experiment is not None  # noqa: S101 - or there were problems
    experiment = dataclasses.replace(experiment, workloads=workloads, replicas=named)
    refuse(_problems(experiment), source)
    return experiment


def _factors(axes: Iterable[Axis], variants: Iterable[Variant]) -> dict[str, list[Level]]:
    """The levels of all factors, the built-in ones among them."""
    uses = [use for variant in variants for use in variant.experiment.uses()]
    levels: dict[str, Iterable[Level]] = {
        "access": (use.access for use in uses),
        "workload": (use.name for use in uses),
        "jobs": (jobs for use in uses for jobs in use.batches),
        **{axis.name: axis.levels for axis in axes},
    }
    return {factor: list(dict.fromkeys(those)) for factor, those in levels.items()}


def _workloads(tables: Any, source: str) -> dict[str, Workload]:
    """Each [workloads.NAME] table, with the options that its client declares; from here on a client has a name."""
    paths = {table["client"] for table in _tables(tables).values() if is_path(str(table.get("client", "")))}
    files = {**shipped_clients(), **{path: find_client_file(path) for path in sorted(paths)}}
    classes = {name: workload_class(file) for name, file in files.items()}
    workloads = build_each(classes, "client", tables, source, "workloads")
    return {name: dataclasses.replace(own, client=LocalFile(own.file.name)) for name, own in workloads.items()}


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    """The tables within what should be a table of tables."""
    return {k: v for k, v in value.items() if isinstance(v, dict)} if isinstance(value, Mapping) else {}


def _resolved(path: Path, extended_by: tuple[Path, ...] = ()) -> tuple[dict[str, Any], str]:
    """A file's tables on top of those it extends, and how to call the two in an error."""
    chain = (*extended_by, path.resolve())
    tables = read_toml(path)
    base = tables.pop("extends", None)
    if base is None and "without" in tables:
        raise ConfigError(f"{path}: without: names what is not taken over from another file, and this one extends none")
    if base is None:
        return _with_files(tables, {}, path), str(path)
    if not isinstance(base, str):
        raise ConfigError(f"{path}: extends: must be the name of an experiment or a path, in quotes, not {base}")
    if "name" not in tables:
        raise ConfigError(f"{path}: name: missing; a variant takes over all but the name")
    try:
        base_path = path.parent / find_definition("experiment", SHIPPED, base)
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from None
    if base_path.resolve() in chain:
        raise ConfigError(f"{path}: extends: {base} extends this one in turn")
    base_tables, _ = _resolved(base_path, chain)
    refuse(_left_behind(base_tables, tables), str(path))
    tables = _with_files(tables, base_tables, path)
    merged = merge_tables(base_tables, tables)
    if "repeats" in tables:  # whose keys make a rule together
        merged["repeats"] = tables["repeats"]
    return merged, f"{path} (extends {base})"


def _left_behind(base: dict[str, Any], variant: dict[str, Any]) -> Iterator[str]:
    """Take out of the base what a variant does `without`, and options of a client that it replaces; what is wrong."""
    for name, workload in _tables(variant.get("workloads")).items():
        inherited = _tables(base.get("workloads")).get(name, {})
        if workload.get("client", inherited.get("client")) != inherited.get("client"):
            inherited.pop("options", None)
    without = variant.pop("without", [])
    if not isinstance(without, list):
        without = [without]
    for key in without:
        *tables, last = str(key).split(".")
        within: Any = base
        for table in tables:
            within = within.get(table) if isinstance(within, dict) else None
        if isinstance(within, dict) and last in within:
            del within[last]
        else:
            there = [".".join([*tables, name]) for name in within] if isinstance(within, dict) else list(base)
            yield unknown_name("without", str(key), there)


def lineage(path: Path) -> Iterator[Path]:
    """An experiment's file, and those that it extends."""
    yield path
    base = read_toml(path).get("extends")
    if base is not None:
        yield from lineage(path.parent / find_definition("experiment", SHIPPED, base))


def _with_files(tables: dict[str, Any], below: Mapping[str, Any], source: Path) -> dict[str, Any]:
    """The tables with the paths of clients and of their files made absolute; relative ones are to `source`."""
    inherited = _tables(below.get("workloads"))
    located = {}
    for name, workload in _tables(tables.get("workloads")).items():
        client = workload.get("client")
        if isinstance(client, str) and is_path(client) and LocalFile.fits(client):
            workload = {**workload, "client": str((source.parent / client).resolve())}
        chosen = workload.get("client", inherited.get(name, {}).get("client"))
        located[name] = _with_option_files(workload, chosen, source, name)
    return {**tables, "workloads": {**tables["workloads"], **located}} if located else tables


def _with_option_files(workload: dict[str, Any], client: Any, source: Path, name: str) -> dict[str, Any]:
    options = workload.get("options")
    if not isinstance(client, str) or not (is_path(client) or client in shipped_clients()):
        return workload  # its errors are reported with all others
    try:
        declared = find_client_file(client).client.options
    except ConfigError as error:
        raise ConfigError(f"{source}: workloads.{name}.client: {error}") from None
    if not isinstance(options, dict):
        return workload
    files = {
        option: str((source.parent / path).resolve())
        for option, path in options.items()
        if option in declared and declared[option].file and isinstance(path, str) and path and LocalFile.fits(path)
    }
    return {**workload, "options": {**options, **files}}


def _problems(experiment: Experiment) -> Iterator[str]:
    for name, value in experiment.conditions.items():
        if not is_level(value):
            yield f"conditions.{printable(name)}: must be a number, a word, true or false, not {value!r}"
    yield from _namesakes(experiment.workloads)
    yield from _list_problems("access", experiment.access)
    yield from _list_problems("batches", experiment.batches)
    if experiment.start == IN_TURN and experiment.measure != "bytes":
        why = f"is summed in bytes, not in {experiment.measure}, whose rate over all turns would say nothing"
        yield f'start: what clients get in turn {why}; choose another start, or measure = "bytes"'
    for name, workload in experiment.workloads.items():
        key = f"workloads.{name}"
        yield from _list_problems(f"{key}.access", experiment.access_of(name))
        yield from _list_problems(f"{key}.batches", experiment.batches_of(name))
        if workload.replicas not in experiment.replicas:
            yield unknown_name(f"{key}.replicas", workload.replicas, experiment.replicas)
        else:
            yield from _reading_problems(experiment, name)
        if MEASURES[workload.does].of == "operations" != experiment.measure:
            yield f'measure: client "{workload.client}" of {key} counts no bytes; say measure = "operations"'
        if experiment.measure == "events" and not (
            workload.declared.counts_events and experiment.work_of(name).is_one_read
        ):
            yield f'measure: client "{workload.client}" of {key} counts no events in such jobs; say measure = "bytes"'
        for option, path in workload.option_files.items():
            if path and not Path(path).is_file():
                yield f"{key}.options.{option}: {path}: no such file"


def _namesakes(workloads: Mapping[str, Workload]) -> Iterator[str]:
    paths: dict[str, Path] = {}
    for name, workload in workloads.items():
        other = paths.setdefault(workload.client, workload.file.path)
        if other != workload.file.path:
            yield f"workloads.{name}.client: {workload.file.path} and {other} have one name; call one otherwise"


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
    work, kinds = experiment.work_of(name), workload.declared.kinds
    yield from (f"workloads.{name}.{problem}" for problem in work_problems(work, experiment.time_limit_s))
    if workload.does == "metadata" and work.files_per_job > 1:
        yield f"workloads.{name}.files_per_job: a job of this client has one folder; its options say of how many files"
    largest = max(experiment.batches_of(name), default=0)
    needed = largest * work.files_per_job
    if needed > replicas.count:
        each = "one" if work.files_per_job == 1 else str(work.files_per_job)
        few = f"{replicas.count} replicas are too few for the {largest} clients of workloads.{name}"
        remedy = f"make it {needed} or more, or the batches smaller"
        yield f"replicas.{workload.replicas}.count: {few}, each of which reads {each} of its own; {remedy}"
    if isinstance(replicas, WrittenFiles) and work.for_s is not None:
        yield f"workloads.{name}.for_s: what is written is written once"
    if isinstance(replicas, WrittenFiles) and replicas.pattern != "multifile" and work.files_per_job > 1:
        yield f'workloads.{name}.files_per_job: several files a job are files of its own, pattern = "multifile"'
    each_told = isinstance(replicas, WrittenFiles) and replicas.pattern != "partfile" and work.files_per_job == 1
    if getattr(replicas, "check", "") == "adler32" and not (each_told and workload.declared.tells_adler32):
        alone = 'client "writer" tells it, of a job\'s only file that no other one writes'
        yield f'replicas.{workload.replicas}.check: "adler32" is compared where {alone}; say "size"'
    if replicas.is_written and workload.does == "reads":
        yield f'workloads.{name}.replicas: client "{workload.client}" reads, and "{replicas.kind}" is what trials write'
    elif (replicas.kind not in kinds) if kinds is not None else not replicas.has_files:
        possible = ", ".join(f'"{kind}"' for kind in kinds or ["files"])
        unable = f'client "{workload.client}" cannot read replicas of kind "{replicas.kind}"'
        yield f"workloads.{name}.replicas: {unable} (possible: {possible})"
    elif replicas.made and workload.does == "writes":
        yield f'workloads.{name}.replicas: client "{workload.client}" writes; its set is of the kind "written"'
