"""Write a plan's run directory. This is the one module of the plan's making that touches the disk."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from tierbench.dags import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import host_lists
from tierbench.dags.plan import Plan, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.text import configuration_dag, dagman_config, experiment_dag, trial_config, trial_dag
from tierbench.dags.workloads import CLIENTS, CmsswWorkload
from tierbench.errors import ConfigError, UnmetNeed
from tierbench.joined import joined
from tierbench.site_configs.site import Site


def write_run(plan: Plan, site: Site, experiment: Experiment, directory: Path) -> None:
    """Make a run directory, complete or not at all."""
    if directory.exists():
        raise ConfigError(f"{directory}: is there already; a run gets a directory of its own")
    _check_workers(plan, site, experiment)
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        unfinished.chmod(0o755)
        _write_plan(plan, site, experiment, unfinished)
        _copy_shipped(experiment, unfinished)
        _write_trials(plan, site, experiment, unfinished)
        unfinished.rename(directory)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _check_workers(plan: Plan, site: Site, experiment: Experiment) -> None:
    """Caches are emptied on each worker by name, so the names must be known."""
    unknown = [name for name, workers in plan.pools.items() if not workers]
    if unknown and experiment.flushes and site.flush.strategy != "none":
        raise ConfigError(
            f"site {site.name}: pools.{unknown[0]}: no workers are known, so their caches cannot be flushed;"
            f" list them there (workers), write the run where the pool can be asked, or set flush = false"
        )


def _write_plan(plan: Plan, site: Site, experiment: Experiment, run: Path) -> None:
    (run / names.PLAN).write_text(to_json(plan), encoding="utf-8")
    (run / names.SITE).write_text(_json(site), encoding="utf-8")
    (run / names.EXPERIMENT).write_text(_json(experiment), encoding="utf-8")
    (run / names.DAGMAN_CONFIG).write_text(dagman_config(), encoding="utf-8")
    (run / names.TRIAL_CONFIG).write_text(trial_config(), encoding="utf-8")
    (run / names.EXPERIMENT_DAG).write_text(experiment_dag(plan, experiment).text(), encoding="utf-8")
    (run / names.LISTS).mkdir()
    for configuration in plan.configurations:
        path = run / names.configuration_dag(configuration.id)
        path.write_text(configuration_dag(plan, experiment, configuration).text(), encoding="utf-8")
        for name, text in host_lists(site, experiment.at(configuration.levels), plan, configuration):
            (run / name).write_text(text, encoding="utf-8")


def _write_trials(plan: Plan, site: Site, experiment: Experiment, run: Path) -> None:
    (run / names.TRIALS).mkdir()
    replicas = ReplicaLists(site, plan)
    for trial in plan.trials:
        directory = run / names.trial_directory(trial.id)
        directory.mkdir()
        own = experiment.at(trial.configuration.levels)
        record = trial_record(site, own, plan, trial)
        (directory / names.TRIAL).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        dag = trial_dag(site, own, trial)
        (directory / names.TRIAL_DAG).write_text(dag.text(), encoding="utf-8")
        (directory / names.REPLICAS).write_text(replicas.text(trial), encoding="utf-8")


def _copy_shipped(experiment: Experiment, run: Path) -> None:
    """The submit files, and all that they send to workers and servers."""
    for folder in (names.SUBMIT, names.SCRIPTS, names.PROGRAMS):
        (run / folder).mkdir()
    for target, content in shipped_files():
        copy = run / target
        copy.write_bytes(content)
        copy.chmod(0o755 if copy.suffix == ".py" else 0o644)
    for name, workload in {use.name: use.workload for use in experiment.uses()}.items():
        if isinstance(workload, CmsswWorkload):
            shutil.copyfile(workload.options.pset, run / names.PROGRAMS / names.pset(name, workload.options.pset))


def shipped_files() -> Iterator[tuple[str, bytes]]:
    """Where in a run directory each file goes that comes with tierbench, and its content."""
    for target, source in _copied_files():
        yield target, source.read_bytes()
    clients = (f"tierbench.wrappers.clients.{name}" for name in CLIENTS)
    yield f"{names.SCRIPTS}/client.py", joined("tierbench.wrappers.main", clients).encode()


def _copied_files() -> Iterator[tuple[str, Any]]:
    for source in sorted(resources.files("tierbench.submit").iterdir(), key=lambda file: file.name):
        if source.name.endswith(".sub"):
            yield f"{names.SUBMIT}/{source.name}", source
    yield f"{names.SCRIPTS}/htchirp.py", _htchirp()
    for script in ("gate.py", names.FINISH):
        yield f"{names.SCRIPTS}/{script}", resources.files("tierbench.submit") / script
    yield f"{names.SCRIPTS}/sampler.py", resources.files("tierbench.monitors") / "sampler.py"
    for script in (names.FRESH, names.TURN_TAKING):
        yield f"{names.SCRIPTS}/{script}", resources.files("tierbench.dags") / script
    yield f"{names.SCRIPTS}/flush.py", resources.files("tierbench.wrappers") / "flush.py"
    for source in sorted(resources.files("tierbench.wrappers.clients").iterdir(), key=lambda file: file.name):
        if source.name.endswith((".C", ".h")):
            yield f"{names.PROGRAMS}/{source.name}", source


def _htchirp() -> Path:
    """HTCondor's own client for talking from a job to its access point; it comes with the Python bindings."""
    bindings = importlib.util.find_spec("htcondor2")
    if bindings is None or bindings.origin is None:
        raise UnmetNeed(
            "the HTCondor Python bindings are missing, of which each job takes a file: pip install htcondor"
        )
    return Path(bindings.origin).parent / "htchirp" / "htchirp.py"


def _json(definition: Any) -> str:
    return json.dumps(dataclasses.asdict(definition), indent=1, ensure_ascii=False) + "\n"
