"""Every experiment that a testbed can run, one repetition of each: is a trial missing, or INVALID?

usage: every_experiment_once.py [EXPERIMENT ...] [--into RUNS]   (as root; about two hours)

What RUNS has is not run again, so the same command goes on where it was stopped; the folder of a run that was cut short
has to be removed. Ends with a table, and with exit status 1 if any trial is missing or INVALID.
"""

import argparse
import collections
import csv
import subprocess
import sys
from pathlib import Path

from tierbench import json_files, names
from tierbench.dags.experiment import shipped_experiments
from tierbench.testbed.all_papers import SCALED, is_done

ON_TESTBED = [sys.executable, "-m", "tierbench", "testbed"]
TESTBED = "once"
EXPERIMENT = """
extends = "{name}"
name = "{name}-once"
repeats = 1
"""


def for_a_testbed() -> list[str]:
    """The papers' experiments in a size for it, and those that are no paper's."""
    shipped = shipped_experiments()
    papers = {name.partition("-")[0] for name in shipped if name.endswith(SCALED)}
    return [name for name in shipped if name.endswith(SCALED) or name.partition("-")[0] not in papers]


def run_once(name: str, into: Path) -> None:
    definition = into / f"{name}-once.toml"
    definition.write_text(EXPERIMENT.format(name=name), encoding="utf-8")
    try:
        with (into / f"{name}.log").open("w") as log:
            command = [*ON_TESTBED, "run", definition, "--name", TESTBED, "--into", into / name]
            subprocess.run(command, stdout=log, stderr=log, check=False)
    finally:
        subprocess.run([*ON_TESTBED, "down", "--name", TESTBED], stdout=subprocess.DEVNULL, check=False)


def result(name: str, run: Path) -> bool:
    """Print how the trials of a run went; whether none is missing or INVALID."""
    try:
        planned = len(json_files.read_table(run / names.PLAN)["trials"])
        with (run / names.TRIALS_CSV).open(newline="") as file:
            trials = list(csv.DictReader(file))
    except FileNotFoundError:
        print(f"{name:36} has not run; see {run}.log")
        return False
    counts = collections.Counter(trial["verdict"] for trial in trials)
    print(f"{name:36} {len(trials)} of {planned} trials: {', '.join(f'{n} {word}' for word, n in counts.items())}")
    for trial in trials:
        if trial["verdict"] != "VALID":
            print(f"    {trial['trial_id']} {trial['verdict']}: {trial['verdict_reasons']}")
    return len(trials) == planned and not counts["INVALID"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--into", type=Path, default=Path("runs/once"))
    arguments = parser.parse_args()
    chosen = arguments.experiments or for_a_testbed()
    arguments.into.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(chosen, 1):
        if not is_done(arguments.into / name):
            print(f"{number}/{len(chosen)}  {name}", file=sys.stderr, flush=True)
            run_once(name, arguments.into)
    fine = [result(name, arguments.into / name) for name in chosen]
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
