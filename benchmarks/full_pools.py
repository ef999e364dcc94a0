"""Trials whose clients take every slot that their pool has beside the samplers: does each of them come to its end?

usage: full_pools.py TESTBED RUN [--clients N] [--repeats N]       (as root; the testbed is up)

For 8 clients on two workers: `tierbench testbed up --set slots_per_worker=4`. Both pools; RUN is made if it is
not there. Exit status 1: not all trials were complete.
"""

import sys
from collections import Counter
from pathlib import Path

from frame import options, run_on_testbed

from tierbench import json_files, names

EXPERIMENT = """
name = "full-pools"
question = "Does each trial that takes every slot come to its end?"
access = ["direct", "lan-xrootd"]
batches = [{clients}]
repeats = {repeats}
retries = 0
slot_limit_s = 60
sample_period_s = 0.2
workloads.copy = {{ client = "xrdcp", access = ["lan-xrootd"], replicas = "tiny" }}
workloads.dd = {{ client = "dd", access = ["direct"], replicas = "tiny" }}
replicas.tiny = {{ kind = "random", count = {clients}, size_mb = 0.5 }}
"""


def report(run):
    """Tell how the trials ended; whether all were complete."""
    states = Counter()
    for trial in json_files.read_table(run / names.PLAN)["trials"]:
        folder = run / names.trial_directory(trial["id"])
        outcome = folder / names.OUTCOME
        states[json_files.read_table(outcome)["state"] if outcome.exists() else "no outcome"] += 1
        if (folder / names.CALLED_OFF).exists():
            print(f"{trial['name']}: {json_files.read_table(folder / names.CALLED_OFF)['reason']}")
    print(f"{run}: {dict(states)}")
    return set(states) == {"complete"}


def main():
    arguments = options(__doc__, "testbed", "run", clients=8, repeats=20)
    text = EXPERIMENT.format(clients=arguments.clients, repeats=arguments.repeats)
    run_on_testbed(arguments.testbed, text, Path(arguments.run))
    return report(Path(arguments.run))


if __name__ == "__main__":
    sys.exit(not main())
