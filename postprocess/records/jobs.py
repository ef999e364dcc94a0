"""Reads the JSON lines of a trial's clients; one record per client, whatever became of it."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.json_files import Damaged
from tierbench.wrappers.mounts import Place
from tierbench.wrappers.work import LEAST_S, PERCENTILES, latency_of

OWN = b'{"event": '  # what each record begins with
LONGEST_S = 8 * 86_400  # as a trial
PROGRAM_BYTES = 65_536  # that a program reads of its libraries as it starts: xrdcp 45,000
COUNTS = (
    "bytes_app", "bytes_client", "bytes_disk", "events", "operations", "operations_s", "cpu_user_s", "cpu_system_s",
)  # fmt: skip
OF_DETAIL = ("column_bytes", "opening_bytes", "gap_bytes", "local_bytes", "computed_s", "read_calls")
MOST_APART_NS = 60 * 10**9  # a clock that was set by more, or a time that is damaged: nothing can be said of it


@dataclass(frozen=True)
class Named:
    """What a record is of."""

    event: str


@dataclass(frozen=True)
class Record(Named):
    """Any record, with its times."""

    wall_ns: int
    mono_ns: int


@dataclass(frozen=True)
class Start(Record):
    """A client is there, and knows its replica."""

    host: str
    url: str
    slot: str | None = None
    boot_id: str | None = None
    client: str = ""
    expected_bytes: int | None = None
    kernel: Any = None
    python: Any = None
    condor: Any = None


@dataclass(frozen=True)
class Clock(Record):
    """How its wall clock stands to the access point's uptime."""

    low_ns: int
    high_ns: int


@dataclass(frozen=True)
class Go(Record):
    """It has begun."""

    go_wall_ns: int | None = None
    core: int | None = None


@dataclass(frozen=True)
class WorkDone:
    """What a job of many fetches has done."""

    processes: int
    files: int
    fetches: int
    failed: int
    cut: int
    failures: dict[str, int]
    bytes_once: int
    latency_s: dict[str, float | None]
    latency_classes: dict[str, int]
    last_begin_wall_ns: int
    first_begin_wall_ns: int = 0
    overdue: int = 0  # records of earlier versions know no timetable
    latency_step: float = 1.02  # of one class over the next, as in earlier versions
    cut_classes: dict[str, int] = field(default_factory=dict)
    under_way_s: float | None = None  # of all files but those that were cut; earlier versions do not tell

    def counted(self, classes: Mapping[str, int]) -> Counter[float]:
        """How many fetches took how long, or had been under way for so long when time was over, by their classes."""
        counts: Counter[float] = Counter()
        for number, count in classes.items():
            counts[latency_of(int(number), self.latency_step)] += count
        return counts

    @property
    def is_sound(self) -> bool:
        """Whether it counts nothing below 0, and its latencies are times that fetches can have taken."""
        if not 0 <= (self.under_way_s or 0.0) < math.inf:
            return False
        counts = (self.fetches, self.failed, self.cut, self.overdue, self.bytes_once)
        if min(*counts, *self.latency_classes.values(), *self.cut_classes.values()) < 0:
            return False
        if not self.latency_s.keys() >= {*PERCENTILES, "max"} or self.latency_step <= 1:
            return False
        most = math.log(LONGEST_S / LEAST_S, self.latency_step)
        classes = (*self.latency_classes, *self.cut_classes)
        return all(number.isdecimal() and float(number) < most for number in classes)


@dataclass(frozen=True)
class End(Record):
    """What became of it."""

    status: str
    message: str | None = None
    opened_wall_ns: int | None = None
    first_byte_wall_ns: int | None = None
    bytes_app: int | None = None
    bytes_client: int | None = None
    bytes_source: str | None = None
    bytes_disk: int | None = None
    events: int | None = None
    operations: int | None = None
    operations_s: float | None = None  # in them, by its own clock
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    exit_status: int | None = None
    detail: dict[str, Any] | None = None
    work: WorkDone | None = None
    mounts: list[Place] = field(default_factory=list)


KINDS: dict[str, type[Record]] = {"start": Start, "clock": Clock, "go": Go, "end": End, names.CLOCK_AFTER: Clock}


@dataclass(frozen=True)
class Job:
    """One client's last start, by its records; None where it did not get that far."""

    index: int
    starts: int = 0
    start: Start | None = None
    clock: Clock | None = None
    go: Go | None = None
    end: End | None = None
    clock_after: Clock | None = None  # which earlier versions do not compare again
    damage: tuple[str, ...] = ()  # of records that are left out

    @property
    def host(self) -> str:
        """Where it ran; empty where it never started."""
        return self.start.host if self.start else ""

    @property
    def begin_wall_ns(self) -> int | None:
        return self.go.wall_ns if self.go else None

    @property
    def go_wall_ns(self) -> int | None:
        """Its start time, if it got one."""
        return self.go.go_wall_ns if self.go else None

    @property
    def expected_bytes(self) -> int | None:
        return self.start.expected_bytes if self.start else None

    @property
    def bytes_app(self) -> int | None:
        """What the application says that it moved."""
        return self.end.bytes_app if self.end else None

    @property
    def bytes_client(self) -> int | None:
        """What its process, or the client library, says that it moved."""
        return self.end.bytes_client if self.end else None

    @property
    def detail(self) -> dict[str, Any]:
        """What only this kind of client has to tell."""
        return (self.end.detail if self.end else None) or {}

    @property
    def status(self) -> str:
        if not self.start:
            return "never-started"
        return (self.end.status or "failed") if self.end else "lost"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def run_s(self) -> float | None:
        """From its begin to its end."""
        return (self.end.mono_ns - self.go.mono_ns) / 1e9 if self.go and self.end else None

    @property
    def late_ns(self) -> int | None:
        """How long after its go time it began, where it was given one."""
        return self.go.wall_ns - self.go.go_wall_ns if self.go and self.go.go_wall_ns else None

    @property
    def last_late_ns(self) -> int | None:
        """The same of the last of its processes."""
        if self.late_ns is None or self.work is None or self.go_wall_ns is None:
            return self.late_ns
        return max(self.late_ns, self.work.last_begin_wall_ns - self.go_wall_ns)

    @property
    def ended_wall_ns(self) -> int | None:
        """When it ended by the wall clock as that was at its begin, carried on by the clock that nobody sets."""
        if self.end is None:
            return None
        return self.go.wall_ns + self.end.mono_ns - self.go.mono_ns if self.go else self.end.wall_ns

    @property
    def bytes_taken(self) -> int | None:
        """What the application moved from or to storage; by its process, where it does not count itself."""
        return self.bytes_client if self.bytes_app is None else self.bytes_app

    @property
    def bytes_read(self) -> int | None:
        """What it moved from or to storage: the smaller of two counts, since either can have other things in it."""
        return min((count for count in (self.bytes_app, self.bytes_client) if count), default=None)

    @property
    def mbps(self) -> float | None:
        """Its own rate, over its run."""
        return 8e-6 * self.bytes_read / self.run_s if self.bytes_read and self.run_s else None

    def on_the_wire(self, count: int | None) -> int | None:
        """A count without what a program for each file reads to start, but no less than what the application moved."""
        if not count or self.bytes_app is None or self.work is None:
            return count or self.bytes_app
        return max(self.bytes_app, count - PROGRAM_BYTES * self.work.fetches)

    @property
    def work(self) -> WorkDone | None:
        """Its fetches, if it did more than read a file once."""
        return self.end.work if self.end else None

    @property
    def bytes_once(self) -> int | None:
        """What it read of its files, each counted once, however often it was read."""
        return self.work.bytes_once if self.work else self.bytes_read

    @property
    def has_work(self) -> bool:
        """Whether there was anything for it to move: of those that write one file one may do it for all."""
        return self.expected_bytes != 0

    @property
    def reads(self) -> int | None:
        """How often it asked for data, where it reports that."""
        return self.detail.get("read_calls") or None

    @property
    def computing_s(self) -> float | None:
        """For how long it computed: its CPU time; in a scale model what that is on a core of the model's speed."""
        computed_s = self.detail.get("computed_s")
        return self.cpu_s if computed_s is None else float(computed_s)

    @property
    def cpu_s(self) -> float | None:
        times = [self.end.cpu_user_s, self.end.cpu_system_s] if self.end else []
        seconds = [float(time) for time in times if time is not None]
        return sum(seconds) if seconds else None


def read_job(path: Path, index: int) -> Job:
    """A client by its records."""
    starts = 0
    last: dict[str, Any] = {}
    damage: list[str] = []
    try:
        lines = files.read_bytes(path).split(b"\n")[:-1]  # a last one that is cut off is none
    except FileNotFoundError:
        lines = []
    except OSError as error:
        lines, damage = [], [f"its records cannot be read: {error.strerror}"]
    for line in (line for line in lines if line.startswith(OWN)):  # and not what a program beneath it printed
        try:
            record = _record(line, last, path.absolute().parents[1].name)
        except Damaged as error:
            damage.append(str(error))
            continue
        if record.event == "start":
            starts += 1
            last = {}
        if record.event in KINDS:  # and not how far it came, which it says until its processes are gone
            last[record.event] = record
    job = Job(index, starts, **{kind: last.get(kind) for kind in KINDS}, damage=())
    if job.ok and not job.go:
        damage.append("an end without a begin")
    go, first = job.go, job.work.first_begin_wall_ns if job.work else 0
    if go and first:  # one of several processes begins with the first of them: its wrapper wakes among them
        go = replace(go, wall_ns=first, mono_ns=go.mono_ns + first - go.wall_ns)
    return replace(job, go=go, damage=tuple(damage))


def _record(line: bytes, before: Mapping[str, Record], trial: str) -> Record:
    """A client's record, if it is whole and goes on where those before it have ended."""
    content = json_files.parse_as(dict[str, Any], line, "a record")
    kind = json_files.typed(Named, content, "a record").event
    where = f'its record "{kind}"'
    record = json_files.typed(KINDS.get(kind, Record), content, where)
    if negative := [name for name in COUNTS if (getattr(record, name, None) or 0) < 0]:
        raise Damaged(f"{where} is damaged: {negative[0]} is negative")
    detail = record.detail or {} if isinstance(record, End) else {}
    if odd := [name for name in OF_DETAIL if not _is_amount(detail.get(name, 0))]:
        raise Damaged(f"{where} is damaged: detail.{odd[0]} is no amount")
    if isinstance(record, End) and record.work and not record.work.is_sound:
        raise Damaged(f"{where} is damaged: its fetches or latencies are none")
    start = before.get("start")
    if (of := content.get("trial", trial)) != trial:
        raise Damaged(f"{where} is of the trial {str(of)[:100]}")
    if kind in before and kind != "start":
        raise Damaged(f"{where} is damaged: stands there twice")
    if start and kind != "start":
        moved_ns = record.wall_ns - start.wall_ns - (record.mono_ns - start.mono_ns)
        if record.mono_ns < max(earlier.mono_ns for earlier in before.values()) or abs(moved_ns) > MOST_APART_NS:
            raise Damaged(f"{where} is damaged: its times are not those of the records before it")
    return record


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and value >= 0)
