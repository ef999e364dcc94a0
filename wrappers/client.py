#!/usr/bin/env python3
"""One client of a trial: reads one replica in full, begins when told, and records what happened.

Shipped to a worker as one file, together with htchirp.py (HTCondor's, for the start gate) and, for the
clients root and higgs, the ROOT programs. Needs Python 3.6 and whatever the client itself needs. Standard
output is the record, in JSON lines: start, ready, go, end. docs/clients.md tells what they hold.
Whatever is not reading is done before "ready": tickets, setting up ROOT or CMSSW, starting the process.

Exit codes:
    0  the record is complete, whatever its status (DAGMan would remove the whole batch for one failed job)
    1  only with --strict: the record is complete and its status is not "ok"
    2  called wrongly, or the list of replicas or the options cannot be used; nothing was recorded
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import platform
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple

FORMAT = 1
HERE = Path(__file__).resolve().parent
GRACE_S = 4  # between the polite and the forced end of a child; HTCondor itself gives a job 30 s or more
POLL_S = 0.25
# Between the go and the release of the process: until then all clients of a host are awake, which takes them
# 30 µs each; the first process that runs would make those wait that come after it.
SETTLE_S = 0.01
TELL_S = 0.25  # a line on standard output sets HTCondor to work; not while the other clients still begin
CHIRP_PATIENCE_S = 20
CLOCK_READS = 4
CLOCK_PAUSE_S = 0.003  # another moment between two steps of the access point's uptime
# A child says "ready" when it needs but a line to begin; no line means that we are gone.
HOLD = 'echo ready; read -r go || exit 125; exec "$@" 3>&1 >&2'


class Failure(Exception):
    """Why the replica was not read, in a status and in words."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class UsageError(Exception):
    """Something in the call cannot be used."""


class Job(NamedTuple):
    """What one client was asked to do."""

    url: str
    expected_bytes: "int | None"
    options: "dict[str, Any]"
    scratch: Path

    @property
    def path(self) -> str:
        return self.url[len("file://") :] if self.url.startswith("file://") else self.url

    @property
    def remote(self) -> bool:
        return self.url.startswith(("root://", "roots://"))


class IO(NamedTuple):
    """What a process and its reaped children have read and written, from files and sockets alike."""

    read: int
    written: int
    text_bytes: int  # of this statement, whose reading counts as well


class Run(NamedTuple):
    """How a child's run went, as seen from outside."""

    exit_status: int  # -15: ended by signal 15
    end_wall_ns: int
    end_mono_ns: int
    first_byte_wall_ns: "int | None"
    read_bytes: "int | None"
    written_bytes: "int | None"
    cpu_user_s: float
    cpu_system_s: float
    peak_rss_kb: int
    stderr: str
    stderr_bytes: int

    @property
    def last_words(self) -> str:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:500] if lines else f"exit status {self.exit_status}"


def main() -> int:
    arguments = command_line()
    try:
        url, size = replica(arguments.replicas, arguments.index)
        options = read_options(arguments.options)
        kind = CLIENTS[arguments.client]
        kind.check(options)
    except UsageError as error:
        print(f"client: {error}", file=sys.stderr)
        return 2
    record, interrupts = Record(), Interrupts()
    record.start(arguments, url, size)
    with tempfile.TemporaryDirectory(prefix="tierbench-", dir=os.environ.get("_CONDOR_SCRATCH_DIR")) as scratch:
        client = kind(Job(url, size, {**kind.defaults, **options}, Path(scratch)))
        run: Run | None = None
        try:
            run = perform(client, arguments, record, interrupts)
            outcome = client.outcome(run)
            if outcome["status"] != "ok":  # a signal that came too late has not made it worse
                outcome.update(interrupts.outcome())
        except Failure as failure:
            outcome = {"status": failure.status, "message": str(failure)}
        interrupts.ignore()
        record.end(outcome, run)
    return 1 if arguments.strict and outcome["status"] != "ok" else 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", required=True, help="id of the trial, for the record")
    parser.add_argument("--index", required=True, type=int, metavar="N", help="which client this is, from 0")
    parser.add_argument("--client", required=True, choices=sorted(CLIENTS), help="what reads")
    parser.add_argument("--replicas", required=True, type=Path, help="line N is this client's: URL TAB BYTES")
    parser.add_argument("--gate", metavar="FILE", help="begin at the time that this file of the access point gives")
    parser.add_argument("--gate-timeout", type=float, default=900, metavar="S", help="give up after this (default 900)")
    parser.add_argument("--timeout", type=int, default=7200, metavar="S", help="end the read after this (default 7200)")
    parser.add_argument("--options", default="{}", help='the client\'s own: JSON, or a JSON file with "options"')
    parser.add_argument("--keytab", type=Path, help="get a Kerberos ticket of one's own from this")
    parser.add_argument("--principal", help="for whom; {host} stands for this host's full name")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless the status is ok")
    arguments = parser.parse_args()
    if bool(arguments.keytab) != bool(arguments.principal):
        parser.error("--keytab and --principal need each other")
    return arguments


def replica(path: Path, index: int) -> "tuple[str, int | None]":
    """URL and size of the replica in a line of the list, the first being line 0."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"the list of replicas cannot be read: {error}") from None
    if not 0 <= index < len(lines):
        raise UsageError(f"{path}: has no line for client {index}, only {len(lines)} lines")
    url, _, size = lines[index].partition("\t")
    if not url or (size and not size.isdigit()):
        raise UsageError(f"{path}: line {index + 1} is not URL TAB BYTES: {lines[index]!r}")
    return url, int(size) if size else None


def read_options(text: str) -> "dict[str, Any]":
    """The client's own options, given as JSON or as a file of it, for example trial.json."""
    try:
        table = json.loads(text if text.startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--options {text}: {error}") from None
    options = table.get("options", table) if isinstance(table, dict) else None
    if not isinstance(options, dict):
        raise UsageError(f"--options {text}: is no JSON object")
    return options


def perform(client: "Client", arguments: argparse.Namespace, record: "Record", interrupts: "Interrupts") -> Run:
    """Prepare all, wait for the go, let the client read, and tell how it went."""
    wanted = {name: str(value) for name, value in client.options["environment"].items()}
    # HTCondor may give a job no PATH at all, and then ROOT complains that it finds no compiler.
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **os.environ, "LC_ALL": "C", **wanted}
    if arguments.keytab:
        environment["KRB5CCNAME"] = f"FILE:{client.job.scratch}/krb5cc"
        get_ticket(arguments.keytab, arguments.principal, environment)
    client.prepare()
    with Child(client, environment, interrupts) as child:
        child.wait_until_ready(arguments.timeout)
        if in_job():
            compare_clocks(client.job.scratch, record, interrupts)
        go = Gate(arguments, client.job.scratch, record, interrupts).wait() if arguments.gate else None
        awake = now()
        if go is not None:
            time.sleep(max(0.0, go / 1e9 + SETTLE_S - time.time()))
        interrupts.check()
        released = child.release()

        def tell() -> int:
            return record.write("go", *awake, go_wall_ns=go, released_wall_ns=released)

        return child.wait(arguments.timeout, client.has_begun, tell)


def compare_clocks(scratch: Path, record: "Record", interrupts: "Interrupts") -> None:
    """Record how this wall clock stands to the access point's uptime; to fail in it is no harm."""
    try:
        with interrupts.breakable(CHIRP_PATIENCE_S):
            record.write("clock", *now(), **AccessPoint(scratch).clock())
    except (Failure, OSError, ValueError, TypeError, IndexError, AttributeError):
        interrupts.check()


def get_ticket(keytab: Path, principal: str, environment: "dict[str, str]") -> None:
    """Put a ticket into this job's own cache, which goes with the scratch directory."""
    name = principal.replace("{host}", machine()[0])
    command = ["kinit", "-k", "-t", str(keytab), name]
    try:
        kinit = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure("no-ticket", str(error)) from None
    if kinit.returncode:
        raise Failure("no-ticket", f"{' '.join(command)}: {kinit.stderr.decode(errors='replace').strip()}")


class Record:
    """The JSON lines on standard output."""

    def write(self, event: str, wall_ns: int, mono_ns: int, **content: Any) -> int:
        line = json.dumps({"event": event, "wall_ns": wall_ns, "mono_ns": mono_ns, **content}) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        return len(line)

    def start(self, arguments: argparse.Namespace, url: str, size: "int | None") -> None:
        host, slot = machine()
        self.write(
            "start", *now(), format=FORMAT, trial=arguments.trial, index=arguments.index, host=host, slot=slot,
            pid=os.getpid(), boot_id=read_text("/proc/sys/kernel/random/boot_id").strip(), client=arguments.client,
            url=url, expected_bytes=size, python=platform.python_version(), kernel=platform.release(),
            condor=condor_version(),
        )  # fmt: skip

    def end(self, outcome: "dict[str, Any]", run: "Run | None") -> None:
        unknown = (
            "opened_wall_ns", "first_byte_wall_ns", "bytes_app", "bytes_client", "bytes_source", "events",
            "cpu_user_s", "cpu_system_s", "exit_status",
        )  # fmt: skip
        content: dict[str, Any] = {"status": None, "message": None, **dict.fromkeys(unknown), "detail": {}}
        if run:
            content.update(
                first_byte_wall_ns=run.first_byte_wall_ns, cpu_user_s=round(run.cpu_user_s, 6),
                cpu_system_s=round(run.cpu_system_s, 6), exit_status=run.exit_status,
                detail={"peak_rss_kb": run.peak_rss_kb},
            )  # fmt: skip
            content["detail"].update(outcome.pop("detail", {}))
            sys.stderr.write(run.stderr)
        content.update(outcome)
        wall, mono = (run.end_wall_ns, run.end_mono_ns) if run else now()
        self.write("end", wall, mono, **content)


class Interrupts:
    """Turns a signal, or time being over, into an end of the child: a polite one, then a forced one."""

    def __init__(self) -> None:
        self.status = self.reason = ""
        self.group = 0  # the child's process group
        self.breaking = False  # whether whatever runs now must be broken off
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGALRM, self._on_alarm)

    def check(self) -> None:
        if self.reason:
            raise Failure(**self.outcome())

    def outcome(self) -> "dict[str, str]":
        """What the interrupt, if there was one, makes of the job."""
        return {"status": self.status, "message": self.reason} if self.reason else {}

    def ignore(self) -> None:
        """From here on there is only the record to be finished."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def limit(self, seconds: int) -> None:
        signal.alarm(seconds)
        self.seconds = seconds

    @contextlib.contextmanager
    def breakable(self, seconds: int) -> "Iterator[None]":
        """For code that would wait without end: a signal raises Failure in it, time being over OSError."""
        self.breaking = True
        signal.alarm(seconds)
        try:
            self.check()
            yield
        finally:
            signal.alarm(0)
            self.breaking = False

    def _on_stop(self, number: int, _: "FrameType | None") -> None:
        if not self.reason:
            self.status, self.reason = "killed", f"ended by {signal.Signals(number).name}"
        self._end_child(signal.SIGTERM)
        if self.breaking:
            self.check()

    def _on_alarm(self, *_: Any) -> None:
        if self.breaking:
            raise OSError("no answer in time")
        self._end_child(signal.SIGKILL if self.reason else signal.SIGTERM)
        if not self.reason:
            self.status, self.reason = "failed", f"no end after {self.seconds} s"

    def _end_child(self, how: signal.Signals) -> None:
        if self.group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, how)
            signal.alarm(GRACE_S)


class Child:
    """The process that reads, held until it is released; in the end neither it nor its children are left."""

    def __init__(self, client: "Client", environment: "dict[str, str]", interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self.stderr = client.job.scratch / "stderr"
        try:
            with self.stderr.open("wb") as stderr:
                self.process = subprocess.Popen(
                    client.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0,
                    env=environment, cwd=str(client.job.scratch), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise Failure("failed", f"could not be started: {error}") from None
        self.stdin: Any = self.process.stdin
        self.stdout: Any = self.process.stdout
        self.pid = interrupts.group = self.process.pid

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: Any) -> None:
        self.interrupts.group = 0
        signal.alarm(0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def wait_until_ready(self, seconds: int) -> None:
        """Return when it has said so; its counts until then are not those of reading."""
        self.interrupts.limit(seconds)
        self.interrupts.check()
        is_ready = any(line == b"ready\n" for line in iter(self.stdout.readline, b""))
        status = None if is_ready else self.process.wait()
        signal.alarm(0)
        self.interrupts.check()
        if not is_ready:
            words = self.stderr.read_text(errors="replace").strip().splitlines()
            raise Failure("failed", f"could not be started (exit status {status}): {words[-1] if words else 'no word'}")
        self.cpu_before, self.io_before = cpu_of(self.pid), io_of(str(self.pid))

    def release(self) -> int:
        """Let it begin; the wall clock at that instant."""
        wall, _ = now()
        with contextlib.suppress(BrokenPipeError):  # it has died; waiting for it will tell
            self.stdin.write(b"\n")
        return wall

    def wait(self, seconds: int, has_begun: "Callable[[int, int], bool] | None", tell: "Callable[[], int]") -> Run:
        """Wait for its end, watching for its first byte if there is a way to see it; tell of the go meanwhile."""
        self.interrupts.limit(seconds)
        begin, own, told, polled = time.monotonic(), io_of("self"), 0, 0
        first_byte, has_stdout = None, True
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            elapsed, watching = time.monotonic() - begin, has_begun is not None and first_byte is None
            if elapsed > TELL_S:
                told = told or tell()
            # A tenth of the time waited until now is precise enough, and many clients cannot look more often.
            pause = min(max(0.01, elapsed / 10), 0.1) if watching else 1.0 if told else TELL_S
            has_stdout = has_stdout and self._has_stdout(pause)
            if not has_stdout:
                time.sleep(0.002)
            if has_begun and watching:
                io = io_of(str(self.pid))
                polled += io.text_bytes
                if has_begun(io.read - self.io_before.read, io.written - self.io_before.written):
                    first_byte = now()[0]
        wall, mono = now()
        os.killpg(self.pid, signal.SIGKILL)  # whatever it has left behind; itself it is no more than an entry
        _, status, usage = os.wait4(self.pid, 0)
        signal.alarm(0)
        self.interrupts.group = 0
        self.process.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        told = told or tell()
        # The kernel adds a reaped child's counts to its parent's, so they are complete; ours are taken off again.
        end = io_of("self")
        read = end.read - own.read - own.text_bytes - polled - self.io_before.read
        written = end.written - own.written - told - self.io_before.written
        return Run(
            exit_status=self.process.returncode, end_wall_ns=wall, end_mono_ns=mono, first_byte_wall_ns=first_byte,
            read_bytes=read if own.text_bytes else None, written_bytes=written if own.text_bytes else None,
            cpu_user_s=max(0.0, usage.ru_utime - self.cpu_before[0]),
            cpu_system_s=max(0.0, usage.ru_stime - self.cpu_before[1]),
            peak_rss_kb=usage.ru_maxrss, stderr=self.stderr.read_text(errors="replace")[-8000:],
            stderr_bytes=self.stderr.stat().st_size,
        )  # fmt: skip

    def _has_stdout(self, seconds: float) -> bool:
        """Wait for the end of its standard output, which comes with its own end at the latest."""
        readable, _, _ = select.select([self.stdout], [], [], seconds)
        return not readable or bool(self.stdout.read(65536))


class Gate:
    """Says READY to the access point and waits for the common begin."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path, record: Record, interrupts: Interrupts) -> None:
        self.name, self.index, self.timeout = arguments.gate, arguments.index, arguments.gate_timeout
        self.record, self.interrupts = record, interrupts
        self.channel: AccessPoint | LocalFolder = AccessPoint(scratch) if in_job() else LocalFolder()

    def wait(self) -> int:
        """Return at the wall-clock time that the gate gives, which is returned."""
        go = self._ask_for_go()
        while True:
            left = go / 1e9 - time.time()
            if left <= 0:
                return go
            if left > self.timeout:
                raise Failure("no-gate", f"the go time is {left:.0f} s ahead of this host's clock")
            self.interrupts.check()
            time.sleep(left if left < 0.02 else min(left - 0.01, POLL_S))

    def _ask_for_go(self) -> int:
        deadline, announced, trouble = time.monotonic() + self.timeout, False, "no go came"
        pause = POLL_S * (0.6 + 0.4 * (self.index * 0.618034 % 1))  # the clients are not to ask in step
        while time.monotonic() < deadline:
            try:
                with self.interrupts.breakable(CHIRP_PATIENCE_S):
                    if not announced:
                        self.channel.announce(f"TIERBENCH READY {self.index}")
                        self.record.write("ready", *now())
                        announced = True
                    text = self.channel.fetch(self.name)
                if text:
                    return self._go_time(json.loads(text))
            except (OSError, ValueError, KeyError) as error:
                trouble = str(error)
            self.interrupts.check()
            time.sleep(pause)
        raise Failure("no-gate", f"{trouble}, within {self.timeout:g} s")

    @staticmethod
    def _go_time(said: "dict[str, Any]") -> int:
        if "called_off" in said:
            raise Failure("called-off", said["called_off"])
        return int(said["go_wall_ns"])


class AccessPoint:
    """The access point of an HTCondor job, by chirp."""

    def __init__(self, scratch: Path) -> None:
        self.copy = scratch / "fetched"
        try:
            self.module: Any = importlib.import_module("htchirp")
        except ImportError:
            raise Failure("no-gate", f"htchirp.py is not beside {HERE / 'client.py'}") from None
        self.chirp: Any = None

    def announce(self, text: str) -> None:
        self._ask("ulog", text)

    def fetch(self, name: str) -> str:
        self._ask("fetch", name, str(self.copy))
        return read_text(str(self.copy))

    def clock(self) -> "dict[str, int]":
        """Between which bounds this wall clock is ahead of the access point's uptime, which comes in 10 ms steps."""
        file, low, high = int(self._ask("_open", "/proc/uptime", "r")), [], []
        for _ in range(CLOCK_READS):
            before, _ = now()
            uptime = round(float(self._ask("_read", file, 64, 0).split()[0]) * 100) * 10**7
            after, _ = now()
            low.append(before - uptime - 10**7)
            high.append(after - uptime)
            time.sleep(CLOCK_PAUSE_S)
        self._ask("_close", file)
        return {"low_ns": max(low), "high_ns": min(high)}

    def _ask(self, question: str, *arguments: "str | int") -> Any:
        kind = self.module.HTChirp
        try:
            if self.chirp is None:
                chirp = kind()
                chirp.connect()
                self.chirp = chirp
            return getattr(self.chirp, question)(*arguments)
        except kind.DoesntExist:
            pass  # the answer to a fetch that comes too early
        except (kind.ChirpError, OSError, RuntimeError, ValueError) as error:
            self.chirp = None  # the conversation is out of step: another one next time
            raise OSError(f"chirp {question}: {error}") from None
        return None


class LocalFolder:
    """In place of an access point when run by hand: the gate is a file here."""

    def announce(self, text: str) -> None:
        """Nobody listens."""

    def fetch(self, name: str) -> str:
        return read_text(name)


class Client:
    """A way to read a replica; its child process is held until the go."""

    defaults: ClassVar["dict[str, Any]"] = {"environment": {}}
    has_begun: "Callable[[int, int], bool] | None" = None

    def __init__(self, job: Job) -> None:
        self.job = job
        self.options = job.options

    @classmethod
    def check(cls, options: "dict[str, Any]") -> None:
        for name, value in options.items():
            if name not in cls.defaults:
                raise UsageError(f"unknown option {name!r}; possible: {', '.join(sorted(cls.defaults))}")
            wanted = type(cls.defaults[name])
            if not (type(value) is wanted or (wanted is float and type(value) is int)):
                raise UsageError(f"option {name!r} must be of type {wanted.__name__}, not {value!r}")

    def prepare(self) -> None:
        """Do what has to be done in this process before the child is started."""

    def command(self) -> "list[str]":
        raise NotImplementedError

    def outcome(self, run: Run) -> "dict[str, Any]":
        raise NotImplementedError

    def judged(self, run: Run, read: "int | None", slack: int = 0) -> "dict[str, Any]":
        """Status and message of a client that moves bytes as they are."""
        expected = self.job.expected_bytes
        if run.exit_status and read and read <= slack:
            read = 0
        if run.exit_status < 0:
            status, message = "killed", f"the process was ended by {signal.Signals(-run.exit_status).name}"
        elif run.exit_status in (126, 127):
            status, message = "failed", run.last_words
        elif run.exit_status:
            status, message = "short-read" if read else "open-failed", run.last_words
        elif read is None:
            status, message = "failed", "how much was read is not known"
        elif expected is None or 0 <= read - expected <= slack:
            status, message = "ok", ""
        elif read < expected:
            status, message = "short-read", f"read {read} of {expected} bytes"
        else:
            status, message = "failed", f"read {read} bytes where {expected} were planned: another file"
        begun = {} if read else {"first_byte_wall_ns": None}  # it wrote no more than a complaint
        return {"status": status, "message": message, "bytes_app": read, **begun}


class Dd(Client):
    """Reads through a mount."""

    defaults: ClassVar["dict[str, Any]"] = {**Client.defaults, "block_kb": 1024}

    @staticmethod
    def has_begun(_: int, written: int) -> bool:
        return written > 0  # its first block has gone to /dev/null

    def prepare(self) -> None:
        if self.job.remote:
            raise Failure("wrong-protocol", f"dd reads files, not {self.job.url}")

    def command(self) -> "list[str]":
        return ["sh", "-c", HOLD, "sh", "dd", f"if={self.job.path}", "of=/dev/null", f"bs={self.options['block_kb']}K"]

    def outcome(self, run: Run) -> "dict[str, Any]":
        said = re.search(r"^(\d+) bytes", run.stderr, re.MULTILINE)
        counted = None if run.written_bytes is None else run.written_bytes - run.stderr_bytes
        return {
            **self.judged(run, int(said.group(1)) if said else None),
            "bytes_source": "dd",
            "bytes_client": counted,
            "detail": {"block_kb": self.options["block_kb"]},
        }


class Xrdcp(Client):
    """Copies to /dev/null. It fails by itself if less comes than the server has said the file holds."""

    defaults: ClassVar["dict[str, Any]"] = {**Client.defaults, "streams": 1}
    HOUSEKEEPING = 64 * 1024  # it writes some hundred bytes to its own event descriptors
    version: "str | None" = None
    LIBRARIES = 128 * 1024  # it reads some ten kilobytes of them, and of its configuration, before it connects

    @classmethod
    def has_begun(cls, read: int, _: int) -> bool:
        return read > cls.LIBRARIES

    def prepare(self) -> None:
        if not self.job.remote:
            raise Failure("wrong-protocol", f"xrdcp is to read by XRootD, not {self.job.url}")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            told = subprocess.run(
                ["xrdcp", "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=CHIRP_PATIENCE_S, check=False,
            )  # fmt: skip
            self.version = told.stdout.decode(errors="replace").strip() or None

    def command(self) -> "list[str]":
        streams = ["--streams", str(self.options["streams"])] if self.options["streams"] > 1 else []
        return ["sh", "-c", HOLD, "sh", "xrdcp", "-f", "--nopbar", *streams, self.job.url, "/dev/null"]

    def outcome(self, run: Run) -> "dict[str, Any]":
        written = None if run.written_bytes is None else run.written_bytes - run.stderr_bytes
        return {
            **self.judged(run, written, self.HOUSEKEEPING),
            "bytes_source": "proc-io",
            "bytes_client": run.read_bytes,
            "detail": {"streams": self.options["streams"], "xrootd_version": self.version},
        }


# The paths are the ones in the command; a program that cannot find ROOT's libraries here gives way to its macro.
ROOT_LAUNCH = """
setup=$1 program=$2 root=$3 macro=$4
shift 4
export ROOT_HIST=0  # no history file in the home directory
eval "$setup" >&2 || exit 125
if [ -x "$program" ] && ! LD_TRACE_LOADED_OBJECTS=1 "$program" 2>&1 | grep -q "not found"; then
    exec "$program" "$@"
fi
exec "$root" -l -b -q "$macro"
"""


class Root(Client):
    """The thesis' root routine: reads every event in full."""

    program = "root_read"
    defaults: ClassVar["dict[str, Any]"] = {**Client.defaults, "setup": "", "tree": "", "cache_mb": 0.0, "learn": False}

    def arguments(self) -> "list[str | float | bool]":
        return [self.options["tree"], self.options["cache_mb"], self.options["learn"]]

    def command(self) -> "list[str]":
        self.report = self.job.scratch / "report.json"
        arguments = [self.job.path, *self.arguments(), True, str(self.report)]
        macro = f"{HERE / self.program}.C({','.join(map(json.dumps, arguments))})"
        setup = self.options["setup"] or os.environ.get("TIERBENCH_ROOT_SETUP", "")
        words = [str(int(word) if isinstance(word, bool) else word) for word in arguments]
        root = "root.exe" if setup else root_executable()
        return ["sh", "-c", ROOT_LAUNCH, "sh", setup, str(HERE / self.program), root, macro, *words]

    def outcome(self, run: Run) -> "dict[str, Any]":
        try:
            told = json.loads(self.report.read_text(errors="replace"))
        except (OSError, ValueError):
            told = None
        if run.exit_status < 0 or not told:
            return {**self.judged(run, None), "bytes_client": run.read_bytes}
        status, message, expected = told.pop("status"), told.pop("message"), self.job.expected_bytes
        if status == "ok" and expected is not None and told["file_bytes"] != expected:
            status = "short-read" if told["file_bytes"] < expected else "failed"
            message = f"the file has {told['file_bytes']} bytes where {expected} were expected"
        return {
            "status": status,
            "message": message,
            "opened_wall_ns": told.pop("opened_wall_ns"),
            "first_byte_wall_ns": told.pop("first_event_wall_ns"),
            "events": told.pop("events"),
            "bytes_app": told.pop("bytes"),
            "bytes_client": told.pop("process_read_bytes"),
            "bytes_source": "TFile",
            "detail": told,
        }


class Higgs(Root):
    """A CPU-bound Higgs -> 4 leptons selection in ROOT."""

    program = "higgs"
    defaults: ClassVar["dict[str, Any]"] = {
        **Client.defaults, "setup": "", "tree": "", "combinatorics": 20, "cache_mb": 0.0
    }  # fmt: skip

    def arguments(self) -> "list[str | float | bool]":
        return [self.options["tree"], self.options["combinatorics"], self.options["cache_mb"]]


def root_executable() -> str:
    """ROOT's own executable: the one of Python's package ROOT, which is not imported for it, or any on the PATH."""
    package = importlib.util.find_spec("ROOT")
    if package and package.origin:
        wheel = Path(package.origin).parent / "bin/root.exe"
        if wheel.exists():
            return str(wheel)
    return shutil.which("root.exe") or "root.exe"


class Cmssw(Client):
    """cmsRun with a given PSet, in a release from CVMFS or a given area, bare or within Apptainer."""

    defaults: ClassVar["dict[str, Any]"] = {
        **Client.defaults, "pset": "", "release": "", "arch": "", "area": "", "cvmfs": "/cvmfs/cms.cern.ch",
        "image": "", "binds": [],
    }  # fmt: skip

    @classmethod
    def check(cls, options: "dict[str, Any]") -> None:
        super().check(options)
        if bool(options.get("release")) == bool(options.get("area")):
            raise UsageError("cmssw needs either the option 'release', for example CMSSW_10_6_30, or an 'area' to use")
        if not options.get("pset"):
            raise UsageError("cmssw needs the option 'pset', a configuration for cmsRun")

    def prepare(self) -> None:
        pset = Path(self.options["pset"]).resolve()
        if not pset.is_file():
            raise Failure("failed", f"there is no PSet {pset}")
        (self.job.scratch / "user_pset.py").write_bytes(pset.read_bytes())
        (self.job.scratch / "pset.py").write_text("\n".join(self._pset()) + "\n")
        (self.job.scratch / "run.sh").write_text("\n".join(self._script()) + "\n")

    def command(self) -> "list[str]":
        script = ["sh", str(self.job.scratch / "run.sh")]
        if not self.options["image"]:
            return script
        binds = [str(self.job.scratch), *self.options["binds"]]
        if not self.job.remote:
            binds.append(str(Path(self.job.path).parent))
        if Path("/cvmfs").is_dir():
            binds.append("/cvmfs")
        apptainer = shutil.which("apptainer") or "singularity"
        return [apptainer, "exec", "--bind", ",".join(binds), self.options["image"], *script]

    def outcome(self, run: Run) -> "dict[str, Any]":
        try:
            report = JobReport(self.job.scratch / "FrameworkJobReport.xml")
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            found = {**self.judged(run, None), "bytes_client": run.read_bytes}
            return {**found, "status": "failed", "message": f"no job report: {error}"} if not run.exit_status else found
        status, message = "ok", ""
        if run.exit_status:
            status, message = report.failure(run.last_words)
        elif self.job.remote and not all(name.startswith(self.job.url) for name in report.files):
            status, message = "wrong-protocol", f"cmsRun opened {', '.join(report.files)}"
        elif not report.files:
            status, message = "short-read", "cmsRun opened no file"
        return {
            "status": status,
            "message": message,
            "events": report.events,
            "bytes_app": report.bytes_read,
            "bytes_client": run.read_bytes,
            "bytes_source": "StorageStatistics",
            "detail": report.detail,
        }

    def _pset(self) -> "Iterator[str]":
        """Takes the user's PSet and has it read all of this job's replica; for Python 2 and 3, as CMSSW may have."""
        url = self.job.url if self.job.remote else f"file:{self.job.path}"
        yield f"exec(open({str(self.job.scratch / 'user_pset.py')!r}).read())"
        yield "import FWCore.ParameterSet.Config as cms"
        yield f"process.source.fileNames = cms.untracked.vstring({url!r})"
        yield "process.maxEvents = cms.untracked.PSet(input=cms.untracked.int32(-1))"
        yield "if not hasattr(process, 'Timing'):  # it puts the CPU times into the job report"
        yield "    process.Timing = cms.Service('Timing', summaryOnly=cms.untracked.bool(True))"

    def _script(self) -> "Iterator[str]":
        """Sets CMSSW up, then waits to be let go."""
        quote, area = shlex.quote, self.options["area"]
        if self.options["arch"]:
            yield f"export SCRAM_ARCH={quote(self.options['arch'])}"
        yield f". {quote(self.options['cvmfs'] + '/cmsset_default.sh')} >&2 || exit 125"
        yield f"cd {quote(str(self.job.scratch))} || exit 125"
        if not area:
            area = self.options["release"]
            yield f"scramv1 project CMSSW {quote(area)} >&2 || exit 125"
        yield f'cd {quote(area + "/src")} && eval "$(scramv1 runtime -sh)" || exit 125'
        yield f"cd {quote(str(self.job.scratch))} || exit 125"
        yield f"set -- cmsRun -j {quote(str(self.job.scratch / 'FrameworkJobReport.xml'))} pset.py"
        yield HOLD


class JobReport:
    """What CMSSW's FrameworkJobReport.xml says of the reading."""

    OPEN_ERRORS = (8020, 8028)  # FileOpenError, FallbackFileOpenError
    READ_ERRORS = (8021, 8022)  # FileReadError, FatalRootError
    STORAGE = "Timing-{}-totalMegabytes"
    WANTED = (
        ("Timing", "TotalJobCPU", "total_job_cpu_s"),
        ("Timing", "TotalJobTime", "total_job_time_s"),
        ("Timing", "EventThroughput", "event_throughput_hz"),
        ("ApplicationMemory", "PeakValueRss", "peak_rss_mb"),
    )

    def __init__(self, path: Path) -> None:
        self.root = xml.etree.ElementTree.parse(str(path)).getroot()  # noqa: S314 - by our own cmsRun
        inputs = self.root.findall("InputFile")
        self.files = [file.findtext("PFN", "").strip() for file in inputs]
        self.events = sum(int(file.findtext("EventsRead", "0")) for file in inputs)
        values = [(metric, self._metric(summary, name)) for summary, name, metric in self.WANTED]
        self.detail = {metric: value for metric, value in values if value is not None}

    @property
    def bytes_read(self) -> "int | None":
        """What was read from storage; the metric's megabytes are MiB, and its plain read leaves vector reads out."""
        actual = self._storage("tstoragefile-readActual")
        if actual is None:
            parts = [self._storage(part) for part in ("root-read", "root-readv")]
            known = [part for part in parts if part is not None]
            actual = sum(known) if known else None
        return None if actual is None else round(actual * 2**20)

    def failure(self, last_words: str) -> "tuple[str, str]":
        """Status and message of a cmsRun that failed."""
        error = self.root.find("FrameworkError")
        if error is None:
            return "failed", last_words
        code = int(error.get("ExitStatus", "0"))
        status = "open-failed" if code in self.OPEN_ERRORS else "short-read" if code in self.READ_ERRORS else "failed"
        return status, f"{error.get('Type')} ({code}): {' '.join((error.text or '').split())[:500]}"

    def _storage(self, operation: str) -> "float | None":
        return self._metric("StorageStatistics", self.STORAGE.format(operation))

    def _metric(self, summary: str, name: str) -> "float | None":
        found = self.root.find(f"PerformanceReport/PerformanceSummary[@Metric='{summary}']/Metric[@Name='{name}']")
        return None if found is None else float(found.get("Value", "nan"))


CLIENTS: "dict[str, type[Client]]" = {"dd": Dd, "xrdcp": Xrdcp, "root": Root, "higgs": Higgs, "cmssw": Cmssw}


def now() -> "tuple[int, int]":
    """Wall clock and monotonic clock in ns; Python 3.6 has them as floats only, good to 0.3 µs."""
    return int(time.time() * 1e9), int(time.monotonic() * 1e9)


def read_text(path: str) -> str:
    """The text of a file, or nothing if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def machine() -> "tuple[str, str | None]":
    """This host's name and the slot, as HTCondor knows them, or else the host's own idea of its name."""
    ad = read_text(os.environ.get("_CONDOR_MACHINE_AD", ""))
    found = dict(re.findall(r'^(Machine|Name) = "(.*)"$', ad, re.MULTILINE))
    return found.get("Machine") or socket.getfqdn(), found.get("Name")


def condor_version() -> "str | None":
    """The HTCondor of this host, as its machine ad says."""
    ad = read_text(os.environ.get("_CONDOR_MACHINE_AD", ""))
    found = re.search(r'^CondorVersion = "\$CondorVersion: (\S+)', ad, re.MULTILINE)
    return found.group(1) if found else None


def in_job() -> bool:
    """Whether this is an HTCondor job with a way to its access point."""
    return Path(os.environ.get("_CONDOR_CHIRP_CONFIG", ".chirp.config")).is_file()


def io_of(pid: str) -> IO:
    """What a process has read and written; nothing if it has ended or the kernel keeps no such counts."""
    text = read_text(f"/proc/{pid}/io")
    counts = dict(re.findall(r"^(rchar|wchar): (\d+)$", text, re.MULTILINE))
    return IO(int(counts.get("rchar", 0)), int(counts.get("wchar", 0)), len(text))


def cpu_of(pid: int) -> "tuple[float, float]":
    """User and system CPU seconds of a process and its reaped children."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return 0.0, 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    user, system, child_user, child_system = (int(field) / ticks for field in fields[11:15])
    return user + child_user, system + child_system


if __name__ == "__main__":
    sys.exit(main())
