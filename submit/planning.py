"""From the names that a user gives to a plan and its run, with what the pool, the storage and compilers have to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tierbench import names
from tierbench.dags.experiment import Experiment, find_experiment
from tierbench.dags.plan import Plan, expand
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site
from tierbench.submit import pool, programs
from tierbench.submit.catalogue import catalogues
from tierbench.submit.pool import PoolError, Slots


def asked_experiment(name_or_path: str) -> Experiment:
    """An experiment whose axes can be columns of its tables."""
    from tierbench.postprocess.compare.claims import (
        problems as claim_problems,  # here, as the tables need numpy, and other commands do not
    )
    from tierbench.postprocess.schema.columns import places
    from tierbench.postprocess.schema.tables import FILES

    experiment = find_experiment(name_or_path)
    taken = {name for _, table in FILES.values() for name in places(table)}
    problems = [
        f"{name_or_path}: axes.{axis.name}: the tables have a column of that name already; call the axis otherwise"
        for axis in experiment.axes
        if axis.name in taken
    ]
    problems += [f"{name_or_path}: {problem}" for problem in claim_problems(experiment.claims, experiment.expects)]
    if problems:
        raise ConfigError("\n".join(problems))
    return experiment


def expanded(site: Site, experiment: Experiment, only: Sequence[str] = ()) -> tuple[Plan, dict[str, Slots] | str]:
    """The plan, with all that the live pool and the storage can tell; and the pool's slots, or why not."""
    slots: dict[str, Slots] | str
    try:
        slots = {name: pool.matching_slots(offer.requirements) for name, offer in site.pools.items()}
        workers = {name: matching.machines for name, matching in slots.items()}
        cores = {host: number for matching in slots.values() for host, number in matching.cores.items()}
    except PoolError as error:
        slots, workers, cores = str(error), {}, {}
    return expand(site, experiment, workers, catalogues(site, experiment), cores, only), slots


def ship_programs(experiment: Experiment, directory: Path, say: Callable[[str], None]) -> None:
    """Put what the clients have to have compiled beside their scripts in a run directory."""
    sources = {source for file in experiment.client_files for source in file.ships}
    if any(source.suffix == programs.PROGRAM for source in sources):
        say(programs.ship(sorted(sources), directory / names.PROGRAMS))
