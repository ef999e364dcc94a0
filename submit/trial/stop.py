#!/usr/bin/env python3
"""The stop: sees a trial's clients to their end, passes the turn on, and stops the sampling.

usage: stop.py            (in the trial's directory on the access point; a local universe job)

It is there from the trial's beginning, for DAGMan hears of an end a second or two late. From the go on it calls
the trial off as the gate does before: when a client is lost or begins anew, when the storage moves nothing, when a
limit of trial.json is over. When all clients have ended it passes the turn to the next trial, lets the samplers see
the storage idle for a moment, and writes `stop`, which ends them and has undone what was arranged for the trial.
Without a gate it also watches how the clients begin. Started again it goes on. What it has not done, because it
was removed, the trial's last step does. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 all clients have ended, or the gate has called the trial off; 2 trial.json cannot be read; 3 the trial
is called off
"""

import subprocess
import sys
import time
from pathlib import Path

from tierbench.submit.servers import state_of_servers
from tierbench.submit.trial.beside import Beside
from tierbench.submit.trial.held import wait_until_undone
from tierbench.submit.trial.watched import CalledOff, Watched, clients, gather, the_go, watch, write

# The storage is seen idle for so long before the go and after the last end, by whole sampling intervals.
IDLE_SECONDS = 1.0
SETTLE_SECONDS = 0.5
NEXT_SECONDS = 2.0  # no other trial reads earlier after the turn was passed on


def stop(watched: Watched) -> None:
    """Stop the trial when its clients have ended."""
    starts = see_begin(watched)
    if "called_off" in the_go():
        return  # DAGMan removes us with the others
    see_end(watched, starts)
    # One interval is under way when the last client ends, and the next one shall be whole.
    idle = max(IDLE_SECONDS, 2 * watched.trial.sample_period_s + SETTLE_SECONDS)
    if watched.trial.writes:
        # The next trial must not meet the looking through and removing of what was written: the last step passes it.
        time.sleep(idle)
        stop_services()
        return
    if watched.trial.conditions:
        # The next trial must not meet them, so it waits until they are undone.
        time.sleep(idle)
        stop_services()
        wait_until_undone(Path(), watched.trial.conditions, watched.limits.stop_s)
        pass_the_turn()
        return
    # The next trial takes seconds to begin, in which this one sees the storage idle; what it takes more, it waits for.
    time.sleep(max(0.0, idle - NEXT_SECONDS))
    pass_the_turn()
    time.sleep(min(idle, NEXT_SECONDS))
    stop_services()


def see_begin(watched: Watched) -> "dict[int, int]":
    """Wait for the go, or without a gate for all to begin; how often each was started by then."""
    if not watched.start.gated:
        gather(watched)
        return dict(watched.cluster.starts)
    while not the_go() and not watched.ended >= watched.everybody:
        watched.rest()
        watched.read_on()
    return {int(number): times for number, times in the_go().get("starts", {}).items()}


def see_end(watched: Watched, starts: "dict[int, int]") -> None:
    """Wait for all clients' ends."""
    go = the_go().get("go_wall_ns", time.time() * 1e9) / 1e9  # without a gate now
    watched.moving.begin()
    beside = Beside(Path())
    while True:
        watched.look()
        beside.look()
        restarted = [job for job, times in sorted(watched.cluster.starts.items()) if times > starts.get(job, 1)]
        if restarted:
            raise CalledOff(f"{clients(restarted)} began anew, on {watched.cluster.slots[restarted[0]]}")
        left = sorted(watched.everybody - watched.ended)
        if not left:
            return
        reading = sorted(watched.reading)
        if not reading:
            watched.moving.begin()  # nothing has to move between two clients
        who = clients(reading or left)
        if time.time() - go > watched.limits.end_s:
            raise CalledOff(
                f"{who} had not ended {watched.limits.end_s} s after the go: neither the time limit of"
                f" {watched.limits.read_s} s nor anything else has ended the reading"
            )
        still = watched.still_s()
        if still > watched.limits.stall_s:
            # A worker that was lost before is the cause, and not the storage.
            cause = f"{watched.absent}; since then " if watched.absent else ""
            raise CalledOff(
                f"{cause}the storage has moved nothing for {still:.0f} s while {who} read{state_of_servers()}"
            )
        watched.tell(f"the storage to move anything while {who} read", still)
        watched.rest()


def stop_services() -> None:
    write("stop", "stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file


def pass_the_turn() -> None:
    subprocess.call([str(Path(__file__).resolve().with_name("turn.py")), "pass"])


if __name__ == "__main__":
    sys.exit(watch(stop))
