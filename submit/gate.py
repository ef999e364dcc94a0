#!/usr/bin/env python3
"""The start gate, and the trial's watcher: all clients begin at one instant, and the trial ends in any case.

usage: gate.py            (in the trial's directory on the access point; a local universe job)

Waits until every client has said READY in the clients' job event log (or has ended), the caches of every
host are flushed and every sampler has written its first records. Then it publishes in go.json one wall-clock
time, a little ahead, for which each client waits. When all clients have ended it passes the turn to the next
trial at once, and stops the samplers when they have seen the idle storage for a moment.
When something fails, or is waited for longer than trial.json's `limits` allow, it calls the trial off: it says
why in called-off.json, and its exit status has DAGMan remove all jobs. What it waits for is in waiting-for.
Started again it finds the go that it gave before. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 all clients have ended; 2 trial.json cannot be read; 3 the trial is called off
"""

import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tierbench.dags.held import held, wait_until_undone
from tierbench.dags.room import free_bytes, give_up_reserve, is_low
from tierbench.submit.joblog import Cluster
from tierbench.submit.lastsamples import RECEIVED, SENT, counted, last_samples
from tierbench.submit.servers import state_of_servers

POLL_SECONDS = 0.1
# A client learns the time when it next looks, four times a second; many at once keep the access point busy.
LEAD_SECONDS = 0.5
LEAD_SECONDS_PER_CLIENT = 0.01
# The storage is seen idle for so long before the go and after the last end, by whole sampling intervals.
IDLE_SECONDS = 1.0
SETTLE_SECONDS = 0.5
NEXT_SECONDS = 2.0  # no other trial reads earlier after the turn was passed on
LOOK_SECONDS = 1.0  # between two looks at the disk and at what has moved
TOLD_SECONDS = 5.0  # a wait that lasts is told of
QUIET_BYTES_PER_S = 62500  # of a storage server's interface, both directions: what is no reading, but talk


class CalledOff(Exception):
    """Why the trial cannot go on."""


def main() -> int:
    try:
        trial = json.loads(Path("trial.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"gate: trial.json: {error}", file=sys.stderr)
        return 2
    watched = Watched(trial)
    try:
        gather(watched)
        see_to_the_end(watched)
    except CalledOff as reason:
        call_off(watched, str(reason))
        return 3
    if trial["conditions"]:
        # The next trial must not meet them, so it waits until they are undone.
        time.sleep(max(IDLE_SECONDS, 2 * trial["sample_period_s"] + SETTLE_SECONDS))
        write("stop", "stop\n")
        wait_until_undone(Path(), trial, watched.limits["stop_s"])
        pass_the_turn()
        return 0
    # One interval is under way when the last client ends, and the next one shall be whole. The next trial takes
    # seconds to begin, in which this one sees the storage idle; what it takes more, the next one waits for.
    idle = max(IDLE_SECONDS, 2 * trial["sample_period_s"] + SETTLE_SECONDS)
    time.sleep(max(0.0, idle - NEXT_SECONDS))
    pass_the_turn()
    time.sleep(min(idle, NEXT_SECONDS))
    write("stop", "stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    return 0


def pass_the_turn() -> None:
    subprocess.call([str(Path(__file__).resolve().with_name("turn.py")), "pass"])


def gather(watched: "Watched") -> None:
    """Let all clients begin when all is ready; without a gate see that they begin."""
    began = time.monotonic()
    all_ready = None  # type: float | None  # since when only samplers are waited for that can be done without
    while not Path("go.json").exists() and not watched.ended >= watched.everybody:
        watched.look()
        unready = watched.unready()
        lacking = watched.unsampled()
        indispensable = [host for host, role in lacking if role == "storage"]
        now = time.monotonic()
        if not unready and not indispensable:
            all_ready = all_ready or now
            if not lacking or now - all_ready > watched.limits["samplers_s"]:
                watched.let_go()
                return
        waited = unready + ["samples of " + host for host, _ in lacking]
        watched.tell(", ".join(first(waited)), now - began)
        if now - began > watched.limits["ready_s"]:
            raise CalledOff(f"not ready after {watched.limits['ready_s']} s: {', '.join(first(waited))}")
        time.sleep(POLL_SECONDS)


def see_to_the_end(watched: "Watched") -> None:
    """Wait for all clients' ends."""
    go = go_time()
    watched.moving.begin()
    while True:
        watched.look()
        left = sorted(watched.everybody - watched.ended)
        if not left:
            return
        who = clients(left)
        restarted = [number for number in left if watched.cluster.starts.get(number, 0) > watched.starts.get(number, 1)]
        if restarted:
            raise CalledOff(f"{clients(restarted)} began anew, on {watched.cluster.slots[restarted[0]]}")
        if time.time() - go > watched.limits["end_s"]:
            raise CalledOff(
                f"{who} had not ended {watched.limits['end_s']} s after the go: neither the time limit of"
                f" {watched.limits['read_s']} s nor anything else has ended the reading"
            )
        still = watched.moving.still_s()
        if still > watched.limits["stall_s"]:
            # A worker that was lost before is the cause, and not the storage.
            cause = f"{watched.absent}; since then " if watched.absent else ""
            raise CalledOff(
                f"{cause}the storage has moved nothing for {still:.0f} s while {who} read{state_of_servers()}"
            )
        watched.tell(f"the storage to move anything while {who} read", still)
        time.sleep(POLL_SECONDS)


def call_off(watched: "Watched", reason: str) -> None:
    """Say why; clients that wait for the go learn it and end by themselves, the others DAGMan will remove."""
    print("called off: " + ascii(reason))
    write("called-off.json", json.dumps({"format": 1, "reason": reason}) + "\n")
    if Path("go.json").exists():
        return
    write("go.json", json.dumps({"format": 1, "called_off": reason}))
    deadline = time.monotonic() + watched.limits["stop_s"]
    while watched.cluster.left & watched.cluster.starts.keys() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        watched.read_on()


class Watched:
    """The trial, as its files on the access point tell of it."""

    def __init__(self, trial: "dict[str, Any]") -> None:
        self.trial = trial
        self.limits = trial["limits"]  # type: dict[str, int]
        self.everybody = set(range(trial["jobs"]))
        self.cluster, self.flushes = Cluster(Path("clients.log")), Cluster(Path("flush.log"))
        self.held, self.arranging = held(Path(), trial), Cluster(Path("arrange.log"))
        self.samplers = {via: Cluster(Path(log)) for via, log in SAMPLER_LOGS.items()}
        self.records = Records(self.everybody)
        self.moving = Moving([s["host"] for s in trial["samplers"] if s["role"] == "storage"])
        self.starts = {}  # type: dict[int, int]  # how often each client had been started when it was let go
        self.looked = 0.0
        self.awaited = self.absent = ""

    @property
    def ended(self) -> "set[int]":
        return self.records.ended | self.cluster.ended.keys()

    def read_on(self) -> None:
        for log in (self.cluster, self.flushes, self.arranging, *self.samplers.values()):
            log.read_on()
        self.records.read_on()

    def look(self) -> None:
        """Learn what is new, and see whether the trial can go on."""
        self.read_on()
        self._check_away()
        self._check_flushes()
        self._check_conditions()
        self._check_samplers()
        if time.monotonic() - self.looked > LOOK_SECONDS:
            self.looked = time.monotonic()
            self.moving.look()
            if is_low(Path()):
                give_up_reserve(Path())
                free = free_bytes(Path()) / 1e6
                raise CalledOff(f"the access point's disk is full: {free:.0f} MB are free, with the reserve given up")

    def unready(self) -> "list[str]":
        """What the go waits for, beside samples."""
        begun = self.cluster.ready if self.trial["gate"] else self.cluster.starts.keys()
        unready = sorted(self.everybody - begun - self.ended)
        idle = [number for number in unready if number not in self.cluster.starts]
        hosts = [host for host in self.trial["flush"]["hosts"] if not flushed(host)]
        return [
            *([clients(idle) + " without a slot"] if idle else []),
            *([clients([number for number in unready if number not in idle])] if len(idle) < len(unready) else []),
            *(["the flush on " + ", ".join(first(hosts))] if hosts else []),
            *(one.name for one in self.held if not one.settled),
        ]

    def unsampled(self) -> "list[tuple[str, str]]":
        """The hosts whose samplers have not seen the idle storage for a moment yet, and their roles."""
        if not self.trial["gate"]:
            return []  # the clients' node waits for them, before it is submitted
        return [(s["host"], s["role"]) for s in self.trial["samplers"] if not sampled_idle(s)]

    def let_go(self) -> None:
        self.starts = dict(self.cluster.starts)
        if self.trial["gate"]:
            lead = LEAD_SECONDS + LEAD_SECONDS_PER_CLIENT * len(self.everybody)
            write("go.json", json.dumps({"format": 1, "go_wall_ns": int((time.time() + lead) * 1e9)}))
        self.tell("", 0.0)

    def tell(self, what: str, seconds: float) -> None:
        """Leave word, for whoever watches, of a wait that lasts; a worker that is away comes before all else."""
        what = self.absent or (what if seconds > TOLD_SECONDS else "")
        if what != self.awaited:
            self.awaited = what
            since = {"format": 1, "what": what, "since_wall_s": round(time.time() - seconds, 1)}
            write("waiting-for.json", json.dumps(since) + "\n")

    def _check_away(self) -> None:
        self.absent = ""
        for number, away in self.cluster.away.items():
            if number in self.records.ended:
                continue
            self.absent = self.absent or f"client {number}, which {away.why}"
            # Before the go it may begin anew, on another worker too.
            patience = self.limits["away_s"] if away.may_return else TOLD_SECONDS
            if time.monotonic() - away.since > patience and (Path("go.json").exists() or not self.trial["gate"]):
                raise CalledOff(f"client {number} {away.why}")

    def _check_flushes(self) -> None:
        hosts = self.trial["flush"]["hosts"]
        for number, why in self.flushes.ended.items():
            if not flushed(hosts[number]):
                see = f"see flush/{hosts[number]}.err and flush.log"
                raise CalledOff(f"the flush on {hosts[number]} {why or 'failed'}; {see}")

    def _check_conditions(self) -> None:
        """A trial under other conditions than it is said to be under would be worse than none."""
        for one in self.held:
            trouble = one.trouble()
            if trouble:
                raise CalledOff(trouble)
            if "restored" in one.records:
                raise CalledOff(f"{one.name} was undone before the trial was over")
        for number, why in self.arranging.ended.items():
            name = self.held[number].name
            raise CalledOff(f"{name} was let go before the trial was over: its job {why or 'ended'}; see arrange.log")

    def _check_samplers(self) -> None:
        """A storage server's sampler that has ended before it delivered anything is not waited for."""
        for via, log in self.samplers.items():
            hosts = [s for s in self.trial["samplers"] if s["via"] == via]
            for number, why in log.ended.items():
                host = hosts[number]["host"]
                if hosts[number]["role"] == "storage" and not last_samples(sample_file(host), 1):
                    raise CalledOff(f"the sampler on {host} {why or 'ended'}; see samples/{host}.err")


SAMPLER_LOGS = {"pool": "samplers.log", "ssh": "samplers-ssh.log"}


class Records:
    """What the clients write as they run; it tells of their ends a second or two before HTCondor does."""

    def __init__(self, everybody: "set[int]") -> None:
        self.sizes = dict.fromkeys(everybody, 0)
        self.ended = set()  # type: set[int]

    def read_on(self) -> None:
        for number in self.sizes.keys() - self.ended:
            path = Path("clients", str(number) + ".jsonl")
            try:
                size = path.stat().st_size
                if size != self.sizes[number] and b'"event": "end"' in path.read_bytes():
                    self.ended.add(number)
                self.sizes[number] = size
            except FileNotFoundError:
                pass


class Moving:
    """Whether the storage moves anything, by what its samplers deliver."""

    def __init__(self, hosts: "list[str]") -> None:
        self.hosts = hosts
        self.seen = collections.deque()  # type: collections.deque[tuple[float, int]]

    def begin(self) -> None:
        self.seen.clear()

    def look(self) -> None:
        moved = 0
        for host in self.hosts:
            for record in last_samples(sample_file(host), 1):
                moved += counted(record, SENT) + counted(record, RECEIVED)
        now = time.monotonic()
        # The stillness goes back to the earliest look since when no more than a trickle has come.
        while self.seen and moved - self.seen[0][1] > QUIET_BYTES_PER_S * len(self.hosts) * (now - self.seen[0][0] + 1):
            self.seen.popleft()
        self.seen.append((now, moved))

    def still_s(self) -> float:
        return self.seen[-1][0] - self.seen[0][0] if self.hosts and self.seen else 0.0


def clients(numbers: "list[int]") -> str:
    return ("client " if len(numbers) == 1 else "clients ") + ", ".join(first([str(number) for number in numbers]))


def first(names: "list[str]") -> "list[str]":
    return names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]


def flushed(host: str) -> bool:
    """Whether a host has reported on its caches, well or not; the report comes when the job has ended."""
    try:
        return "status" in json.loads(Path("flush", host + ".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def sampled_idle(sampler: "dict[str, Any]") -> bool:
    """Whether a sampler has delivered; a storage server's for long enough to know its rate at rest."""
    wanted = 1 if sampler["role"] != "storage" else 2
    records = last_samples(sample_file(sampler["host"]), wanted)
    return len(records) == wanted


def sample_file(host: str) -> Path:
    return Path("samples", host + ".samples")


def go_time() -> float:
    """When the clients began; without a gate now."""
    try:
        return float(json.loads(Path("go.json").read_text())["go_wall_ns"]) / 1e9
    except (OSError, ValueError, KeyError):
        return time.time()


def write(name: str, text: str) -> None:
    unfinished = Path(name + ".new")
    unfinished.write_text(text)
    unfinished.rename(name)


if __name__ == "__main__":
    sys.exit(main())
