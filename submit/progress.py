"""How far a run has come, read from its directory alone."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.plan import PlannedTrial, read_plan
from tierbench.dags.records import read_outcome
from tierbench.errors import ConfigError
from tierbench.host import own_name
from tierbench.postprocess.schema.columns import parted
from tierbench.postprocess.schema.rows import EVENTS, OPERATIONS, RATE, SUMMED, trial_column
from tierbench.postprocess.verdict.counting import INVALID
from tierbench.starts import IN_TURN
from tierbench.submit import pool
from tierbench.submit.trial.dagman import LOCK, at_work, is_held
from tierbench.submit.trial.joblog import Cluster
from tierbench.trials import SKIPPED, Outcome, Wait

BY_HAND = (
    "is at work, by a DAG that was submitted by hand, perhaps on another host: `condor_q -dag` there shows its job,"
    " `condor_rm JOB` ends it; if it is lost, remove its *.dag.lock"
)
FIRST = 3  # trials that are INVALID for one reason say that others will be
EVENT = re.compile(r'"event": "(\w+)"')
NUMBER = re.compile(r"\d+(\.\d+)?")


class Stage(Enum):
    WAITING = "waiting"
    PREPARING = "preparing"
    GATHERING = "clients gathering at the gate"
    READING = "reading"
    ENDING = "called off, ending"
    FINISHED = "finished"


@dataclass(frozen=True)
class TrialProgress:
    """One trial as its files tell it; the clients are counted only while it runs."""

    directory: Path
    name: str
    jobs: int
    stage: Stage
    ready: int = 0
    done: int = 0
    state: str = ""
    reasons: tuple[str, ...] = ()
    again: bool = False  # it has failed and will be tried once more
    waiting_for: str = ""  # what the gate waits for, if it does for long

    @property
    def batch(self) -> str:
        return self.name.rpartition(" #")[0]

    @property
    def configuration(self) -> str:
        return self.directory.name.rsplit(".", 2)[0]

    @property
    def judged(self) -> Judged | None:
        """What its own tables say of it, once they are made of this try."""
        made_ns = tables_made_ns(self.directory)
        return None if made_ns is None else _judged(self.directory, made_ns)

    @property
    def usable(self) -> bool:
        """Whether it enters the statistics, or may yet."""
        judged = self.judged
        return self.well and (judged is None or judged.verdict != INVALID)

    @property
    def well(self) -> bool:
        """Whether it has been measured, or need not be."""
        return bool(self.state) and Outcome(self.state).is_final

    def as_record(self) -> dict[str, Any]:
        """What `status` and `watch` give of it as JSON; what it waits for without the seconds, which change always."""
        return {
            "id": self.directory.name, "trial": self.name, "jobs": self.jobs, "stage": self.stage.value,
            "ready": self.ready, "done": self.done, "state": self.state, "reasons": list(self.reasons),
            "again": self.again, "waits_for": self.waiting_for.rpartition(", since ")[0],
        }  # fmt: skip


@dataclass(frozen=True)
class Judged:
    verdict: str
    reasons: tuple[str, ...]
    rate: float | None
    unit: str

    def __str__(self) -> str:
        return self.verdict if self.rate is None else f"{self.verdict}, {self.rate:.1f} {self.unit}"


def tables_made_ns(trial: Path) -> int | None:
    """When the tables of a trial's last try were made; None as long as they are not."""
    try:
        made_ns = (trial / names.TRIALS_CSV).stat().st_mtime_ns
        return made_ns if made_ns >= (trial / names.OUTCOME).stat().st_mtime_ns else None
    except FileNotFoundError:
        return None


@functools.lru_cache(maxsize=10_000)
def _judged(directory: Path, _when_ns: int) -> Judged | None:
    """By the trial's own trials.csv as it was at a time."""
    try:
        with (directory / names.TRIALS_CSV).open(encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file))
        reasons = parted(row["verdict_reasons"])
        rates = (SUMMED,) if row["started"] == IN_TURN else (RATE, EVENTS, OPERATIONS)
        first = next((name for name in rates if row[name]), None)
        rate, unit = (float(row[first]), trial_column(first).unit) if first else (None, "")
        return Judged(row["verdict"], reasons, rate, unit)
    except (OSError, StopIteration, KeyError, ValueError, csv.Error):  # which is reported where the tables are read
        return None


def hopeless(trials: Sequence[TrialProgress]) -> str:
    """Why all trials so far, of more, are INVALID: for one reason, or each configuration for one of its own."""
    ended = [trial for trial in trials if trial.stage is Stage.FINISHED and not trial.again and trial.state != SKIPPED]
    if not FIRST <= len(ended) < len(trials) or any(trial.usable for trial in ended):
        return ""
    of_each: dict[str, list[TrialProgress]] = {trial.configuration: [] for trial in trials}
    for trial in ended:
        of_each[trial.configuration].append(trial)
    if sum(map(bool, of_each.values())) < min(2, len(of_each)):
        return ""
    if reason := _common_reason(ended):
        return reason
    reasons = list(map(_common_reason, of_each.values())) if min(map(len, of_each.values())) >= FIRST else []
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def _common_reason(trials: Sequence[TrialProgress]) -> str:
    """A reason that all of these have, as the last one words it."""
    kinds = [{NUMBER.sub("", reason): reason for reason in (trial.judged or trial).reasons} for trial in trials]
    return next((reason for kind, reason in kinds[-1].items() if all(kind in others for others in kinds)), "")


def measuring() -> Iterator[tuple[Path, str]]:
    """The runs and nights that this access point has at work, and by whose job."""
    wanted = ["ClusterId", "Owner", "Iwd", "Arguments", "Args"]
    dags: list[dict[str, Any]] = []
    with contextlib.suppress(pool.PoolError):  # which whoever asks learns soon
        dags = pool.jobs("JobUniverse == 7 && JobStatus == 2 && DAGManJobId =?= undefined", wanted)
    for dag in dags:
        there, words = Path(str(dag.get("Iwd", ""))), f"{dag.get('Arguments', '')} {dag.get('Args', '')}"
        # Nobody looks into the folder: on a dead mount of somebody else's that would never end.
        if any(name in words for name in (names.EXPERIMENT_DAG, names.NIGHT_DAG)):
            yield there, f"job {dag['ClusterId']} of {dag.get('Owner', '?')}"


@dataclass(frozen=True)
class Submission:
    """submitted.json: the job that a run became, from where and when; earlier versions left the number alone."""

    cluster: int
    directory: str = ""
    host: str = ""
    wall_s: float = 0.0
    inode: int = 0  # of the directory, which may have several names
    format: int = 2

    @property
    def is_elsewhere(self) -> bool:
        return pool.is_elsewhere(self.host)

    @property
    def place(self) -> str:
        """Where its jobs were submitted, which may have another name by now; a night's DAG lies above its run."""
        run = Path(self.directory or "/")
        of_night = run.name == names.NIGHT_RUN and (run.parent / names.NIGHT_DAG).exists()
        return str(run.parent if of_night else run)

    def in_queue(self) -> bool:
        return pool.in_queue(self.cluster, self.place)


def check_run(directory: Path, needed: str = names.PLAN) -> None:
    """Refuse what is no run directory, before libraries are loaded, which takes a second."""
    if not directory.is_dir():
        raise ConfigError(f"{directory}: no such directory")
    if not (directory / needed).exists():
        raise ConfigError(f"{directory}: is not a run directory (it has no {needed}); `tierbench write` makes one")


class Run:
    def __init__(self, directory: Path) -> None:
        check_run(directory)
        self.directory = directory.absolute()
        self.plan = read_plan(self.directory)
        trials: list[PlannedTrial] = self.plan["trials"]
        if not trials:
            raise json_files.Damaged(f"{self.directory / names.PLAN} is damaged: it has no trials")
        self.trial_directories = [self.directory / names.trial_directory(trial["id"]) for trial in trials]

    @property
    def submission(self) -> Submission | None:
        """Once it was submitted by `tierbench run` or `submit`."""
        path = self.directory / names.SUBMITTED
        return json_files.read_as(Submission, path) if path.is_file() else None

    def record_submission(self, cluster: int, wall_s: float) -> None:
        record = Submission(cluster, str(self.directory.resolve()), own_name(), wall_s, self.directory.stat().st_ino)
        json_files.write(self.directory / names.SUBMITTED, record)

    @property
    def copy_of(self) -> str:
        """The directory that was submitted, if this is a copy of it."""
        own = self.submission
        if own is None or own.directory == str(self.directory.resolve()) or own.inode == self.directory.stat().st_ino:
            return ""
        return own.directory

    def check_here(self) -> None:
        """Refuse a run whose job is in another access point's queue."""
        if (own := self.submission) and own.is_elsewhere:
            raise ConfigError(f"{self.directory}: was submitted on {own.host}; do this there")

    @property
    def goes_on(self) -> bool:
        """Whether it is in the queue, or at work though it was submitted by hand."""
        own = None if self.copy_of else self.submission
        by_hand = any(map(self._is_held, self.directory.glob(f"*.dag{LOCK}")))
        by_hand = by_hand or any(map(at_work, self.trial_directories))
        return by_hand or (own is not None and own.in_queue())

    def _is_held(self, lock: Path) -> bool:
        """Whether a DAGMan is alive here, or may be elsewhere: its job has not ended, by HTCondor's log of it."""
        job = Cluster(lock.with_suffix(".dagman.log"))
        job.read_on()
        return is_held(lock) or (self.submission is None and bool(job.left))

    def become_its_own(self) -> None:
        """Forget, in a copy, what DAGMan has left of the original's being run; what was measured stays.

        DAGMan would read on in the original's logs, and wait for its jobs.
        """
        earlier = "turn", "turn.lock", "ahead"  # of earlier versions
        for left in ("*.dag.*", names.LOCK_HOLDER, names.LOCK_LOOK, *earlier, names.SUBMITTED):
            for path in self.directory.glob(left):
                path.unlink(missing_ok=True)

    def forget_lost_dagman(self) -> None:
        """Leave nothing from which DAGMan would take up what it was at when it was lost: jobs that are in no queue."""
        for lock in self.directory.glob(f"*.dag{LOCK}"):
            if not is_held(lock):
                lock.with_suffix(".nodes.log").unlink(missing_ok=True)
                lock.unlink()

    def trials(self) -> Iterator[TrialProgress]:
        """All trials in the plan's order, since they were last submitted."""
        submission = self.submission
        since = submission.wall_s if submission and not self.copy_of else 0.0
        for trial, directory in zip(self.plan["trials"], self.trial_directories, strict=True):
            yield progress(directory, trial["name"], trial["jobs"], since)


def progress(directory: Path, name: str, jobs: int, since_s: float = 0.0) -> TrialProgress:
    """What a trial is at; one whose files are about to be put aside for another try is waiting."""
    waiting = TrialProgress(directory, name, jobs, Stage.WAITING)
    try:
        return _progress(waiting, since_s)
    except FileNotFoundError:
        return waiting


def _progress(waiting: TrialProgress, since_s: float) -> TrialProgress:
    directory, jobs = waiting.directory, waiting.jobs
    if outcome := read_outcome(directory):
        how: dict[str, Any] = {"state": outcome.state, "reasons": tuple(outcome.reasons), "again": outcome.again}
        ended = dataclasses.replace(waiting, stage=Stage.FINISHED, ready=jobs, done=jobs, **how)
        return ended if ended.well or (directory / names.OUTCOME).stat().st_mtime >= since_s else waiting
    if not (directory / names.BEGUN).exists():
        return waiting  # its jobs are on hold until its turn comes
    wait = json_files.read_or(Wait("", 0.0), directory / names.WAITING_FOR)
    waits = f"{wait.what}, since {max(0.0, time.time() - wait.since_wall_s):.0f} s" if wait.what else ""
    if not (directory / names.CLIENTS_LOG).is_file():  # conditions come before, and may be all the slots
        flushing = any((directory / names.FLUSH).iterdir())
        return dataclasses.replace(waiting, stage=Stage.PREPARING, waiting_for=waits) if flushing or waits else waiting
    events = [_events(directory / names.client_output(index)) for index in range(jobs)]
    ready, done = (sum(event in of_client for of_client in events) for event in ("ready", "end"))
    if (directory / names.CALLED_OFF).exists():  # so it waits for nothing
        return dataclasses.replace(waiting, stage=Stage.ENDING, ready=ready, done=done)
    reading = (directory / names.GO).is_file() or any("go" in of_client for of_client in events)
    stage = Stage.READING if reading else Stage.GATHERING
    return dataclasses.replace(waiting, stage=stage, ready=ready, done=done, waiting_for=waits)


def _events(output: Path) -> set[str]:
    """The kinds of records that a client has written so far."""
    try:
        return set(EVENT.findall(files.read_text(output, "replace")))
    except FileNotFoundError:
        return set()
