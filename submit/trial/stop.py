#!/usr/bin/env python3
"""The stop: sees a trial's clients to their end, gives the measurement lock on, and stops the sampling.

usage: stop.py            (in the trial's directory on the access point; a local universe job)

It is there from the trial's beginning, for DAGMan hears of an end a second or two late. From the go on it calls
the trial off as the gate does before: when a client is lost or begins anew, when the storage moves nothing, when a
limit of trial.json is over. When all clients have ended it gives the measurement lock on, lets the samplers see
the storage idle for a moment, and writes `stop`, which ends them and has undone what was arranged for the trial.
Without a gate it also watches how the clients begin. Started again it goes on. What it has not done, because it
was removed, the trial's last step does. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 all clients have ended, or the gate has called the trial off; 2 trial.json cannot be read; 3 the trial
is called off
"""

import re
import socket
import sys
import time
from pathlib import Path

from tierbench import names
from tierbench.condition_state import wait_until_restored
from tierbench.files import replace
from tierbench.starts import Go
from tierbench.submit.trial.disk_reserve import has_cut_event
from tierbench.submit.trial.lock import release_lock
from tierbench.submit.trial.trial_monitor import CalledOff, TrialMonitor, clients, gather, watch

# The storage is seen idle for so long before the go and after the last end, by whole sampling intervals.
IDLE_SECONDS = 1.0
SETTLE_SECONDS = 0.5
NEXT_SECONDS = 1.0  # no other trial reads earlier after the lock was given on
CONNECT_SECONDS = 3.0
URL = re.compile(r"^\w+://([\w.-]+|\[[\da-fA-F:]+\])(?::(\d+))?/")
USUAL_PORTS = {"root": 1094, "roots": 1094}


def stop(monitor: TrialMonitor) -> None:
    if Path(names.STOP).exists():
        return  # one that died has seen the end; conditions are restored by now, and the last step waits on
    starts = see_begin(monitor)
    if monitor.go.called_off is not None:
        return  # DAGMan removes us with the others
    see_end(monitor, starts)
    if has_cut_event(Path()):
        raise CalledOff(
            "the access point's disk was full for a moment: DAGMan has missed an event, and would wait for it"
        )
    # One interval is under way when the last client ends, and the next one shall be whole.
    idle = max(IDLE_SECONDS, 2 * monitor.trial.sample_period_s + SETTLE_SECONDS)
    conditions, writes = monitor.trial.conditions, monitor.trial.writes
    if not conditions and not writes:
        # The next trial takes a while to begin, in which this one sees the storage idle; for more it waits.
        time.sleep(max(0.0, idle - NEXT_SECONDS))
        release_lock(Path.cwd())
        idle = min(idle, NEXT_SECONDS)
    time.sleep(idle)
    replace(names.STOP, "stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    # The next trial must meet neither the conditions, nor the removing of what was written; the last step waits on.
    if conditions and not writes and not wait_until_restored(Path(), conditions, monitor.limits.stop_s):
        release_lock(Path.cwd())


def see_begin(monitor: TrialMonitor) -> "dict[int, int]":
    """Wait for the go, or without a gate for all to begin; how often each was started by then."""
    if not monitor.start.gated:
        gather(monitor)
        return dict(monitor.cluster.starts)
    while monitor.go == Go() and not monitor.all_ended:
        monitor.rest()
        monitor.read_on()
    return {int(number): times for number, times in monitor.go.starts.items()}


def see_end(monitor: TrialMonitor, starts: "dict[int, int]") -> None:
    go = (monitor.go.go_wall_ns or time.time() * 1e9) / 1e9  # without a gate now
    monitor.moving.begin()
    monitor.read_on()
    arranged_starts = dict(monitor.arranging.cluster.starts)
    sampler_starts = [dict(jobs.cluster.starts) for jobs in monitor.samplers]
    while True:
        monitor.look()
        restarted = [job for job, times in sorted(monitor.cluster.starts.items()) if times > starts.get(job, 1)]
        if restarted:
            raise CalledOff(f"{clients(restarted)} began anew, on {monitor.cluster.slots[restarted[0]]}")
        left = sorted(monitor.everybody - monitor.ended)
        monitor.check_samplers(sampler_starts, over=not left)
        monitor.check_conditions(arranged_starts, over=not left)
        if not left:
            return
        reading = sorted(monitor.reading)
        if not reading:
            monitor.moving.begin()  # nothing has to move between two clients
        who = clients(reading or left)
        if time.time() - go > monitor.limits.end_s:
            why = f"neither the time limit of {monitor.limits.read_s} s nor anything else has ended the reading"
            raise CalledOff(f"{who} had not ended {monitor.limits.end_s} s after the go: {why}")
        still = monitor.still_s()
        if still > monitor.limits.stall_s:
            # A worker that was lost before is the cause, and not the storage.
            cause = f"{monitor.lost_client}; since then " if monitor.lost_client else ""
            moved = f"{cause}the storage has moved nothing for {still:.0f} s while {who} read"
            raise CalledOff(moved + state_of_servers())
        monitor.tell(f"the storage to move anything while {who} read", still)
        monitor.rest()


def state_of_servers() -> str:
    """Whether each server of replicas.txt takes connections, in words to follow others; "" where none is named."""
    servers = set()
    for line in Path(names.REPLICAS).read_text(encoding="utf-8").splitlines():
        url = URL.match(line)
        port = int(url.group(2) or USUAL_PORTS.get(line.partition(":")[0], 0)) if url else 0
        if url and port:
            servers.add((url.group(1).strip("[]"), port))
    words = ""
    for host, port in sorted(servers)[:3]:
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
            state = "takes connections from here"
        except (TimeoutError, socket.timeout):  # noqa: UP041 - which are two before Python 3.10
            state = "does not answer from here"
        except OSError as error:
            state = f"takes no connection from here ({error.strerror or error})"
        words += f"; {host}:{port} {state}"
    return words


if __name__ == "__main__":
    sys.exit(watch(stop))
