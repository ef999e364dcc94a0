"""What a client is: each file in clients/ derives one of its own, and so does a user's file beside an experiment.

Such a file is imported in two places: on the access point for what it declares, on the workers for what it does.
So it needs Python 3.6 and the standard library only, and imports what only workers have where it is used.
"""

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from tierbench.wrappers.child import Run, UsageError, signal_of

PACKAGE = "tierbench.wrappers.clients"
FIRST_BLOCK = 65536  # more than it reads to start the program
# Stands before a client's own program in Python, which says "ready" by it and waits as any child does.
WAIT_FOR_GO = """
import json, os, sys, time

def wait_for_go():
    os.write(os.dup(1), b"ready\\n")
    if not os.read(0, 1):
        sys.exit(125)
"""
# Runs the command, whose standard output is the data. When it is ended it ends that, and reports what had come by then;
# it does not wait for it, or all that the command has read would count as its own reading after time was over.
SUM = """
import signal, subprocess, zlib
report, compared, *command = sys.argv[1:]
wait_for_go()
try:
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
except OSError as error:
    sys.exit("{}: {}".format(command[0], error.strerror))

class Over(Exception):
    pass

def over(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program.terminate()
    raise Over  # of a pipeline that is only the shell: the others may write on, or keep silent for ever

count, value = 0, 1
try:
    signal.signal(signal.SIGTERM, over)
    for block in iter(lambda: program.stdout.read1(1 << 20), b""):
        count, value = count + len(block), zlib.adler32(block, value) if compared else 0
    status = program.wait()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all has come: the report is next
except Over:
    status = -signal.SIGTERM
with open(report, "w") as file:
    json.dump([count, "{:08x}".format(value)], file)
os._exit(status if status >= 0 else 128 - status)
"""


class Option(NamedTuple):
    """An option of a client: its type is its default's, its bounds are those of a number."""

    default: Any
    low: "float | None" = None
    high: "float | None" = None
    needed: bool = False  # there is no default: the one given only tells the type
    kind: str = "Value"  # of a text: what it may hold, a name in tierbench/checked_text.py
    words: "tuple[str, ...]" = ()  # that may stand in place of a number
    file: bool = False  # the path of a file that travels with the client; it gets only the file's name
    meaning: str = ""  # in few words, for docs/clients.md
    choices: "tuple[str, ...]" = ()  # all that a text may be


class Job(NamedTuple):
    """What one client was asked to do."""

    url: str
    expected_bytes: "int | None"
    expected_adler32: "str | None"
    offset: int  # of what is written into a file that others write as well
    options: "dict[str, Any]"
    scratch: Path
    others: "tuple[Any, ...]" = ()  # further files that the same process is to read, each with url and bytes

    @property
    def path(self) -> str:
        return self.url[len("file://") :] if self.url.startswith("file://") else self.url

    @property
    def remote(self) -> bool:
        return self.url.startswith(("root://", "roots://"))

    @property
    def files(self) -> "list[tuple[str, int | None]]":
        """All that the process is to read: URLs, and bytes where they are known."""
        return [(self.url, self.expected_bytes), *((other.url, other.bytes) for other in self.others)]

    @property
    def target(self) -> str:
        """Where a copy of it goes, from server to server; nothing where it goes nowhere."""
        folder = self.options["to"]
        return f"{folder}/{self.url.rpartition('/')[2]}" if folder else ""

    def size_of(self, name: str) -> int:
        """The bytes of a file of its scratch directory; 0 where it is not there."""
        try:
            return (self.scratch / name).stat().st_size
        except FileNotFoundError:
            return 0

    def report(self, name: str) -> Any:
        """What a program has left in a JSON file of its scratch directory; None if it was ended before it could."""
        try:
            return json.loads((self.scratch / name).read_text(errors="replace"))
        except (OSError, ValueError):
            return None


class Client:
    """How a replica is read: first what it declares, then what it does. Its process is held until the go."""

    does = "reads"  # or writes, copies (from storage to storage), metadata: dags/measure.py has what follows
    protocols: "tuple[str, ...] | None" = ("xrootd", "file")  # of the access methods that it can take; None: any
    unable: "ClassVar[Mapping[str, str]]" = {}  # why not by another protocol, where somebody may look for it
    kinds: "tuple[str, ...] | None" = None  # of the replicas that it can read; None: any
    options: "ClassVar[Mapping[str, Option]]" = {}
    memory_mb = 128  # which HTCondor is asked for
    keeps_files = False  # that it reads, on the worker's disk, which HTCondor is asked for
    grace_s = 2  # that its process needs to end politely
    third_party = False  # whether files are copied from server to server, where an access method leads to another one
    counts_events = False  # in its record, in jobs of one process that read one file
    tells_adler32 = True  # of what it writes, in jobs of one file
    reads_whole = False  # from end to end, so there is nothing that is read ahead in vain
    usual_excess = 0.10  # what the storage sends beyond what is read, headers apart, as a share (docs/verdicts.md)
    taken_in = "bytes_client"  # the count of its record that is compared with what the storage sent
    programs: "tuple[str, ...]" = ()  # that it needs on a worker's PATH
    remedy = "install it there"  # where something that it needs is missing
    caveat = ""  # what has to be read with its rates
    hurried = False  # whether other processes' ends wait until it has told of its own: it then asks no server
    ships: "tuple[str, ...]" = ()  # files beside its own that travel with it; C++ ones (.C) are compiled for ROOT

    FOR_ALL: "ClassVar[Mapping[str, Option]]" = {
        "environment": Option({}),
        "scale": Option(1.0, 0.000001, 1_000_000),  # the site's: its rates relative to those that it stands for
        "to": Option(""),  # the access's: the folder's URL that files are copied to, from server to server
        "proxy": Option(""),  # the access's: host:port; of several, by commas, each client has one in turn
        "core": Option(1.0, 0.0001, 1),  # the site's: the share of a core that stands for one of a worker's
    }

    # Whether a process that has read and written so many bytes has its first data; None: that cannot be seen.
    has_begun: "Callable[[int, int], bool] | None" = None

    keeps_time = False  # whether its process waits by itself until its start time
    variables: "Mapping[str, str]" = {}  # of its process, beside those of the job

    def __init__(self, job: Job) -> None:
        self.job = job

    def renew(self) -> None:
        """Take what it shows the server anew: a token may have been renewed since it was made ready."""

    @classmethod
    def traits(cls, options: "Mapping[str, Any] | None" = None) -> "dict[str, Any]":
        """What those who read its records later must know of it, with these options."""
        chosen = options or {}
        return {
            **{name: getattr(cls, name) for name in ("reads_whole", "usual_excess", "taken_in")},
            "does": cls.doing(chosen), "settles": cls.settles(chosen), "at_once": cls.at_once(chosen),
        }  # fmt: skip

    @classmethod
    def doing(cls, options: "Mapping[str, Any]") -> str:
        """What it does with these options, of what `does` may be."""
        return cls.does

    @classmethod
    def settles(cls, options: "Mapping[str, Any]") -> bool:
        """Whether all that it wrote is on the storage when it ends; else it may be in a cache for a while."""
        return True

    @classmethod
    def entries(cls, options: "Mapping[str, Any]") -> int:
        """How many files and folders on the storage each file that it writes comes to."""
        return 1

    @classmethod
    def memory(cls, options: "Mapping[str, Any]") -> float:
        """The megabytes that it needs with these options; a block may be there twice."""
        return float(cls.memory_mb + 2 * max(0, options.get("block_kb", 0) - 1024) / 1024)

    @classmethod
    def further_memory(cls, options: "Mapping[str, Any]") -> float:
        """What each further process of a job needs; as much as the first, unless it is known to be less."""
        return cls.memory(options)

    @classmethod
    def several(cls, options: "Mapping[str, Any]") -> int:
        """How many files one of its processes can read, one after the other."""
        return 1

    @classmethod
    def at_once(cls, options: "Mapping[str, Any]") -> int:
        """How many files each of its processes has under way."""
        return 1

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        """What it needs and does not find on this worker; nothing is an empty text."""
        return absent(*cls.programs)

    @classmethod
    def missing_by(cls, protocol: str) -> str:
        """What else it needs by this protocol."""
        return ""

    @classmethod
    def check(cls, options: "Mapping[str, Any]") -> None:
        """Raise ValueError if options that are well each by themselves do not go together."""

    @classmethod
    def with_defaults(cls, options: "Mapping[str, Any]") -> "dict[str, Any]":
        """The options as given, checked, and the defaults of all others."""
        declared = {**cls.FOR_ALL, **cls.options}
        for name, value in options.items():
            if name not in declared:
                raise UsageError(f"unknown option {name!r}; possible: {', '.join(sorted(declared))}")
            check_value(name, value, declared[name])
        missing = [name for name, option in declared.items() if option.needed and name not in options]
        if missing:
            raise UsageError(f"option {missing[0]!r} is needed")
        complete = {**{name: option.default for name, option in declared.items()}, **options}
        try:
            cls.check(complete)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return complete

    def prepare(self) -> None:
        """Do what has to be done before the program starts: once, and of a job of several files with the first one.

        What differs with the file is for held_command() or command(), which are asked for each.
        """

    def command(self) -> "list[str]":
        """What is run when the go has come."""
        raise NotImplementedError

    def argv(self) -> "list[str]":
        """The command, where that is one: a text would be taken for a list of letters."""
        command = self.command()
        if not command or not isinstance(command, (list, tuple)):
            raise TypeError(f"command() must return a list of words, not {command!r}")
        return list(map(str, command))

    def held_command(self) -> "list[str] | None":
        """A program that says "ready" and waits for a line by itself; None: the shell does it for the command."""
        return None

    def progress(self) -> "int | None":
        """How far it has come, in whatever it counts; None: only the storage's interface tells of that."""
        return None

    def paths(self, outcome: "Mapping[str, Any]") -> "list[str]":
        """The files of this host's mounts that it has used, by what it has reported at its end."""
        return [self.job.path] if self.job.path.startswith("/") else []

    def outcome(self, run: Run) -> "dict[str, Any]":
        """The keys of the record's end: status, message, bytes_app, and whatever else is known.

        Of several files, each that was read or failed is in `fetches`, in their order or with its place in it
        (file): as status, message, bytes and seconds, None where it cannot tell. What else it counts stands in detail's
        `counts`, which are added up. Where time is over it is asked of a process that was ended meanwhile.
        """
        raise NotImplementedError

    def judged(self, run: Run, read: "int | None", slack: int = 0) -> "dict[str, Any]":
        """Status and message of a client that moves bytes as they are."""
        expected = self.job.expected_bytes
        did, short = ("wrote", "short-write") if self.doing(self.job.options) == "writes" else ("read", "short-read")
        if run.exit_status and read and read <= slack:
            read = 0
        if signal_of(run.exit_status):
            status, message = "killed", f"{type(self).__name__.lower()} was {run.last_words}"
        elif run.exit_status in (126, 127):
            status, message = "failed", run.last_words
        elif run.exit_status:
            status, message = short if read else "open-failed", run.last_words
        elif read is None:
            status, message = "failed", f"how much it {did} is not known"
        elif expected is None or 0 <= read - expected <= slack:
            status, message = "ok", ""
        elif read < expected:
            status, message = short, f"{did} {read} of {expected} bytes"
        else:
            status, message = "failed", f"{did} {read} bytes where {expected} were planned: another file"
        begun = {} if read else {"first_byte_wall_ns": None}  # it wrote no more than a complaint
        return {"status": status, "message": message, "bytes_app": read, **begun}


def python(program: str, *arguments: "str | float | Path") -> "list[str]":
    """The command of a program in Python that waits for the go by itself."""
    return [sys.executable or "python3", "-c", WAIT_FOR_GO + program, *map(str, arguments)]


def check_size(size: int, expected: "int | None", words: str = "read {} of {} bytes") -> "tuple[str, str]":
    """Status and message by how large a file had to be, where that is known."""
    if expected is None or size == expected:
        return "ok", ""
    return "short-read" if size < expected else "failed", words.format(size, expected)


def absent(*programs: str) -> str:
    """The first that is not there, in words; nothing is an empty text."""
    return next((f"there is no {program}" for program in programs if not shutil.which(program)), "")


def find_client(name: str) -> "type[Client]":
    """A client among those that come with this script, by its name."""
    part = f"{PACKAGE}.{name}"
    try:
        return client_in(importlib.import_module(part))
    except ImportError as error:
        reason = f"there is no client {name!r} here" if error.name == part else f"client {name!r}: {error}"
        raise UsageError(reason) from None


def client_in(module: ModuleType) -> "type[Client]":
    """The one client that a module defines."""
    own = [
        value for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Client) and value.__module__ == module.__name__
    ]  # fmt: skip
    if len(own) != 1:
        raise UsageError(f"{module.__file__}: defines {len(own)} clients; one class derived from Client is needed")
    absent = [name for name in ("command", "outcome") if getattr(own[0], name) is getattr(Client, name)]
    if absent and (absent[-1] == "outcome" or own[0].held_command is Client.held_command):
        raise UsageError(f"{module.__file__}: {own[0].__name__} has no method {absent[-1]}; docs/clients.md has all")
    return own[0]


def check_value(name: str, value: Any, option: Option) -> None:
    """Raise UsageError if a value is none that the option can have."""
    if option.words and value in option.words:
        return
    wanted: Any = float if option.words else type(option.default)
    if type(value) is not wanted and (wanted, type(value)) not in ((float, int), (tuple, list)):
        raise UsageError(f"option {name!r} must be of type {wanted.__name__}, not {value!r}")
    if option.choices and value not in option.choices:
        raise UsageError(f"option {name!r} must be one of {', '.join(option.choices)}, not {value}")
    if (option.low is not None and value < option.low) or (option.high is not None and value > option.high):
        raise UsageError(f"option {name!r} must be in {option.low} to {option.high}, not {value}")


CHECKSUM = {"checksum": Option(False, meaning="compares the content with the catalogue's adler32")}


class SummedClient(Client):
    """A client whose command writes what it reads to standard output, if it is asked for a checksum."""

    options = CHECKSUM

    def held_command(self) -> "list[str] | None":
        if not self.job.options["checksum"]:
            return super().held_command()
        return self.counting()

    def counting(self, *, compared: bool = True) -> "list[str]":
        return python(SUM, self.job.scratch / "checksum", "compared" if compared else "", *self.command())

    def summed(self, run: Run, *, compared: bool = True) -> "dict[str, Any]":
        """The record's end, from what came through the sum; unless it cannot be known, the sum is the catalogue's."""
        report, expected = self.job.report("checksum"), self.job.expected_adler32
        if not report:
            return self.judged(run, 0 if run.exit_status else None)
        read, adler32 = report
        end = {**self.judged(run, read), "bytes_client": read}
        if not compared:
            return end
        end["detail"] = {"adler32": adler32}
        if end["status"] == "ok" and expected is None:
            missing = "no checksum to compare with: the catalogue was not at hand when the run was written"
            end.update(status="failed", message=missing)
        elif end["status"] == "ok" and adler32 != expected:
            end.update(status="damaged", message=f"its adler32 is {adler32} where {expected} is catalogued")
        return end
