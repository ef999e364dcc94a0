"""On which workers the clients of a trial run: as many on each, wherever HTCondor finds slots, or as is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tierbench.checked_text import Host
from tierbench.dags.language import item

Way = Literal["evenly", "as-matched", "one-worker", "in-turn"]
EVENLY: Way = "evenly"  # where they divide; else as matched
AS_MATCHED: Way = "as-matched"
IN_TURN: Way = "in-turn"
ANYWHERE = "true"  # the requirement of a client that no worker is meant for
# A worker that is full of others' jobs is not waited for: the trial goes on, and is told from its repetitions.
MEANT_FOR_S = 120
OR_LATER_ANYWHERE = f"time() - QDate > {MEANT_FOR_S}"


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """So many clients on each worker, one worker after the other; or dealt round to hosts that are named."""

    per_worker: int | None = field(default=None, metadata={"bounds": (1, 100_000)})
    hosts: tuple[Host, ...] | None = None

    def __post_init__(self) -> None:
        if (self.per_worker is None) == (self.hosts is None):
            raise ValueError("needs per_worker, a number, or hosts, a list of workers, and not both")
        if self.hosts is not None and not 0 < len(self.hosts) == len(set(self.hosts)):
            raise ValueError("hosts: must name at least one worker, and none twice")


Placement = Way | Dealt


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
        yield (
            f"placement.per_worker: {placement.per_worker} on each of the {len(workers)} workers of pool {pool} are"
            f" too few for a batch of {jobs}"
        )


def placement_text(placement: Placement) -> str:
    """How it stands in tables and reports."""
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
