"""Reads the JSON lines of a trial's clients; one record per client, whatever became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench.dags import names

Event = dict[str, Any]

NEEDED = {"start": ("host", "url")}


@dataclass(frozen=True)
class Job:
    """One client's last start, by its events; empty ones where it did not get that far."""

    index: int
    starts: int = 0
    start: Event = field(default_factory=dict)
    clock: Event = field(default_factory=dict)
    go: Event = field(default_factory=dict)
    end: Event = field(default_factory=dict)

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
    def bytes_read(self) -> int | None:
        """What it read from storage: the smaller of two counts, since either can have other things in it."""
        told = [self.end.get("bytes_app"), self.end.get("bytes_client")]
        return min((count for count in told if count), default=None)

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
    for event in _events(path):
        if event["event"] == "start":
            starts += 1
            last = {}
        last[event["event"]] = event
    return Job(index, starts, *(last.get(name, {}) for name in ("start", "clock", "go", "end")))


def _whole(event: Event) -> bool:
    """Whether a record has what its kind must have."""
    kind = event.get("event")
    return isinstance(kind, str) and all(name in event for name in NEEDED.get(kind, ()))


def _events(path: Path) -> list[Event]:
    """The client's own lines; a cut-off one, and what a program beneath it printed, are not among them."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("wall_ns"), int) and _whole(event):
            events.append(event)
    return events
