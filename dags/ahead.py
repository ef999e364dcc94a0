"""Trials whose jobs are started while the one before measures: for which experiments, in how many slots, how long."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tierbench import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.limits import limits
from tierbench.dags.nodes import Job
from tierbench.dags.repeats import Until
from tierbench.dags.start import has_gate

ASKED = "ahead = true: jobs of the next trial are there while one measures"
CHIRP = "htchirp.py"  # HTCondor's, which clients and samplers have beside them anyway


def problems(experiment: Experiment) -> Iterator[str]:
    """Why trials cannot be started ahead; of a run in which one is, none may do what its jobs must not meet."""
    points = [point.experiment for point in experiment.points]
    if not any(point.ahead for point in points):
        return
    if any(point.conditions for point in points):
        yield f"{ASKED}, under its conditions and on its mounts; leave the conditions out, or ahead"
    if isinstance(experiment.repeats, Until):
        yield f"{ASKED}, so it must be known that it will be needed; make repeats a number, or leave ahead out"
    if any(use.replicas.is_written for use in experiment.uses()):
        yield f"{ASKED}, and may hold the slot in which what this one wrote is looked through; leave ahead out"
    if any(point.ahead and not has_gate(point.start) for point in points):
        yield f'{ASKED}, and wait for its gate; choose a start other than "natural", or leave ahead out'


def trials_in_slots(experiment: Experiment) -> int:
    """How many trials have slots of the pool at once."""
    return 2 if any(point.experiment.ahead for point in experiment.points) else 1


def twice(experiment: Experiment | None) -> str:
    """What is to be added where slots are too few, if a trial needs them twice."""
    return ", and as many for the next trial (ahead = true)" if experiment and trials_in_slots(experiment) > 1 else ""


def awaited_s(experiment: Experiment, jobs: int) -> int:
    """For so long HTCondor lets a job of a trial wait for the one before, with all of its tries."""
    return (1 + experiment.retries) * limits(experiment, jobs).turn_s if experiment.ahead else 0


def waiting(job: Job, script: str, *, brings_chirp: bool) -> Job:
    """The same node with jobs that wait for their trial's turn where they run, and become the script then."""
    beside = [script] if brings_chirp else [CHIRP, script]
    travelling = ", ".join(f"../../{names.SCRIPTS}/{name}" for name in beside)
    macros = {"program": names.STARTED_AHEAD, "then": f"{names.BEGUN} ./{script}"}
    macros |= {"held": f", {travelling}"} if brings_chirp else {"held": travelling, "chirp": "True"}
    return dataclasses.replace(job, macros={**job.macros, **macros})
