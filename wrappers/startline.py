"""Where the processes of a job stand until the go, for which each of them waits by itself.

Whoever is woken by another process begins when that one comes to it: of hundreds that were let go one after the other,
or all by one signal, the first to run took the cores from who was to let the others go. Here each is told when, ahead,
and sleeps until then, as the clients of a trial do, so that the kernel's timer lets them all go at one instant. Each
notes when it first runs again and sleeps on until all the others will have, before it becomes the program that does the
work: where they only stepped back behind those that ran, some of a thousand had their first turn 0.9 s later.
"""

import mmap
import os
import signal
import struct
import sys
import time
from pathlib import Path

from tierbench.host import wall_ns
from tierbench.wrappers.child import Failure

TIME = struct.Struct("q")
CANNOT_RUN = 127  # a shell's exit status for a program that is not there
LEFT = 125  # nobody is there any more to say when


class Standing:
    """One of the processes, for who knows it as a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None


class StartLine:
    """Forks processes, tells them the time of the go, and knows when each of them began."""

    def __init__(self, places: int, settling_s: float) -> None:
        self.standing = 0
        self.settling_ns = int(1e9 * settling_s)  # in which all that begin at one instant will have woken
        self.times = mmap.mmap(-1, TIME.size * (1 + places))  # of the go, and of each begin; shared with all of them
        self.ready, self.their_ready = os.pipe()
        self.their_go, self.go = os.pipe()

    def stand(self, command: "list[str]", stderr: Path) -> Standing:
        """Fork a process that becomes this program at the go, in the folder of its standard error's file."""
        place = self.standing + 1
        pid = os.fork()
        if not pid:
            try:
                self._wait_and_become(command, stderr, place)
            finally:
                os._exit(CANNOT_RUN)
        self.standing += 1
        return Standing(pid)

    def wait_until_ready(self) -> None:
        """Return when all of them need but the time."""
        os.close(self.their_ready)
        there = sum(len(said) for said in iter(lambda: os.read(self.ready, 4096), b""))
        if there < self.standing:
            raise Failure("failed", f"{self.standing - there} of {self.standing} processes ended before the go")

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
        _sleep_until(go)
        TIME.pack_into(self.times, TIME.size * place, wall_ns())
        _sleep_until(go + self.settling_ns)
        try:
            os.execvp(command[0], command)  # noqa: S606  a shell for each would be a program more to load
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)


def _sleep_until(wall: int) -> None:
    while wall_ns() < wall:
        time.sleep(max(0.0, (wall - wall_ns()) / 1e9))
