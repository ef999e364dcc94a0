"""`tierbench run --more N RUN`: more repetitions of a run that has ended, made of the same definitions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, from_json, to_json
from tierbench.dags.shipping import shipped_files
from tierbench.dags.trial_settings import MOST_REPEATS, Repeats, Until
from tierbench.dags.write import extend_run
from tierbench.errors import BusyError, ConfigError
from tierbench.site_configs.site import Site, find_site
from tierbench.submit.planning import asked_experiment, expanded
from tierbench.submit.pool import Slots
from tierbench.submit.progress import Run

ANEW = "start a new run"


@dataclass(frozen=True)
class Asked:
    """asked.json: the definitions that a run was made of, and the patterns of the trials that were wanted."""

    experiment: str
    site: str
    only: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, experiment: str, site: str, only: Sequence[str]) -> Asked:
        """What the user has typed, so that it holds in any directory."""
        experiment, site = (str(Path(name).resolve()) if Path(name).is_file() else name for name in (experiment, site))
        return cls(experiment, site, list(only))

    def leave(self, run: Path) -> None:
        files.replace(run / names.ASKED, json.dumps({"format": 1, **dataclasses.asdict(self)}) + "\n")


@dataclass(frozen=True)
class Extension:
    """A run's plan with more repetitions, and what it was planned from."""

    run: Run
    asked: Asked
    site: Site
    experiment: Experiment
    plan: Plan
    slots: dict[str, Slots] | str
    had: int  # trials
    rule: Repeats  # as it will stand in the run: intervals go on to count its looks

    @property
    def added(self) -> Plan:
        """The plan of what is new alone."""
        return dataclasses.replace(self.plan, trials=self.plan.trials[self.had :])

    def write(self) -> None:
        done = {trial.directory.name for trial in self.run.trials() if trial.well}
        extend_run(self.plan, self.site, self.experiment, self.run.directory, self.had, done, self.rule)


def extension(run: Run, number: int) -> Extension:
    """So many repetitions more; ConfigError or BusyError where they would not be those of this run."""
    directory = run.directory
    if run.copy_of:
        raise ConfigError(f"{directory}: is a copy of {run.copy_of}; add repetitions there")
    run.check_here()
    if run.goes_on:
        raise BusyError(f"{directory}: still goes on; `tierbench watch {directory}` shows when it has ended")
    try:
        asked = json_files.read_as(Asked, directory / names.ASKED)
    except FileNotFoundError:
        raise ConfigError(
            f"{directory}: has no {names.ASKED}, which tells its definitions: an earlier tierbench wrote it; {ANEW}"
        ) from None
    before = from_json(files.read_text(directory / names.PLAN))
    repeats = max(trial.repeat for trial in before.trials) + number
    if number < 1 or repeats > MOST_REPEATS:
        raise ConfigError(f"--more {number}: must be 1 to {MOST_REPEATS - repeats + number}")
    site, experiment = find_site(asked.site), asked_experiment(asked.experiment)
    changed = [
        *_changed(directory / names.SITE, site, "site"),
        *_changed(directory / names.EXPERIMENT, experiment, "experiment"),
    ]
    _refuse(directory, changed)
    _refuse(directory, _scripts_changed(site, experiment, directory))
    plan, slots = expanded(site, repeated(experiment, repeats), asked.only)
    plan = dataclasses.replace(plan, cores=before.cores)
    _refuse(directory, _plan_changed(before, plan, slots))
    rule = experiment.repeats
    rule = dataclasses.replace(rule, at_most=repeats) if isinstance(rule, Until) else repeats
    return Extension(run, asked, site, repeated(experiment, repeats), plan, slots, len(before.trials), rule)


def repeated(experiment: Experiment, repeats: int) -> Experiment:
    """The experiment with so many repetitions, all of which are run."""
    variants = tuple(
        dataclasses.replace(point, experiment=dataclasses.replace(point.experiment, repeats=repeats))
        for point in experiment.variants
    )
    return dataclasses.replace(experiment, repeats=repeats, variants=variants)


def _refuse(directory: Path, changed: Iterator[str] | list[str]) -> None:
    if reasons := list(changed):
        raise ConfigError(f"{directory}: more repetitions would not be comparable: {'; '.join(reasons)}; {ANEW}")


def _changed(recorded: Path, definition: Site | Experiment, kind: str) -> Iterator[str]:
    """The keys of a definition that say otherwise now; of those that there were."""
    before = json_files.read_table(recorded)
    now = json.loads(json.dumps(dataclasses.asdict(definition)))
    keys = [key for key in before if before[key] != now.get(key) and key not in ("repeats", "variants")]
    if keys:
        yield f"the {kind} {definition.name} has changed since ({', '.join(keys)})"


def _scripts_changed(site: Site, experiment: Experiment, directory: Path) -> Iterator[str]:
    for place, content in shipped_files(site, experiment):
        file = directory / place
        if not file.exists() or files.read_bytes(file) != content:
            yield f"its {place} is not what this tierbench, or the client's file, brings now"
            return


def _plan_changed(before: Plan, now: Plan, slots: dict[str, Slots] | str) -> Iterator[str]:
    if isinstance(slots, str) and any(now.pools[name] != workers for name, workers in before.pools.items()):
        yield f"the pool cannot be asked for its workers: {slots}"
        return
    # As it would be read: tuples have become lists on the way, and back.
    same: Any = from_json(to_json(dataclasses.replace(now, trials=now.trials[: len(before.trials)])))
    for folder, replicas in before.replicas.items():
        if replicas != same.replicas.get(folder):
            gone = folder in same.replicas and same.replicas[folder].sizes is None
            yield f"replicas {folder}: " + ("their catalogue cannot be read" if gone else "are others now")
            return
    for name, workers in before.pools.items():
        others = same.pools.get(name, ())
        if workers != others:
            yield f"pool {name} had {', '.join(workers) or 'no workers'}, and has {', '.join(others) or 'none'}"
            return
    differing = [
        field.name for field in dataclasses.fields(Plan) if getattr(before, field.name) != getattr(same, field.name)
    ]
    if differing:
        yield f"it would be planned otherwise now ({', '.join(differing)})"
