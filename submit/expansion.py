"""From definitions to a run directory, with what the live pool, the storage and compilers have to say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tierbench import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, expand
from tierbench.errors import ConfigError
from tierbench.postprocess.schema.columns import places
from tierbench.postprocess.tables.schema import FILES
from tierbench.site_configs.site import Site
from tierbench.submit import pool, programs
from tierbench.submit.catalogue import catalogues
from tierbench.submit.pool import PoolError, Slots


def expanded(site: Site, experiment: Experiment) -> tuple[Plan, dict[str, Slots] | str]:
    """The plan, with all that the live pool and the storage can tell; and the pool's slots, or why not."""
    _check_factors(experiment)
    slots: dict[str, Slots] | str
    try:
        slots = {name: pool.matching_slots(offer.requirements) for name, offer in site.pools.items()}
        workers = {name: found.machines for name, found in slots.items()}
        cores = {host: number for found in slots.values() for host, number in found.cores.items()}
    except PoolError as error:
        slots, workers, cores = str(error), {}, {}
    return expand(site, experiment, workers, catalogues(site, experiment), cores), slots


def _check_factors(experiment: Experiment) -> None:
    """That each has a column of its own in every table."""
    taken = {column for _, table in FILES.values() for column in places(table)}
    problems = [
        f"axes.{axis.name}: is the name of another column of the tables"
        for axis in experiment.axes
        if axis.name in taken
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def ship_programs(experiment: Experiment, directory: Path, say: Callable[[str], None]) -> None:
    """Put what the clients have to have compiled beside their scripts in a run directory."""
    sources = {source for file in experiment.client_files for source in file.ships}
    if any(source.suffix == programs.PROGRAM for source in sources):
        say(programs.ship(sorted(sources), directory / names.PROGRAMS))
