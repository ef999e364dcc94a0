"""From the names that a user gives to a plan and its run, and what the run takes at the least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tierbench import names
from tierbench.dags.experiment import Experiment, find_experiment
from tierbench.dags.hosts import sampled_hosts
from tierbench.dags.plan import Plan, Trial, expand
from tierbench.dags.trial_settings import Every, places
from tierbench.errors import refuse
from tierbench.site_configs.site import Site
from tierbench.starts import IN_TURN
from tierbench.submit import pool, programs
from tierbench.submit.catalogue import catalogues
from tierbench.submit.pool import PoolError, Slots
from tierbench.submit.trial.disk_reserve import LOW_BYTES, RESERVE_BYTES

OVERHEAD_S = 4.5  # of a trial in which nothing is read: flush, start, gate, tables
TURN_S = 2.0  # from a client's end to the next one's begin, where they take turns

# Measured with HTCondor 23.9: the logs of a trial and of each of its clients, a sample with its line in two tables.
TRIAL_BYTES = 300_000
CLIENT_BYTES = 20_000
SAMPLE_BYTES = 700
AROUND_S = 15.0  # samplers run before the go and after the last end
MARGIN = 3.0  # times are estimated at the links' full rates, and trials are tried again


def asked_experiment(name_or_path: str) -> Experiment:
    """An experiment whose axes can be columns of its tables."""
    from tierbench.postprocess.compare.claims import (
        problems as claim_problems,  # here, as the tables need numpy, and other commands do not
    )
    from tierbench.postprocess.schema import columns
    from tierbench.postprocess.schema.run_rows import FILES

    experiment = find_experiment(name_or_path)
    taken = {name for table in FILES.values() for name in columns.places(table)}
    problems = [
        f"{name_or_path}: axes.{axis.name}: the tables have a column of that name already; call the axis otherwise"
        for axis in experiment.axes
        if axis.name in taken
    ]
    problems += [f"{name_or_path}: {problem}" for problem in claim_problems(experiment.claims, experiment.expects)]
    refuse(problems)
    return experiment


def expanded(site: Site, experiment: Experiment, only: Sequence[str] = ()) -> tuple[Plan, dict[str, Slots] | str]:
    """The plan, with all that the live pool and the storage can tell; and the pool's slots, or why not."""
    slots = matching_slots(site, site.pools)
    there = {} if isinstance(slots, str) else slots
    workers = {name: matching.machines for name, matching in there.items()}
    cores = {host: number for matching in there.values() for host, number in matching.cores.items()}
    return expand(site, experiment, workers, catalogues(site, experiment), cores, only), slots


def matching_slots(site: Site, pools: Iterable[str]) -> dict[str, Slots] | str:
    """What the live pool has for each of a site's pools, or why it was not asked."""
    try:
        return {name: pool.matching_slots(site.pools[name].requirements) for name in pools}
    except PoolError as error:
        return str(error)


def ship_programs(experiment: Experiment, directory: Path, say: Callable[[str], None]) -> None:
    """Put what the clients have to have compiled beside their scripts in a run directory."""
    sources = {source for file in experiment.client_files for source in file.ships}
    if any(source.suffix == programs.PROGRAM for source in sources):
        say(programs.ship(sorted(sources), directory / names.PROGRAMS))


# -- what a run takes at the least: the time of its trials, and the room that its directory needs ----------


def run_s(plan: Plan, site: Site, experiment: Experiment) -> float:
    """So long the plan's trials take at the least."""
    return sum(trial_s(plan, site, experiment, trial) for trial in plan.trials)


def trial_s(plan: Plan, site: Site, experiment: Experiment, trial: Trial) -> float:
    """A lower bound: what the slowest link whose rate the site tells takes for the trial's bytes."""
    own, pool = experiment.at(trial.configuration.levels), plan.pools[trial.configuration.pool]
    placed = set(places(own.placement, pool, trial.jobs))
    workers = 1 if own.start == IN_TURN else min(len(placed or pool) or trial.jobs, trial.jobs)
    ceilings = [rate for rate in (site.links.wan, site.links.storage) if rate]
    if site.links.worker:
        ceilings.append(site.links.worker * workers)
    work_s = (trial.bytes or trial.nominal_bytes) * 8 / 1e6 / min(ceilings) if ceilings else 0.0
    if trial.work.for_s is not None:
        work_s = trial.work.for_s * (trial.jobs if own.start == IN_TURN else 1)
    if isinstance(own.start, Every):
        return OVERHEAD_S + max(work_s, (trial.jobs - 1) * own.start.every_s + (trial.work.for_s or 0.0))
    return OVERHEAD_S + work_s + (TURN_S * (trial.jobs - 1) if own.start == IN_TURN else 0.0)


def run_bytes(plan: Plan, site: Site, experiment: Experiment) -> int:
    """What the run directory will hold at its end, and what a trial needs to begin."""
    trials = 0.0
    for trial in plan.trials:
        sampled_s = trial_s(plan, site, experiment, trial) + AROUND_S
        samples = len(sampled_hosts(site, plan, trial.configuration)) * sampled_s / experiment.sample_period_s
        trials += TRIAL_BYTES + CLIENT_BYTES * trial.jobs + SAMPLE_BYTES * samples
    return round(MARGIN * trials) + LOW_BYTES + RESERVE_BYTES
