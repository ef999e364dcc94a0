"""The clients that can be put to work on replicas, and what each can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from tierbench.kinds import (
    AbsolutePath,
    Bind,
    Image,
    Key,
    LocalFile,
    OptionalPath,
    Release,
    Shell,
    Tree,
    Value,
    Variable,
    shown,
)
from tierbench.spec import bounded

ROOT_FILES = ("tree", "higgs", "copies")
ANY_FILES = (*ROOT_FILES, "random")


@dataclass(frozen=True)
class DdOptions:
    """Reads through a mount, block by block."""

    block_kb: int = bounded(1024, 1, 1_048_576)


@dataclass(frozen=True)
class XrdcpOptions:
    """Copies to nowhere."""

    streams: int = bounded(1, 1, 15)


@dataclass(frozen=True)
class RootOptions:
    """Reads every event in full; a cache of 0 MB is ROOT's default, one of -1 is none.

    `setup` is a line of shell that makes ROOT available on the workers, where it is not on the PATH.
    """

    cache_mb: float = bounded(0.0, -1, 4096)
    learn: bool = False
    tree: Tree = Tree("")
    setup: Shell = Shell("")


@dataclass(frozen=True)
class HiggsOptions:
    """Selects four-lepton events; more combinatorics make it slower and change nothing else."""

    combinatorics: int = bounded(20, 1, 10_000)
    cache_mb: float = bounded(0.0, -1, 4096)
    tree: Tree = Tree("")
    setup: Shell = Shell("")


@dataclass(frozen=True)
class CmsswOptions:
    """Runs cmsRun with the user's PSet in a release from CVMFS or a release area, bare or in an Apptainer image."""

    pset: LocalFile
    release: Release = Release("")
    area: OptionalPath = OptionalPath("")
    arch: Release = Release("")
    cvmfs: AbsolutePath = AbsolutePath("/cvmfs/cms.cern.ch")
    image: Image = Image("")
    binds: tuple[Bind, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.release) == bool(self.area):
            raise ValueError('either release, like "CMSSW_10_6_30", or area, a release area on the workers, is needed')


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A client and the replicas that it reads; its own ladder and accesses where they differ.

    `environment` holds variables for the reading process, like XRD_STREAMTIMEOUT.
    """

    client: str
    replicas: Key
    batches: tuple[int, ...] | None = None
    access: tuple[Key, ...] | None = None
    options: Any = None
    environment: dict[str, Value] = field(default_factory=dict)
    memory_mb: int | None = bounded(None, 16, 1_048_576)
    usual_mb: ClassVar[int] = 128
    protocols: ClassVar[tuple[str, ...]] = ("xrootd", "file")
    kinds: ClassVar[tuple[str, ...]] = ROOT_FILES

    def __post_init__(self) -> None:
        for name in self.environment:
            if not Variable.fits(name):
                raise ValueError(f"environment: must hold {Variable.must_be}, not {shown(name)}")

    @property
    def asks_mb(self) -> int:
        """The memory that HTCondor is asked for, for each client."""
        cache_mb = max(0, getattr(self.options, "cache_mb", 0))
        return self.memory_mb or math.ceil(self.usual_mb + cache_mb)


@dataclass(frozen=True, kw_only=True)
class DdWorkload(Workload):
    """The CHEP paper's dd."""

    client: Literal["dd"]
    options: DdOptions = field(default_factory=DdOptions)
    protocols = ("file",)
    kinds = ANY_FILES


@dataclass(frozen=True, kw_only=True)
class XrdcpWorkload(Workload):
    """XRootD's own copy command."""

    client: Literal["xrdcp"]
    options: XrdcpOptions = field(default_factory=XrdcpOptions)
    protocols = ("xrootd",)
    kinds = ANY_FILES


@dataclass(frozen=True, kw_only=True)
class RootWorkload(Workload):
    """The root routine of the thesis: bound by what it reads."""

    client: Literal["root"]
    options: RootOptions = field(default_factory=RootOptions)
    usual_mb = 384


@dataclass(frozen=True, kw_only=True)
class HiggsWorkload(Workload):
    """A Higgs to four leptons analysis in ROOT: bound by what it computes."""

    client: Literal["higgs"]
    options: HiggsOptions = field(default_factory=HiggsOptions)
    usual_mb = 384
    kinds = ("higgs", "copies")


@dataclass(frozen=True, kw_only=True)
class CmsswWorkload(Workload):
    """A CMSSW job, where the site has CMSSW."""

    client: Literal["cmssw"]
    options: CmsswOptions
    usual_mb = 2500
    kinds = ("copies",)


CLIENTS: dict[str, type[Workload]] = {
    "dd": DdWorkload,
    "xrdcp": XrdcpWorkload,
    "root": RootWorkload,
    "higgs": HiggsWorkload,
    "cmssw": CmsswWorkload,
}
