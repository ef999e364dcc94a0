#!/usr/bin/env python3
"""Makes a trial's directory as it was written, so that the trial runs whole and from the beginning.

usage: reset_trial.py                          (in the trial's directory on the access point, by hand)
       reset_trial.py RETRY RETRIES [BEFORE]   (DAGMan runs it before each try)

Whatever an earlier try has left is moved to tries/1, tries/2, ... Among it is DAGMan's rescue file,
with which a second try would skip the flush. RETRY counts the tries from 0, BEFORE is the trial that
measures before this one. Of several DAGs of a run that hold the same trial one has it, and the others wait for what
becomes of it; a trial that is complete is not done again. Waits while the disk is full.
Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 the directory is as it was written; 1 it could not be reset, for instance since a DAGMan runs the trial;
2 this is not the directory of a trial, or called wrongly; 3 the trial is done (DAGMan then skips it: PRE_SKIP)
"""

import os
import sys
import time
from math import inf
from pathlib import Path

from tierbench import names
from tierbench.files import locked, replace
from tierbench.submit.trial.dagman import at_work, claim
from tierbench.submit.trial.disk_reserve import give_up_reserve, wait_for_room
from tierbench.submit.trial.lock import release_lock
from tierbench.submit.trial.skip_repeats import is_spared
from tierbench.trials import ALREADY_COMPLETE, SKIPPED, Attempt, Outcome, record_or, record_text

POLL_SECONDS = 1.0
DAGMAN = os.getppid()
# What is not of an earlier try.
STAYING = (*names.WRITTEN, names.TRIES, names.AFTER, names.NOT_NEEDED, names.CLAIM)


def main(arguments: "list[str]") -> int:
    trial = Path.cwd()
    if len(arguments) not in (0, 2, 3) or not all(number.isdigit() for number in arguments[:2]):
        print(__doc__, file=sys.stderr)
        return 2
    missing = [name for name in names.WRITTEN if not (trial / name).is_file()]
    if missing:
        print(f"reset_trial: {trial} is not a trial's directory: it has no {missing[0]}", file=sys.stderr)
        return 2
    try:
        if not wait_for_room(trial):
            print(f"reset_trial: the disk of {trial} has been full for a day", file=sys.stderr)
            return 1
        while True:
            with locked(trial.parent.parent / names.CLAIMS_LOCK, inf):  # one DAG at a time looks at whose a trial is
                if os.getppid() != DAGMAN:  # it was killed; the next one starts this script anew
                    return 1
                if not arguments or may_run(trial):
                    if not arguments or not is_spared(trial):
                        return reset(trial, arguments)
                    # It is not needed; a DAG of its own would take seconds to find it out.
                    replace(trial / names.OUTCOME, record_text(Outcome(SKIPPED)))
                if outcome_of(trial).is_final:
                    return ALREADY_COMPLETE
            time.sleep(POLL_SECONDS)
    except OSError as error:
        print(f"reset_trial: {error}", file=sys.stderr)
        return 1


def reset(trial: Path, arguments: "list[str]") -> int:
    if at_work(trial):
        print(f"reset_trial: {trial} is being run by another DAG; wait for its end", file=sys.stderr)
        return 1
    give_up_reserve(trial)  # an earlier try may have ended without doing so
    release_lock(trial)  # or giving the lock on
    leftovers = [path for path in trial.iterdir() if path.name not in STAYING]
    if leftovers:
        tries = trial / names.TRIES
        tries.mkdir(exist_ok=True)
        earlier = [int(path.name) for path in tries.iterdir() if path.name.isdigit()]
        aside = tries / str(max(earlier, default=0) + 1)
        aside.mkdir()
        for path in leftovers:
            path.rename(aside / path.name)
    (trial / names.AFTER).write_text("".join(arguments[2:]))
    if arguments:
        attempt = Attempt(int(arguments[0]), int(arguments[1]))
        (trial / names.ATTEMPT).write_text(record_text(attempt))
    return 0


def may_run(trial: Path) -> bool:
    """Whether the DAG that has called this may run the trial: no other DAG of the run has it, or is at it still."""
    outcome = outcome_of(trial)
    given_up = bool(outcome.state) and not outcome.again and not at_work(trial)
    return not outcome.is_final and claim(trial, DAGMAN, given_up)


def outcome_of(trial: Path) -> Outcome:
    return record_or(Outcome(""), trial / names.OUTCOME)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
