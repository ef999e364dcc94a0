"""How long anything of a trial is waited for: said once here, and in each trial.json for all that runs it.

Each wait has a limit inside, where the reason is known best, and a longer one outside, which needs nobody's consent:
a client ends its own reading, then the gate ends the trial, then HTCondor removes the job, then the turn is taken away.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from tierbench.dags.experiment import Experiment
from tierbench.dags.start import Every
from tierbench.starts import IN_TURN

PREPARE_S = 600  # from a slot to READY: files sent, a ticket, ROOT or CMSSW set up
GRACE_S = 60  # by so much what stands outside is more patient than what stands inside


@dataclass(frozen=True)
class Limits:
    """Seconds; the first three are the experiment's own, the others follow from them."""

    slot_s: int  # a job waits for a slot
    read_s: int  # a client reads, by its own clock
    stall_s: int  # the storage moves nothing while clients read
    ready_s: int  # the gate waits for all clients to be ready
    go_s: int  # a client that is ready waits for the go
    end_s: int  # the last end is waited for, after the go
    job_s: int  # a client, flush or sampler runs, by HTCondor's clock
    gate_s: int  # the gate itself runs, by HTCondor's clock
    turn_s: int  # a trial keeps the turn from the next one
    samplers_s: int = 60  # the gate waits for samplers of other hosts than storage when all else is ready
    away_s: int = 60  # a client's worker does not answer HTCondor
    stop_s: int = 30  # jobs that were told to end take to do so

    def to_json(self) -> dict[str, int]:
        return dataclasses.asdict(self)


def limits(experiment: Experiment, jobs: int) -> Limits:
    """The limits of an experiment's trials of so many clients."""
    slot_s, read_s = experiment.slot_limit_s, experiment.time_limit_s
    last_s = _last_begin_s(experiment, jobs)
    ready_s = slot_s + PREPARE_S
    go_s = ready_s + GRACE_S + last_s
    end_s = last_s + read_s + GRACE_S
    job_s = ready_s + GRACE_S + end_s + GRACE_S
    gate_s = job_s + GRACE_S
    return Limits(
        slot_s=slot_s,
        read_s=read_s,
        stall_s=experiment.stall_limit_s,
        ready_s=ready_s,
        go_s=go_s,
        end_s=end_s,
        job_s=job_s,
        gate_s=gate_s,
        turn_s=gate_s + 2 * GRACE_S,
    )


def _last_begin_s(experiment: Experiment, jobs: int) -> int:
    """So long after the go the last client may begin."""
    if isinstance(experiment.start, Every):
        return math.ceil((jobs - 1) * experiment.start.every_s)
    return (jobs - 1) * (experiment.time_limit_s + GRACE_S) if experiment.start == IN_TURN else 0
