"""A command in a host that speaks to our terminal, and never has it.

Who has a terminal can type into the shell that waits there (TIOCSTI), and read what is typed for another. So the
command, whoever's it is, has a terminal of its own, which is closed at its end, and the bytes are carried across.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import termios
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tierbench.errors import exit_status
from tierbench.testbed.host import RunningHost

CHUNK = 4096


def descendants(pid: int) -> Iterator[int]:
    """The processes below one."""
    with contextlib.suppress(OSError):  # it has ended
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def run(
    host: RunningHost, argv: Sequence[str], user: str | None = None, *, reads: bool = True,
    signalled: Callable[[int], Iterable[int]] = descendants,
) -> int:  # fmt: skip
    """Run a command in a host to its end; its exit status.

    Signals that ask us to end are passed on: what stands between us and the command ends when that does.
    """
    shown = next((number for number in (1, 2) if os.isatty(number)), None)
    typed = reads and os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    interactive = typed and shown == 1
    command = host.command(argv, user, terminal=interactive)
    with contextlib.ExitStack() as stack:
        ours = theirs = None
        if shown is not None:
            ours, theirs = os.openpty()
            stack.callback(os.close, ours)
            stack.enter_context(_alike(shown, ours, theirs))
        try:
            process = stack.enter_context(subprocess.Popen(command, **_streams(theirs, reads, typed)))
        finally:
            if theirs is not None:
                os.close(theirs)
        ended = os.pidfd_open(process.pid)
        stack.callback(os.close, ended)
        if interactive:
            stack.enter_context(_raw(0))
        carrier = _Carrier(ended, ours, shown, process.stdin)
        if interactive:
            carrier.target = ours
        while True:
            try:
                carrier.carry()
                status = process.wait()
                return status if status >= 0 else 128 - status
            except KeyboardInterrupt as interrupt:
                for pid in signalled(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, exit_status(interrupt) - 128)


def _streams(theirs: int | None, reads: bool, typed: bool) -> dict[str, Any]:
    """What the command has in place of our terminal; what is none of it stays."""
    streams: dict[str, Any] = {name: theirs for number, name in ((1, "stdout"), (2, "stderr")) if os.isatty(number)}
    if typed:
        streams["stdin"] = theirs if os.isatty(1) else subprocess.PIPE
    elif not reads or os.isatty(0):
        streams["stdin"] = subprocess.DEVNULL
    return {**streams, "start_new_session": True}


class _Carrier:
    """Carries what is typed to the command, and what it says to our terminal."""

    def __init__(self, ended: int, ours: int | None, shown: int | None, pipe: IO[bytes] | None) -> None:
        self.ended, self.ours, self.shown, self.pipe = ended, ours, shown, pipe
        self.target = pipe.fileno() if pipe else None
        self.waiting = b""  # was typed, and is not taken yet

    def carry(self) -> None:
        """Until the command has ended and all that it has said is shown."""
        for number in filter(None, (self.ours, self.target)):
            os.set_blocking(number, False)
        while True:
            typed = [0] if self.target is not None and not self.waiting else []
            said = [self.ours] if self.ours is not None else []
            taken = [self.target] if self.target is not None and self.waiting else []
            ready, _, _ = select.select([self.ended, *typed, *said], taken, [])
            if self.ours in ready:
                self._show()
            elif self.ended in ready:
                return
            if 0 in ready:
                self.waiting = os.read(0, CHUNK)
                if not self.waiting:
                    self._close()
            if self.waiting and self.target is not None:
                self._pass_on(self.target)

    def _show(self) -> None:
        assert self.ours is not None and self.shown is not None  # noqa: S101 - or nothing was ready
        try:
            text = os.read(self.ours, CHUNK)
        except OSError:  # nobody has its other end any more
            self.ours = None
            return
        while text:
            text = text[os.write(self.shown, text) :]

    def _pass_on(self, target: int) -> None:
        try:
            self.waiting = self.waiting[os.write(target, self.waiting) :]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            self.waiting = b""
            self._close()

    def _close(self) -> None:
        """Nothing more will be typed."""
        if self.pipe:
            self.pipe.close()
        self.target = None


@contextlib.contextmanager
def _alike(shown: int, ours: int, theirs: int) -> Iterator[None]:
    """Have their terminal as ours is, also when its window changes."""
    termios.tcsetattr(theirs, termios.TCSANOW, termios.tcgetattr(shown))

    def size(*_: Any) -> None:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(shown, termios.TIOCGWINSZ, bytes(8)))

    size()
    before = signal.signal(signal.SIGWINCH, size)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


@contextlib.contextmanager
def _raw(number: int) -> Iterator[None]:
    """Let each key go to the command as it is, also Ctrl-C."""
    before = termios.tcgetattr(number)
    tty.setraw(number, termios.TCSADRAIN)  # what was typed already is for the command
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
