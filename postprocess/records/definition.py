"""What of a trial's trial.json is needed to read what the trial has left, and to judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tierbench import json_files
from tierbench.dags.clients import shipped_clients
from tierbench.dags.measure import MEASURES, Measure
from tierbench.json_files import Damaged
from tierbench.starts import EVERY, IN_TURN, NATURAL, TOGETHER
from tierbench.trials import Condition, Work
from tierbench.wrappers.client import Client

T = TypeVar("T")

FORMERLY = {"xrootd": "door"}  # when no other server was thought of


def role_of(name: str) -> str:
    """The role that a record names."""
    return FORMERLY.get(name, name)


def by_role(stated: Mapping[str, T]) -> dict[str, T]:
    """What a record has by roles, as a site's [links]."""
    return {role_of(name): value for name, value in stated.items()}


@dataclass(frozen=True)
class Traits:
    """The declaration, as trial.json has it."""

    does: str
    reads_whole: bool
    usual_excess: float
    taken_in: str
    settles: bool = True
    at_once: int = 1


def declared_now(client: str) -> Traits:
    """What a client declares now, for trials that were written before they had it."""
    file = shipped_clients().get(client)
    return json_files.typed(Traits, (file.client if file else Client).traits(), client)


@dataclass(frozen=True)
class Beginning:
    """The kind of start, and the seconds from one client to the next where they begin one by one."""

    kind: str
    every_s: float = 0.0

    @property
    def gated(self) -> bool:
        """Whether each client was told when to begin."""
        return self.kind != NATURAL

    @property
    def at_one_instant(self) -> bool:
        return self.kind == TOGETHER

    @property
    def in_turn(self) -> bool:
        """Whether each client had the way for itself."""
        return self.kind == IN_TURN

    @property
    def overlapping(self) -> bool:
        """Whether all clients were to read at the same time for most of the trial."""
        return self.kind in (TOGETHER, NATURAL)

    @property
    def text(self) -> str:
        """As tables and reports have it."""
        return f"every {self.every_s:g} s" if self.kind == EVERY else self.kind


@dataclass(frozen=True)
class Placement:
    """The workers that clients were meant for, and whether each was to have a core of its own."""

    asked: str = "as-matched"
    hosts: list[str] = field(default_factory=list)
    pinned: bool = False

    @property
    def text(self) -> str:
        """As tables and reports have it."""
        return self.asked + (", pinned" if self.pinned else "")


MOST_JOBS = 1_000_000  # as a set has replicas


@dataclass(frozen=True)
class FlushedHosts:
    """How caches were to be emptied, and on which hosts."""

    strategy: str = ""
    hosts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SampledHost:
    """A host that was to be sampled."""

    host: str
    role: str


@dataclass(frozen=True)
class OfPool:
    """The workers of a trial's pool."""

    pool: str
    workers: list[str]


@dataclass(frozen=True)
class Definition(OfPool):
    """A trial as it was planned; what has a default is not there in trials of earlier versions."""

    id: str
    name: str
    index: int
    configuration: str
    access: str
    workload: str
    client: str
    jobs: int
    repeat: int
    protocol: str
    flush: FlushedHosts
    samplers: list[SampledHost]
    sample_period_s: float
    bytes: int | None
    traits: Traits | None = None
    levels: dict[str, Any] = field(default_factory=dict)
    start: Beginning | None = None
    ahead: bool = False  # its jobs were started before its turn, and waited for it
    gate: bool = False  # of earlier versions, which knew no other start but none
    placement: Placement = field(default_factory=Placement)
    conditions: list[Condition] = field(default_factory=list)
    writes: dict[str, Any] | None = None
    copied_to: str | None = None  # the host that its way leads to, where its clients copy from server to server
    on_disk: bool = False  # the workers' own disks are its storage
    servers: list[str] = field(default_factory=list)  # the storage servers that its way names; none: all
    streamed: bool = False  # its bytes go over the network and lie nowhere, so no cache has them
    work: Work = field(default_factory=Work)
    options: dict[str, Any] = field(default_factory=dict)  # of its clients

    @property
    def begin(self) -> Beginning:
        """How its clients were to begin."""
        return self.start or Beginning(TOGETHER if self.gate else NATURAL)

    @property
    def declared(self) -> Traits:
        """What its client declares."""
        return self.traits or declared_now(self.client)

    @property
    def measure(self) -> Measure:
        """What its rates are of, and which way its bytes go."""
        measure = MEASURES[self.declared.does]
        return measure.on_disks if self.on_disk else measure

    @property
    def reads_again(self) -> bool:
        """Whether files are read again and again, so that caches are meant to serve them."""
        return self.work.for_s is not None and self.declared.does == "reads"

    @property
    def cores_each(self) -> int:
        """How many cores the processes of a job can keep busy at a time."""
        return 1 if self.placement.pinned else self.work.processes

    @property
    def roles(self) -> dict[str, str]:
        """What each sampled host does on the way of the data."""
        return {sampler.host: role_of(sampler.role) for sampler in self.samplers}


def read_definition(path: Path) -> Definition:
    """The trial.json of a trial."""
    try:
        trial = json_files.read_as(Definition, path)
        if not 0 < trial.jobs <= MOST_JOBS or trial.sample_period_s <= 0:
            raise Damaged(f"{path} is damaged: {trial.jobs} jobs, sampled each {trial.sample_period_s:g} s")
        return trial
    except FileNotFoundError:
        raise Damaged(f"{path} is not there; is {path.parent} a trial's folder of a run directory?") from None
    except Damaged as error:
        raise Damaged(f"{error}; `tierbench write` makes it anew in another directory") from None
