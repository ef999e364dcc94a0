"""The doctor's small jobs: one per host, submitted together, and gone with all they made when they are done with."""

import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench import json_files
from tierbench.dags.clients import ClientFile, as_parts
from tierbench.files import poll
from tierbench.json_files import Damaged
from tierbench.single_file_script import single_file
from tierbench.site_configs.site import Submission
from tierbench.submit import pool
from tierbench.submit.console import warn
from tierbench.submit.pool import PoolError, plain_errors
from tierbench.submit.questions import Visit

QUIET_SECONDS = 2.0
SAY_EVERY_SECONDS = 10.0
REMOVAL_SECONDS = 20.0
FORGOTTEN_SECONDS = 900  # after the time they may take jobs remove themselves, should nobody be left to do it

SUBMIT = {
    "arguments": "-",
    "input": "$(Process)/questions.json",
    "stream_input": "True",  # read here when the job has begun, and written here as soon as it is said: that bounds
    "transfer_input_files": "$(files)",
    "should_transfer_files": "YES",
    "when_to_transfer_output": "ON_EXIT",
    "output": "$(Process)/answers",
    "stream_output": "True",  # the host's clock from both sides
    "error": "$(Process)/errors",
    "log": "jobs.log",
    "requirements": "($(pinned))",
    "request_cpus": "1",
    "request_memory": "64M",
    "request_disk": "1024K",
    "My.TierbenchService": "True",
    "My.WantIOProxy": "True",
    "My.JobBatchName": '"tierbench-doctor"',
}


@dataclass(frozen=True)
class Clock:
    """How far a host's clock may be ahead of ours: it lies between the two, in seconds."""

    least: float
    most: float

    @property
    def agrees(self) -> bool:
        return self.least <= 0 <= self.most

    @property
    def resolution(self) -> float:
        return max(-self.least, self.most)


@dataclass(frozen=True)
class Report:
    """What came back from a host: the answers, in the questions' order, or why there are none."""

    answers: tuple[Mapping[str, Any], ...] = ()
    clock: Clock | None = None
    trouble: str = ""
    host: str = ""  # as it calls itself


# The file system's times are those of the kernel's tick, which is behind the clock by up to this.
TICK_S = 0.010


def clock(sent: float, begin: float, end: float, received: float) -> Clock:
    """Bounds from our times of sending and receiving, and the host's times in between them."""
    return Clock(least=end - received - TICK_S, most=begin - sent)


class Jobs:
    """A cluster of probes in the queue, with a directory of its own."""

    def __init__(self, directory: Path, hosts: Sequence[str], log: Any) -> None:
        self._directory, self.hosts, self._log = directory, hosts, log
        self._ended: dict[int, str] = {}
        self._executing: set[int] = set()

    def wait(self, seconds: float, say: Callable[[str], None]) -> dict[str, Report]:
        """The reports of all that come within so many seconds."""
        begin = last = time.monotonic()
        while not self.all_ended and (elapsed := time.monotonic() - begin) < seconds:
            before = len(self._ended)
            self.look()
            news = len(self._ended) != before or time.monotonic() - last > SAY_EVERY_SECONDS
            if elapsed > QUIET_SECONDS and news and not self.all_ended:
                last = time.monotonic()
                missing = [host for number, host in enumerate(self.hosts) if number not in self._ended]
                waiting = f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
                done = f"{len(self._ended)} of {len(self.hosts)} hosts have answered"
                say(f"{done}, waiting for {waiting}; at most {seconds - elapsed:.0f} s more")
        return {host: self._report(number, seconds) for number, host in enumerate(self.hosts)}

    def look(self) -> None:
        """Take in what the jobs' log says, waiting a second at most for more of it."""
        with plain_errors("read the probes' log") as htcondor2:
            kind = htcondor2.JobEventType
            for event in self._log.events(stop_after=1):
                if event.type == kind.EXECUTE:
                    self._executing.add(event.proc)
                elif event.type == kind.JOB_TERMINATED:
                    self._ended[event.proc] = ""
                elif event.type == kind.JOB_HELD:
                    self._ended[event.proc] = f"its probe was put on hold: {event.get('HoldReason', 'no reason given')}"
                elif event.type == kind.JOB_ABORTED:  # after a hold, for that
                    why = event.get("Reason", "no reason given")
                    self._ended.setdefault(event.proc, f"its probe was removed: {why}")
                if self.all_ended:
                    return

    @property
    def all_ended(self) -> bool:
        return len(self._ended) == len(self.hosts)

    def first_line(self) -> str:
        """What the first job has said so far, up to the end of its first line."""
        with suppress(OSError):
            text = (self._directory / "0" / "answers").read_text(errors="replace")
            return text.partition("\n")[0] if "\n" in text else ""
        return ""

    def _report(self, number: int, seconds: float) -> Report:
        if number not in self._ended:
            what = "began and did not end" if number in self._executing else "was not started"
            return Report(trouble=f"its probe {what} within {seconds:.0f} s")
        if self._ended[number]:
            return Report(trouble=self._ended[number])
        folder = self._directory / str(number)
        answers = folder / "answers"
        errors = (folder / "errors").read_text(errors="replace") if (folder / "errors").exists() else ""
        # When HTCondor read the questions for the job, which is before they reached it; where the file system keeps no
        # such time it is when they were written, which is before that too.
        sent = (folder / "questions.json").stat().st_atime
        return read_report(answers.read_text(errors="replace"), errors, sent, answers.stat().st_mtime)


def read_report(output: str, errors: str, sent: float, received: float) -> Report:
    try:
        report = json_files.parse(output.strip().splitlines()[-1], "its report")
        begin, end = report["begin_wall_ns"] / 1e9, report["end_wall_ns"] / 1e9
        return Report(tuple(report["answers"]), clock(sent, begin, end, received), host=str(report["host"]))
    except (Damaged, KeyError, IndexError, TypeError):
        words = errors.strip().splitlines()
        return Report(trouble=f"its probe gave no answer: {words[-1] if words else 'it said nothing'}")


def script(clients: Iterable[ClientFile] = ()) -> str:
    return single_file("tierbench.wrappers.probe", as_parts(clients))


def submit_file(directory: Path, submission: Submission, universe: str, seconds: float) -> str:
    """What the pool asks of each job, and then what the probes are, which it cannot change."""
    own = {**SUBMIT, "universe": universe, "executable": str(directory / "probe.py"), "initialdir": str(directory)}
    own["periodic_remove"] = f"time() - QDate > {seconds + FORGOTTEN_SECONDS:.0f}"
    return "".join(f"{line}\n" for line in (*submission.lines, *(f"{key} = {value}" for key, value in own.items())))


@contextmanager
def submitted(
    visits: Sequence[Visit], submission: Submission, seconds: float, clients: Iterable[ClientFile] = (),
    universe: str = "vanilla", where: Path | None = None,
) -> Iterator[Jobs]:  # fmt: skip
    """Probes in the queue, one for each host with its questions, for so many seconds or somewhat longer.

    Afterwards neither they nor their files are left.
    """
    with tempfile.TemporaryDirectory(prefix=".tierbench-doctor-", dir=where, ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "probe.py").write_text(script(clients), encoding="utf-8")
        (directory / "probe.py").chmod(0o755)
        (directory / "jobs.log").touch()
        items = []
        for number, visit in enumerate(visits):
            (directory / str(number)).mkdir()
            file = directory / str(number) / "questions.json"
            file.write_text(json.dumps([question.to_json() for question in visit.questions]))
            # Newer than any access, so that each access is noted: the usual "relatime" notes the first only.
            os.utime(file, (time.time(), time.time() + FORGOTTEN_SECONDS))
            # Of a file that is not there its probe says so itself; it would be held for it.
            readable = ", ".join(file for file in visit.files if os.access(file, os.R_OK))
            items.append({"pinned": visit.requirements, "files": readable})
        with plain_errors("submit the probes") as htcondor2:
            log = htcondor2.JobEventLog(str(directory / "jobs.log"))
            description = htcondor2.Submit(submit_file(directory, submission, universe, seconds))
            cluster = int(htcondor2.Schedd().submit(description, itemdata=iter(items)).cluster())
        try:
            yield Jobs(directory, [visit.host for visit in visits], log)
        finally:
            try:
                own = f"ClusterId == {cluster}"
                pool.act("Remove", own, "tierbench doctor has ended")
                poll(lambda: not pool.jobs(own, ["ClusterId"]), REMOVAL_SECONDS)  # so that the files can go
            except PoolError as error:
                warn(f"tierbench: {error}; `condor_rm {cluster}` removes the probes")


def over_ssh(visits: Sequence[Visit], seconds: float, clients: Iterable[ClientFile] = ()) -> dict[str, Report]:
    """The reports of hosts that are not in the pool, asked all at once."""
    text = script(clients)
    with ThreadPoolExecutor(16) as threads:
        reports = threads.map(lambda visit: _over_ssh(visit, text, seconds), visits)
        return {visit.host: report for visit, report in zip(visits, reports, strict=True)}


def _over_ssh(visit: Visit, text: str, seconds: float) -> Report:
    questions = json.dumps([question.to_json() for question in visit.questions])
    remote = f"python3 - {shlex.quote(questions)}"
    command = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", visit.host, remote]
    # As the samplers' jobs ask: these have neither an agent nor a ticket.
    own = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    sent = time.time()
    try:
        result = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=seconds, check=False, env=own
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Report(trouble=f"ssh: {error}")
    return read_report(result.stdout, result.stderr, sent, time.time())
