#!/usr/bin/env python3
"""The start gate: all clients of a trial begin at one instant.

usage: gate.py            (in the trial's directory on the access point; a local universe job)

Waits until every client has said READY in the clients' job event log (or has ended), the caches of every
host are flushed and every sampler has written its first records. Then it publishes in go.json one wall-clock
time, a little ahead, for which each client waits, and how often each had been started by then; from there on the
trial is stop.py's.
When something fails, or is waited for longer than trial.json's `limits` allow, it calls the trial off: it says
why in called-off.json, and its exit status has DAGMan remove all jobs. What it waits for is in waiting-for.json.
Started again it finds the go that it gave before. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 the go is given, or all clients have ended; 2 trial.json cannot be read; 3 the trial is called off
"""

import json
import sys
import time
from pathlib import Path

from tierbench.submit.trial.watched import Watched, gather, watch, write

# A client learns the time when it next looks, four times a second; many at once keep the access point busy.
LEAD_SECONDS = 0.5
LEAD_SECONDS_PER_CLIENT = 0.01


def let_go(watched: Watched) -> None:
    """Give the go when all is ready for it."""
    gather(watched)
    if Path("go.json").exists() or watched.ended >= watched.everybody:
        return
    lead = LEAD_SECONDS + LEAD_SECONDS_PER_CLIENT * len(watched.everybody)
    go = {"format": 1, "go_wall_ns": int((time.time() + lead) * 1e9), "starts": watched.cluster.starts}
    write("go.json", json.dumps(go))
    watched.tell("", 0.0)


if __name__ == "__main__":
    sys.exit(watch(let_go))
