"""What of a trial's trial.json is needed to read what the trial has left, and to judge it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench import json_files
from tierbench.dags.measure import MEASURES, Measure
from tierbench.dags.trial_settings import Work
from tierbench.json_files import Damaged
from tierbench.postprocess.records.beginning import Beginning, Placement
from tierbench.postprocess.records.roles import role_of
from tierbench.postprocess.records.traits import Traits, declared_now
from tierbench.starts import NATURAL, TOGETHER
from tierbench.trials import Condition

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
