"""Trials whose jobs are started while the one before measures: what that saves, and whether it takes anything from it.

usage: started_ahead.py TESTBED [--run RUN]   (as root; the testbed is up; RUN is made if it is not there)

One run has trials that are started ahead and others that are not, in random order. The time from a trial's last end to
the next one's go is told by what the next one is; the rate of a trial too, beside which jobs of the next one were
started and waited, or not. Figures are of this machine's cores, which hold both sites; docs/runs.md has some.
"""

import itertools
import statistics
from pathlib import Path

import numpy as np
from frame import options, run_on_testbed

from tierbench import json_files, names
from tierbench.postprocess.records.load_trial import read_trial

EXPERIMENT = """
extends = "quick"
name = "started-ahead"
question = "What do jobs save that are started ahead of their trial's turn, and do they take anything from another one?"
access = ["lan-xrootd", "direct"]
batches = [4]
repeats = 5
retries = 0
axes.ahead = { values = [false, true], sets = "ahead" }
"""
RESAMPLES = 10_000


def last_end_s(data):
    return max(job.ended_wall_ns or 0 for job in data.jobs) / 1e9


def go_s(data):
    return (data.go_wall_ns or 0) / 1e9


def rate_mbps(data):
    return sum(job.bytes_app or 0 for job in data.jobs) * 8e-6 / (last_end_s(data) - go_s(data))


def ratio(beside, alone):
    """Of the means, with the interval in which 95 % of those of resampled trials lie."""
    chance = np.random.default_rng(1)
    means = [chance.choice(those, (RESAMPLES, len(those))).mean(axis=1) for those in (beside, alone)]
    low, high = np.percentile(means[0] / means[1], [2.5, 97.5])
    return f"{statistics.mean(beside) / statistics.mean(alone):.3f} ({low:.3f} … {high:.3f})"


def report(run):
    planned = json_files.read_table(run / names.PLAN)["trials"]
    trials = [read_trial(run / names.trial_directory(trial["id"])) for trial in planned]
    pairs = list(itertools.pairwise(sorted(trials, key=go_s)))
    for ahead in (False, True):
        waits = [go_s(after) - last_end_s(before) for before, after in pairs if after.trial.ahead is ahead]
        waiting = f"median {statistics.median(waits):.2f} s ({min(waits):.2f} … {max(waits):.2f}), {len(waits)} trials"
        print(f"last end to next go, the next one {'started ahead' if ahead else 'in its turn'}: {waiting}")
    for access in dict.fromkeys(before.trial.access for before, _ in pairs):
        own = [(before, after.trial.ahead) for before, after in pairs if before.trial.access == access]
        beside, alone = ([rate_mbps(data) for data, ahead in own if ahead is is_ahead] for is_ahead in (True, False))
        beside_it = f"beside the next one's jobs {statistics.mean(beside):.1f} Mb/s ({len(beside)} trials)"
        print(f"{access}: {beside_it}, alone {statistics.mean(alone):.1f} ({len(alone)}), ratio {ratio(beside, alone)}")
    for data in trials:
        if data.beside:
            share = (data.beside.last_wall_s - data.beside.first_wall_s) / (last_end_s(data) - go_s(data))
            since = f"{data.beside.jobs} jobs from {data.beside.first_wall_s - go_s(data):.1f} s after the go"
            print(f"{data.trial.name}: {since}, {share:.1%} of the window")


def main():
    arguments = options(__doc__, "testbed", run=Path("runs/started-ahead"))
    run_on_testbed(arguments.testbed, EXPERIMENT, arguments.run)
    report(arguments.run)


if __name__ == "__main__":
    main()
