"""Write a plan's run directory. This is the one module of the plan's making that touches the disk."""

import dataclasses
import json
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePath
from secrets import token_hex
from typing import Any

from tierbench import files, names
from tierbench.checked_text import Folder
from tierbench.dags import credentials
from tierbench.dags.experiment import Experiment
from tierbench.dags.graphs import configuration_dag, dagman_config, experiment_dag, trial_config, trial_dag
from tierbench.dags.hosts import crowded, host_lists, place_lists
from tierbench.dags.nodes import Dag
from tierbench.dags.plan import Plan, Trial, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.shipping import shipped_files
from tierbench.dags.trial_settings import AS_MATCHED, EVENLY, Repeats
from tierbench.errors import ConfigError, refuse
from tierbench.site_configs.site import Site

NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


def write_run(plan: Plan, site: Site, experiment: Experiment, directory: Path) -> None:
    """Make a run directory, complete or not at all."""
    if directory.exists():
        raise ConfigError(f"{directory}: is there already; a run gets a directory of its own")
    try:
        Folder(str(directory.absolute()))
    except ValueError as error:
        raise ConfigError(f"a run directory {error}") from None
    _check_workers(plan, site, experiment)
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = directory.with_name(f".{directory.name}-{token_hex(4)}")
    unfinished.mkdir()  # with the access that the umask leaves, as all below it
    try:
        _write_plan(plan, site, experiment, unfinished)
        _copy_shipped(site, experiment, unfinished)
        _write_trials(plan, plan.trials, site, experiment, unfinished, directory.name)
        unfinished.rename(directory)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def extend_run(
    plan: Plan, site: Site, experiment: Experiment, directory: Path, had: int, done: Collection[str], rule: Repeats
) -> None:
    """Give a run that `had` so many of the plan's trials the others, too; the plan is its last step."""
    unfinished = directory / f".more-{token_hex(4)}"
    unfinished.mkdir()
    try:
        _write_trials(plan, plan.trials[had:], site, experiment, unfinished, directory.name)
        for trial in plan.trials[had:]:
            place = names.trial_directory(trial.id)
            if (directory / place).exists():  # from a call that was broken off
                files.remove(directory / place)
            (unfinished / place).rename(directory / place)
        for name, dag in _dags(plan, experiment, done):
            files.replace(directory / name, dag.text())
        files.replace(directory / names.EXPERIMENT, _json(dataclasses.replace(experiment, variants=(), repeats=rule)))
        files.replace(directory / names.PLAN, to_json(plan))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _dags(plan: Plan, experiment: Experiment, done: Collection[str] = ()) -> Iterator[tuple[str, Dag]]:
    yield names.EXPERIMENT_DAG, experiment_dag(plan, experiment, done)
    for configuration in plan.configurations:
        yield names.configuration_dag(configuration.id), configuration_dag(plan, experiment, configuration)


def _check_workers(plan: Plan, site: Site, experiment: Experiment) -> None:
    """Caches are emptied on each worker by name, so the names must be known."""
    unknown = next((name for name, workers in plan.pools.items() if not workers), None)
    if unknown is None:
        return
    where = f"site {site.name}: pools.{unknown}: no workers are known"
    remedy = "list them there (workers), write the run where the pool can be asked, or set"
    if experiment.flushes and site.flush.strategy != "none":
        raise ConfigError(f"{where}, so their caches cannot be flushed; {remedy} flush = false")
    if any(point.experiment.placement not in (AS_MATCHED, EVENLY) for point in experiment.points):
        raise ConfigError(f'{where}, so clients cannot be placed; {remedy} placement = "{AS_MATCHED}"')


def _write_plan(plan: Plan, site: Site, experiment: Experiment, run: Path) -> None:
    texts = {
        names.PLAN: to_json(plan),
        names.SITE: _json(site),
        names.EXPERIMENT: _json(dataclasses.replace(experiment, variants=())),  # which follow from its axes
        names.DAGMAN_CONFIG: dagman_config(),
        names.TRIAL_CONFIG: trial_config(site),
        **{name: dag.text() for name, dag in _dags(plan, experiment)},
    }
    for configuration in plan.configurations:
        texts.update(host_lists(site, experiment.at(configuration.levels), plan, configuration))
        texts.update(place_lists(site, experiment, plan, configuration))
    (run / names.LISTS).mkdir()
    for name, text in texts.items():
        (run / name).write_text(text, encoding="utf-8")


def _write_trials(
    plan: Plan, trials: Sequence[Trial], site: Site, experiment: Experiment, run: Path, name: str
) -> None:
    (run / names.TRIALS).mkdir()
    # Others may write there too, and have a run of this name.
    run_name = f"{NOT_PLAIN.sub('_', name)}-{token_hex(4)}"
    replicas = ReplicaLists(site, plan, run_name)
    for trial in trials:
        directory = run / names.trial_directory(trial.id)
        directory.mkdir()
        own = experiment.at(trial.configuration.levels)
        record = trial_record(site, own, plan, trial, run_name)
        (directory / names.TRIAL).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        dag = trial_dag(site, own, trial, crowded=crowded(site, experiment, plan, trial))
        (directory / names.TRIAL_DAG).write_text(dag.text(), encoding="utf-8")
        (directory / names.REPLICAS).write_text(replicas.text(trial), encoding="utf-8")


def _copy_shipped(site: Site, experiment: Experiment, run: Path) -> None:
    """The submit files, and all that they send to workers and servers."""
    for folder in (names.SUBMIT, names.SCRIPTS, names.PROGRAMS):
        (run / folder).mkdir()
    for target, content in shipped_files(site, experiment):
        copy = run / target
        copy.touch(0o777 if copy.parent.name == names.SCRIPTS else 0o666)
        copy.write_bytes(content)
    travelling = [names.TRIAL, names.REPLICAS, *(path.name for path in (run / names.SCRIPTS).rglob("*"))]
    for use in experiment.uses():
        access = site.access[use.access]
        own = access.secrets.values()
        refuse(credentials.problems(own, travelling), f"access.{use.access}")
        beside = [*travelling, *(PurePath(path).name for path in own)]
        secrets = credentials.secret_files(use.workload.environment)
        refuse(credentials.problems(secrets, beside), f"workloads.{use.name}.environment")


def _json(definition: Any) -> str:
    return json.dumps(dataclasses.asdict(definition), indent=1, ensure_ascii=False) + "\n"
