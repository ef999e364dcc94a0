#!/usr/bin/env python3
"""The last step of a trial: sees all jobs out, says how it went, has its tables made.

usage: finish.py DAG_STATUS FAILED_COUNT      (in the trial's directory on the access point)

It is the FINAL node of the trial's DAG, so it runs after failures and after condor_rm too, and its exit status is
the trial's. What stop.py could not do, because it was removed, it does: the samplers stopped, the lock given on. It
may run more than once. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 every client has read its file and the storage's samples are whole; 1 not so, and
outcome.json says why; 2 trial.json cannot be read
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tierbench import names, trials
from tierbench.condition_state import wait_until_restored
from tierbench.files import poll, replace, unlink
from tierbench.host import clock_bounds
from tierbench.submit.trial.disk_reserve import give_up_reserve
from tierbench.submit.trial.joblog import Cluster, client_reasons, last_record, report
from tierbench.submit.trial.lock import keep_lock, release_lock
from tierbench.submit.trial.skip_repeats import look_again, tierbench
from tierbench.trials import COMPLETE, INCOMPLETE, SKIPPED, Outcome, Trial, read_trial, record_or, record_text

STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
LONGEST_TRAILER = 4096
SLOT_SECONDS = 120.0  # for the job that clears to find a slot; the pool has just had all of the trial's clients
RUN_SECONDS = 900.0  # and for what it reads:
SLOWEST_BYTES = 10e6  # a second
TRIES = 2
SUBMITTED = re.compile(r"^(\d+)\.0 - ", re.MULTILINE)
EXPECTED = "outbox/expected.txt"
REMOVED = "4"  # DAGMan's word for "somebody has removed me"


def main(dag_status: str, failed_nodes: str) -> int:
    try:
        trial = read_trial(Path())
    except (OSError, ValueError) as error:
        print(f"finish: trial.json: {error}", file=sys.stderr)
        return 2
    try:
        return finish(trial, dag_status, failed_nodes)
    except Exception as error:
        traceback.print_exc()
        release_lock(Path.cwd())
        if not Path(names.OUTCOME).exists():
            record([f"the last step failed: {error}"], [], dag_status)
        return 0 if record_or(Outcome(""), Path(names.OUTCOME)).is_final else 1


def finish(trial: Trial, dag_status: str, failed_nodes: str) -> int:
    # Who reads on does it in the next trial's time, so the lock is given on when all have gone.
    stuck = see_out(trial.limits.stop_s)
    give_up_reserve(Path())
    if not Path(names.BEGUN).exists():  # it was waiting for the lock
        release_lock(Path.cwd())
        if Path(names.NOT_NEEDED).exists() and dag_status != REMOVED:
            replace(names.OUTCOME, record_text(Outcome(SKIPPED)))
            return 0
        if dag_status == REMOVED:
            return 1  # nothing has happened that could be recorded
    with contextlib.suppress(OSError):  # what the trial wrote is to be removed though the disk is full
        if not Path(names.STOP).exists():
            Path(names.STOP).write_text("stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    stuck += wait_until_restored(Path(), trial.conditions, trial.limits.stop_s)
    wrong_files, left_files = clear(trial)
    release_lock(Path.cwd())
    unfinished = wait_for_samplers(trial)
    with contextlib.suppress(OSError):  # the trial's outcome is worth more than its clock
        Path(names.CLOCK).write_text(record_text(trials.Clock(**clock_bounds())))

    reasons = ["the trial was removed"] if dag_status == REMOVED else []
    if Path(names.CALLED_OFF).exists():
        reasons.append(record_or(trials.CalledOff("the gate has called it off"), Path(names.CALLED_OFF)).reason)
    reasons += client_reasons(trial.jobs) + stuck + wrong_files
    # Without another host's samples the mean stands; the tables say whether they cover the window.
    storage = {sampler.host for sampler in trial.samplers if sampler.of_storage}
    reasons += [f"the sampler on {host} did not end in order" for host in unfinished if host in storage]
    if failed_nodes != "0" and not reasons:
        reasons.append(f"{failed_nodes} nodes of the trial's DAG failed; see {names.DAGMAN_LOG}")
    record(reasons, left_files, dag_status)
    step_aside()
    no_tables = make_tables()
    if trial.until_known:
        look_again(Path.cwd(), trial.until_answered)
    for words in no_tables + reasons + ["left behind: " + words for words in left_files]:
        print(ascii(words))
    return 1 if reasons else 0


def record(reasons: "list[str]", left_files: "list[str]", dag_status: str) -> None:
    """The trial's outcome: complete, or why not."""
    attempt = record_or(trials.Attempt(), Path(names.ATTEMPT))
    again = bool(reasons) and dag_status != REMOVED and attempt.left > 0
    replace(names.OUTCOME, record_text(Outcome(INCOMPLETE if reasons else COMPLETE, reasons, again, left_files)))


def see_out(seconds: float) -> "list[str]":
    """Wait until the trial's jobs have left the queue, and have those forgotten that cannot be ended; in words, these.

    All but those of a trial that was removed or called off have left it before.
    """
    clusters = [Cluster(Path(log)) for log in (names.CLIENTS_LOG, names.FLUSH_LOG, names.WRITE_AREA_LOG)]

    def in_queue() -> "list[Cluster]":
        for cluster in clusters:
            cluster.read_on()
        return [cluster for cluster in clusters if cluster.left]

    if poll(lambda: not in_queue(), seconds, POLL_SECONDS):
        return []
    stuck = []
    for cluster in in_queue():
        numbers = ", ".join(f"{cluster.number}.{job} ({cluster.slots.get(job, 'no slot')})" for job in cluster.left)
        remains = f"are in the queue still; `condor_rm -forcex {cluster.number}` helps"
        then = "were forgotten by HTCondor" if forget(str(cluster.number), seconds) else remains
        stuck.append(f"jobs {numbers} did not end within {seconds:g} s of being removed and {then}")
    return stuck


def forget(jobs: str, seconds: float) -> bool:
    """Have HTCondor forget jobs that do not end; those that are not removed yet have to be before."""
    try:
        subprocess.call(["condor_rm", jobs], stdout=subprocess.DEVNULL, timeout=seconds)
        return subprocess.call(["condor_rm", "-forcex", jobs], stdout=subprocess.DEVNULL, timeout=seconds) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def wait_for_samplers(trial: Trial) -> "list[str]":
    """Give the samplers time to see the stop file; the hosts whose data have no proper end by then."""
    # One over ssh sees no stop file: it ends, without a trailer, when DAGMan removes its node after us.
    hosts = [sampler.host for sampler in trial.samplers if sampler.via == "pool"]
    stop = Path(names.STOP)  # a step that is started again has waited before
    waited_s = time.time() - stop.stat().st_mtime if stop.exists() else 0.0
    poll(lambda: all(map(has_ended, hosts)), max(0.0, min(STOP_SECONDS, STOP_SECONDS - waited_s)), POLL_SECONDS)
    cluster = Cluster(Path(names.SAMPLERS_LOG))
    cluster.read_on()
    for job in cluster.away.keys() - cluster.paused:  # of a worker that is lost HTCondor keeps it for most of an hour
        forget(f"{cluster.number}.{job}", trial.limits.stop_s)
    return [host for host in hosts if not has_ended(host)]


def has_ended(host: str) -> bool:
    return last_record(Path(names.sample_file(host)), LONGEST_TRAILER).get("tierbench") == "end"


def step_aside() -> None:
    """Leave the cores to the next trial, which begins meanwhile."""
    os.nice(19)
    with contextlib.suppress(OSError):
        os.setsid()  # Linux shares cores among sessions; what a process is worth counts within its own only
        Path("/proc/self/autogroup").write_text("19")


def make_tables() -> "list[str]":
    """Where tierbench is installed the trial's tables are made at once; elsewhere, how they can be made later."""
    command, run = tierbench(), Path.cwd().parent.parent
    if not command:
        why = "there is no tierbench on the PATH of " + socket.gethostname()
    else:
        status = subprocess.call([command, "tables", "--trial", "."])
        if not status:
            return []
        why = f"`{command} tables --trial {Path.cwd()}` has ended with exit status {status}"
    line = f"no tables were made: {why}; `tierbench tables {run}`, where it is installed, makes them"
    (run / names.NO_TABLES).write_bytes(os.fsencode(line + "\n"))
    return [line]


def clear(trial: Trial) -> "tuple[list[str], list[str]]":
    """Have the write area of the trial here looked through and removed, by a job on any worker of the trial's pool.

    In words what of its files was not as it was written, and what could not be removed.
    """
    if not trial.writes or not Path(names.WRITE_AREA_LOG).exists():
        return [], []
    whole = expected(trial.jobs) if trial.does == "writes" else []
    with contextlib.suppress(OSError):
        Path(EXPECTED).write_text("".join(whole), encoding="utf-8")
    trouble, avoided = "", lost_workers()
    before = report(names.CLEARED)  # before DAGMan was killed: all has gone, and would be missed
    for _ in range(TRIES):
        cleared, trouble, slot = (before, "", "") if before.get("status") == "ok" else one_try(trial, avoided)
        if cleared:
            left = [f"{cleared['left_files']} of the files written: {', '.join(cleared['left'])}"]
            wrong = [f"{cleared['wrong_files']} files are not as they were written: {', '.join(cleared['wrong'])}"]
            return wrong if cleared["wrong_files"] else [], left if cleared["left_files"] else []
        avoided = [*avoided, machine_of(slot)] if slot else []  # no other worker may be left
    return [], [f"{trial.writes['url']}: {trouble}"]


def expected(jobs: int) -> "list[str]":
    """Lines of what the clients that ended well have written: URL, size, and where a client tells it the checksum."""
    lines = [line.split("\t") for line in Path(names.REPLICAS).read_text(encoding="utf-8").splitlines()]
    files_per_job = max(1, len(lines) // jobs)
    sizes, checksums, unwritten = {}, {}, set()  # type: dict[str, int], dict[str, set[str]], set[str]
    for job in range(jobs):
        end = last_record(Path(names.client_output(job)))
        well = (end.get("event"), end.get("status")) == ("end", "ok")
        for url, size, *_ in lines[job * files_per_job : (job + 1) * files_per_job]:
            if not well:
                unwritten.add(url)
            elif int(size):
                checksums.setdefault(url, set()).add(str((end.get("detail") or {}).get("adler32") or ""))
                sizes[url] = sizes.get(url, 0) + int(size)
    single = files_per_job == 1  # else a client's one checksum is not that of each of its files
    return [
        f"{url}\t{size}\t{min(checksums[url]) if single and len(checksums[url]) == 1 else ''}\n"
        for url, size in sizes.items()
        if url not in unwritten  # of a file that several write, all of them have to have done so
    ]


def lost_workers() -> "list[str]":
    """Those that HTCondor has lost the trial's clients on: it would go on offering them for minutes."""
    cluster = Cluster(Path(names.CLIENTS_LOG))
    cluster.read_on()
    return sorted({machine_of(cluster.slots[job]) for job in cluster.causes if cluster.slots.get(job)})


def machine_of(slot: str) -> str:
    return slot.rpartition("@")[2]


def one_try(trial: Trial, avoided: "list[str]") -> "tuple[dict[str, Any], str, str]":
    """The report, if a job has made it, or why not; and the slot that it had."""
    unlink(names.CLEARED)
    requirements = trial.requirements
    for machine in avoided:
        requirements = f'({requirements}) && Machine != "{machine}"'
    who, run_s = trial.credentials, RUN_SECONDS + (trial.writes or {}).get("bytes", 0) / SLOWEST_BYTES
    macros = {
        "step": "clear", "flags": f"--expected {Path(EXPECTED).name} {who.flags}",
        "files": "".join(f", {path}" for path in (EXPECTED, *who.files)),
        "pool_requirements": requirements, "slot_limit": round(SLOT_SECONDS), "run_limit": round(run_s),
    }  # fmt: skip
    if who.service:
        macros["service"] = who.service
    command = ["condor_submit", "-terse", "../../submit/outbox.sub"]
    for name, value in macros.items():
        command += ["-a", f"{name} = {value}"]
    try:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # type: dict[str, Any]
        run = subprocess.run(command, timeout=SLOT_SECONDS, check=False, **both)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"no job could be submitted: {error}", ""
    answer = run.stdout.decode(errors="replace").strip()
    submitted = SUBMITTED.search(answer)
    if not submitted:
        return {}, f"no job could be submitted: {answer}", ""
    number = int(submitted.group(1))
    cluster, deadline = Cluster(Path(names.WRITE_AREA_LOG)), time.monotonic() + SLOT_SECONDS + run_s
    while not (cluster.number == number and cluster.ended):
        cluster.read_on()
        away = [job.since for job in cluster.away.values() if time.monotonic() - job.since > POLL_SECONDS]
        if time.monotonic() > deadline or away:
            subprocess.call(["condor_rm", str(number)], stdout=subprocess.DEVNULL)
            break
        keep_lock(Path.cwd())  # for reading what was written there is no limit of trial.json
        time.sleep(POLL_SECONDS)
    slot = cluster.slots.get(0, "")
    cleared = report(names.CLEARED)
    if cleared.get("status") == "ok":
        return cleared, "", slot
    left = f"the job {number}.0 {cluster.ended.get(0) or 'has left no report'}"
    why = str(cleared.get("message")) if cleared else left
    return {}, why, slot


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
