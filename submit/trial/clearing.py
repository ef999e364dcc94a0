"""What becomes of the files that a trial has written: a job looks through them and removes them, whatever has happened.

It is a job of its own, submitted by the trial's last step, so that it runs when all else is over or lost, and on any
worker of the trial's pool; if one does not do it, on another. Shipped to the run directory; stdlib only, Python 3.6 or
newer.
"""

import contextlib
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from tierbench import names
from tierbench.submit.trial.joblog import Cluster, last_record
from tierbench.trials import Trial

SLOT_SECONDS = 120.0  # for it to find a slot; the pool has just had all of the trial's clients
RUN_SECONDS = 900.0
POLL_SECONDS = 0.1
TRIES = 2
SUBMITTED = re.compile(r"^(\d+)\.0 - ", re.MULTILINE)
EXPECTED = "outbox/expected.txt"


class Cleared(NamedTuple):
    """What of the files was not as it was written, and what could not be removed; in words."""

    wrong: "list[str]"
    left: "list[str]"


def clear(trial: Trial) -> Cleared:
    """Have the outbox of the trial here looked through and removed, if it may have come to have one."""
    if not trial.writes or not Path(names.OUTBOX_LOG).exists():
        return Cleared([], [])
    whole = expected(trial.jobs) if trial.does == "writes" else []
    Path(EXPECTED).write_text("".join(whole), encoding="utf-8")
    trouble, avoided = "", lost_workers()
    for _ in range(TRIES):
        report, trouble, slot = one_try(trial, avoided)
        if report:
            left = [f"{report['left_files']} of the files written: {', '.join(report['left'])}"]
            wrong = [f"{report['wrong_files']} files are not as they were written: {', '.join(report['wrong'])}"]
            return Cleared(wrong if report["wrong_files"] else [], left if report["left_files"] else [])
        avoided = [*avoided, machine_of(slot)] if slot else []  # no other worker may be left
    return Cleared([], [f"{trial.writes['url']}: {trouble}"])


def expected(jobs: int) -> "list[str]":
    """Lines of what the clients that ended well have written: URL, size, and where a client tells it the checksum."""
    lines = [line.split("\t") for line in Path(names.REPLICAS).read_text(encoding="utf-8").splitlines()]
    each = max(1, len(lines) // jobs)
    sizes, checksums, unwritten = {}, {}, set()  # type: dict[str, int], dict[str, set[str]], set[str]
    for job in range(jobs):
        end = last_record(Path(names.client_output(job))) or {}
        well = (end.get("event"), end.get("status")) == ("end", "ok")
        for url, size, *_ in lines[job * each : (job + 1) * each]:
            if not well:
                unwritten.add(url)
            elif int(size):
                checksums.setdefault(url, set()).add(str((end.get("detail") or {}).get("adler32") or ""))
                sizes[url] = sizes.get(url, 0) + int(size)
    own = each == 1  # else a client's one checksum is not that of each of its files
    return [
        f"{url}\t{size}\t{min(checksums[url]) if own and len(checksums[url]) == 1 else ''}\n"
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
    with contextlib.suppress(FileNotFoundError):
        Path(names.CLEARED).unlink()
    requirements = trial.requirements
    for machine in avoided:
        requirements = f'({requirements}) && Machine != "{machine}"'
    own = trial.credentials
    macros = {
        "step": "clear", "flags": f"--expected {Path(EXPECTED).name} {own.flags}",
        "files": "".join(f", {path}" for path in (EXPECTED, *own.files)),
        "pool_requirements": requirements, "slot_limit": round(SLOT_SECONDS), "run_limit": round(RUN_SECONDS),
    }  # fmt: skip
    if own.service:
        macros["service"] = own.service
    command = ["condor_submit", "-terse", "../../submit/outbox.sub"]
    for name, value in macros.items():
        command += ["-a", f"{name} = {value}"]
    try:
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SLOT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"no job could be submitted: {error}", ""
    said = run.stdout.decode(errors="replace").strip()
    submitted = SUBMITTED.search(said)
    if not submitted:
        return {}, f"no job could be submitted: {said}", ""
    number = int(submitted.group(1))
    cluster, deadline = Cluster(Path(names.OUTBOX_LOG)), time.monotonic() + SLOT_SECONDS + RUN_SECONDS
    while not (cluster.number == number and cluster.ended):
        cluster.read_on()
        away = [job.since for job in cluster.away.values() if time.monotonic() - job.since > POLL_SECONDS]
        if time.monotonic() > deadline or away:
            subprocess.call(["condor_rm", str(number)], stdout=subprocess.DEVNULL)
            break
        time.sleep(POLL_SECONDS)
    slot = cluster.slots.get(0, "")
    try:
        report = json.loads(Path(names.CLEARED).read_text(encoding="utf-8"))  # type: dict[str, Any]
    except (OSError, ValueError):
        return {}, f"the job {number}.0 {cluster.ended.get(0) or 'has left no report'}", slot
    return (report, "", slot) if report.get("status") == "ok" else ({}, str(report.get("message")), slot)
