"""What an experiment asks for that will not do what its author thinks, told before anything is written or run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site
from tierbench.submit.pool import have_command_on_path
from tierbench.submit.trial.skip_repeats import tierbench
from tierbench.wrappers.client import CHECKSUM

SECRET_NAME = re.compile(r"(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_KEY)$")
JSON_WEB_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.")


def secrets_in_the_open(site: Site, experiment: Experiment) -> list[str]:
    """Variables whose values look like secrets and would be in the run directory."""
    environments: dict[str, Mapping[str, object]] = {}
    for use in experiment.uses():
        environments[f"workloads.{use.name}"] = use.workload.environment
        environments[f"access.{use.access}"] = site.access[use.access].environment
    return [
        f"doubtful: {place}.environment.{name}: is a secret by its looks, and its value would be in the run directory"
        f" for all to read; say where it is instead: {_instead(place, name)}"
        for place, environment in environments.items()
        for name, value in environment.items()
        if isinstance(value, str) and (SECRET_NAME.search(name) or JSON_WEB_TOKEN.match(value))
    ]


def without_tables(run: str) -> list[str]:
    """That DAGs which are submitted from here make no tables, and how these are made."""
    have_command_on_path()
    if tierbench():
        return []
    return [f"tierbench is not on the PATH here, so DAGs make no tables by themselves: `tierbench tables {run}` does"]


def _instead(place: str, name: str) -> str:
    """Only an experiment's variables may be secret ones; a way of access has tokens by name."""
    return f'{name} = {{ from_file = "/a/path" }}' if place.startswith("workloads") else 'token = { file = "/a/path" }'


def checksums_without_catalogue(plan: Plan, experiment: Experiment) -> Iterator[str]:
    """Workloads that compare what they read with a catalogue that is not at hand: each trial of theirs would fail."""
    (option,) = CHECKSUM
    for folder, replicas in plan.replicas.items():
        uses = [use for use in experiment.uses() if use.replicas.folder == folder]
        asking = {use.name for use in uses if getattr(use.workload.options, option, False)}
        if asking and replicas.checksums is None and replicas.lies_ready:
            yield (
                f"workloads.{', '.join(sorted(asking))}: {option} = true compares with the catalogue of replicas"
                f" {folder}, which is not at hand here; make them first, or leave it out"
            )


def refuse_without_catalogue(plan: Plan, experiment: Experiment) -> None:
    problems = list(checksums_without_catalogue(plan, experiment))
    if problems:
        raise ConfigError("\n".join(problems))
