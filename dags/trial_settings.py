"""Keys of an experiment that have values of their own: how clients begin, what each does, where, and how often.

What kinds of start there are is said where those that run on the access point and workers read it, too: starts.py.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tierbench.checked_text import Host, Line
from tierbench.dags.nodes import item
from tierbench.spec import Checked, bounded
from tierbench.trials import Work

StartKind = Literal["together", "natural", "in-turn"]
MOST_FILES, MOST_PROCESSES, LONGEST_S = 100_000, 10_000, 86_400
PlacementName = Literal["evenly", "as-matched", "one-worker", "in-turn"]
EVENLY: PlacementName = "evenly"  # where they divide; else as matched
AS_MATCHED: PlacementName = "as-matched"
IN_TURN: PlacementName = "in-turn"
ANYWHERE = "true"  # the requirement of a client that no worker is meant for
# A worker that is full of others' jobs is not waited for: the trial goes on, and differs from its repetitions.
MEANT_FOR_S = 120
OR_LATER_ANYWHERE = f"time() - QDate > {MEANT_FOR_S}"
MOST_REPEATS, LEAST_TO_ANSWER = 1000, 3
SPAN, SECONDS = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|h)"), {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True, kw_only=True)
class Every:
    """Client k begins so many seconds after client k - 1, whatever has become of that."""

    every_s: float = bounded(dataclasses.MISSING, 0.05, 86_400)


@dataclass(frozen=True, kw_only=True)
class WorkKeys:
    """The keys of a work, in an experiment or in a workload where its own differs."""

    files_per_job: int | None = bounded(None, 1, MOST_FILES)
    processes: int | None = bounded(None, 1, MOST_PROCESSES)
    for_s: float | None = bounded(None, 1, LONGEST_S)
    order: Literal["listed", "shuffled"] | None = None
    fetch_every_s: float | None = bounded(None, 0.01, LONGEST_S)


def work_problems(work: Work, time_limit_s: int) -> Iterator[str]:
    if work.for_s is None and work.processes > work.files_per_job:
        remedy = f"make files_per_job {work.processes} or more, or say for_s, so long they read them again and again"
        yield f"processes: {work.processes} processes of a job have {work.files_per_job} files between them; {remedy}"
    if work.for_s is not None and work.for_s >= time_limit_s:
        yield f"for_s: must be less than time_limit_s, after which a client is ended, and not {work.for_s:g}"


def resolved_work(workload: WorkKeys, experiment: WorkKeys) -> Work:
    """The work that a workload asks for, and its experiment where the workload does not."""
    names = [field.name for field in dataclasses.fields(WorkKeys)]
    values = [(name, getattr(keys, name)) for keys in (experiment, workload) for name in names]
    return Work(**{name: value for name, value in values if value is not None})


@dataclass(frozen=True, kw_only=True)
class Dealt(Checked):
    """So many clients on each worker, one worker after the other; or dealt round to hosts that are named."""

    per_worker: int | None = bounded(None, 1, 100_000)
    hosts: tuple[Host, ...] | None = None

    def problems(self) -> Iterator[str]:
        if (self.per_worker is None) == (self.hosts is None):
            yield "needs per_worker, a number, or hosts, a list of workers, and not both"
        if self.hosts is not None and not 0 < len(self.hosts) == len(set(self.hosts)):
            yield "hosts: must name at least one worker, and none twice"


Placement = PlacementName | Dealt


def places(placement: Placement, workers: Sequence[str], jobs: int) -> list[str]:
    """The worker of each client of a trial, of the workers of its pool; none where HTCondor chooses."""
    if placement == AS_MATCHED or not workers or (placement == EVENLY and jobs % len(workers)):
        return []
    if placement in (IN_TURN, EVENLY):
        return [workers[client % len(workers)] for client in range(jobs)]
    if not isinstance(placement, Dealt):
        return [workers[0]] * jobs
    if placement.hosts is not None:
        return [placement.hosts[client % len(placement.hosts)] for client in range(jobs)]
    return [workers[client // (placement.per_worker or 1)] for client in range(jobs)]


def placement_problems(placement: Placement, pool: str, workers: Sequence[str], jobs: int) -> Iterator[str]:
    """Why the workers of a pool, as far as they are known, cannot be those of a trial of so many clients."""
    if not isinstance(placement, Dealt) or not workers:
        return
    for host in placement.hosts or ():
        if host not in workers:
            yield f"placement.hosts: {host} is no worker of pool {pool} ({', '.join(workers)})"
    if placement.per_worker is not None and jobs > placement.per_worker * len(workers):
        each = f"{placement.per_worker} on each of the {len(workers)} workers of pool {pool}"
        yield f"placement.per_worker: {each} are too few for a batch of {jobs}"


def placement_text(placement: Placement) -> str:
    if not isinstance(placement, Dealt):
        return placement
    return f"{placement.per_worker} per worker" if placement.hosts is None else f"on {', '.join(placement.hosts)}"


def place_lines(where: Sequence[str], jobs: int, placement: Placement = IN_TURN) -> str:
    """The list that clients are queued from: what each one's worker has to be."""
    if not where:
        return f"{ANYWHERE}\n" * jobs
    otherwise = f" || {OR_LATER_ANYWHERE}" if placement == EVENLY else ""
    lines = {host: item(f'Machine == "{host}"{otherwise}') for host in set(where)}
    return "".join(lines[host] for host in where)


@dataclass(frozen=True, kw_only=True)
class Until(Checked):
    """Repeat until the mean rate of a batch is known to within so many per cent, or the run's question is answered."""

    within_pct: float | None = bounded(None, 0.1, 100)  # of the mean, by its 95 % interval
    until: Literal["answered"] | None = None
    budget: Line | None = None  # such as 10min: no further repetition begins that would last beyond it
    at_least: int = bounded(3, 2, MOST_REPEATS)
    at_most: int = bounded(10, 2, MOST_REPEATS)

    def problems(self) -> Iterator[str]:
        if (self.within_pct is None) == (self.until is None):
            yield 'needs within_pct, a number, or until = "answered", and not both'
        if self.at_most < self.at_least:
            yield f"at_most is {self.at_most}, which is less than at_least, {self.at_least}"
        if self.budget is not None and (self.until is None or not SPAN.fullmatch(self.budget)):
            yield 'budget: must be a time such as "10min" or "2h", beside until = "answered"'
        if self.until and self.at_least < LEAST_TO_ANSWER:
            yield f"at_least: an answer takes {LEAST_TO_ANSWER} repetitions, not {self.at_least}"

    @property
    def budget_s(self) -> float:
        span = SPAN.fullmatch(self.budget or "")
        return float(span[1]) * SECONDS[span[2]] if span else math.inf

    def __str__(self) -> str:
        what = "the question is answered" if self.until else f"the mean rate is known to ±{self.within_pct:g} %"
        within = f", in {self.budget}" if self.budget else ""
        return f"until {what}, {self.at_least} … {self.at_most} times{within}"


Repeats = int | Until


def most_repeats(repeats: Repeats) -> int:
    return repeats.at_most if isinstance(repeats, Until) else repeats


def least_repeats(repeats: Repeats) -> int:
    return repeats.at_least if isinstance(repeats, Until) else repeats
