"""A cluster's job event log, read on as it grows: what HTCondor tells of each of its jobs, and why clients failed.

Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from tierbench import names
from tierbench.files import read_end

# The date may be 2026-01-31 or 01/31, the time may have fractions of a second and a zone.
HEADER = re.compile(rb"^(\d{3}) \((\d+)\.(\d+)\.\d+\) (?:\d\S*T\S+|\S+ \S+) ?(.*)$")
READY = re.compile(r"TIERBENCH READY (\d+)")
EXECUTING, EVICTED, TERMINATED, SHADOW_FAILED, SAID, ABORTED, HELD, RELEASED, FAILED_THERE, SILENT, BACK, LOST = (
    "001", "004", "005", "007", "008", "009", "012", "013", "021", "022", "023", "024",
)  # fmt: skip
SUBMITTED, SUSPENDED, RESUMED = "000", "010", "011"
PAUSED = "was suspended by its worker while it ran"
HOLD = "was held: "
ON_HOLD_FROM_BEGIN = "Code 15 "  # as it was submitted
OUR_DAGMAN = re.compile("^(DAG |Node Error)")  # how DAGMan begins the reason for which it removes jobs
REMOVED = "was removed: "


class Event(NamedTuple):
    """One event: its number, which job of which cluster it is about, and its lines of text."""

    kind: str
    cluster: int
    job: int
    lines: "list[str]"

    def line(self, number: int) -> str:
        return self.lines[number].strip() if len(self.lines) > number else ""

    @property
    def reason(self) -> str:
        return self.line(1) or "no reason given"


def parsed(text: bytes) -> "Event | None":
    """The event of a log's lines up to its three dots; what is before its header is of one that was torn."""
    lines = text.split(b"\n")
    for number, line in enumerate(lines):
        header = HEADER.match(line)
        if header:
            kind, cluster, job, words = header.groups()
            text_lines = [each.decode("utf-8", "replace") for each in (words, *lines[number + 1 :])]
            return Event(kind.decode(), int(cluster), int(job), text_lines)
    return None


class Away(NamedTuple):
    """A job that HTCondor has lost hold of: since when by our clock, why, and whether it may be found again."""

    since: float
    why: str
    may_return: bool


class Cluster:
    """What has become of each job of a cluster; of several in one log, for a trial was tried again, the last one."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self._begin(0)

    def _begin(self, number: int) -> None:
        self.number = number
        self.submitted = set()  # type: set[int]
        self.released = set()  # type: set[int]
        self.ready = set()  # type: set[int]
        self.ended = {}  # type: dict[int, str]  # in the order of their ends; why, or "" where it was by itself
        self.away = {}  # type: dict[int, Away]
        self.causes = {}  # type: dict[int, str]  # what first befell a job, before it ended or was removed for it
        self.starts = {}  # type: dict[int, int]
        self.paused = set()  # type: set[int]  # for a time of its start that counts
        self.falls = {}  # type: dict[int, int]  # how often each was lost in a slot
        self.errors = {}  # type: dict[int, str]  # what a slot has said of it last
        self.slots = {}  # type: dict[int, str]

    def read_on(self) -> None:
        """Learn of the events that have been added."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return
        text = text[: text.rfind(b"\n...\n") + 5] if b"\n...\n" in text else b""  # one being written is read next time
        self.offset += len(text)
        for event in filter(None, map(parsed, text.split(b"\n...\n"))):
            # What begins otherwise is of an earlier try, whose log was moved aside before its jobs had left the queue.
            if event.cluster > self.number and event.kind in (SUBMITTED, EXECUTING):
                self._begin(event.cluster)
            if event.cluster == self.number:
                self.submitted.add(event.job)
                if not (event.kind == HELD and event.line(2).startswith(ON_HOLD_FROM_BEGIN)):
                    self._take_in(event)

    @property
    def left(self) -> "set[int]":
        return self.submitted - self.ended.keys()

    def _take_in(self, event: Event) -> None:
        kind, job = event.kind, event.job
        if kind == EXECUTING:
            self.away.pop(job, None)
            self.ended.pop(job, None)  # a schedd that was killed may have forgotten its end
            self.starts[job] = self.starts.get(job, 0) + 1
            self.paused.discard(job)
            self.slots[job] = next((line.split(":", 1)[1].strip() for line in event.lines if "SlotName:" in line), "")
        elif kind == SAID:
            ready = READY.search(event.lines[0])
            if ready:
                self.ready.add(int(ready.group(1)))
                self.paused.discard(job)
        elif kind in (TERMINATED, ABORTED, HELD):
            self.away.pop(job, None)
            # A job that was held is removed, and one whose worker is lost: the first reason is the cause.
            self.ended[job] = self.ended.get(job) or self.causes.get(job) or self._why(event)
        elif kind == RELEASED:
            self.released.add(job)
            self.ended.pop(job, None)
        elif kind in (SILENT, LOST, EVICTED, SHADOW_FAILED):
            self._lose(event)
        elif kind == FAILED_THERE:
            self.falls[job] = self.falls.get(job, 0) + 1
            self.errors[job] = f"fell out of its slot: {event.line(0)} {event.line(1)}"
        elif kind == SUSPENDED:
            self.paused.add(job)
            self.away[job] = Away(time.monotonic(), PAUSED, False)
        elif kind in (RESUMED, BACK):
            self.away.pop(job, None)
            self.causes.pop(job, None)

    def _lose(self, event: Event) -> None:
        kind, job, why = event.kind, event.job, self._why(event)
        if kind != EVICTED:  # as every job is that is removed
            self.causes.setdefault(job, why)
        if kind in (LOST, SHADOW_FAILED):
            self.falls[job] = self.falls.get(job, 0) + 1
        self.away[job] = Away(time.monotonic(), self.causes.get(job, why), kind == SILENT)
        if kind != SILENT:
            self.ready.discard(job)

    def _why(self, event: Event) -> str:
        slot = self.slots.get(event.job, "")
        if event.kind == TERMINATED:
            how = event.line(1).partition("termination ")[2]
            return "" if how == "(return value 0)" else "ended " + how
        if event.kind == ABORTED and "PeriodicRemove" in event.line(1):
            return REMOVED + ("it did not end in its time" if event.job in self.starts else "it found no slot in time")
        reasons = {
            ABORTED: REMOVED + event.reason,
            HELD: HOLD + event.reason,
            EVICTED: "was evicted from " + (slot or "its slot"),
            SHADOW_FAILED: "lost its shadow: " + event.line(1),
        }
        where = "its slot " + slot if slot else "its slot"
        return reasons.get(event.kind, f"was lost: {where} does not answer ({event.line(1) or 'disconnected'})")

    @property
    def on_hold(self) -> "set[int]":
        """Its jobs that were submitted, and have not been released since if they were on hold."""
        return self.left - self.released - self.starts.keys()

    def had_slots(self) -> int:
        """How many of its jobs run or have ended."""
        self.read_on()
        return len((self.starts.keys() | self.ended.keys()) - self.away.keys())


def client_reasons(jobs: int) -> "list[str]":
    """In words, each client of the trial here that has not read its file to the end."""
    cluster = Cluster(Path(names.CLIENTS_LOG))
    cluster.read_on()
    order = list(cluster.ended)
    order += sorted(set(range(jobs)) - set(order))
    causes = []  # type: list[str]
    consequences = []  # type: list[str]
    for number in order:
        words = _reason(last_record(Path(names.client_output(number))), cluster, number)
        if words is not None:
            why = cluster.ended.get(number, "")
            follows = why.startswith(REMOVED) and OUR_DAGMAN.match(why[len(REMOVED) :])
            (consequences if follows else causes).append(f"client {number} {words}")
    return causes + consequences


def _reason(last: "dict[str, Any]", cluster: Cluster, number: int) -> "str | None":
    """What became of a client that has not read its file; None of one that has."""
    why = cluster.ended.get(number) or (cluster.away[number].why if number in cluster.away else "")
    if last.get("event") == "end":
        status, message = last.get("status"), last.get("message")
        if status == "ok":
            return PAUSED if number in cluster.paused else None
        if status == "killed" and why:
            return f"killed: it {why}"
        return f"{status}: {message}" if message else str(status)
    state = "lost" if last else "never started"
    return f"{state}: it {why}" if why else state


def last_record(path: Path, longest: int = 1 << 20) -> "dict[str, Any]":
    """The last whole record of a client's output, which is its "end" unless it was lost, or of samples; else {}.

    The clock that a client compares after its end tells nothing of it.
    """
    try:
        lines = read_end(path, bytes_=longest).splitlines()
    except FileNotFoundError:
        lines = []
    records = map(as_record, reversed(lines))
    return next((record for record in records if record and record.get("event") != names.CLOCK_AFTER), {})


def report(path: str) -> "dict[str, Any]":
    """What a job has reported in a file of the trial here; nothing yet is an empty report."""
    try:
        return as_record(Path(path).read_bytes())
    except OSError:
        return {}


def as_record(text: bytes) -> "dict[str, Any]":
    """A JSON object; an empty one where the text is none, as while it is being written."""
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
