"""A trial as its files on the access point tell of it, for those who watch it: the gate, and who stops it.

They read HTCondor's events of the jobs, what the hosts report, the storage's samples, the clock and the disk. Shipped
to the run directory; stdlib only, Python 3.6 or newer.
"""

import collections
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tierbench import names, trials
from tierbench.condition_state import condition_states
from tierbench.files import read_end, replace
from tierbench.starts import Go
from tierbench.submit.trial.dagman import refusal
from tierbench.submit.trial.disk_reserve import FULL, LOW_BYTES, close_cut_event, free_bytes, give_up_reserve, may_write
from tierbench.submit.trial.joblog import HOLD, PAUSED, Cluster, last_record, report
from tierbench.trials import Sampler, Trial, read_trial, record_or, record_text

DONE, NO_TRIAL, CALLED_OFF = 0, 2, 3  # exit statuses
POLL_SECONDS = 0.1
SHARE = 0.05  # of a core, which looking takes at most: with many clients it is done less often
LOOK_SECONDS = 1.0  # between two looks at the disk and at what has moved
FALLS = 3  # one may be a restart of HTCondor
SHOWN_SECONDS = 5.0  # a wait that lasts is shown
SENT, RECEIVED = "tx_bytes", "rx_bytes"
OF_INTERFACES = (SENT, RECEIVED)
OF_DISKS = ("disk_read_bytes", "disk_own_read_bytes")  # of the machine, and where it is shared of the host
QUIET_BYTES_PER_S = 62500  # of a storage server's interface, both directions: what is no reading, but talk
FLUSH_LOGS, WRITE_AREA_LOGS = "flush.log and flush/*.err", "outbox.log and outbox/make.err"
KILLED = b'"status": "killed"'
LONGEST_WORDS = 500
SAMPLERS = {"pool": "sampling", "ssh": "sampling-ssh"}  # their nodes
SAMPLER_LOGS = {"pool": names.SAMPLERS_LOG, "ssh": names.SAMPLERS_SSH_LOG}


class CalledOff(Exception):
    """Why the trial cannot go on."""


def watch(step: "Callable[[TrialMonitor], None]") -> int:
    """Run a step of the trial whose directory this is; if it cannot go on call the trial off. Its exit status."""
    try:
        trial = read_trial(Path())
    except (OSError, ValueError) as error:
        print(f"{Path(sys.argv[0]).stem}: trial.json: {error}", file=sys.stderr)
        return NO_TRIAL
    monitor = TrialMonitor(trial)
    try:
        step(monitor)
        return DONE
    except CalledOff as reason:
        why = str(reason)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            why = disk_full()
        else:
            traceback.print_exc()
            why = f"{Path(sys.argv[0]).stem} failed: {error!r}"
    call_off(monitor, why)
    return CALLED_OFF


def disk_full() -> str:
    """Why no trial goes on, with room to say so."""
    give_up_reserve(Path())
    close_cut_event(Path())
    room = f"{free_bytes(Path()) / 1e6:.0f} MB are free, with the reserve given up"
    return f"the access point's disk is full, or a quota is used up: {room}"


def gather(monitor: "TrialMonitor") -> None:
    """Wait until all is ready for the go, or all have ended; without a gate, until all have begun."""
    began = time.monotonic()
    all_ready = None  # type: float | None  # since when only samplers are waited for that can be done without
    while not Path(names.GO).exists() and not monitor.all_ended:
        monitor.look()
        unready = monitor.unready()
        unsampled = monitor.unsampled()
        now = time.monotonic()
        if not unready and not any(sampler.of_storage for sampler in unsampled):
            all_ready = all_ready or now
            if not unsampled or now - all_ready > monitor.limits.samplers_s:
                return
        waited = ", ".join(first(unready + ["samples of " + sampler.host for sampler in unsampled]))
        monitor.tell(waited, now - began)
        if now - began > monitor.limits.ready_s:
            raise CalledOff(f"not ready after {monitor.limits.ready_s} s: {waited}")
        monitor.rest()


def call_off(monitor: "TrialMonitor", reason: str) -> None:
    """Say why; clients that wait for the go learn it and end by themselves, the others DAGMan will remove."""
    print("called off: " + ascii(reason))
    replace(names.CALLED_OFF, record_text(trials.CalledOff(reason)))
    go = monitor.go
    if go != Go() and all(go.begin(number) is not None for number in monitor.everybody - monitor.ended):
        return  # nobody waits for a time to begin at
    replace(names.GO, go._replace(called_off=reason).text())
    deadline = time.monotonic() + monitor.limits.stop_s
    while monitor.cluster.left & monitor.cluster.starts.keys() and time.monotonic() < deadline:
        monitor.rest()
        monitor.read_on()


class Jobs(NamedTuple):
    """Jobs that the trial cannot do without."""

    cluster: Cluster
    names: "list[str]"  # "" of what it can do without
    failure: "Callable[[int], str | None]"  # what a job says that has ended and failed; None of one that has not failed
    logs: str = ""


class TrialMonitor:
    """The trial, as its files on the access point tell of it."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.limits, self.start = trial, trial.limits, trial.start
        self.everybody = set(range(trial.jobs))
        self.cluster, self.flushes = Cluster(Path(names.CLIENTS_LOG)), Cluster(Path(names.FLUSH_LOG))
        self.conditions = condition_states(Path(), trial.conditions)
        arranging = ["the job that arranges " + state.name for state in self.conditions]
        # None has to end before the trial is over.
        self.arranging = Jobs(Cluster(Path(names.ARRANGE_LOG)), arranging, lambda _: "", names.ARRANGE_LOG)

        def not_flushed(number: int) -> "str | None":
            host = trial.flushed[number]
            return None if reports_flush(host) else last_words(f"{names.FLUSH}/{host}.err")

        def not_made(_: int) -> "str | None":
            made = report(names.MADE)
            return None if made.get("status") == "ok" else made.get("message", "")

        self.samplers = [self._samplers(via, log) for via, log in SAMPLER_LOGS.items()]
        self.jobs = [
            Jobs(self.cluster, [f"client {number}" for number in range(trial.jobs)], lambda _: None),
            Jobs(self.flushes, ["the flush on " + host for host in trial.flushed], not_flushed, FLUSH_LOGS),
            Jobs(Cluster(Path(names.WRITE_AREA_LOG)), ["the job of its write area"], not_made, WRITE_AREA_LOGS),
            self.arranging,
            *self.samplers,
        ]
        self.records = Records(self.everybody)
        self.moving = Moving(trial.storage_hosts, OF_DISKS if trial.on_disk else OF_INTERFACES)
        self.last_look = 0.0
        self.lost_client = ""
        self.told_wait = record_or(trials.Wait("", 0.0), Path(names.WAITING_FOR)).what  # by one that died
        self.processor_s = time.process_time()

    def _samplers(self, via: str, log: str) -> Jobs:
        """A storage server's that has ended before it delivered anything is not waited for."""
        samplers = [sampler for sampler in self.trial.samplers if sampler.via == via]
        needed = ["the sampler on " + sampler.host if sampler.of_storage else "" for sampler in samplers]

        def no_samples(job: int) -> "str | None":
            host = samplers[job].host
            return None if last_samples(names.sample_file(host), 1) else last_words(f"{names.SAMPLES}/{host}.err")

        return Jobs(Cluster(Path(log)), needed, no_samples, "samples/*.err")

    @property
    def go(self) -> Go:
        return record_or(Go(), Path(names.GO))

    @property
    def ended(self) -> "set[int]":
        return self.records.ended | self.cluster.ended.keys()

    @property
    def all_ended(self) -> bool:
        return self.ended >= self.everybody

    @property
    def reading(self) -> "set[int]":
        """The clients that read: their time to begin has come, and they have not ended."""
        go, now = self.go, time.time() * 1e9
        begins = {number: 0 if go == Go() else go.begin(number) for number in self.everybody - self.ended}
        return {number for number, begin in begins.items() if begin is not None and begin <= now}

    def still_s(self) -> float:
        """For how long the storage's interfaces have moved nothing, and no client has written that it came on."""
        return min(self.moving.still_s(), time.monotonic() - self.records.grown)

    def read_on(self) -> None:
        for jobs in self.jobs:
            jobs.cluster.read_on()
        self.records.read_on()

    def rest(self) -> None:
        time.sleep(max(POLL_SECONDS, (time.process_time() - self.processor_s) / SHARE))
        self.processor_s = time.process_time()

    def look(self) -> None:
        """Learn what is new, and see whether the trial can go on."""
        self.read_on()
        self._check_away()
        # A trial under other conditions than it is said to be under would be worse than none.
        for state in self.conditions:
            early = f"{state.name} was restored before the trial was over" if "restored" in state.records else ""
            if state.trouble() or early:
                raise CalledOff(state.trouble() or early)
        for jobs in self.jobs:
            self._check(jobs)
        if time.monotonic() - self.last_look > LOOK_SECONDS:
            self.last_look = time.monotonic()
            self.moving.look()
            self._check_refused()
            if free_bytes(Path()) < LOW_BYTES or not may_write(Path()):
                raise CalledOff(disk_full())

    def unready(self) -> "list[str]":
        """What the go waits for, beside samples."""
        suspended = {number for number, away in self.cluster.away.items() if away.why == PAUSED}
        ready = (self.cluster.ready if self.start.gated else self.cluster.starts.keys()) - suspended
        unready = sorted(self.everybody - ready - self.ended)
        idle = [number for number in unready if number not in self.cluster.starts]
        why = self.flushes.errors
        left = [(number, host) for number, host in enumerate(self.trial.flushed) if not reports_flush(host)]
        hosts = [host + (f", which {why[number]}" if number in why else "") for number, host in left]
        return [
            *([clients(idle) + " without a slot"] if idle else []),
            *([clients([number for number in unready if number not in idle])] if len(idle) < len(unready) else []),
            *(["the flush on " + ", ".join(first(hosts))] if hosts else []),
            *(["the write area"] if self.trial.writes and not report(names.MADE).get("status") else []),
            *(state.name for state in self.conditions if not state.settled),
        ]

    def unsampled(self) -> "list[Sampler]":
        """The samplers that have not seen the idle storage for a moment yet."""
        if not self.start.gated:
            return []  # the clients' node waits for them, before it is submitted
        # Of a storage server its rate at rest is to be known.
        samplers = [(sampler, last_samples(names.sample_file(sampler.host), 2)) for sampler in self.trial.samplers]
        return [sampler for sampler, records in samplers if len(records) < (2 if sampler.of_storage else 1)]

    def tell(self, what: str, seconds: float) -> None:
        """Leave word, for whoever watches, of a wait that lasts; a worker that is away comes before all else."""
        what = self.lost_client or (what if seconds > SHOWN_SECONDS else "")
        if what != self.told_wait:
            self.told_wait = what
            replace(names.WAITING_FOR, record_text(trials.Wait(what, round(time.time() - seconds, 1))))

    def _check(self, jobs: Jobs) -> None:
        """On a worker out of which jobs fall as soon as they come no trial begins, however often they are started."""
        for number, times in jobs.cluster.falls.items():
            if times >= FALLS and jobs.names[number]:
                why = jobs.cluster.causes.get(number) or jobs.cluster.errors.get(number, "fell out of its slot")
                raise CalledOff(f"{jobs.names[number]} {why}, {times} times; the worker's StartLog tells why")
        for number, why in jobs.cluster.ended.items():
            message = jobs.failure(number) if jobs.names[number] else None
            if message is not None:
                why = message or "it " + (why or "ended without a report")
                raise CalledOff(f"{jobs.names[number]} failed: {why}; see {jobs.logs}")

    def _check_refused(self) -> None:
        words = refusal(Path(names.DAGMAN_LOG)) if self.go == Go() else ""
        node = words.partition(":")[0]
        of_storage = {SAMPLERS[sampler.via] for sampler in self.trial.samplers if sampler.of_storage}
        if words and (node in of_storage or node not in SAMPLERS.values()):
            raise CalledOff(f"HTCondor did not take the jobs of {words}")

    def check_conditions(self, starts: "dict[int, int]", over: bool) -> None:
        """A condition whose job was lost since it had been started so often was not set all the time."""
        cluster = self.arranging.cluster
        for number, name in enumerate(self.arranging.names):
            away = cluster.away.get(number)
            if cluster.starts.get(number, 0) > starts.get(number, 0):
                raise CalledOff(f"{name} began anew: meanwhile nothing held the condition")
            if away and away.why != PAUSED and (over or not away.may_return):
                raise CalledOff(f"{name} {away.why}")

    def check_samplers(self, starts: "list[dict[int, int]]", over: bool) -> None:
        """A storage server's that was started again has written its file anew: what was before is lost."""
        for jobs, before in zip(self.samplers, starts):  # noqa: B905
            for number, times in jobs.cluster.starts.items():
                if jobs.names[number] and times > before.get(number, 1):
                    raise CalledOff(f"{jobs.names[number]} began anew, and has lost what it had sampled")
            for number, why in jobs.cluster.ended.items():
                if jobs.names[number] and not over:
                    raise CalledOff(f"{jobs.names[number]} {why or 'ended'} while clients read")

    def _check_away(self) -> None:
        self.lost_client = ""
        for number, why in self.cluster.ended.items():  # a client that is held says itself that it was killed
            if why.startswith(HOLD) and last_record(Path(names.client_output(number))).get("status") != "ok":
                raise CalledOff(f"client {number} {why}")
        for number, away in self.cluster.away.items():
            if number in self.records.ended:
                continue
            self.lost_client = self.lost_client or f"client {number}, which {away.why}"
            # Before the go it may begin anew, on another worker too.
            patience = self.limits.away_s if away.may_return else SHOWN_SECONDS
            if time.monotonic() - away.since > patience and (Path(names.GO).exists() or not self.start.gated):
                raise CalledOff(f"client {number} {away.why}")


class Records:
    """What the clients write as they run; it tells of their ends a second or two before HTCondor does.

    Of one that was killed HTCondor says whether it has ended: when it is evicted, it begins anew.
    """

    def __init__(self, everybody: "set[int]") -> None:
        self.sizes = dict.fromkeys(everybody, 0)
        self.ended = set()  # type: set[int]
        self.grown = 0.0  # when a client has last written anything

    def read_on(self) -> None:
        for number in self.sizes.keys() - self.ended:
            record = names.client_output(number)
            try:
                size = os.stat(record).st_size  # noqa: PTH116  a Path takes five times as long
                text = Path(record).read_bytes() if size != self.sizes[number] else b""
                if b'"event": "end"' in text and KILLED not in text:
                    self.ended.add(number)
                if size != self.sizes[number]:
                    self.sizes[number], self.grown = size, time.monotonic()
            except FileNotFoundError:
                pass


class Moving:
    """Whether the storage moves anything, by what its samplers deliver."""

    def __init__(self, hosts: "list[str]", counters: "tuple[str, ...]") -> None:
        self.hosts, self.counters = hosts, counters
        self.looks = collections.deque()  # type: collections.deque[tuple[float, int]]
        self.total, self.last_values = 0, {}  # type: int, dict[tuple[str, str], int]

    def begin(self) -> None:
        self.looks.clear()

    def look(self) -> None:
        now = time.monotonic()
        for host in self.hosts:
            for record in last_samples(names.sample_file(host), 1):
                for counter in self.counters:
                    value = max(0, counted(record, counter))
                    last = self.last_values.get((host, counter), 0)
                    self.total += value - last if value >= last else value  # which began anew, or wrapped
                    self.last_values[host, counter] = value
        # The stillness goes back to the earliest look since when no more than a trickle has come.
        quiet = QUIET_BYTES_PER_S * len(self.hosts)
        while self.looks and self.total - self.looks[0][1] > quiet * (now - self.looks[0][0] + 1):
            self.looks.popleft()
        self.looks.append((now, self.total))

    def still_s(self) -> float:
        return self.looks[-1][0] - self.looks[0][0] if self.hosts and self.looks else 0.0


def clients(numbers: "list[int]") -> str:
    return ("client " if len(numbers) == 1 else "clients ") + ", ".join(first([str(number) for number in numbers]))


def first(words: "list[str]") -> "list[str]":
    return words if len(words) <= 4 else [*words[:3], f"{len(words) - 3} more"]


def reports_flush(host: str) -> bool:
    """Whether a host has reported on its caches, well or not."""
    return "status" in report(names.flush_report(host))


def last_words(path: str) -> str:
    """The last line of what a job has complained of; nothing where it has not."""
    try:
        lines = read_end(path, bytes_=LONGEST_WORDS).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def last_samples(path: "str | Path", count: int) -> "list[dict[str, int]]":
    """So many of a sample file's last records, by the names of their columns; fewer where there are no more."""
    try:
        with Path(path).open("rb") as file:
            header = json.loads(file.readline().decode())
            columns = [column["name"] for column in header["columns"]]
            size, first = header["record_bytes"], file.tell()
            whole = (os.fstat(file.fileno()).st_size - first) // size
            file.seek(first + max(0, whole - count) * size)
            records = [file.read(size).split() for _ in range(min(count, whole))]
            # zip is not strict: Python 3.6 has no such argument
            return [dict(zip(columns, map(int, record))) for record in records if len(record) == len(columns)]  # noqa: B905
    except (OSError, ValueError, KeyError, TypeError):  # being written, or its trailer
        return []


def counted(record: "dict[str, int]", counter: str) -> int:
    """A counter of a record, of all its interfaces together: tx_bytes, or tx_bytes.eth0 and tx_bytes.eth1."""
    return sum(value for name, value in record.items() if name.partition(".")[0] == counter)
