"""The record of a trial, trial.json: written with the plan, read by its lock, gate, stop and last step.

Stdlib only, Python 3.6 or newer: it is shipped with them.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from tierbench import names
from tierbench.starts import EVERY, IN_TURN, NATURAL, OVERLAPPING, TOGETHER

ALREADY_COMPLETE = 3  # exit status of reset_trial.py, by which DAGMan skips the trial
FORMAT = 1
T = TypeVar("T")
COMPLETE, INCOMPLETE, SKIPPED = "complete", "incomplete", "skipped"  # states of an outcome
UNLIMITED = 10**9  # seconds, for what runs of earlier versions do not limit


class Limits(NamedTuple):
    """Seconds after which what lasts on is ended by the next one up."""

    slot_s: int  # a job waits for a slot
    read_s: int  # a client reads, by its own clock
    stall_s: int  # the storage moves nothing while clients read
    ready_s: int  # the gate waits for all clients to be ready
    go_s: int  # a client that is ready waits for the go
    end_s: int  # the last end is waited for, after the go
    job_s: int  # a client, flush or sampler runs, by HTCondor's clock
    gate_s: int  # the gate itself runs, by HTCondor's clock
    lock_s: int  # a trial keeps the measurement lock from the next one
    samplers_s: int = 60  # the gate waits for samplers of other hosts than storage when all else is ready
    away_s: int = 60  # a client's worker does not answer HTCondor
    stop_s: float = 30  # jobs that were asked to end take to do so


class Sampler(NamedTuple):
    """A host that is sampled, and whether by a job of the pool or over ssh."""

    host: str
    role: str
    via: str
    interface: str = ""

    @property
    def of_storage(self) -> bool:
        return self.role == "storage"


class Condition(NamedTuple):
    """What a host changes for the trial."""

    name: str
    condition: str
    host: str
    value: str
    unit: str
    tolerance_pct: float
    link: "str | None" = None  # whose rate it sets
    word: str = ""  # by which its helper knows it
    helper: str = ""
    reads_only: bool = False  # it sets what comes from the storage


class Start(NamedTuple):
    """How clients begin: the kind of start, and the seconds from one to the next where they begin one by one."""

    kind: str
    every_s: float = 0.0

    @property
    def gated(self) -> bool:
        """Whether each client gets a start time."""
        return self.kind != NATURAL

    @property
    def at_one_instant(self) -> bool:
        return self.kind == TOGETHER

    @property
    def in_turn(self) -> bool:
        """Whether each client has the storage for itself."""
        return self.kind == IN_TURN

    @property
    def overlapping(self) -> bool:
        """Whether all clients are to read at the same time for most of the trial."""
        return self.kind in OVERLAPPING

    def __str__(self) -> str:
        return f"every {self.every_s:g} s" if self.kind == EVERY else self.kind


class Credentials(NamedTuple):
    """Who its jobs are to the storage: what they know of it, and what HTCondor gives them."""

    flags: str = ""
    files: "tuple[str, ...] | list[str]" = ()
    service: str = ""


class Flush(NamedTuple):
    """How caches are emptied, and on which hosts."""

    strategy: str = "none"
    hosts: "tuple[str, ...] | list[str]" = ()


class Placement(NamedTuple):
    """Where clients were asked to run, the worker of each where it must be that one, and whether each has its core."""

    asked: str = ""
    hosts: "tuple[str, ...] | list[str]" = ()
    pinned: bool = False

    def __str__(self) -> str:
        return self.asked + (", pinned" if self.pinned else "")


class Work(NamedTuple):
    """What each job of a trial does; its files are its own."""

    files_per_job: int = 1
    processes: int = 1
    for_s: "float | None" = None  # None: until each file was read once
    order: str = "listed"
    fetch_every_s: "float | None" = None  # None: each process begins its next file when it has the one before

    @property
    def is_one_read(self) -> bool:
        return self.files_per_job == self.processes == 1 and self.for_s is None and self.fetch_every_s is None

    def __str__(self) -> str:
        parts = (
            "" if self.files_per_job == 1 else f"{self.files_per_job} files a job",
            "" if self.files_per_job == 1 or self.order == "listed" else self.order,
            "" if self.processes == 1 else f"{self.processes} processes a job",
            "" if self.for_s is None else f"for {self.for_s:g} s",
            "" if self.fetch_every_s is None else f"each process every {self.fetch_every_s:g} s",
        )
        return ", ".join(filter(None, parts))


class Outcome(NamedTuple):
    """outcome.json: how a trial went, and why, the first cause first."""

    state: str = COMPLETE
    reasons: "list[str]" = []  # noqa: RUF012 - never changed
    again: bool = False  # it will be tried once more
    left: "list[str]" = []  # noqa: RUF012 - of what it wrote, what could not be removed

    @property
    def is_final(self) -> bool:
        """Whether the trial has been measured, or need not be."""
        return self.state in (COMPLETE, SKIPPED)


class Attempt(NamedTuple):
    """attempt.json: which try of a trial this is, from 0, and how often it may be tried again."""

    retry: int = 0
    retries: int = 0

    @property
    def left(self) -> int:
        """How often DAGMan will start the trial again if it fails."""
        return self.retries - self.retry


class CalledOff(NamedTuple):
    """called-off.json: why the trial could not go on."""

    reason: str


class Wait(NamedTuple):
    """waiting-for.json: what a trial waits for, and since when; "" where it does not wait."""

    what: str
    since_wall_s: float


class Clock(NamedTuple):
    """clock.json, and `begun`: between which bounds the access point's wall clock was ahead of its uptime, and when."""

    low_ns: int
    high_ns: int
    uptime_ns: "int | None" = None  # earlier versions tell the bounds alone
    boot_id: str = ""

    @property
    def ahead_ns(self) -> float:
        return (self.low_ns + self.high_ns) / 2


class Trial(NamedTuple):
    """A trial as it was planned; what has a default may be missing in trials of earlier versions."""

    jobs: int
    limits: Limits
    samplers: "list[Sampler]"
    id: str = ""
    name: str = ""
    index: int = 0  # type: ignore[assignment]  # which of the plan's trials
    configuration: str = ""
    access: str = ""
    workload: str = ""
    client: str = ""
    traits: "dict[str, Any]" = {}  # noqa: RUF012 - never changed; what its client declares
    repeat: int = 1
    levels: "dict[str, Any]" = {}  # noqa: RUF012
    pool: str = ""
    requirements: str = "true"
    protocol: str = ""
    credentials: Credentials = Credentials()
    workers: "tuple[str, ...] | list[str]" = ()
    flush: Flush = Flush()
    sample_period_s: float = 0.0
    start: Start = Start(NATURAL)
    placement: Placement = Placement()
    until_known: bool = False  # it is repeated until enough is known
    until_answered: bool = False  # all are, until the run's question is answered
    after_look: bool = False  # it begins when the repetitions before have been looked at
    copied_to: "str | None" = None  # the host that its access method leads to, where clients copy from server to server
    on_disk: bool = False  # its clients read from their workers' own disks
    servers: "tuple[str, ...] | list[str]" = ()  # the storage servers that its access method names; none: all
    path: "tuple[str, ...] | list[str]" = ()  # the hosts that its access method says are on the way
    streamed: bool = False  # its bytes go over the network and lie nowhere
    options: "dict[str, Any]" = {}  # noqa: RUF012 - of its client
    bytes: "int | None" = None
    work: Work = Work()
    writes: "dict[str, Any] | None" = None
    conditions: "list[Condition]" = []  # noqa: RUF012

    @property
    def flushed(self) -> "list[str]":
        return list(self.flush.hosts)

    @property
    def does(self) -> str:
        return str(self.traits.get("does", ""))

    @property
    def storage_hosts(self) -> "list[str]":
        """The sampled hosts by which it is seen whether anything moves."""
        wanted = "worker" if self.on_disk else "storage"
        return [sampler.host for sampler in self.samplers if sampler.role == wanted]


def to_record(value: Any) -> "dict[str, Any]":
    return {"format": FORMAT, **_plain(value)}


def record_text(value: Any) -> str:
    return json.dumps(to_record(value), indent=1) + "\n"


def record_or(default: T, path: Path) -> T:
    """The record in a file, or another one of its kind where there is none, or a damaged one."""
    try:
        return cast(T, _record(type(default), json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError):
        return default


def read_trial(folder: Path) -> Trial:
    """The trial of this folder; OSError or ValueError where its trial.json cannot be read."""
    content = json.loads((folder / names.TRIAL).read_text(encoding="utf-8"))
    try:
        values = {name: content[name] for name in Trial._fields if name in content}
        limits = {name: content["limits"][name] for name in Limits._fields if name in content["limits"]}
        values["limits"] = Limits(*[UNLIMITED] * 9)._replace(**limits)
        for name, kind in PARTS.items():
            if name in values:
                values[name] = _record(kind, values[name])
        for name, kind in LISTED.items():
            values[name] = [_record(kind, item) for item in values.get(name, ())]
        return Trial(**values)
    except (KeyError, TypeError) as error:
        raise ValueError("it lacks or misstates " + str(error)) from None


PARTS = {"work": Work, "credentials": Credentials, "flush": Flush, "start": Start, "placement": Placement}  # type: dict[str, Any]
LISTED = {"samplers": Sampler, "conditions": Condition}  # type: dict[str, Any]


def _record(kind: Any, content: "dict[str, Any]") -> Any:
    return kind(**{name: content[name] for name in kind._fields if name in content})


def _plain(value: Any) -> Any:
    """Records as dicts, to be written."""
    if hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
