"""One of the processes of a job: where it stands until the go, for which it waits by itself, and what it has read.

Whoever is woken by another process begins when that one comes to it: of hundreds that were let go one after the other,
or all by one signal, the first to run took the cores from who was to let the others go. Here each gets its time ahead,
and sleeps until then, as the clients of a trial do, so that the kernel's timer lets them all go at one instant. Each
notes when it first runs again and sleeps on until all the others will have, before it becomes the program that does the
work: where they only stepped back behind those that ran, some of a thousand had their first turn 0.9 s later.
"""

import contextlib
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tierbench.host import wall_ns
from tierbench.wrappers.child import IO, Failure, Run, io_of
from tierbench.wrappers.client import Client
from tierbench.wrappers.work import Fetch, Replica

ROUNDING = 1e-6  # of a quotient of times
TIME = struct.Struct("q")
CANNOT_RUN = 127  # a shell's exit status for a program that is not there
LEFT = 125  # nobody is there any more to say when


class StartLine:
    """Forks processes, tells them the time of the go, and knows when each of them began."""

    def __init__(self, places: int, settling_s: float) -> None:
        self.standing = 0
        self.settling_ns = int(1e9 * settling_s)  # in which all that begin at one instant will have woken
        self.times = mmap.mmap(-1, TIME.size * (1 + places))  # of the go, and of each begin; shared with all of them
        self.ready, self.their_ready = os.pipe()
        self.their_go, self.go = os.pipe()

    def stand(self, command: "list[str]", stderr: Path) -> types.SimpleNamespace:
        """Fork a process that becomes this program at the go, in the folder of its standard error's file."""
        place = self.standing + 1
        pid = os.fork()
        if not pid:
            try:
                self._wait_and_become(command, stderr, place)
            finally:
                os._exit(CANNOT_RUN)
        self.standing += 1
        return types.SimpleNamespace(pid=pid, returncode=None)  # as a Popen has them

    def wait_until_ready(self) -> None:
        """Return when all of them need but the time."""
        os.close(self.their_ready)
        ready = sum(map(len, iter(lambda: os.read(self.ready, 4096), b"")))
        if ready < self.standing:
            raise Failure("failed", f"{self.standing - ready} of {self.standing} processes ended before the go")

    def tell(self, go_wall_ns: int) -> None:
        """Let them know when; they notice by the end of the pipe."""
        TIME.pack_into(self.times, 0, go_wall_ns)
        os.close(self.go)

    def begins(self, until_wall_ns: int) -> "list[int]":
        """The wall clock when each of them began, of one that had not come to it by then this time."""
        places = range(1, self.standing + 1)
        return [TIME.unpack_from(self.times, TIME.size * place)[0] or until_wall_ns for place in places]

    def _wait_and_become(self, command: "list[str]", stderr: Path, place: int) -> None:
        os.close(self.ready)
        os.close(self.go)
        os.chdir(str(stderr.parent))
        file = os.open(str(stderr), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and what it becomes would, too
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        TIME.pack_into(self.times, TIME.size * place, 0)  # its page is there when it counts
        os.write(self.their_ready, b".")
        os.close(self.their_ready)
        os.read(self.their_go, 1)
        (go,) = TIME.unpack_from(self.times, 0)
        if not go:
            os._exit(LEFT)
        _sleep_until(go + self.settling_ns)
        TIME.pack_into(self.times, TIME.size * place, wall_ns())
        try:
            os.execvp(command[0], command)  # noqa: S606  a shell for each would be a program more to load
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)


def _sleep_until(wall: int) -> None:
    while wall_ns() < wall:
        time.sleep(max(0.0, (wall - wall_ns()) / 1e9))


class PoolProcess:
    """One of the processes that work side by side, or rather those that follow one another in its place."""

    def __init__(
        self, client: Client, files: "Iterator[tuple[int, Replica]]", every_s: "float | None", turn: float
    ) -> None:
        self.client, self.files = client, files
        self.folder = client.job.scratch
        self.stderr = self.folder / "stderr"
        self.prepared: set[Path] | None = None  # what is there for all of its files
        self.every_s = every_s
        self.turn_s = turn * (every_s or 0.0)  # after the first of all that keep the timetable
        self.at_once = client.several(client.job.options) if every_s is None else 1
        self.popen: Any = None
        self.waits_itself = False  # until it gets a line
        self.due = 0.0  # when the next file is meant to begin, by the timetable
        self.begin = 0.0  # by the monotonic clock, when it was meant to, where that is known
        self.rests_until = 0.0  # by the same
        self.places: list[int] = []  # of the files that it is at
        self.before = self.started = IO(0, 0, 0)  # its counts at its begin; those of starting a program that waits
        self.was_cut, self.cut_s = False, 0.0  # whether, and when by the monotonic clock
        self.at_cut: IO | None = None  # its counts when time was over

    def start(self, line: "StartLine | None") -> bool:
        """Have the next files read, at once or from the start line; whether there were any."""
        batch = list(islice(self.files, self.at_once))
        if not batch:
            return False
        self._clear()
        self.places = [place for place, _ in batch]
        first, *others = (replica for _, replica in batch)
        self.client.job = self.client.job._replace(
            url=first.url, expected_bytes=first.bytes, expected_adler32=first.adler32, others=tuple(others)
        )
        own = self.client.held_command()  # of a program that can wait by itself
        self.before = self.started if own else IO(0, 0, 0)
        self.waits_itself = bool(own)
        if line and not own:
            self.popen = line.stand(self.client.argv(), self.stderr)
            return True
        with self.stderr.open("wb") as stderr:
            self.popen = subprocess.Popen(
                own or self.client.argv(), stdin=subprocess.PIPE if own else subprocess.DEVNULL, bufsize=0,
                stdout=subprocess.PIPE if line else subprocess.DEVNULL if own else stderr,
                stderr=stderr, cwd=str(self.stderr.parent),
            )  # fmt: skip
        if own and not line:
            self.release()
        return True

    def _clear(self) -> None:
        """Remove what the program before has left: its report would be taken for that of one that leaves none."""
        there = set(self.folder.iterdir())
        self.prepared = there if self.prepared is None else self.prepared
        for path in there - self.prepared:
            if path.is_file():
                path.unlink()

    def wait_until_ready(self) -> None:
        if self.waits_itself:
            if not any(line == b"ready\n" for line in iter(self.popen.stdout.readline, b"")):
                words = self.stderr.read_text(errors="replace").strip().splitlines()
                raise Failure("failed", words[-1] if words else f"exit status {self.popen.wait()}")
            self.popen.stdout.close()
            self.schedule("SCHED_BATCH")
            self.started = io_of(str(self.popen.pid))
        self.before = io_of(str(self.popen.pid))

    def schedule(self, policy: str) -> None:
        """One of a batch does not take the processor from who wakes it, as the first would before the last line."""
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(self.popen.pid, getattr(os, policy), os.sched_param(0))

    def release(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has died, which its end will tell
            self.popen.stdin.write(b"\n")
        self.popen.stdin.close()

    def go_from(self, begin: float) -> None:
        """All go together; by the timetable they begin their next files one after the other."""
        self.begin, self.due = begin, begin + self.turn_s + (self.every_s or 0.0)

    def go_on(self, ended: float) -> None:
        """Its next file is meant to begin now, or by its timetable, however late the one before has ended."""
        self.begin = ended if self.every_s is None else self.due
        self.rests_until, self.due = self.begin, self.due + (self.every_s or 0.0)

    def overdue(self, end: float) -> int:
        """How many by its timetable were to begin before the end, and have not; with it, none was."""
        return 0 if self.every_s is None else max(0, int((end - self.due) / self.every_s + 1 - ROUNDING))

    def too_late(self, run: Run) -> int:
        """What it has moved since time was over: one that is ended politely may finish what it is at."""
        if self.at_cut is None or run.read_bytes is None or run.written_bytes is None:
            return 0
        read = self.before.read + run.read_bytes - self.at_cut.read
        return max(0, read, self.before.written + run.written_bytes - self.at_cut.written)

    def under_way_s(self, fetches: "list[Fetch]", ended: float) -> "float | None":
        """The time of its files, but of one that was cut; None where nobody knows when that one began."""
        if not self.was_cut:
            return (ended - self.begin) * min(self.client.at_once(self.client.job.options), len(self.places))
        whole = [fetch for fetch in fetches if fetch.status != "cut"]
        times = [fetch.seconds for fetch in whole if fetch.seconds is not None]
        return sum(times) if len(times) == len(whole) else None

    def fetches(self, end: "dict[str, Any]", ended: float, late: int) -> "Iterator[Fetch]":
        """What became of the files that it took: as it tells of each, or of the one it was at, but what came late."""
        each = end.get("fetches", [])
        reported = {fetch.pop("file", number): fetch for number, fetch in enumerate(each)}
        read = end.get("bytes_client") if end.get("bytes_app") is None else end["bytes_app"]
        rest = None if read is None else max(0, read - sum(fetch["bytes"] for fetch in each) - late)
        # What came before the first one began, as it was reported when the last one ended, is time of the first one.
        log = self.stderr.stat()
        last_end = ended + log.st_mtime - time.time() if each and log.st_size else ended
        before = max(0.0, last_end - self.begin - sum(fetch["seconds"] or 0.0 for fetch in each))
        is_cut, timed = self.was_cut, all(fetch["seconds"] is not None for fetch in each)
        under_way = max(0.0, self.cut_s - (last_end if each else self.begin)) if timed else None
        all_ok = len(reported) == len(self.places) and all(fetch["status"] == "ok" for fetch in each)
        if each and all_ok and not is_cut and end["status"] != "ok":  # which is of all of them together
            each[-1].update(status=end["status"], message=end["message"])
        for number, fetch in reported.items():
            seconds = None if fetch["seconds"] is None else fetch["seconds"] + before
            yield Fetch(self.places[number], **{**fetch, "seconds": seconds})
            before = 0.0
        for place in [place for number, place in enumerate(self.places) if number not in reported]:
            if is_cut:
                yield Fetch(place, "cut", end["message"], rest, under_way)
                return
            yield Fetch(place, end["status"], end["message"], rest, ended - self.begin)
            rest = 0
