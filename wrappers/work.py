"""The work of a job of several files or processes: how the files are dealt out, and what the job tells of it."""

import bisect
import collections
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

STEP = 1.002  # latencies are counted in classes so far apart: what a trial's jobs had can be added up to 0.2 %
LEAST_S = 1e-6
MOST_MESSAGES = 3


class Work(NamedTuple):
    """As trial.json has it."""

    files_per_job: int = 1
    processes: int = 1
    for_s: "float | None" = None
    order: str = "listed"
    fetch_every_s: "float | None" = None

    @property
    def is_one_read(self) -> bool:
        return self.files_per_job == self.processes == 1 and self.for_s is None and self.fetch_every_s is None


def shares(files: "Sequence[T]", processes: int, again: bool) -> "list[Iterator[T]]":
    """What each process reads: files of its own, or if there are too few all of them, each from another one on."""
    if len(files) >= processes:
        own = [files[number::processes] for number in range(processes)]
    else:
        places = [number * len(files) // processes for number in range(processes)]
        own = [[*files[place:], *files[:place]] for place in places]
    return [itertools.cycle(share) if again else iter(share) for share in own]


class Fetch(NamedTuple):
    """One reading of one file."""

    file: int  # its place in the job's list
    status: str  # a client's, or "cut": it was under way when time was over
    message: str
    bytes: "int | None"
    seconds: "float | None"  # from its intended start: the go, or the end of the one before; None: it is not known


class Tally:
    """What the fetches of a job come to."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.cut_after: list[float] = []  # for how long those were under way that time cut off
        self.statuses: collections.Counter[str] = collections.Counter()
        self.messages: collections.Counter[str] = collections.Counter()
        self.first_failure: list[str] = []
        self.most: dict[int, int] = {}  # the bytes of each file that one fetch took in at the most
        self.whole: set[int] = set()
        self.bytes = 0

    def add(self, fetch: Fetch) -> None:
        self.statuses[fetch.status] += 1
        self.bytes += fetch.bytes or 0
        self.most[fetch.file] = max(self.most.get(fetch.file, 0), fetch.bytes or 0)
        if fetch.status == "ok":
            self.whole.add(fetch.file)
            self.latencies += [] if fetch.seconds is None else [fetch.seconds]
        elif fetch.status == "cut":
            self.cut_after += [] if fetch.seconds is None else [fetch.seconds]
        else:
            self.first_failure = self.first_failure or [fetch.status, fetch.message]
            is_new = fetch.message not in self.messages
            self.messages["others" if is_new and len(self.messages) >= MOST_MESSAGES else fetch.message] += 1

    @property
    def failed(self) -> int:
        return sum(self.statuses.values()) - self.statuses["ok"] - self.statuses["cut"]

    def told(self, overdue: int = 0) -> "dict[str, Any]":
        """The counts of a record's end, when so many were to begin by the timetable and did not."""
        in_order, cut_after = sorted(self.latencies), sorted(self.cut_after)
        return {
            "fetches": self.statuses["ok"],
            "failed": self.failed,
            "cut": self.statuses["cut"],
            "overdue": overdue,
            "failures": dict(self.messages),
            "files": len(self.whole),
            "bytes_once": sum(self.most.values()),
            "latency_s": {
                **{name: percentile(in_order, share, overdue, cut_after) for name, share in PERCENTILES.items()},
                "max": round(in_order[-1], 6) if in_order else None,
            },
            "latency_step": STEP,
            "latency_classes": classes_of(in_order),
            "cut_classes": classes_of(cut_after),
        }


PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentile(
    in_order: "Sequence[float]", share: float, overdue: int = 0, cut_after: "Sequence[float]" = ()
) -> "float | None":
    """The least that so large a share does not exceed; those overdue take longer than all, nobody knows how long.

    Those that were cut off, in order as well, take longer than what they had taken by then; of more they say nothing.
    """
    for place, seconds in enumerate(in_order, 1):
        longer = overdue + len(cut_after) - bisect.bisect_left(cut_after, seconds)
        if place >= rank(share, len(in_order) + longer):
            return round(seconds, 6)
    return None


def rank(share: float, count: int) -> int:
    """Of so many, which one in order is the first that so large a share does not exceed; the least is 1."""
    return max(1, math.ceil(share * count))


def classes_of(in_order: "Sequence[float]") -> "dict[str, int]":
    """How many of these latencies are in each class."""
    return {str(number): len(list(own)) for number, own in itertools.groupby(in_order, latency_class)}


def latency_class(seconds: float) -> int:
    return int(math.log(max(seconds, LEAST_S) / LEAST_S, STEP))


def latency_of(number: int, step: float = STEP) -> float:
    """The middle of a class."""
    return float(LEAST_S * step ** (number + 0.5))
