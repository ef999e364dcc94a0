"""Reads the JSON lines of a trial's clients; one record per client, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from tierbench import stored
from tierbench.dags import names
from tierbench.stored import Damaged

Event = dict[str, Any]

OWN = b'{"event": '  # what each record begins with
MOST_APART_NS = 60 * 10**9  # a clock that was set by more, or a time that is damaged: nothing can be said of it


class Named(TypedDict):
    """Any record."""

    event: str


class Told(Named):
    """A record with its times."""

    wall_ns: int
    mono_ns: int


class Start(Told):
    """A client is there, and knows its replica."""

    host: str
    url: str
    slot: NotRequired[str | None]
    boot_id: NotRequired[str | None]
    client: NotRequired[str]
    expected_bytes: NotRequired[int | None]


class Clock(Told):
    """How its wall clock stands to the access point's uptime."""

    low_ns: int
    high_ns: int


class Go(Told):
    """It has begun."""

    go_wall_ns: NotRequired[int | None]
    core: NotRequired[int | None]


class End(Told):
    """What became of it."""

    status: str
    message: NotRequired[str | None]
    opened_wall_ns: NotRequired[int | None]
    first_byte_wall_ns: NotRequired[int | None]
    bytes_app: NotRequired[int | None]
    bytes_client: NotRequired[int | None]
    bytes_source: NotRequired[str | None]
    events: NotRequired[int | None]
    cpu_user_s: NotRequired[float | None]
    cpu_system_s: NotRequired[float | None]
    exit_status: NotRequired[int | None]
    detail: NotRequired[dict[str, Any] | None]


KINDS: dict[str, type[Told]] = {"start": Start, "clock": Clock, "go": Go, "end": End}


@dataclass(frozen=True)
class Job:
    """One client's last start, by its events; empty ones where it did not get that far."""

    index: int
    starts: int = 0
    start: Event = field(default_factory=dict)
    clock: Event = field(default_factory=dict)
    go: Event = field(default_factory=dict)
    end: Event = field(default_factory=dict)
    damage: tuple[str, ...] = ()  # of records that are left out

    @property
    def status(self) -> str:
        if not self.start:
            return "never-started"
        return str(self.end.get("status") or "failed") if self.end else "lost"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def run_s(self) -> float | None:
        """From its begin to its end."""
        if "mono_ns" in self.go and "mono_ns" in self.end:
            return float(self.end["mono_ns"] - self.go["mono_ns"]) / 1e9
        return None

    @property
    def late_ns(self) -> int | None:
        """How long after its go time it began, where it was given one."""
        if self.go.get("go_wall_ns"):
            return int(self.go["wall_ns"] - self.go["go_wall_ns"])
        return None

    @property
    def ended_wall_ns(self) -> int | None:
        """When it ended by the wall clock as that was at its begin, carried on by the clock that nobody sets."""
        if "mono_ns" in self.go and "mono_ns" in self.end:
            ended: int = self.go["wall_ns"] + self.end["mono_ns"] - self.go["mono_ns"]
            return ended
        return self.end.get("wall_ns")

    @property
    def bytes_taken(self) -> int | None:
        """What the application moved from or to storage; by its process, where it does not count itself."""
        app: int | None = self.end.get("bytes_app")
        process: int | None = self.end.get("bytes_client")
        return process if app is None else app

    @property
    def bytes_read(self) -> int | None:
        """What it moved from or to storage: the smaller of two counts, since either can have other things in it."""
        told = [self.end.get("bytes_app"), self.end.get("bytes_client")]
        return min((count for count in told if count), default=None)

    @property
    def has_work(self) -> bool:
        """Whether there was anything for it to move: of those that write one file one may do it for all."""
        return bool(self.start.get("expected_bytes") != 0)

    @property
    def reads(self) -> int | None:
        """How often it asked for data, where it tells."""
        calls = (self.end.get("detail") or {}).get("read_calls")
        return calls if isinstance(calls, int) and calls > 0 else None

    @property
    def computing_s(self) -> float | None:
        """For how long it computed: its CPU time; in a scale model what that is on a core of the model's speed."""
        told = (self.end.get("detail") or {}).get("computed_s")
        return self.cpu_s if told is None else float(told)

    @property
    def cpu_s(self) -> float | None:
        times = [self.end.get("cpu_user_s"), self.end.get("cpu_system_s")]
        known = [float(time) for time in times if time is not None]
        return sum(known) if known else None


def read_jobs(trial: Path, count: int) -> list[Job]:
    """The records of the clients 0 … count-1 of the trial in this folder."""
    return [_read_job(trial / names.client_output(index), index) for index in range(count)]


def _read_job(path: Path, index: int) -> Job:
    starts = 0
    last: dict[str, Event] = {}
    damage: list[str] = []
    for line in _lines(path, damage):
        try:
            event = _event(line, last)
        except Damaged as error:
            damage.append(str(error))
            continue
        if event["event"] == "start":
            starts += 1
            last = {}
        last[event["event"]] = event
    if last.get("end", {}).get("status") == "ok" and "go" not in last:
        damage.append("an end without a begin")
    kept = {kind: last.get(kind, {}) for kind in KINDS}
    return Job(index, starts, **kept, damage=tuple(damage))


def _lines(path: Path, damage: list[str]) -> list[bytes]:
    """The client's own lines; what a program beneath it printed, and a last one that is cut off, are not among them."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        damage.append(f"its records cannot be read: {error.strerror}")
        return []
    lines = content.split(b"\n")[:-1]
    return [line for line in lines if line.startswith(OWN)]


def _event(line: bytes, before: Mapping[str, Event]) -> Event:
    """A client's record, if it is whole and goes on where those before it have ended."""
    event = stored.parse_as(Event, line, "a record")
    kind = stored.typed(Named, event, "a record")["event"]
    where = f'its record "{kind}"'
    stored.typed(KINDS.get(kind, Told), event, where)
    start = before.get("start")
    if start and kind != "start":
        wall, mono = (event[clock] - start[clock] for clock in ("wall_ns", "mono_ns"))
        earlier = max(one["mono_ns"] for one in before.values())
        if event["mono_ns"] < earlier or abs(wall - mono) > MOST_APART_NS:
            raise Damaged(f"{where} is damaged: its times are not those of the records before it")
    return event
