#!/usr/bin/env python3
"""Lets the trials of a run measure one at a time, while DAGMan has the next ones already waiting.

usage: lock.py take [arranged] [sampled] | release [arranged] [slots]      (in the trial's directory)

take          waits until no other trial of the run has the measurement lock and the trial named in `after` has had it;
              then makes the folders that the trial's jobs write to
release       the same, then releases the trial's jobs: DAGMan looks at its nodes once a second, so it has submitted
              them before, on hold. Of a trial that is not needed it removes them
arranged      waits until all that the site has to arrange for the trial is arranged, or will not be
sampled       waits for the samplers, too: for the clients of a trial that has no gate to do so
slots         releases the clients, which may take all slots, when flush, write area and samplers have theirs

A file of the run directory names the trial that has the lock. Shipped there; stdlib only, Python 3.6 or newer.

exit status: 0 done; 1 this trial is not needed any more; 2 called wrongly; 3 the run directory or trial.json
cannot be read or written, the DAGMan that has started it is gone, or somebody else has released the trial's jobs
"""

import contextlib
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tierbench import names
from tierbench.condition_state import wait_until_settled
from tierbench.files import locked, poll, replace, text_of
from tierbench.host import clock_bounds
from tierbench.submit.trial.dagman import at_work, refusal
from tierbench.submit.trial.disk_reserve import give_up_reserve, wait_for_room
from tierbench.submit.trial.joblog import Cluster
from tierbench.submit.trial.skip_repeats import awaits_look, is_spared
from tierbench.trials import CalledOff, Clock, Trial, read_trial, record_text

WAITS = {"take": {"arranged", "sampled"}, "release": {"arranged", "slots"}}
POLL_SECONDS = 0.1
DAGMAN = os.getppid()
CREATED_OR_GONE = 0x100 | 0x200  # inotify's masks
# How long a trial may be without a DAGMan before it is taken to have none: a failed one is started again within
# seconds, and so is one that HTCondor has lost.
PATIENCE_SECONDS = 15.0
# How long clients without a gate wait for samplers; then they run, and the tables tell what is not sampled.
SAMPLERS_SECONDS = 60.0
AGAIN_SECONDS = 1.0  # when HTCondor has not answered
RELEASED_EARLY = (
    "jobs that were on hold were released before its turn, by somebody or by SYSTEM_PERIODIC_RELEASE, which has to"
    " leave those with HoldReasonCode == 15 alone"
)


def main(arguments: "list[str]") -> int:
    step, waits = "".join(arguments[:1]), arguments[1:]
    if step not in WAITS or not set(waits) <= WAITS[step]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        planned = read_trial(Path.cwd())
    except (OSError, ValueError) as error:
        print(f"lock: {Path.cwd()} is not a trial's directory: trial.json: {error}", file=sys.stderr)
        return 3
    lock = MeasurementLock(Path.cwd())
    status, held = take(lock, planned), HeldJobs(lock.trial, planned)
    if not status:
        wait_for(waits, lock.trial, planned)
    if step == "release":
        status = held.remove(status) if status else held.release(others_first="slots" in waits)
    return status


def release_lock(trial: Path) -> None:
    """Give the lock on, if this trial has it; what keeps it from that ends no step of it."""
    try:
        MeasurementLock(trial).release()
    except OSError as error:
        print("lock: " + str(error), file=sys.stderr)


def keep_lock(trial: Path) -> None:
    """How long this trial may keep the lock, if it has it, counts from here."""
    lock = MeasurementLock(trial)
    if text_of(lock.file) == trial.name:
        with contextlib.suppress(OSError):
            os.utime(str(lock.file))


def take(lock: "MeasurementLock", planned: Trial) -> int:
    trial, rest = lock.trial, waiting(lock.file.parent)
    while os.getppid() == DAGMAN:  # if it is killed, the next one starts this script anew
        if not (lock.is_next() and lock.acquire()):
            if (trial / names.SERVED).exists():  # a node of it that died is started again, or it was not needed
                return 0 if (trial / names.BEGUN).exists() else 1
        elif not wait_for_room(trial, hold=True):
            print("lock: the disk has been full for a day", file=sys.stderr)
            return 3
        elif planned.after_look and awaits_look(trial):
            pass
        elif lock.begin():
            return 0
        elif is_spared(trial):
            give_up_reserve(trial)
            lock.release()
            return 1
        rest(POLL_SECONDS)
    return 3


def waiting(folder: Path) -> "Callable[[float], None]":
    """Waits so many seconds, or until a file comes or goes in a folder, where Python and the kernel tell that."""
    try:
        import ctypes  # which not every Python has

        libc = ctypes.CDLL(None)
        number = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if number < 0 or libc.inotify_add_watch(number, os.fsencode(str(folder)), CREATED_OR_GONE) < 0:
            return time.sleep
    except (ImportError, AttributeError, OSError):
        return time.sleep

    def wait(seconds: float) -> None:
        if select.select([number], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(number, 1 << 16)

    return wait


def wait_for(waits: "list[str]", trial: Path, planned: Trial) -> None:
    if "arranged" in waits:
        wait_until_settled(trial, planned.conditions, planned.limits.ready_s)
    if "sampled" in waits:
        samples = [trial / names.sample_file(sampler.host) for sampler in planned.samplers]
        # A record after the header of each.
        poll(lambda: all(text_of(path).count("\n") > 1 for path in samples), SAMPLERS_SECONDS, POLL_SECONDS)


class HeldJobs:
    """The jobs of a trial that DAGMan has submitted on hold, or is about to."""

    def __init__(self, trial: Path, planned: Trial) -> None:
        self.trial, self.planned = trial, planned
        self.samplers = Cluster(trial / names.SAMPLERS_LOG)
        self.clients = {Cluster(trial / names.CLIENTS_LOG): planned.jobs}
        self.others = {
            Cluster(trial / names.FLUSH_LOG): len(planned.flushed),
            Cluster(trial / names.WRITE_AREA_LOG): 1 if planned.writes else 0,
            self.samplers: sum(sampler.via == "pool" for sampler in planned.samplers),
        }

    def release(self, others_first: bool) -> int:
        """Release all of them, the clients when the others have slots if so. The step's exit status."""
        everything = {**self.others, **self.clients}
        if not (self.trial / names.RELEASED).exists():
            for cluster in everything:
                cluster.read_on()
            if any(cluster.released for cluster in everything):
                replace(self.trial / names.CALLED_OFF, record_text(CalledOff(RELEASED_EARLY)))
                return 3
            (self.trial / names.RELEASED).touch()
        if others_first:
            self._until_all("condor_release", self.others)
            self._wait_for_slots()
        self._until_all("condor_release", everything)
        return 0

    def remove(self, status: int) -> int:
        self._until_all("condor_rm", {**self.others, **self.clients})
        return status

    def _until_all(self, command: str, clusters: "dict[Cluster, int]") -> None:
        """Have HTCondor do this with each job as it is submitted, until all are, or it does not take some."""
        log = self.trial / names.DAGMAN_LOG
        while not self._is_over():
            for cluster in clusters:
                cluster.read_on()
            held = [str(cluster.number) for cluster in clusters if cluster.on_hold]
            if held:
                done = subprocess.call([command, *held], stdout=subprocess.DEVNULL) == 0
                time.sleep(POLL_SECONDS if done else AGAIN_SECONDS)
            elif all(len(cluster.submitted) >= jobs for cluster, jobs in clusters.items()) or refusal(log):
                return
            else:
                time.sleep(POLL_SECONDS)

    def _is_over(self) -> bool:
        signs = names.CALLED_OFF, names.OUTCOME
        return os.getppid() != DAGMAN or any((self.trial / sign).exists() for sign in signs)

    def _wait_for_slots(self) -> None:
        """Return when the jobs without which there is no go have slots, or will not get any."""
        deadline = math.inf
        while not self._is_over():
            lacking = [cluster for cluster, jobs in self.others.items() if cluster.had_slots() < jobs]
            if not lacking or (lacking == [self.samplers] and time.monotonic() > deadline):
                return  # a trial can do without some samplers
            if lacking == [self.samplers]:
                deadline = min(deadline, time.monotonic() + self.planned.limits.samplers_s)
            time.sleep(POLL_SECONDS)


class MeasurementLock:
    """The lock, as one trial sees it: who has it may measure."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial
        self.file = trial.parent.parent / names.LOCK_HOLDER
        self.look = self.file.with_name(names.LOCK_LOOK)  # one at a time looks at the lock and changes it
        self.last_seen = {}  # type: dict[Path, float]

    def is_next(self) -> bool:
        """Whether the trial before this one has had the lock, or will not take it."""
        name = text_of(self.trial / names.AFTER)
        before = self.trial.parent / name
        return not name or exists(before, names.SERVED, names.OUTCOME) or self._is_gone(before)

    def acquire(self) -> bool:
        """Whether this trial has the lock, which it takes if it is nobody's or its holder is gone."""
        with locked(self.look, math.inf):
            holder = text_of(self.file)
            if holder == self.trial.name:
                return True
            other = self.trial.parent / holder
            going_on = holder and (at_work(other) or not (other / names.OUTCOME).exists())
            if going_on and not self._is_gone(other) and not self._is_over(other):
                return False
            self.file.write_text(self.trial.name)
        return True

    def release(self) -> None:
        with locked(self.look, math.inf):
            if text_of(self.file) == self.trial.name:
                (self.trial / names.SERVED).touch()
                self.file.unlink()

    def begin(self) -> bool:
        """Whether this trial has begun, as it does now if it still has the lock and is not marked as not needed."""
        with locked(self.look, math.inf):
            if not (self.trial / names.BEGUN).exists():
                # Another one may have got it while this one waited for room.
                if text_of(self.file) != self.trial.name or (self.trial / names.NOT_NEEDED).exists():
                    return False
                for folder in names.FILLED:
                    (self.trial / folder).mkdir(exist_ok=True)
                self.file.touch()  # how long it may keep the lock counts from here
                # The tables compare the stamp of the clients' submission with it; HTCondor 25 fetches no empty file.
                replace(self.trial / names.BEGUN, record_text(Clock(**clock_bounds())))
        return True

    def _is_over(self, trial: Path) -> bool:
        """Whether a trial has kept the lock for longer than anything in it may take."""
        try:
            return bool(time.time() - self.file.stat().st_mtime > read_trial(trial).limits.lock_s)
        except (OSError, ValueError):
            return False

    def _is_gone(self, trial: Path) -> bool:
        """Whether no DAGMan has run a trial for a while."""
        now = time.monotonic()
        if at_work(trial):
            self.last_seen[trial] = now
        return now - self.last_seen.setdefault(trial, now) > PATIENCE_SECONDS


def exists(trial: Path, *signs: str) -> bool:
    return any((trial / sign).exists() for sign in signs)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        print("lock: " + str(error), file=sys.stderr)
        sys.exit(3)
