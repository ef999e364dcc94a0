"""The process that does a client's work: started, held, released, watched, pinned, ended, and counted from outside."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tierbench.host import now, read_text

PATIENCE_S = 15  # for one program's answer
TELL_S = 0.25  # a line on standard output sets HTCondor to work; not while the other clients still begin
# A child says "ready" when it needs but a line to begin; no line means that we are gone.
HOLD = 'echo ready; read -r go || exit 125; exec "$@" >&2'
USUAL_GRACE_S = 4
TAIL_BYTES = 1 << 16  # more than curl tells of the most files that it is given
THREADS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
CLAIM = "\0tierbench-core-{}"  # a socket without a file: one process of the host can have it, and it goes with that


class Failure(Exception):
    """Why the work was not done, in a status and in words; it becomes the record's end."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class UsageError(Exception):
    """Something in the call cannot be used; nothing is recorded."""


def signal_of(exit_status: int) -> str:
    """The signal that ended a process, which a shell and ROOT tell of by 128 and more; nothing is an empty text."""
    number = -exit_status if exit_status < 0 else exit_status - 128
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}" if exit_status < 0 else ""


def exit_status_of(status: int) -> int:
    """As Popen has it, of a process that the kernel has told of: -15 where signal 15 ended it."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _how_ended(exit_status: int, words: str) -> str:
    """The signal, if one ended it, and the last line that a program has said."""
    ended_by, lines = signal_of(exit_status), [line for line in words.splitlines() if line.strip()]
    if ended_by:
        return ": ".join([f"ended by {ended_by}", *lines[-1:]])
    return lines[-1] if lines else f"exit status {exit_status}"


class Ended(NamedTuple):
    """How a program ended; no status if it had to be left behind."""

    status: "int | None"
    output: str
    patience_s: int = PATIENCE_S

    @property
    def last_words(self) -> str:
        if self.status is None:
            return f"no answer in {self.patience_s} s"
        return _how_ended(self.status, self.output.strip())


def run_program(*command: str, patience_s: int = PATIENCE_S, stderr: int = subprocess.STDOUT, **more: Any) -> Ended:
    """Run a program and take all that it says; raises OSError where there is no such program."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, **more)
    with contextlib.suppress(subprocess.TimeoutExpired):
        output, _ = process.communicate(timeout=patience_s)
        return Ended(process.returncode, output.decode(errors="replace"), patience_s)
    # What hangs in the kernel is left behind, and so is what is root's, as sudo.
    with contextlib.suppress(PermissionError, subprocess.TimeoutExpired):
        process.kill()
        process.communicate(timeout=1)
    return Ended(None, "", patience_s)


def total(counts: "Iterable[int | None]") -> "int | None":
    """Their sum, if each of them is known."""
    values = list(counts)
    return None if None in values else sum(filter(None, values))


class IO(NamedTuple):
    """What a process and its reaped children have read and written, from files and sockets alike."""

    read: int
    written: int
    text_bytes: int  # of this statement, whose reading counts as well
    fetched: "int | None" = None  # of what it has read, what the kernel has fetched from a disk for it


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
    disk_bytes: "int | None" = None  # of what it has read, what the kernel has fetched from a disk for it

    @property
    def written_beside_words(self) -> "int | None":
        """What it has written beside its complaints."""
        return None if self.written_bytes is None else self.written_bytes - self.stderr_bytes

    @property
    def last_words(self) -> str:
        return _how_ended(self.exit_status, self.stderr)[:500]


class Child:
    """The process that does the work, held until it is released; in the end neither it nor its children are left."""

    def __init__(
        self, command: "list[str]", folder: Path, environment: "dict[str, str]", interrupts: "Interrupts"
    ) -> None:
        self.interrupts = interrupts
        self.stderr = folder / "stderr"
        try:
            with self.stderr.open("wb") as stderr:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0,
                    env=environment, cwd=str(folder), start_new_session=True,
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
            words = (self.stderr.read_text(errors="replace").strip() or "no word").splitlines()[-1]
            raise Failure("failed", f"could not be started (exit status {status}): {words}")
        self.cpu_before, self.io_before = cpu_of(self.pid), io_of(str(self.pid))

    def release(self, go_wall_ns: "int | None") -> "tuple[int, int]":
        """Let it begin, and tell it from when on its time counts; what the clocks show at that instant."""
        begin = now()
        with contextlib.suppress(BrokenPipeError):  # it has died; waiting for it will tell
            self.stdin.write(b"%d\n" % (go_wall_ns or begin[0]))
        return begin

    def wait(
        self, seconds: int, has_begun: "Callable[[int, int], bool] | None", tell: "Callable[[], int]",
        tell_more: "Callable[[], int]" = lambda: 0,
    ) -> Run:  # fmt: skip
        """Wait for its end, watching for its first byte if there is a way to see it; tell of the go meanwhile.

        Both that tell say how many bytes they have written: of the go once, of more whenever they like.
        """
        self.interrupts.limit(seconds)
        begin, own, record_bytes, polled = time.monotonic(), io_of("self"), 0, 0
        first_byte, ended, end_writer = None, *os.pipe()
        threading.Thread(target=self._close_at_end, args=(end_writer,), daemon=True).start()
        watched = [self.stdout.fileno(), ended]
        while ended in watched:
            elapsed, watching = time.monotonic() - begin, has_begun is not None and first_byte is None
            if elapsed > TELL_S:
                record_bytes = record_bytes + tell_more() if record_bytes else tell()
            # A tenth of the time waited until now is precise enough, and many clients cannot look more often.
            pause = min(max(0.01, elapsed / 10), 0.1) if watching else 1.0 if record_bytes else TELL_S
            for number in select.select(watched, [], [], pause)[0]:
                words = os.read(number, 65536)
                polled += len(words)
                if not words:
                    watched.remove(number)
            if has_begun and watching:
                io = io_of(str(self.pid))
                polled += io.text_bytes
                if has_begun(io.read - self.io_before.read, io.written - self.io_before.written):
                    first_byte = now()[0]
        wall, mono = now()
        os.close(ended)
        os.killpg(self.pid, signal.SIGKILL)  # whatever it has left behind; itself it is no more than an entry
        _, status, usage = os.wait4(self.pid, 0)
        signal.alarm(0)
        self.interrupts.group = 0
        self.process.returncode = exit_status_of(status)
        record_bytes = record_bytes or tell()
        # The kernel adds a reaped child's counts to its parent's, so they are complete; ours are taken off again.
        end = io_of("self")
        fetched = [io.fetched for io in (end, own, self.io_before) if io.fetched is not None]
        read = end.read - own.read - own.text_bytes - polled - self.io_before.read
        written = end.written - own.written - record_bytes - self.io_before.written
        return Run(
            exit_status=self.process.returncode, end_wall_ns=wall, end_mono_ns=mono, first_byte_wall_ns=first_byte,
            read_bytes=read if own.text_bytes else None, written_bytes=written if own.text_bytes else None,
            cpu_user_s=max(0.0, usage.ru_utime - self.cpu_before[0]),
            cpu_system_s=max(0.0, usage.ru_stime - self.cpu_before[1]),
            peak_rss_kb=usage.ru_maxrss, stderr=tail_of(self.stderr),
            stderr_bytes=self.stderr.stat().st_size,
            disk_bytes=max(0, fetched[0] - fetched[1] - fetched[2]) if len(fetched) == 3 else None,
        )  # fmt: skip

    def _close_at_end(self, pipe: int) -> None:
        """Its own end: what it has left behind may hold its standard output for longer."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        os.close(pipe)


def tail_of(log: Path) -> str:
    """The end of what a program has said, which may be more than there is memory."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace")


def io_of(pid: str) -> IO:
    """What a process has read and written; nothing if it has ended or the kernel keeps no such counts."""
    text = read_text(f"/proc/{pid}/io")
    counts = {name: int(count) for name, count in re.findall(r"^(rchar|wchar|read_bytes): (\d+)$", text, re.MULTILINE)}
    return IO(counts.get("rchar", 0), counts.get("wchar", 0), len(text), counts.get("read_bytes"))


def cpu_of(pid: int) -> "tuple[float, float]":
    """User and system CPU seconds of a process and its children, of those that it has reaped too."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15] or ["0"] * 4
    own = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields]
    times = [cpu_of(int(child)) for child in read_text(f"/proc/{pid}/task/{pid}/children").split()]
    times.append((own[0] + own[2], own[1] + own[3]))
    return sum(user for user, _ in times), sum(system for _, system in times)


class Interrupts:
    """Turns a signal, or time being over, into an end of the child: a polite one, then a forced one."""

    def __init__(self) -> None:
        self.status = self.reason = ""
        self.group = 0  # the child's process group
        self.grace_s = USUAL_GRACE_S  # between the polite and the forced end; HTCondor waits 6 s more (clients.sub)
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
        self.seconds = seconds
        signal.alarm(seconds)
        if self.reason:  # it came just before: what is left is the grace, not the whole time
            signal.alarm(self.grace_s)

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
            signal.alarm(self.grace_s)


def take_core(index: int) -> socket.socket:
    """Pin this process, and whatever it starts, to a core that nobody has claimed; the claim lasts until it is closed.

    Clients begin to look at different cores, so that those of hosts that share a machine seldom meet. A core's second
    thread comes after all cores.
    """
    allowed = sorted(os.sched_getaffinity(0))
    threads = {core: read_text(THREADS.format(core)) or core for core in allowed}
    firsts = [core for core in allowed if core == min(other for other in allowed if threads[other] == threads[core])]
    seconds = [core for core in allowed if core not in firsts]
    for core in [cores[(index + place) % len(cores)] for cores in (firsts, seconds) for place in range(len(cores))]:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(CLAIM.format(core))
        except OSError:
            claim.close()
            continue
        os.sched_setaffinity(0, {core})
        return claim
    raise Failure("not-pinned", f"each of the {len(allowed)} cores that this job may use has a client already")


def core_of(pid: int) -> "int | None":
    """The one core that a process may run on, if there is but one."""
    try:
        cores = os.sched_getaffinity(pid)
    except OSError:
        return None
    return next(iter(cores)) if len(cores) == 1 else None
