"""A trial as it was planned, by its trial.json, of earlier versions too, and what follows from it for who judges it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tierbench import json_files, trials
from tierbench.dags.clients import shipped_clients
from tierbench.dags.measure import MEASURES, Measure
from tierbench.json_files import Damaged
from tierbench.trials import UNLIMITED
from tierbench.wrappers.client import Client

T = TypeVar("T")


def read_or_report(shape: type[T], path: Path, tell: Callable[[str], None]) -> T | None:
    """What a file says; None where it is not there, or damaged, which is reported."""
    try:
        return json_files.read_as(shape, path, path.name)
    except FileNotFoundError:
        return None
    except Damaged as error:
        tell(str(error))
        return None


@dataclass(frozen=True)
class Traits:
    """The declaration, as trial.json has it."""

    does: str
    reads_whole: bool
    usual_excess: float
    taken_in: str
    settles: bool = True
    at_once: int = 1


MOST_JOBS = 1_000_000  # as a set has replicas
NEEDED = (
    "id", "name", "index", "configuration", "access", "workload", "client", "repeat", "pool", "workers", "protocol",
    "flush", "sample_period_s", "bytes",
)  # fmt: skip
UNLIMITED_ALL = dict.fromkeys(trials.Limits._fields[:9], UNLIMITED)


class Definition(trials.Trial):
    __slots__ = ()

    @property
    def declared(self) -> Traits:
        """What its client declared, or does now, where the trial was written before clients did."""
        file = shipped_clients().get(self.client)
        return json_files.typed(Traits, self.traits or (file.client if file else Client).traits(), self.client)

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
        """What each sampled host does on the path of the data."""
        return {sampler.host: sampler.role for sampler in self.samplers}


def definition(content: Mapping[str, Any], where: str) -> Definition:
    """A trial.json; what an earlier version did not limit is not limited."""
    missing = [name for name in NEEDED if name not in content]
    if missing:
        raise Damaged(f"{where} is damaged: {', '.join(f'{name}: missing' for name in missing[:3])}")
    values: dict[str, Any] = {"limits": {}, **{name: value for name, value in content.items() if value is not None}}
    if isinstance(values["limits"], dict):
        values["limits"] = UNLIMITED_ALL | values["limits"]
    return json_files.typed(Definition, values, where)


def read_definition(path: Path) -> Definition:
    try:
        trial = definition(json_files.read_table(path), str(path))
        if not 0 < trial.jobs <= MOST_JOBS or trial.sample_period_s <= 0:
            raise Damaged(f"{path} is damaged: {trial.jobs} jobs, sampled each {trial.sample_period_s:g} s")
        return trial
    except FileNotFoundError:
        raise Damaged(f"{path} is not there; is {path.parent} a trial's folder of a run directory?") from None
    except Damaged as error:
        raise Damaged(f"{error}; `tierbench write` makes it anew in another directory") from None
