"""What tests of a plan's texts and of a run directory take: workers, an experiment, and one trial of it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from tierbench.dags.experiment import load_experiment

# What quick asks and how much is chosen for those who try it; tests count on these numbers.
LARGER_QUICK = """
extends = "quick"
name = "larger-quick"
access = ["lan-xrootd", "wan-xrootd-private", "wan-xrootd-public", "direct"]
batches = [4, 8]
repeats = 3
replicas.root-tree = { count = 24, size_mb = 64 }
"""

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn02.fiu.test"]}


def the_trial(plan, trial_id="lan-xrootd.root.x004.r1"):
    return next(trial for trial in plan.trials if trial.id == trial_id)


def larger_quick():
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(LARGER_QUICK)
        file.flush()
        return replace(load_experiment(Path(file.name)), name="quick")
