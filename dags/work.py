"""The work of a job: how many files, by how many processes at once, in which order, once or for a given time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tierbench.spec import bounded

MOST_FILES, MOST_PROCESSES, LONGEST_S = 100_000, 10_000, 86_400


@dataclass(frozen=True, kw_only=True)
class WorkKeys:
    """The keys of a work, in an experiment or in a workload where its own differs."""

    files_per_job: int | None = bounded(None, 1, MOST_FILES)
    processes: int | None = bounded(None, 1, MOST_PROCESSES)
    for_s: float | None = bounded(None, 1, LONGEST_S)
    order: Literal["listed", "shuffled"] | None = None
    fetch_every_s: float | None = bounded(None, 0.01, LONGEST_S)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What each job of a trial does; its files are its own."""

    files_per_job: int = 1
    processes: int = 1
    for_s: float | None = None  # None: until each file was read once
    order: str = "listed"
    fetch_every_s: float | None = None  # None: each process begins its next file when it has the one before

    def __str__(self) -> str:
        return ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.files_per_job > 1:
            yield f"{self.files_per_job} files a job" + (f", {self.order}" if self.order != "listed" else "")
        if self.processes > 1:
            yield f"{self.processes} processes a job"
        if self.for_s is not None:
            yield f"for {self.for_s:g} s"
        if self.fetch_every_s is not None:
            yield f"each process every {self.fetch_every_s:g} s"

    def problems(self, time_limit_s: int) -> Iterator[str]:
        """What of it cannot be done."""
        if self.for_s is None and self.processes > self.files_per_job:
            yield (
                f"processes: {self.processes} processes of a job have {self.files_per_job} files between them; make"
                f" files_per_job {self.processes} or more, or say for_s, for how long they read them again and again"
            )
        if self.for_s is not None and self.for_s >= time_limit_s:
            yield f"for_s: must be less than time_limit_s, after which a client is ended, and not {self.for_s:g}"


def resolved(*said: WorkKeys) -> Work:
    """The work that several say, the first one's keys first."""
    keys = [field.name for field in dataclasses.fields(WorkKeys)]
    values = {key: next((value for one in said if (value := getattr(one, key)) is not None), None) for key in keys}
    return Work(**{key: value for key, value in values.items() if value is not None})
