"""The room that a run takes on the access point's disk, estimated before it begins."""

from __future__ import annotations

from pathlib import Path

from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import sampled_hosts
from tierbench.dags.plan import Plan, Trial
from tierbench.errors import UnmetNeed
from tierbench.site_configs.site import Site
from tierbench.submit.preview import estimate_s
from tierbench.submit.trial.disk_reserve import LOW_BYTES, RESERVE_BYTES, free_bytes

# Measured with HTCondor 23.9: the logs of a trial and of each of its clients, a sample with its line in two tables.
TRIAL_BYTES = 300_000
CLIENT_BYTES = 20_000
SAMPLE_BYTES = 700
AROUND_S = 15.0  # samplers run before the go and after the last end
MARGIN = 3.0  # times are estimated at the links' full rates, and trials are tried again


def needed_bytes(plan: Plan, site: Site, experiment: Experiment) -> int:
    """What the run directory will hold at its end, and what a trial needs to begin."""
    trials = sum(_trial_bytes(plan, site, experiment, trial) for trial in plan.trials)
    return round(MARGIN * trials) + LOW_BYTES + RESERVE_BYTES


def _trial_bytes(plan: Plan, site: Site, experiment: Experiment, trial: Trial) -> float:
    seconds = estimate_s(plan, site, experiment, trial) + AROUND_S
    samples = len(sampled_hosts(site, plan, trial.configuration)) * seconds
    return TRIAL_BYTES + CLIENT_BYTES * trial.jobs + SAMPLE_BYTES * samples / experiment.sample_period_s


def lies_on(directory: Path) -> Path:
    """The part of a path that is there already, whose disk it is."""
    return next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())


def too_little(needed: int, directory: Path) -> str:
    """What is wrong with the disk of a directory that is to be made, or nothing."""
    free = free_bytes(lies_on(directory))
    if free >= needed:
        return ""
    return f"the run takes up to {needed / 1e6:.0f} MB and {free / 1e6:.0f} MB are free for {directory}"


def check(needed: int, directory: Path) -> None:
    trouble = too_little(needed, directory)
    if trouble:
        raise UnmetNeed(f"{trouble}; make room, or lay it on another disk (--into)")
