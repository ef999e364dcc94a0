"""How long anything of a trial is waited for, said once here and in each trial.json.

Each wait has a limit inside, where the reason is known best, and a longer one outside, which needs nobody's consent:
a client ends its own reading, then the gate ends the trial, then HTCondor removes the job, then the lock is taken away.
"""

import math

from tierbench.dags.experiment import Experiment
from tierbench.dags.trial_settings import Every
from tierbench.starts import IN_TURN
from tierbench.trials import Limits

PREPARE_S = 600  # from a slot to READY: files sent, a ticket, ROOT or CMSSW set up
CONDITION_S = 1800  # what the slowest condition that comes with tierbench may take: to fill a cache
GRACE_S = 60  # by so much what stands outside is more patient than what stands inside


def limits(experiment: Experiment, jobs: int) -> Limits:
    """The limits of an experiment's trials of so many clients."""
    slot_s, read_s = experiment.slot_limit_s, experiment.time_limit_s
    last_s = _last_begin_s(experiment, jobs)
    ready_s = slot_s + PREPARE_S + (CONDITION_S if experiment.conditions else 0)
    go_s = ready_s + GRACE_S + last_s
    end_s = last_s + read_s + GRACE_S
    job_s = ready_s + GRACE_S + end_s + GRACE_S
    gate_s = job_s + GRACE_S
    lock_s = gate_s + 2 * GRACE_S
    return Limits(slot_s, read_s, experiment.stall_limit_s, ready_s, go_s, end_s, job_s, gate_s, lock_s)


def _last_begin_s(experiment: Experiment, jobs: int) -> int:
    """So long after the go the last client may begin."""
    if isinstance(experiment.start, Every):
        return math.ceil((jobs - 1) * experiment.start.every_s)
    return (jobs - 1) * (experiment.time_limit_s + GRACE_S) if experiment.start == IN_TURN else 0
