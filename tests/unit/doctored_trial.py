"""A synthetic trial's records, changed in the one thing that a rule of the verdict looks at, and what is found then."""

import json
from dataclasses import replace

from tests.unit import synthetic_run as synthetic
from tierbench import names
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.verdict.judge import INVALID, SUSPECT, VALID, evidence, judge
from tierbench.wrappers.client import Client

OSS = synthetic.OSS
READ = 1e9 / 1.02  # bytes that a synthetic trial's clients read
TICKS = synthetic.ticks(-2, 23)


def sampled(
    folder, tx_bytes=None, times=TICKS, *, ahead_ms=0.0, late=0, missed=0, wall_step=None, clocks=(), **changes
):
    """Write the storage server's samples anew, with something about them changed."""
    since_s, step_ms = wall_step or (0, 0)
    counters = {"tx_bytes": tx_bytes or synthetic.during(400, 20)}
    counters["wall_ns"] = lambda time: synthetic.times(time + step_ms / 1e3 * (time > since_s))["wall_ns"]
    end = {"late_ticks": late, "missed_ticks": missed, "clocks": [*clocks] or [synthetic.clock(ahead_ms)]}
    host, role = changes.pop("host", OSS), changes.pop("role", "storage")
    synthetic.write_host(folder, host, role, times=times, head=changes, end=end, **counters)


def edit_client(folder, index, event, **changes):
    synthetic.edit_events(folder / f"clients/{index}.jsonl", event, lambda told: {**told, **changes})


def edit_trial(folder, /, **changes):
    synthetic.edit_json(folder / "trial.json", **changes)


def arranged(folder, name, value, *records, host=OSS, **condition):
    """Have a host arrange a condition for the trial, and leave these records of that."""
    full, path = f"{name}.{host}", folder / names.ARRANGED / f"{name}.{host}.jsonl"
    asked = {"name": full, "condition": name, "host": host, "value": value, "unit": "", "tolerance_pct": 0.0}
    others = json.loads((folder / names.TRIAL).read_text()).get("conditions", [])
    edit_trial(folder, conditions=[*others, {**asked, **condition}])
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def does(folder, what, **traits):
    """Have the clients be of a kind that reads, writes or copies, or counts operations."""
    declared = type("Declared", (Client,), {"does": what})
    edit_trial(folder, traits={**declared.traits(), **traits})


def flushed(folder, strategy="fadvise", workers=("wn01.private.fiu.test",), told=None, **reports):
    """Have caches of hosts been flushed, of which those in `told`, or all, left these reports."""
    edit_trial(folder, flush={"strategy": strategy, "hosts": [*reports]}, workers=[*workers])
    (folder / names.flush_report("")).parent.mkdir(exist_ok=True)
    for host in reports if told is None else told:
        report = {"files": 8, "resident_after_bytes": 0, **reports[host]}
        (folder / names.flush_report(host)).write_text(json.dumps(report))


def work_done(**changes):
    """What a job reports that is at work for a time, or reads several files."""
    return {
        "processes": 1, "files": 1, "fetches": 1, "failed": 0, "cut": 0, "failures": {}, "bytes_once": 0,
        "latency_s": dict.fromkeys(("p50", "p95", "p99", "max")), "latency_classes": {}, "first_begin_wall_ns": 0,
        "last_begin_wall_ns": 0, **changes,
    }  # fmt: skip


def send(mbps, background=0.0, from_s=-100.0, to_s=100.0):
    """The clients' traffic, and a background at another rate over some time."""
    clients = synthetic.during(mbps, 20)
    return lambda time: clients(time) + round((min(max(time, from_s), to_s) - from_s) * background * 1e6 / 8)


def compare_clock(folder, ahead_ms=0.0):
    """Have the worker's clients compare a clock of its own."""
    for path in sorted(folder.glob("clients/*.jsonl")):
        first, *rest = path.read_text().splitlines()
        clock = {"event": "clock", **synthetic.times(-1), **synthetic.clock(ahead_ms)}
        path.write_text("\n".join([first, json.dumps(clock), *rest]) + "\n")
        edit_client(folder, int(path.stem), "start", boot_id="worker")


def apart(folder, storage_ahead_ms):
    compare_clock(folder)
    sampled(folder, ahead_ms=storage_ahead_ms)


def measured(folder, **more):
    data = read_trial(folder)
    row = replace(judge(data, trial_row(data)), **more)
    return row, list(evidence(data, row))


def worst(found, rule):
    verdicts = [finding.verdict for finding in found if finding.rule.name == rule]
    return max([VALID, *verdicts], key=[VALID, SUSPECT, INVALID].index)
