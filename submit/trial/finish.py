#!/usr/bin/env python3
"""The last step of a trial: sees all jobs out, says how it went, has its tables made.

usage: finish.py DAG_STATUS FAILED_COUNT      (in the trial's directory on the access point)

It is the FINAL node of the trial's DAG, so it runs after failures and after condor_rm too, and its exit status is
the trial's. What stop.py could not do, because it was removed, it does: the samplers stopped, the turn passed on. It
may run more than once. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 every client has read its file and the storage's samples are whole; 1 not so, and
outcome.json says why; 2 trial.json cannot be read
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tierbench import names
from tierbench.condition_state import wait_until_restored
from tierbench.files import poll, replace
from tierbench.host import clock_bounds
from tierbench.submit.trial.clearing import clear
from tierbench.submit.trial.disk_reserve import give_up_reserve
from tierbench.submit.trial.joblog import Cluster, client_reasons
from tierbench.submit.trial.skip_repeats import look_again, tierbench
from tierbench.submit.trial.turn import pass_turn
from tierbench.trials import COMPLETE, SKIPPED, Attempt, Outcome, Trial, read_record, read_trial, to_record

STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
LONGEST_TRAILER = 4096
REMOVED = "4"  # DAGMan's word for "somebody has removed me"


def main(dag_status: str, failed_nodes: str) -> int:
    try:
        trial = read_trial(Path())
    except (OSError, ValueError) as error:
        print(f"finish: trial.json: {error}", file=sys.stderr)
        return 2
    give_up_reserve(Path())
    # Who reads on does it in the next trial's time, so the turn is passed when all have gone.
    stuck = see_out(trial.limits.stop_s)
    if not Path(names.BEGUN).exists():  # it was waiting for its turn
        pass_turn(Path.cwd())
        if Path(names.NOT_NEEDED).exists() and dag_status != REMOVED:
            record(SKIPPED, [])
            return 0
        if dag_status == REMOVED:
            return 1  # nothing has happened that could be told
    Path(names.STOP).write_text("stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    stuck += wait_until_restored(Path(), trial.conditions, trial.limits.stop_s)
    cleared = clear(trial)
    pass_turn(Path.cwd())
    unfinished = wait_for_samplers(trial)
    record_clock()

    reasons = ["the trial was removed"] if dag_status == REMOVED else []
    reasons += called_off()
    causes = client_reasons(trial.jobs)
    reasons += causes + stuck + cleared.wrong
    # Without another host's samples the mean stands; the tables say whether they cover the window.
    storage = {sampler.host for sampler in trial.samplers if sampler.of_storage}
    reasons += [f"the sampler on {host} did not end in order" for host in unfinished if host in storage]
    if failed_nodes != "0" and not reasons:
        reasons.append(f"{failed_nodes} nodes of the trial's DAG failed; see trial.dag.dagman.out")
    again = bool(reasons) and dag_status != REMOVED and tries_left() > 0
    record("incomplete" if reasons else COMPLETE, reasons, again, cleared.left)
    os.nice(19)  # the next trial begins meanwhile, perhaps on these cores
    no_tables = make_tables()
    if trial.until_known:
        look_again(Path.cwd(), trial.until_answered)
    for words in no_tables + reasons + ["left behind: " + left for left in cleared.left]:
        print(ascii(words))
    return 1 if reasons else 0


def see_out(seconds: float) -> "list[str]":
    """Wait until the trial's jobs have left the queue, and have those forgotten that cannot be ended; in words, these.

    All but those of a trial that was removed or called off have left it before.
    """
    clusters = [Cluster(Path(log)) for log in (names.CLIENTS_LOG, names.FLUSH_LOG, names.OUTBOX_LOG)]

    def left() -> "list[Cluster]":
        for cluster in clusters:
            cluster.read_on()
        return [cluster for cluster in clusters if cluster.left]

    if poll(lambda: not left(), seconds, POLL_SECONDS):
        return []
    stuck = []
    for cluster in left():
        numbers = ", ".join(f"{cluster.number}.{job} ({cluster.slots.get(job, 'no slot')})" for job in cluster.left)
        command = ["condor_rm", "-forcex", str(cluster.number)]
        try:
            # Those that are not removed yet have to be before they can be forgotten.
            subprocess.call(["condor_rm", str(cluster.number)], stdout=subprocess.DEVNULL, timeout=seconds)
            forgotten = subprocess.call(command, stdout=subprocess.DEVNULL, timeout=seconds) == 0
        except (OSError, subprocess.TimeoutExpired):
            forgotten = False
        then = "were forgotten by HTCondor" if forgotten else f"are in the queue still; `{' '.join(command)}` helps"
        stuck.append(f"jobs {numbers} did not end within {seconds:g} s of being removed and {then}")
    return stuck


def called_off() -> "list[str]":
    """Why the gate has ended the trial, if it has."""
    try:
        return [json.loads(Path(names.CALLED_OFF).read_text())["reason"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        return ["the gate has called it off"]


def tries_left() -> int:
    """How often DAGMan will start the trial again if it fails."""
    try:
        return int(read_record(Attempt, Path(names.ATTEMPT)).left)
    except (OSError, ValueError, TypeError):
        return 0


def wait_for_samplers(trial: Trial) -> "list[str]":
    """Give the samplers time to see the stop file; the hosts whose data have no proper end by then."""
    # One over ssh sees no stop file: it ends, without a trailer, when DAGMan removes its node after us.
    awaited = [sampler.host for sampler in trial.samplers if sampler.via == "pool"]
    poll(lambda: all(map(ended, awaited)), STOP_SECONDS, POLL_SECONDS)
    return [host for host in awaited if not ended(host)]


def ended(host: str) -> bool:
    """Whether a sample file has its trailer."""
    try:
        with Path(names.sample_file(host)).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_TRAILER))
            last = file.read().rstrip().rpartition(b"\n")[2]
    except FileNotFoundError:
        return False
    try:
        return bool(json.loads(last.decode())["tierbench"] == "end")
    except (ValueError, KeyError, TypeError):
        return False


def make_tables() -> "list[str]":
    """Where tierbench is installed the trial's tables are made at once; elsewhere, how they can be made later."""
    command, run = tierbench(), Path.cwd().parent.parent
    if not command:
        why = "there is no tierbench on the PATH of " + socket.gethostname()
    else:
        status = subprocess.call([command, "tables", "--trial", "."])
        if not status:
            return []
        why = "`" + command + " tables --trial " + str(Path.cwd()) + "` has ended with exit status " + str(status)
    line = "no tables were made: " + why + "; `tierbench tables " + str(run) + "`, where it is installed, makes them"
    (run / names.NO_TABLES).write_text(line + "\n")
    return [line]


def record_clock() -> None:
    """How this host's wall clock stands to its uptime, to which the hosts have compared theirs."""
    with contextlib.suppress(OSError):  # the trial's outcome is worth more than its clock
        Path(names.CLOCK).write_text(json.dumps({"format": 1, **clock_bounds()}) + "\n")


def record(state: str, reasons: "list[str]", again: bool = False, left: "tuple[str, ...] | list[str]" = ()) -> None:
    """How the trial went.

    The first reason is the first cause; `again`: it will be tried once more; `left`: what it wrote and is there still.
    """
    outcome = Outcome(state, reasons, again, list(left))
    replace(names.OUTCOME, json.dumps(to_record(outcome), indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
