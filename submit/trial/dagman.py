"""Which DAGMan is at work in a directory, by what it leaves there.

A process number alone may be another process's by now, and a directory that was copied holds the original's: so
the process must have begun when the one recorded did, or have this lock among its arguments, and must work in this
very directory.
Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import re
from pathlib import Path

from tierbench import names
from tierbench.files import text_of

# DAGMan's words in its own log; each refusal follows the line with the node.
REFUSED = re.compile(r"Shortcutting node (\S+) retries because of submit failure")
ERRORS = r"(?: ERROR: (?:.* failed to create job classad\n.* submit error: )?| Failed to submit job {0}: )"
REFUSAL = r"Submitting node {0} from file .*\n.*?" + ERRORS + "(.*)"
LOCK = ".lock"  # what DAGMan appends to its DAG's name


def at_work(trial: Path) -> bool:
    return is_held(trial / names.DAGMAN_LOCK)


def is_held(lock: Path) -> bool:
    """Whether the DAGMan is alive whose process or job number is in a lock file, which stays if it dies."""
    text = text_of(lock)
    if text.strip().isdigit():  # HTCondor 25 writes its job's number
        pid = _logged_process(lock)
        return _has_argument(pid, lock.name) and _works_in(pid, lock.parent)
    record = dict(re.findall(r"^(PID|BDAY|PRECISION) = (\d+)$", text, re.MULTILINE))
    pid = record.get("PID", "")
    since = _start_ticks(pid) if pid else ""
    if not since:
        return False
    if "BDAY" in record and abs(int(since) - int(record["BDAY"])) > int(record.get("PRECISION", 0)):
        return False
    return _works_in(pid, lock.parent)


def claim(trial: Path, dagman: int, given_up: bool) -> bool:
    """Take a trial for a DAGMan of the run, unless it is another one's that is alive and has not given it up."""
    run = trial.parent.parent
    mine = f"{dagman} {_start_ticks(str(dagman))}\n"
    path = trial / names.CLAIM
    holder = text_of(path)
    pid, _, started = holder.strip().partition(" ")
    if holder != mine and not given_up and pid and _start_ticks(pid) == started and _works_in(pid, run):
        return False
    path.write_text(mine)
    return True


def refusal(dagman_log: Path) -> str:
    """The node whose jobs DAGMan has given up submitting, and the last words by which they were refused."""
    try:
        log = dagman_log.read_text(errors="replace").rpartition("** PID = ")[2]  # of this start of it
    except OSError:
        return ""
    given_up = REFUSED.search(log)
    if not given_up:
        return ""
    errors = re.findall(REFUSAL.format(re.escape(given_up.group(1))), log)
    return given_up.group(1) + ": " + (errors[-1].strip() if errors else f"see {dagman_log}")


def _logged_process(lock: Path) -> str:
    """The process number of the DAGMan that was started last, by its log."""
    try:
        pid = lock.with_suffix(".dagman.out").read_bytes().rpartition(b"** PID = ")[2].partition(b" ")[0]
    except OSError:
        return ""
    return pid.decode() if pid.isdigit() else ""


def _has_argument(pid: str, argument: str) -> bool:
    try:
        return bool(pid) and argument.encode() in (Path("/proc") / pid / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _start_ticks(pid: str) -> str:
    """When a process began, in ticks since this machine did; "" where there is none."""
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _works_in(pid: str, directory: Path) -> bool:
    try:
        return Path("/proc", pid, "cwd").samefile(directory)
    except FileNotFoundError:
        return False
    except OSError:  # somebody else's process, which alone can be seen to be there
        return True
