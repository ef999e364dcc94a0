"""What a run takes at the least: the time of its trials, and the room that its directory needs."""

from __future__ import annotations

from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import sampled_hosts
from tierbench.dags.plan import Plan, Trial
from tierbench.dags.trial_settings import Every, places
from tierbench.site_configs.site import Site
from tierbench.starts import IN_TURN
from tierbench.submit.trial.disk_reserve import LOW_BYTES, RESERVE_BYTES

OVERHEAD_S = 4.5  # of a trial in which nothing is read: flush, start, gate, tables
TURN_S = 2.0  # from a client's end to the next one's begin, where they take turns

# Measured with HTCondor 23.9: the logs of a trial and of each of its clients, a sample with its line in two tables.
TRIAL_BYTES = 300_000
CLIENT_BYTES = 20_000
SAMPLE_BYTES = 700
AROUND_S = 15.0  # samplers run before the go and after the last end
MARGIN = 3.0  # times are estimated at the links' full rates, and trials are tried again


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
    trials = sum(_trial_bytes(plan, site, experiment, trial) for trial in plan.trials)
    return round(MARGIN * trials) + LOW_BYTES + RESERVE_BYTES


def _trial_bytes(plan: Plan, site: Site, experiment: Experiment, trial: Trial) -> float:
    seconds = trial_s(plan, site, experiment, trial) + AROUND_S
    samples = len(sampled_hosts(site, plan, trial.configuration)) * seconds
    return TRIAL_BYTES + CLIENT_BYTES * trial.jobs + SAMPLE_BYTES * samples / experiment.sample_period_s
