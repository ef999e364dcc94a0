"""The kinds of replica sets that an experiment can ask for."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, Literal

from tierbench import names
from tierbench.checked_text import AbsolutePath, Glob, Key, Name
from tierbench.spec import Checked, bounded, derived

MOST = 1_000_000  # files of a set
Codec = Literal["none", "zlib-1", "lz4-4", "zstd-5"]


@dataclass(frozen=True)
class Entry:
    """What is known of one file of a set."""

    name: str
    bytes: int
    adler32: str
    events: int | None = None


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """A set of files, all alike and each unique, of about the same size."""

    kind: Key
    count: int = bounded(dataclasses.MISSING, 1, MOST)
    size_mb: float = bounded(dataclasses.MISSING, 0.001, 10_000_000)
    name: str = derived("")
    made: ClassVar[bool] = True  # once, for many trials
    has_files: ClassVar[bool] = True  # as files on the storage, if only for the time of a trial
    suffix: ClassVar[str] = ".root"

    @property
    def is_written(self) -> bool:
        """Whether each trial writes it, and removes it again."""
        return self.has_files and not self.made

    @property
    def nominal_bytes(self) -> int:
        """About how large each is; what it really is, the catalogue beside the files says."""
        return round(self.size_mb * 1_000_000)

    @property
    def sizes(self) -> list[int]:
        """About how large the first ones are; those after them have the same sizes again."""
        return [self.nominal_bytes]

    @property
    def files(self) -> list[str]:
        return names.replica_files(self.name, self.count, self.suffix)

    @property
    def folder(self) -> str:
        """The set's folder on the storage: the same for sets that only differ in their count."""
        said = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        recipe = {key: value for key, value in said.items() if key not in ("count", "name")}
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
        return f"{self.name}-{digest[:6]}"


@dataclass(frozen=True, kw_only=True)
class TreeReplicas(Replicas):
    """ROOT files with one tree of random numbers: so many branches, each an array of so many leaves."""

    branches: int = bounded(20, 1, 10_000)
    leaves: int = bounded(1000, 1, 1_000_000)
    basket_kb: int = bounded(32, 1, 65_536)
    codec: Codec = "zlib-1"
    events: int | None = bounded(None, 1, 1_000_000_000)
    cluster_events: int | None = bounded(None, 1, 1_000_000_000)


@dataclass(frozen=True, kw_only=True)
class NtupleReplicas(TreeReplicas):
    """The same numbers as an RNTuple; of ROOT's own clusters a file of 50 MB has one, and no latency."""

    events: int = bounded(dataclasses.MISSING, 1, 1_000_000_000)
    cluster_events: int = bounded(dataclasses.MISSING, 1, 1_000_000_000)
    suffix: ClassVar[str] = ".rntuple.root"  # by which the root client knows how to open it


@dataclass(frozen=True, kw_only=True)
class HiggsReplicas(Replicas):
    """ROOT files with events in which to look for Higgs bosons that decay to four leptons."""

    basket_kb: int = bounded(32, 1, 65_536)
    codec: Codec = "zlib-1"


@dataclass(frozen=True, kw_only=True)
class CopiedReplicas(Checked, Replicas):
    """Copies, under unique names, of the files that a glob pattern finds on the storage."""

    source: Glob

    def problems(self) -> Iterator[str]:
        if self.suffix and not Name.fits(self.suffix[1:]):
            yield f'source: must end in a suffix that all copies can have, like "*.root", not "{self.suffix}"'

    @property
    def suffix(self) -> str:  # type: ignore[override]
        return PurePath(self.source).suffix


@dataclass(frozen=True, kw_only=True)
class RandomReplicas(Replicas):
    """Files of random bytes, which nothing on the way can compress."""

    suffix: ClassVar[str] = ".dat"


@dataclass(frozen=True, kw_only=True)
class DoublingReplicas(Checked, RandomReplicas):
    """Files of random bytes, each twice as large as the one before: from size_mb to up_to_mb, and so on again."""

    up_to_mb: float = bounded(dataclasses.MISSING, 0.001, 10_000_000)

    def problems(self) -> Iterator[str]:
        if self.up_to_mb < self.size_mb:
            yield f"up_to_mb: must be size_mb, {self.size_mb:g}, or more, not {self.up_to_mb:g}"

    @property
    def sizes(self) -> list[int]:
        steps = math.floor(math.log2(self.up_to_mb / self.size_mb))
        return [round(self.size_mb * 1_000_000) << step for step in range(steps + 1)]

    @property
    def nominal_bytes(self) -> int:
        """Their mean."""
        return sum(self.sizes) // len(self.sizes)


@dataclass(frozen=True, kw_only=True)
class WrittenFiles(RandomReplicas):
    """What each client writes, in a place of its trial's own, where it is removed after the trial.

    multifile: a file each; partfile: all write parts of one file; serial: the first client writes one file for all.
    """

    count: int = bounded(MOST, 1, MOST)
    pattern: Literal["multifile", "partfile", "serial"] = "multifile"
    check: Literal["size", "adler32"] = "size"
    made: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class StreamedBytes(RandomReplicas):
    """What goes over the network and lies nowhere: so many bytes of each client, or 0 for what goes in its time.

    Where commands read files of their own, `reads` is the folder of them, which caches are emptied of.
    """

    count: int = bounded(MOST, 1, MOST)
    size_mb: float = bounded(0.0, 0, 10_000_000)
    reads: AbsolutePath | None = None
    made: ClassVar[bool] = False
    has_files: ClassVar[bool] = False


KINDS: dict[str, type[Replicas]] = {
    "tree": TreeReplicas, "rntuple": NtupleReplicas, "higgs": HiggsReplicas, "copies": CopiedReplicas,
    "random": RandomReplicas, "doubling": DoublingReplicas, "written": WrittenFiles, "streamed": StreamedBytes,
}  # fmt: skip
