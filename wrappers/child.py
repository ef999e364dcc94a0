"""The process that does a client's work: started, held, released, watched, and counted from outside."""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tierbench.wrappers.failure import Failure
from tierbench.wrappers.host import now, read_text
from tierbench.wrappers.interrupts import Interrupts

TELL_S = 0.25  # a line on standard output sets HTCondor to work; not while the other clients still begin
# A child says "ready" when it needs but a line to begin; no line means that we are gone. Its standard output stays
# open as descriptor 3 until it ends, which is how its end is noticed at once.
HOLD = 'echo ready; read -r go || exit 125; exec "$@" 3>&1 >&2'


def held(command: "list[str]") -> "list[str]":
    """A command that begins when it is let."""
    return ["sh", "-c", HOLD, "sh", *command]


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
    def last_words(self) -> str:
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:500] if lines else f"exit status {self.exit_status}"


class Child:
    """The process that does the work, held until it is released; in the end neither it nor its children are left."""

    def __init__(
        self, command: "list[str]", folder: Path, environment: "dict[str, str]", interrupts: Interrupts
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
            words = self.stderr.read_text(errors="replace").strip().splitlines()
            raise Failure("failed", f"could not be started (exit status {status}): {words[-1] if words else 'no word'}")
        self.cpu_before, self.io_before = cpu_of(self.pid), io_of(str(self.pid))

    def release(self, go_wall_ns: "int | None") -> int:
        """Let it begin, and tell it from when on its time counts; the wall clock at that instant."""
        wall, _ = now()
        with contextlib.suppress(BrokenPipeError):  # it has died; waiting for it will tell
            self.stdin.write(b"%d\n" % (go_wall_ns or wall))
        return wall

    def wait(
        self,
        seconds: int,
        has_begun: "Callable[[int, int], bool] | None",
        tell: "Callable[[], int]",
        tell_more: "Callable[[], int]" = lambda: 0,
    ) -> Run:
        """Wait for its end, watching for its first byte if there is a way to see it; tell of the go meanwhile.

        Both that tell say how many bytes they have written: of the go once, of more whenever they like.
        """
        self.interrupts.limit(seconds)
        begin, own, told, polled = time.monotonic(), io_of("self"), 0, 0
        first_byte, has_stdout = None, True
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            elapsed, watching = time.monotonic() - begin, has_begun is not None and first_byte is None
            if elapsed > TELL_S:
                told = told + tell_more() if told else tell()
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
            disk_bytes=_more(end.fetched, own.fetched, self.io_before.fetched),
        )  # fmt: skip

    def _has_stdout(self, seconds: float) -> bool:
        """Wait for the end of its standard output, which comes with its own end at the latest."""
        readable, _, _ = select.select([self.stdout], [], [], seconds)
        return not readable or bool(self.stdout.read(65536))


def io_of(pid: str) -> IO:
    """What a process has read and written; nothing if it has ended or the kernel keeps no such counts."""
    text = read_text(f"/proc/{pid}/io")
    counts = {name: int(count) for name, count in re.findall(r"^(rchar|wchar|read_bytes): (\d+)$", text, re.MULTILINE)}
    return IO(counts.get("rchar", 0), counts.get("wchar", 0), len(text), counts.get("read_bytes"))


def _more(end: "int | None", *before: "int | None") -> "int | None":
    """What a count has risen by, where the kernel keeps it."""
    known = [count for count in before if count is not None]
    return None if end is None or len(known) < len(before) else max(0, end - sum(known))


def cpu_of(pid: int) -> "tuple[float, float]":
    """User and system CPU seconds of a process and its reaped children."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return 0.0, 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    user, system, child_user, child_system = (int(field) / ticks for field in fields[11:15])
    return user + child_user, system + child_system
