"""xrdreplay asks again for what a job once read, by the record that XRootD's recorder plug-in made of it."""

import contextlib
import csv
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tierbench.wrappers.child import Failure, Run, io_of, run_program
from tierbench.wrappers.client import FIRST_BLOCK, Client, Option, check_size

READS = ("Read", "PgRead", "VectorRead")
REPLAYED = (*READS, "Open", "Stat", "Close")
READ_ONLY = "16"  # XRootD's flags of an open
SUCCESS = "[SUCCESS]"
OWN_RECORD = "record.csv"
TROUBLE = re.compile(r"but received: (.*) from: (\w+)$", re.MULTILINE)


class Call(NamedTuple):
    """One call of XRootD's client, as the recorder wrote it."""

    file: str
    name: str
    begin: float
    arguments: "list[str]"  # the last is a time limit
    end: float
    went_well: bool
    answered: int  # bytes

    @property
    def ranges(self) -> "list[tuple[int, int]]":
        """Offset and length of each piece that was asked for."""
        numbers = [int(argument) for argument in self.arguments[:-1]]
        return list(zip(numbers[::2], numbers[1::2]))  # noqa: B905 - of Python 3.10

    @property
    def asked(self) -> int:
        return sum(length for _, length in self.ranges)

    @property
    def reach(self) -> int:
        """The first byte of the file behind what it got; a single read may ask for more than there is."""
        if self.name == "VectorRead":
            return max(offset + length for offset, length in self.ranges)
        return self.ranges[0][0] + self.answered


class Record:
    """What a job did with one file. Raises ValueError for anything that cannot be replayed as reading."""

    def __init__(self, path: Path) -> None:
        csv.field_size_limit(sys.maxsize)  # a vector read lists all its pieces
        try:
            with path.open(newline="", errors="replace") as file:
                calls = [_call(row) for row in csv.reader(file) if row]
            self.reads = [call for call in calls if call.name in READS and call.went_well]
            self.end = max((call.reach for call in self.reads), default=0)
        except (csv.Error, ValueError, IndexError):
            raise ValueError(f"{path}: is no record of XRootD's libXrdClRecorder") from None
        if any("Write" in call.name or call.name == "Truncate" for call in calls):
            raise ValueError(f"{path}: is the record of a job that writes; only reading is replayed")
        if not self.reads:
            raise ValueError(f"{path}: holds no read; docs/clients.md (replay) says how to record")
        self.calls = [call for call in calls if call.name in REPLAYED and call.went_well]
        self.calls.sort(key=lambda call: call.begin)
        opened = {call.arguments[0].partition("?")[0] for call in self.calls if call.name == "Open"}
        if len(opened) != 1:
            raise ValueError(f"{path}: is of {len(opened)} files; record a job that opens one")
        self.bytes = sum(call.answered for call in self.reads)

    @property
    def under_way(self) -> int:
        """The most bytes that the job had asked for and not yet got, of each opened file."""
        most = 0
        for file in {call.file for call in self.reads}:
            reads = [call for call in self.reads if call.file == file]
            steps = sorted(
                (*((call.begin, call.asked) for call in reads), *((call.end, -call.asked) for call in reads))
            )
            sums = itertools.accumulate(asked for _, asked in steps)
            most += max(*sums, *(call.asked for call in reads))  # with less than its largest read, xrdreplay hangs
        return most

    def rows(self, url: str) -> "Iterator[str]":
        """The same of another file, all at one time: how long xrdreplay pauses differs with its version."""
        at = f"{self.calls[0].begin:.9f}"
        for call in self.calls:
            is_open = call.name == "Open"
            arguments = [url, READ_ONLY, "0", call.arguments[-1]] if is_open else call.arguments
            row = (call.file, call.name, at, ";".join(arguments), at, SUCCESS, "")
            yield ",".join(f'"{value}"' for value in row) + "\n"

    def summary(self) -> "dict[str, Any]":
        names = [call.name for call in self.calls]
        return {
            "opens": names.count("Open"), "read_calls": len(self.reads), "vector_reads": names.count("VectorRead"),
            "recorded_s": round(max(call.end for call in self.calls) - self.calls[0].begin, 6),
            "recorded_calls_s": round(sum(call.end - call.begin for call in self.calls), 6),
        }  # fmt: skip


def _call(row: "list[str]") -> Call:
    file, name, begin, arguments, end, status, *answer = row
    answered = int(answer[0].partition(";")[0]) if name in READS and status == SUCCESS else 0
    return Call(file, name, float(begin), arguments.split(";"), float(end), status == SUCCESS, answered)


class Replay(Client):
    """Asks for the recorded pieces in their order, with as much under way at once as the job had."""

    protocols = ("xrootd",)
    usual_excess = 0.05
    programs = ("xrdreplay",)
    remedy = "install xrootd-client there"
    caveat = "times are the network's and the storage's alone, without what the recorded job computed between reads"
    options = {"record": Option("", needed=True, file=True, meaning="of libXrdClRecorder, beside the experiment")}

    @classmethod
    def check(cls, options: "Mapping[str, Any]") -> None:
        path = Path(options["record"])
        with contextlib.suppress(OSError):  # one that is not there is missed where files are looked for
            if path.is_file():
                Record(path)

    def prepare(self) -> None:
        if not self.job.remote:
            raise Failure("wrong-protocol", f"xrdreplay is to read by XRootD, not {self.job.url}")
        path = Path(self.job.options["record"])
        try:
            self.record = Record(path)
        except OSError as error:
            raise Failure("failed", f"there is no record {path}: {error.strerror}") from None
        except ValueError as error:
            raise Failure("failed", str(error)) from None
        if self._beyond:
            raise Failure("failed", self._beyond)
        before = io_of("self")
        *_, program, own = self.command()
        tried = run_program(program, "--print", own)
        if tried.status:
            raise Failure("failed", f"xrdreplay cannot use the record {path}: {tried.last_words}")
        # Its libraries and the record, which it reads as well; to write the record, nothing is read.
        self.beside = io_of("self").read - before.read - before.text_bytes - len(tried.output)

    def command(self) -> "list[str]":
        own = self.job.scratch / OWN_RECORD
        own.write_text("".join(self.record.rows(self.job.url)))
        # Without this limit it would ask for everything at once.
        return ["env", "XRD_LOGLEVEL=Warning", f"XRD_MAXBUFFERSIZE={self.record.under_way}", "xrdreplay", str(own)]

    @property
    def _beyond(self) -> str:
        size = self.job.expected_bytes
        if size is None or self.record.end <= size:
            return ""
        return f"the record reads up to byte {self.record.end}, and {self.job.url} has {size}: choose larger replicas"

    def has_begun(self, read: int, written: int) -> bool:
        return read > self.beside + FIRST_BLOCK

    def outcome(self, run: Run) -> "dict[str, Any]":
        received = None if run.read_bytes is None else max(0, run.read_bytes - self.beside)
        read = None if received is None else min(received, self.record.bytes)
        end = self.judged(run, read, FIRST_BLOCK)
        trouble = TROUBLE.search(run.stderr)
        if run.exit_status > 0 and trouble:
            end["message"] = "{1}: {0}".format(*trouble.groups())
        elif not run.exit_status and read is not None:
            end["status"], end["message"] = check_size(read, self.record.bytes)
            if self._beyond:
                end.update(status="failed", message=self._beyond)
        return {**end, "bytes_client": received, "bytes_source": "proc-io", "detail": self.record.summary()}
