"""A client's command line, files and work; and what a job of several files reports of them."""

import argparse
import bisect
import collections
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tierbench.trials import Work
from tierbench.wrappers.child import UsageError
from tierbench.wrappers.credentials import add_arguments

T = TypeVar("T")

STEP = 1.002  # latencies are counted in classes so far apart: what a trial's jobs had can be added up to 0.2 %
LEAST_S = 1e-6
MOST_MESSAGES = 3
POOL_FLAG = "--process-pool"  # with which the script starts itself again, where a job is more than one read


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

    def to_record(self, overdue: int = 0) -> "dict[str, Any]":
        """The counts of a record's end, when so many were to begin by the timetable and did not."""
        in_order, cut_after = sorted(self.latencies), sorted(self.cut_after)
        return {
            "fetches": self.statuses["ok"], "failed": self.failed, "cut": self.statuses["cut"], "overdue": overdue,
            "failures": dict(self.messages), "files": len(self.whole), "bytes_once": sum(self.most.values()),
            "latency_s": {
                **{name: percentile(in_order, share, overdue, cut_after) for name, share in PERCENTILES.items()},
                "max": round(in_order[-1], 6) if in_order else None,
            },
            "latency_step": STEP, "latency_classes": classes_of(in_order), "cut_classes": classes_of(cut_after),
        }  # fmt: skip


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
    numbers = (int(math.log(max(seconds, LEAST_S) / LEAST_S, STEP)) for seconds in in_order)
    return {str(number): len(list(own)) for number, own in itertools.groupby(numbers)}


def latency_of(number: int, step: float = STEP) -> float:
    """The middle of a class."""
    return float(LEAST_S * step ** (number + 0.5))


def command_line(description: "str | None") -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", required=True, help="id of the trial, for the record")
    parser.add_argument("--index", required=True, type=int, metavar="N", help="which client this is, from 0")
    parser.add_argument("--clients", type=int, default=1, metavar="N", help="of how many (default 1)")
    parser.add_argument("--client", required=True, metavar="NAME", help="what reads: dd, xrdcp, root …")
    parser.add_argument("--replicas", required=True, type=Path, help="the clients' files in turn: URL TAB BYTES")
    parser.add_argument("--gate", metavar="FILE", help="begin at the time that this file of the access point gives")
    parser.add_argument("--gate-timeout", type=float, default=900, metavar="S", help="give up after this (default 900)")
    parser.add_argument("--timeout", type=int, default=7200, metavar="S", help="end the read after this (default 7200)")
    parser.add_argument(
        "--options", default="{}", help='the client\'s own: JSON, or a JSON file with "options" and "work"'
    )
    add_arguments(parser)
    parser.add_argument("--pin", action="store_true", help="keep to one core, which no other client of the host has")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless the status is ok")
    arguments = parser.parse_args()
    if bool(arguments.keytab) != bool(arguments.principal):
        parser.error("--keytab and --principal need each other")
    return arguments


class Replica(NamedTuple):
    """What is to be read, or written."""

    url: str
    bytes: "int | None"
    adler32: "str | None"
    offset: int = 0  # of what is written into a file that others write as well


def replicas(path: Path, index: int, each: int) -> "list[Replica]":
    """A client's replicas: so many lines of the list, after those of the clients before it."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"the list of replicas cannot be read: {error}") from None
    first, last = index * each, (index + 1) * each
    if index < 0 or last > len(lines):
        raise UsageError(f"{path}: has no line for client {index}, only {len(lines)} lines")
    own = []
    for number, line in enumerate(lines[first:last], first + 1):
        url, size, adler32, offset = [*line.split("\t"), "", "", ""][:4]
        if not url or not all(text.isdigit() for text in (size, offset) if text):
            raise UsageError(f"{path}: line {number} is not URL TAB BYTES TAB ADLER32 TAB OFFSET: {line!r}")
        own.append(Replica(url, int(size) if size else None, adler32 or None, int(offset or 0)))
    return own


def read_definition(text: str) -> "tuple[dict[str, Any], Work]":
    """The client's own options and its work, given as JSON or as a file of it, for example trial.json."""
    try:
        table = json.loads(text if text.startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--options {text}: {error}") from None
    options = table.get("options", table) if isinstance(table, dict) else None
    if not isinstance(options, dict):
        raise UsageError(f"--options {text}: is no JSON object")
    try:
        return options, Work(**table.get("work", {}) if "options" in table else {})
    except TypeError as error:
        raise UsageError(f"--options {text}: work: {error}") from None
