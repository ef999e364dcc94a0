#!/usr/bin/env python3
"""Lets the trials of a run measure one at a time, while DAGMan has the next ones already waiting.

usage: turn.py take | take sampled | pass       (in the trial's directory on the access point)

take          waits until no other trial of the run has the turn and the trial named in `after` has had it;
              then makes the folders that the trial's jobs write to
take sampled  waits for the samplers, too: for the clients of a trial that has no gate to do so
pass          gives the turn on, if this trial has it; may be called again

The turn is a file of the run directory that names the trial whose turn it is. Shipped there; stdlib
only, Python 3.6 or newer.

exit status: 0 done; 1 this trial is not needed any more; 2 called wrongly, or this is not a trial's directory
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FILLED = ("clients", "samples", "flush")
POLL_SECONDS = 0.1
# How long the trial before may be without a DAGMan before it is taken to have none: DAGMan starts a failed
# one again within seconds.
PATIENCE_SECONDS = 15.0
# How long clients without a gate wait for samplers; then they run, and the tables tell what is not sampled.
SAMPLERS_SECONDS = 60.0


def main(arguments: "list[str]") -> int:
    trial = Path.cwd()
    if arguments not in (["take"], ["take", "sampled"], ["pass"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not (trial / "trial.json").is_file():
        print("turn: " + str(trial) + " is not a trial's directory: it has no trial.json", file=sys.stderr)
        return 2
    turn = Turn(trial)
    if arguments[0] == "take":
        while not (turn.has_come() and turn.taken()):
            if (trial / "served").exists():
                return 1
            time.sleep(POLL_SECONDS)
        if (trial / "not-needed").exists():
            turn.pass_on()
            return 1
        for folder in FILLED:
            (trial / folder).mkdir(exist_ok=True)
        if "sampled" in arguments:
            wait_for_samplers(trial)
    else:
        turn.pass_on()
    return 0


class Turn:
    """The turn, as one trial sees it."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial
        self.file = trial.parent.parent / "turn"
        self.missed_since = time.monotonic()

    def has_come(self) -> bool:
        """Whether the trial before this one has had its turn, or will not come to it."""
        try:
            name = (self.trial / "after").read_text()
        except FileNotFoundError:
            name = ""
        before = self.trial.parent / name
        if not name or (before / "served").exists() or (before / "outcome.json").exists():
            return True
        if at_work(before):
            self.missed_since = time.monotonic()
        return time.monotonic() - self.missed_since > PATIENCE_SECONDS

    def taken(self) -> bool:
        """Whether it is this trial's turn, which it takes if it is nobody's."""
        claim = self.trial / f"claim.{os.getpid()}"
        claim.write_text(self.trial.name)
        try:
            os.link(str(claim), str(self.file))  # a link is made whole or not at all, on NFS too
        except FileExistsError:
            return self.is_held()
        finally:
            claim.unlink()
        return True

    def is_held(self) -> bool:
        """Whether this trial has the turn; one whose DAGMan is gone for good loses it."""
        holder = self._holder()
        if holder and holder != self.trial.name and not at_work(self.trial.parent / holder):
            self._free_from(holder)
        return holder == self.trial.name

    def _free_from(self, holder: str) -> None:
        aside = self.trial / f"stale.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):  # another trial was faster
            self.file.rename(aside)
            if aside.read_text() != holder:  # and has taken it already
                os.link(str(aside), str(self.file))
            aside.unlink()

    def pass_on(self) -> None:
        if self._holder() == self.trial.name:
            (self.trial / "served").touch()
            self.file.unlink()

    def _holder(self) -> str:
        try:
            return self.file.read_text()
        except FileNotFoundError:
            return ""


def wait_for_samplers(trial: Path) -> None:
    samplers = json.loads((trial / "trial.json").read_text())["samplers"]
    deadline = time.monotonic() + SAMPLERS_SECONDS
    while not all(sampling(trial, sampler) for sampler in samplers) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def sampling(trial: Path, sampler: "dict[str, Any]") -> bool:
    """Whether a sampler has written more than its header."""
    try:
        with (trial / "samples" / (sampler["host"] + ".samples")).open("rb") as file:
            return bool(file.readline() and file.readline())
    except FileNotFoundError:
        return False


def at_work(trial: Path) -> bool:
    """Whether a DAGMan runs the trial, or will go on with it when HTCondor is back."""
    return (trial / "trial.dag.lock").exists()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
