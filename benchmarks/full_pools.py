"""Trials whose clients take every slot that their pool has beside the samplers: does each of them come to its end?

usage: full_pools.py TESTBED RUN [--clients N] [--repeats N] [--ahead]       (as root; the testbed is up)

For 8 clients on two workers: `tierbench testbed up --set slots_per_worker=4`, with --ahead slots_per_worker=9. Both
pools; RUN is made if it is not there. Exit status 1: not all trials were complete.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

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
ahead = {ahead}

[workloads.copy]
client = "xrdcp"
access = ["lan-xrootd"]
replicas = "tiny"

[workloads.dd]
client = "dd"
access = ["direct"]
replicas = "tiny"

[replicas.tiny]
kind = "random"
count = {clients}
size_mb = 0.5
"""


def report(run: Path) -> bool:
    """Tell how the trials ended; whether all were complete."""
    states: Counter[str] = Counter()
    for trial in json_files.read_table(run / names.PLAN)["trials"]:
        folder = run / names.trial_directory(trial["id"])
        outcome = folder / names.OUTCOME
        states[json_files.read_table(outcome)["state"] if outcome.exists() else "no outcome"] += 1
        if (folder / names.CALLED_OFF).exists():
            print(f"{trial['name']}: {json_files.read_table(folder / names.CALLED_OFF)['reason']}")
    print(f"{run}: {dict(states)}")
    return set(states) == {"complete"}


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("testbed")
    parser.add_argument("run", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ahead", action="store_true")
    asked = parser.parse_args()
    if not asked.run.exists():
        with tempfile.TemporaryDirectory() as folder:
            definition = Path(folder) / "full-pools.toml"
            definition.write_text(
                EXPERIMENT.format(clients=asked.clients, repeats=asked.repeats, ahead=str(asked.ahead).lower()),
                encoding="utf-8",
            )
            command = ["tierbench", "testbed", "run", "-q", str(definition), "--name", asked.testbed]
            subprocess.run([*command, "--into", str(asked.run)], check=False)
    return report(asked.run)


if __name__ == "__main__":
    sys.exit(not main())
