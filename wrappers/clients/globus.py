"""Globus' transfer service copies files from one collection to another, as globus-cli asks it to."""

import site
import sys
from collections.abc import Mapping
from typing import Any

from tierbench.wrappers.child import Failure, Run, total
from tierbench.wrappers.client import Client, Option, check_size

SCHEME = "globus://"
MOST_FILES = 10_000  # in one task
DETAILS = (
    "status", "files", "files_transferred", "files_skipped", "faults", "effective_bytes_per_second", "request_time",
    "completion_time", "nice_status_short_description", "bytes_checksummed", "subtasks_failed", "subtasks_retrying",
)  # fmt: skip

# What it knows of the task it leaves in a file. A job that is ended takes its task back: it waits for the answer to
# its submission, which names the task, and then for that to its question. Neither is in a process group of the job's.
COPY = """
import json, signal, subprocess, sys
report, patience, *transfer = sys.argv[1:]
task, status, ended, waiting = "", {}, [], None

def start(*words, **how):
    return subprocess.Popen(["globus", *words], start_new_session=True, **how)

def ask(*words):
    program = start(*words, "--format", "json", stdout=subprocess.PIPE)
    answer, _ = program.communicate()
    if program.returncode:
        sys.exit(program.returncode)
    return json.loads(answer.decode())

def on_end(*_):
    ended.append(True)
    if task:
        sys.exit(143)

signal.signal(signal.SIGTERM, on_end)
try:
    task = ask("transfer", *transfer)["task_id"]
    if ended:
        sys.exit(143)
    waiting = start("task", "wait", "--polling-interval", "1", "--timeout", patience, task)
    waiting.wait()
    status = ask("task", "show", task)
    with open(report, "w") as file:
        json.dump(status, file)
finally:
    if waiting and waiting.poll() is None:
        waiting.kill()
    if task and status.get("status") not in ("SUCCEEDED", "FAILED"):
        start("task", "cancel", task, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
"""


class Globus(Client):
    """All files of a process as one task, which goes past it: the service steers the two collections' servers."""

    protocols = ("globus",)
    third_party = True
    reads_whole = True
    usual_excess = 0.02
    taken_in = "bytes_app"
    memory_mb = 256
    grace_s = 20  # two starts of globus-cli, which on a busy worker takes seconds
    programs = ("globus",)
    remedy = "install globus-cli there (PyPI), and give the workload GLOBUS_CLI_CLIENT_ID and GLOBUS_CLI_CLIENT_SECRET"
    options = {
        "verify": Option(True, meaning="the service compares checksums; that time counts"),
        "encrypt": Option(False, meaning="the data are encrypted"),
        "patience_s": Option(86_400, 60, 604_800, meaning="for how long the task may take"),
    }

    @classmethod
    def several(cls, options: "Mapping[str, Any]") -> int:
        return MOST_FILES

    def prepare(self) -> None:
        for url, what in ((self.job.url, "from"), (self.job.options["to"], "to")):
            if not url.startswith(SCHEME):
                raise Failure("wrong-protocol", f"Globus is to copy {what} a collection ({SCHEME}ID/path), not {url!r}")

    def command(self) -> "list[str]":
        options, batch = self.job.options, self.job.scratch / "batch"
        source, _ = _collection(self.job.url)
        destination, folder = _collection(options["to"])
        paths = [_collection(url)[1] for url, _ in self.job.files]
        batch.write_text("".join(f"{path} {folder}/{path.rpartition('/')[2]}\n" for path in paths))
        transfer = ["--batch", str(batch), "--notify", "off", "--label", "tierbench"]
        transfer += ["--verify-checksum" if options["verify"] else "--no-verify-checksum"]
        transfer += ["--encrypt-data"] if options["encrypt"] else []
        # Its tokens are for two days, and go with the job.
        at_home = ["env", f"HOME={self.job.scratch}", f"PYTHONUSERBASE={site.getuserbase()}"]
        copy = [sys.executable or "python3", "-c", COPY, str(self.job.scratch / "task"), str(options["patience_s"])]
        return [*at_home, *copy, *transfer, source, destination]

    def outcome(self, run: Run) -> "dict[str, Any]":
        task = self.job.report("task")
        if not task:  # it was ended, or not even accepted
            return {**self.judged(run, 0 if run.exit_status else None), "bytes_source": "globus"}
        moved, files = int(task.get("bytes_transferred") or 0), self.job.files
        status, message = check_size(moved, total(size for _, size in files), "moved {} of {} bytes")
        if task["status"] != "SUCCEEDED":
            why = (task.get("fatal_error") or {}).get("description") or task.get("nice_status") or "no reason given"
            status, message = "short-read" if moved else "open-failed", f"the task is {task['status']}: {why}"
        elif int(task.get("files_transferred") or 0) != len(files):
            status, message = "short-read", f"{task.get('files_transferred')} of {len(files)} files were transferred"
        whole = files if status == "ok" else []
        fetches = [{"status": "ok", "message": "", "bytes": size or 0, "seconds": None} for _, size in whole]
        return {
            "status": status, "message": message, "bytes_app": moved, "bytes_client": None, "bytes_source": "globus",
            "fetches": fetches, "detail": {key: task[key] for key in DETAILS if key in task},
        }  # fmt: skip


def _collection(url: str) -> "tuple[str, str]":
    """A collection's ID, and a path on it."""
    collection, _, path = url[len(SCHEME) :].partition("/")
    return collection, f"/{path}"
