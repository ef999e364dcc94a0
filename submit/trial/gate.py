#!/usr/bin/env python3
"""The start gate: all clients of a trial begin at one instant, or one after the other.

usage: gate.py            (in the trial's directory on the access point; a local universe job)

Waits until every client has said READY in the clients' job event log (or has ended), the caches of every
host are flushed and every sampler has written its first records. Then it publishes in go.json one wall-clock
time, a little ahead, for which each client waits, and how often each had been started by then; from there on the
trial is stop.py's. Where clients begin one by one it says by how much each waits for longer than the one before; where
they take turns it stays, and adds a time for each client when the one before has ended.
When something fails, or is waited for longer than trial.json's `limits` allow, it calls the trial off: it says
why in called-off.json, and its exit status has DAGMan remove all jobs. What it waits for is in waiting-for.json.
Started again it finds the go that it gave before. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 every go is given, or all clients have ended; 2 trial.json cannot be read; 3 the trial is called off
"""

import sys
import time
from pathlib import Path

from tierbench import names
from tierbench.files import replace
from tierbench.starts import EVERY, IN_TURN, Go, lead
from tierbench.submit.trial.trial_monitor import TrialMonitor, gather, watch

TURN_SECONDS = 1.0  # between two turns: what the one before has asked for in vain comes meanwhile


def give_go(monitor: TrialMonitor) -> None:
    """Give the go when all is ready for it, and each client's turn when it comes."""
    gather(monitor)
    in_turn = monitor.start.kind == IN_TURN
    if monitor.go == Go() and not monitor.all_ended:
        at = ahead(lead(len(monitor.everybody)))
        starts = {str(number): times for number, times in monitor.cluster.starts.items()}
        step_ns = int(monitor.start.every_s * 1e9) if monitor.start.kind == EVERY else 0
        replace(names.GO, Go(at, starts, step_ns, [at] if in_turn else None).text())
    monitor.tell("", 0.0)
    # Each client is let go when the one before has ended, however that was.
    turns = list(monitor.go.turns_wall_ns or ())
    while in_turn and 0 < len(turns) < len(monitor.everybody) and not Path(names.CALLED_OFF).exists():
        monitor.read_on()
        if len(turns) - 1 in monitor.ended:
            turns.append(ahead(TURN_SECONDS))
            replace(names.GO, monitor.go._replace(turns_wall_ns=turns).text())
        monitor.rest()


def ahead(seconds: float) -> int:
    return int((time.time() + seconds) * 1e9)


if __name__ == "__main__":
    sys.exit(watch(give_go))
