"""What tests of a plan's texts and of a run directory take: workers, and one trial of the experiment quick."""

from __future__ import annotations

from tierbench.dags.plan import Plan, Trial

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn02.fiu.test"]}


def the_trial(plan: Plan, trial_id: str = "lan-xrootd.root.x004.r1") -> Trial:
    return next(trial for trial in plan.trials if trial.id == trial_id)
