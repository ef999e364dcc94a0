#!/usr/bin/env python3
"""Lets the trials of a run measure one at a time, while DAGMan has the next ones already waiting.

usage: lock.py take [arranged] [sampled] [slots] [first] [waking] | ahead [slots]      (in the trial's directory)

take          waits until no other trial of the run has the measurement lock and the trial named in `after` has had it;
              then makes the folders that the trial's jobs write to
arranged      waits until all that the site has to arrange for the trial is arranged, or will not be
sampled       waits for the samplers, too: for the clients of a trial that has no gate to do so
slots         waits until flush, write area and samplers have slots: for clients, which may take all that there are
waking        ends when a second by the clock has just begun. DAGMan looks at its nodes once in each, when something
              first wakes it: so it submits those whose scripts have ended before, and not a second later
first         ends before the other scripts of the trial, so that DAGMan has looked in this second when they end: in the
              next one it then finds them all, and one cycle of the negotiator is enough for their jobs
ahead         for jobs that may wait for the lock where they run: waits until the trial before this one has given its
              go, so has all that it needs, and no other trial waits so; or until this one has the lock

A file of the run directory names the trial that has the lock. Shipped there; stdlib only, Python 3.6 or newer.

exit status: 0 done; 1 this trial is not needed any more; 2 called wrongly, or this is not a trial's directory;
3 the run directory cannot be read or written, or the DAGMan that has started it is gone
"""

import contextlib
import math
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tierbench import names
from tierbench.condition_state import wait_until_settled
from tierbench.files import locked, poll, replace, text_of
from tierbench.host import clock_bounds
from tierbench.starts import Go
from tierbench.submit.trial.dagman import at_work
from tierbench.submit.trial.disk_reserve import give_up_reserve, wait_for_room
from tierbench.submit.trial.joblog import Cluster
from tierbench.submit.trial.skip_repeats import awaits_look, is_spared
from tierbench.trials import Clock, Trial, read_trial, record_or, record_text

WAITS = {"take": {"arranged", "sampled", "slots", "first", "waking"}, "ahead": {"slots"}}
POLL_SECONDS = 0.1
DAGMAN = os.getppid()
SECOND_BEGUN = 0.02  # by then its scripts that ended before have been heard of
CREATED_OR_GONE = 0x100 | 0x200  # inotify's masks
ALL_ENDED = 0.06  # seconds after a trial has begun each of its scripts that waited for that alone has ended
# How long a trial may be without a DAGMan before it is taken to have none: a failed one is started again within
# seconds, and so is one that HTCondor has lost.
PATIENCE_SECONDS = 15.0
# How long clients without a gate wait for samplers; then they run, and the tables tell what is not sampled.
SAMPLERS_SECONDS = 60.0


def main(arguments: "list[str]") -> int:
    step, waits = "".join(arguments[:1]), arguments[1:]
    if step not in WAITS or not set(waits) <= WAITS[step]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        planned = read_trial(Path.cwd())
    except (OSError, ValueError) as error:
        print(f"lock: {Path.cwd()} is not a trial's directory: trial.json: {error}", file=sys.stderr)
        return 2
    lock = MeasurementLock(Path.cwd())
    status = take(lock, planned) if step == "take" else 0
    while step == "ahead" and os.getppid() == DAGMAN and not lock.may_wait_in_slots():
        time.sleep(POLL_SECONDS)
    if not status:
        wait_for(waits, lock.trial, planned)
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
    if "slots" in waits:
        wait_for_slots(trial, planned)
    begun = record_or(Clock(0, 0, 0), trial / names.BEGUN)
    begun_s = (begun.ahead_ns + (begun.uptime_ns or 0)) / 1e9
    first_s = begun_s if begun_s % 1 < 1 - ALL_ENDED else math.ceil(begun_s) + SECOND_BEGUN
    if "first" in waits:
        sleep_until(first_s)
    elif "waking" in waits:
        sleep_until(math.floor(max(first_s, time.time())) + 1 + SECOND_BEGUN)
    else:
        sleep_until(first_s + ALL_ENDED / 2)


def sleep_until(wall_s: float) -> None:
    time.sleep(max(0.0, min(wall_s - time.time(), 2.0)))  # the clock may have been set


def wait_for_slots(trial: Path, planned: Trial) -> None:
    """Return when the jobs without which there is no go have slots, or will not get any."""
    clusters = [
        (Cluster(trial / names.FLUSH_LOG), len(planned.flushed)),
        (Cluster(trial / names.WRITE_AREA_LOG), bool(planned.writes)),
        (Cluster(trial / names.SAMPLERS_LOG), sum(sampler.via == "pool" for sampler in planned.samplers)),
    ]
    deadline = math.inf
    while not any((trial / sign).exists() for sign in (names.CALLED_OFF, names.OUTCOME)):
        *others, samplers = [cluster.had_slots() >= jobs for cluster, jobs in clusters]
        if all(others):
            if samplers or time.monotonic() > deadline:
                return  # a trial can do without some samplers
            if deadline == math.inf and (trial / names.BEGUN).exists():
                deadline = time.monotonic() + planned.limits.samplers_s
        time.sleep(POLL_SECONDS)


class MeasurementLock:
    """The lock, as one trial sees it: who has it may measure."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial
        self.file = trial.parent.parent / names.LOCK_HOLDER
        self.ahead = self.file.with_name(names.AHEAD)
        self.look = self.file.with_name(names.LOCK_LOOK)  # one at a time looks at the lock and changes it
        self.last_seen = {}  # type: dict[Path, float]

    def is_next(self) -> bool:
        """Whether the trial before this one has had the lock, or will not take it."""
        if text_of(self.ahead) == self.trial.name:  # that one may want the lock once more, and has to wait for ours
            return True
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
                # Be the next one, or trials that are started ahead would always go before one that comes late.
                if self.ahead.exists() and not self._waiting_ahead():
                    self.ahead.write_text(self.trial.name)
                return False
            if self._waiting_ahead() not in ("", self.trial.name):
                return False  # its jobs have the slots that this one's may need
            self.file.write_text(self.trial.name)
            self._wait_no_more()
        return True

    def may_wait_in_slots(self) -> bool:
        """Whether this trial's jobs may be started, to wait for the lock if it does not have it."""
        with locked(self.look, math.inf):
            if (self.trial / names.BEGUN).exists():
                return True
            waiting, holder = self._waiting_ahead(), text_of(self.file)
            is_next = waiting == self.trial.name or (not waiting and holder == text_of(self.trial / names.AFTER))
            go = record_or(Go(), self.trial.parent / holder / names.GO)
            if not (is_next and holder and go.go_wall_ns is not None):
                return False
            self._make_folders()
            self.ahead.write_text(self.trial.name)
        return True

    def release(self) -> None:
        with locked(self.look, math.inf):
            self._wait_no_more()
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
                self._make_folders()
                self.file.touch()  # how long it may keep the lock counts from here
                # The tables compare the stamp of the clients' submission with it; HTCondor 25 fetches no empty file.
                replace(self.trial / names.BEGUN, record_text(Clock(**clock_bounds())))
        return True

    def _make_folders(self) -> None:
        for folder in names.FILLED:
            (self.trial / folder).mkdir(exist_ok=True)

    def _waiting_ahead(self) -> str:
        """The trial whose jobs wait for the lock, unless it has begun or will not."""
        name = text_of(self.ahead)
        other = self.trial.parent / name
        over = exists(other, names.BEGUN, names.SERVED, names.OUTCOME)
        return "" if not name or over or (name != self.trial.name and self._is_gone(other)) else name

    def _wait_no_more(self) -> None:
        if text_of(self.ahead) == self.trial.name:
            self.ahead.write_text("")

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
