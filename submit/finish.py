#!/usr/bin/env python3
"""The last step of a trial: passes its turn on, stops the samplers, says how the trial went, has its tables made.

usage: finish.py DAG_STATUS FAILED_COUNT      (in the trial's directory on the access point)

It is the FINAL node of the trial's DAG, so it runs after failures and after condor_rm too, and its
exit status is the trial's. It may run more than once. Shipped to the run directory; stdlib only,
Python 3.6 or newer.

exit status: 0 every client has read its file and the storage's samples are whole; 1 not so, and
outcome.json says why; 2 trial.json cannot be read
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
CLOCK_SECONDS = 0.03  # three steps of /proc/uptime
LONGEST_TRAILER = 4096
REMOVED = "4"  # DAGMan's word for "somebody has removed me"


def main(dag_status: str, failed_nodes: str) -> int:
    try:
        trial = json.loads(Path("trial.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"finish: trial.json: {error}", file=sys.stderr)
        return 2
    subprocess.call([str(Path(__file__).resolve().with_name("turn.py")), "pass"])
    if not Path("samples").exists():  # it was waiting for its turn
        if Path("not-needed").exists():
            record("skipped", [])
            return 0
        if dag_status == REMOVED:
            return 1  # nothing has happened that could be told
    Path("stop").write_text("stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    unfinished = wait_for_samplers(trial)
    record_clock()

    reasons = []
    if dag_status == REMOVED:
        reasons.append("the trial was removed")
    elif failed_nodes != "0":
        reasons.append(f"{failed_nodes} nodes of the trial's DAG failed")
    # Without another host's samples the mean stands; the tables say whether they cover the window.
    storage = {sampler["host"] for sampler in trial["samplers"] if sampler["role"] == "storage"}
    reasons += [f"the sampler on {host} did not end in order" for host in unfinished if host in storage]
    reasons += client_reasons(trial)
    record("incomplete" if reasons else "complete", reasons)
    if make_tables() and trial["until_known"]:
        spare_later_trials(trial)
    for reason in reasons:
        print(ascii(reason))
    return 1 if reasons else 0


def wait_for_samplers(trial: "dict[str, Any]") -> "list[str]":
    """Give the samplers time to see the stop file; the hosts whose data have no proper end by then."""
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        # One over ssh sees no stop file: it ends, without a trailer, when DAGMan removes its node after us.
        awaited = [sampler["host"] for sampler in trial["samplers"] if sampler["via"] == "pool"]
        unfinished = [host for host in awaited if not ended(host)]
        if not unfinished or time.monotonic() > deadline:
            return unfinished
        time.sleep(POLL_SECONDS)


def ended(host: str) -> bool:
    """Whether a sample file has its trailer."""
    try:
        with Path("samples", host + ".samples").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_TRAILER))
            last = file.read().rstrip().rpartition(b"\n")[2]
    except FileNotFoundError:
        return False
    try:
        return bool(json.loads(last.decode())["tierbench"] == "end")
    except (ValueError, KeyError, TypeError):
        return False


def client_reasons(trial: "dict[str, Any]") -> "list[str]":
    """In words, each client that has not read its file to the end."""
    reasons = []
    for number in range(trial["jobs"]):
        last = last_record(Path("clients", f"{number}.jsonl"))
        if last is None:
            reasons.append(f"client {number} never started")
        elif last.get("event") != "end":
            reasons.append(f"client {number} lost")
        elif last["status"] != "ok":
            words = last.get("message")
            reasons.append(f"client {number} {last['status']}{': ' + words if words else ''}")
    return reasons


def last_record(path: Path) -> "dict[str, Any] | None":
    """The last whole line of a client's output; it is its "end" record unless the client was lost."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def make_tables() -> bool:
    """Where tierbench is installed the trial's tables are made at once; elsewhere they can be made later."""
    tierbench = shutil.which("tierbench")
    return tierbench is not None and subprocess.call([tierbench, "tables", "--trial", "."]) == 0


def spare_later_trials(trial: "dict[str, Any]") -> None:
    """If this configuration's batch has been measured often enough, its later trials need not be run."""
    alike = trial["id"][: -len(str(trial["repeat"]))]
    later = [path for path in Path("..").glob(alike + "*") if repeat_of(path) > trial["repeat"]]
    if later and subprocess.call(["tierbench", "enough", "../..", min(later, key=repeat_of).name]) == 0:
        for path in later:
            (path / "not-needed").touch()


def repeat_of(trial: Path) -> int:
    return int(trial.name.rpartition(".r")[2])


def record_clock() -> None:
    """How this host's wall clock stands to its uptime, to which the hosts have compared theirs."""
    low, high = [], []
    began = time.monotonic()
    try:
        while time.monotonic() < began + CLOCK_SECONDS:  # the more reads, the nearer to a step of the uptime
            before = time.time()
            uptime = round(float(Path("/proc/uptime").read_text().split()[0]) * 100) * 10**7
            low.append(int(before * 1e9) - uptime - 10**7)
            high.append(int(time.time() * 1e9) - uptime)
    except OSError:
        return
    clock = {"format": 1, "low_ns": max(low), "high_ns": min(high)}
    Path("clock.json").write_text(json.dumps(clock) + "\n")


def record(state: str, reasons: "list[str]") -> None:
    unfinished = Path("outcome.json.new")
    unfinished.write_text(json.dumps({"format": 1, "state": state, "reasons": reasons}, indent=1) + "\n")
    unfinished.rename("outcome.json")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
