"""Synthetic trials whose clients did not all begin at one instant."""

import json

from tests.unit import synthetic_run as synthetic

EACH_S, GAP_S = 4.0, 2.0


def begin_anew(folder, begins_s, start, go, each_s):
    """Have each client begin at its own time and read for so long; the storage sends meanwhile what they read."""
    trial = json.loads((folder / "trial.json").read_text())
    size = trial["bytes"] // trial["jobs"]
    synthetic.edit_json(folder / "trial.json", start=start, sample_period_s=0.2)
    synthetic.edit_json(folder / "go.json", **go)
    for client, begin_s in enumerate(begins_s):
        path = folder / f"clients/{client}.jsonl"
        synthetic.write_client(path, begin_s=begin_s, end_s=begin_s + each_s, size=size)
        synthetic.edit_events(path, "go", lambda told, begin_s=begin_s: {**told, "go_wall_ns": at(begin_s)})

    def sent(time):
        # With the protocol's share as elsewhere.
        return 10**9 + sum(round(min(max(time - begin, 0), each_s) / each_s * size * 1.02) for begin in begins_s)

    times = synthetic.ticks(-2, begins_s[-1] + each_s + 3, 0.2)
    synthetic.write_samples(folder / f"samples/{synthetic.OSS}.samples", times, sent, period_s=0.2)


def in_turn(folder, each_s=EACH_S, gap_s=GAP_S):
    """Its clients read one after the other, and between two of them nothing moves."""
    jobs = json.loads((folder / "trial.json").read_text())["jobs"]
    begins = [client * (each_s + gap_s) for client in range(jobs)]
    turns = [at(begin) for begin in begins]
    begin_anew(folder, begins, {"kind": "in-turn", "every_s": 0.0}, {"turns_wall_ns": turns}, each_s)
    return folder


def every(folder, seconds, each_s=EACH_S):
    """Its clients begin so many seconds after one another."""
    jobs = json.loads((folder / "trial.json").read_text())["jobs"]
    begins = [client * seconds for client in range(jobs)]
    begin_anew(folder, begins, {"kind": "every", "every_s": seconds}, {"step_ns": round(seconds * 1e9)}, each_s)
    return folder


def at(seconds):
    return synthetic.GO_NS + round(seconds * 1e9)
