#!/usr/bin/env python3
"""Lets the trials of a run measure one at a time, while DAGMan has the next ones already waiting.

usage: turn.py take [arranged] [sampled] [slots] [waking] | ahead [slots] | pass     (in the trial's directory)

take          waits until no other trial of the run has the turn and the trial named in `after` has had it;
              then makes the folders that the trial's jobs write to
arranged      waits until all that the site has to arrange for the trial is arranged, or known not to be
sampled       waits for the samplers, too: for the clients of a trial that has no gate to do so
slots         waits until flush, outbox and samplers have slots: for clients, which may take all that there are
waking        ends when a second by the clock has just begun. DAGMan looks at its nodes once in each, if something wakes
              it: so it submits those whose scripts have ended before, and not a second later
ahead         for jobs that may wait for the turn where they run: waits until the trial before this one has given its
              go, so has all that it needs, and no other trial waits so; or until this one's turn has come
pass          gives the turn on, if this trial has it; may be called again

The turn is a file of the run directory that names the trial whose turn it is. Shipped there; stdlib
only, Python 3.6 or newer.

exit status: 0 done; 1 this trial is not needed any more; 2 called wrongly, or this is not a trial's directory;
3 the run directory cannot be read or written
"""

import contextlib
import json
import math
import sys
import time
from pathlib import Path

from tierbench import names
from tierbench.condition_state import wait_until_settled
from tierbench.files import locked, poll
from tierbench.host import clock_bounds
from tierbench.starts import read_go
from tierbench.submit.trial.dagman import at_work
from tierbench.submit.trial.disk_reserve import hold_reserve, wait_for_room
from tierbench.submit.trial.joblog import Cluster
from tierbench.submit.trial.skip_repeats import awaits_look, is_spared
from tierbench.trials import Sampler, Trial, read_trial

POLL_SECONDS = 0.1
SECOND_BEGUN = 0.02  # by then its scripts that ended before have been heard of
# How long a trial may be without a DAGMan before it is taken to have none: a failed one is started again within
# seconds, and so is one that HTCondor has lost.
PATIENCE_SECONDS = 15.0
# How long clients without a gate wait for samplers; then they run, and the tables tell what is not sampled.
SAMPLERS_SECONDS = 60.0


def main(arguments: "list[str]") -> int:
    trial = Path.cwd()
    taken = arguments[:1] == ["take"] and set(arguments[1:]) <= {"arranged", "sampled", "slots", "waking"}
    if not taken and arguments not in (["ahead"], ["ahead", "slots"], ["pass"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not (trial / names.TRIAL).is_file():
        print("turn: " + str(trial) + " is not a trial's directory: it has no trial.json", file=sys.stderr)
        return 2
    turn = Turn(trial)
    if taken:
        return take(turn, arguments[1:])
    if arguments == ["pass"]:
        pass_turn(trial)
        return 0
    while not turn.may_be_waited_for_in_slots():
        time.sleep(POLL_SECONDS)
    wait_for(arguments[1:], trial)
    return 0


def pass_turn(trial: Path) -> None:
    """Give the turn on, if this trial has it; what keeps it from that ends no step of it."""
    try:
        Turn(trial).pass_on()
    except OSError as error:
        print("turn: " + str(error), file=sys.stderr)


def take(turn: "Turn", awaited: "list[str]") -> int:
    trial = turn.trial
    after_look = begins_after_look(trial)
    while True:
        if not (turn.has_come() and turn.is_taken()):
            if (trial / names.SERVED).exists():  # a node of it that died is started again, or it was not needed
                return 0 if (trial / names.BEGUN).exists() else 1
        elif not wait_for_room(trial):
            print("turn: the disk has been full for a day", file=sys.stderr)
            return 3
        elif after_look and awaits_look(trial):
            pass
        elif turn.has_begun():
            break
        elif is_spared(trial):
            turn.pass_on()
            return 1
        time.sleep(POLL_SECONDS)
    hold_reserve(trial)
    wait_for(awaited, trial)
    return 0


def begins_after_look(trial: Path) -> bool:
    try:
        return read_trial(trial).after_look
    except (OSError, ValueError):
        return False


def wait_for(awaited: "list[str]", trial: Path) -> None:
    if "arranged" in awaited:
        planned = read_trial(trial)
        wait_until_settled(trial, planned.conditions, planned.limits.ready_s)
    if "sampled" in awaited:
        wait_for_samplers(trial, read_trial(trial).samplers)
    if "slots" in awaited:
        wait_for_slots(trial, read_trial(trial))
    if "waking" in awaited:
        time.sleep(1 + SECOND_BEGUN - time.time() % 1)


class Turn:
    """The turn, as one trial sees it."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial
        self.file = trial.parent.parent / names.TURN
        self.ahead = self.file.with_name(names.AHEAD)
        self.last_seen = {}  # type: dict[Path, float]

    def has_come(self) -> bool:
        """Whether the trial before this one has had its turn, or will not come to it."""
        if read(self.ahead) == self.trial.name:  # that one may want another turn, and has to wait for ours
            return True
        name = read(self.trial / names.AFTER)
        before = self.trial.parent / name
        return (
            not name or (before / names.SERVED).exists() or (before / names.OUTCOME).exists() or self._is_gone(before)
        )

    def is_taken(self) -> bool:
        """Whether this trial has the turn, which it takes if it is nobody's or its holder is gone."""
        with self._looking():
            holder = self._holder()
            if holder and holder != self.trial.name:
                other = self.trial.parent / holder
                going_on = at_work(other) or not (other / names.OUTCOME).exists()
                if going_on and not self._is_gone(other) and not self._is_over(other):
                    self._get_in_line()
                    return False
            if holder != self.trial.name:
                if self._waiting_ahead() not in ("", self.trial.name):
                    return False  # its jobs have the slots that this one's may need
                self.file.write_text(self.trial.name)
                self._waits_no_more()
        return True

    def may_be_waited_for_in_slots(self) -> bool:
        """Whether this trial's jobs may be started, to wait for its turn if that has not come."""
        with self._looking():
            if (self.trial / names.BEGUN).exists():
                return True
            waiting, holder = self._waiting_ahead(), self._holder()
            is_next = waiting == self.trial.name or (not waiting and holder == read(self.trial / names.AFTER))
            if not (is_next and holder and has_gone(self.trial.parent / holder)):
                return False
            for folder in names.FILLED:
                (self.trial / folder).mkdir(exist_ok=True)
            self.ahead.write_text(self.trial.name)
        return True

    def pass_on(self) -> None:
        with self._looking():
            self._waits_no_more()
            if self._holder() == self.trial.name:
                (self.trial / names.SERVED).touch()
                self.file.unlink()

    def has_begun(self) -> bool:
        """Whether this trial has, as it does now if it still has the turn and is not marked as not needed."""
        with self._looking():
            has_turn = self._holder() == self.trial.name  # another one may have got it while this one waited for room
            begins = (self.trial / names.BEGUN).exists() or (has_turn and not (self.trial / names.NOT_NEEDED).exists())
            for folder in names.FILLED if begins else ():
                (self.trial / folder).mkdir(exist_ok=True)
            if begins and not (self.trial / names.BEGUN).exists():
                self.file.touch()  # how long it may keep the turn counts from here
                # The tables compare the stamp of the clients' submission with it; HTCondor 25 fetches no empty file.
                (self.trial / names.BEGUN).write_text(json.dumps(clock_bounds()) + "\n")
        return begins

    def _looking(self) -> "contextlib.AbstractContextManager[None]":
        """One at a time looks at the turn and changes it."""
        return locked(self.file.with_name(names.TURN_LOCK), math.inf)

    def _holder(self) -> str:
        return read(self.file)

    def _waiting_ahead(self) -> str:
        """The trial whose jobs wait for its turn, unless it has begun or will not."""
        name = read(self.ahead)
        other = self.trial.parent / name
        over = any((other / sign).exists() for sign in (names.BEGUN, names.SERVED, names.OUTCOME))
        return "" if not name or over or (name != self.trial.name and self._is_gone(other)) else name

    def _get_in_line(self) -> None:
        """Be the next one, or trials that are started ahead would always go before one that comes late."""
        if self.ahead.exists() and not self._waiting_ahead():
            self.ahead.write_text(self.trial.name)

    def _waits_no_more(self) -> None:
        if read(self.ahead) == self.trial.name:
            self.ahead.write_text("")

    def _is_over(self, trial: Path) -> bool:
        """Whether a trial has kept the turn for longer than anything in it may take."""
        try:
            limit = read_trial(trial).limits.turn_s
            return bool(time.time() - self.file.stat().st_mtime > limit)
        except (OSError, ValueError):
            return False

    def _is_gone(self, trial: Path) -> bool:
        """Whether no DAGMan has run a trial for a while."""
        now = time.monotonic()
        if at_work(trial):
            self.last_seen[trial] = now
        return now - self.last_seen.setdefault(trial, now) > PATIENCE_SECONDS


def read(path: Path) -> str:
    """What a file holds; nothing if it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def has_gone(trial: Path) -> bool:
    """Whether a trial's clients have been let go."""
    try:
        return read_go(read(trial / names.GO) or "{}").go_wall_ns is not None
    except ValueError:
        return False


def wait_for_samplers(trial: Path, samplers: "list[Sampler]") -> None:
    poll(lambda: all(sampling(trial, sampler) for sampler in samplers), SAMPLERS_SECONDS, POLL_SECONDS)


def wait_for_slots(trial: Path, planned: Trial) -> None:
    """Return when the jobs without which there is no go have slots, or are known not to get any."""
    samplers = Cluster(trial / names.SAMPLERS_LOG), sum(sampler.via == "pool" for sampler in planned.samplers)
    others = [
        (Cluster(trial / names.FLUSH_LOG), len(planned.flushed)),
        (Cluster(trial / names.OUTBOX_LOG), bool(planned.writes)),
    ]
    deadline = None  # type: float | None
    while not any((trial / sign).exists() for sign in (names.CALLED_OFF, names.OUTCOME)):
        if all(had_slots(*each) for each in others):
            if had_slots(*samplers) or time.monotonic() > (deadline or math.inf):
                return  # a trial can do without some samplers
            if deadline is None and (trial / names.BEGUN).exists():
                deadline = time.monotonic() + planned.limits.samplers_s
        time.sleep(POLL_SECONDS)


def had_slots(cluster: Cluster, jobs: int) -> bool:
    """Whether all of so many jobs run or have ended."""
    cluster.read_on()
    return len((cluster.starts.keys() | cluster.ended.keys()) - cluster.away.keys()) >= jobs


def sampling(trial: Path, sampler: Sampler) -> bool:
    """Whether a sampler has written more than its header."""
    try:
        with (trial / names.sample_file(sampler.host)).open("rb") as file:
            return bool(file.readline() and file.readline())
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        print("turn: " + str(error), file=sys.stderr)
        sys.exit(3)
