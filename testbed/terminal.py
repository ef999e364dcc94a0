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
    screen = next((number for number in (1, 2) if os.isatty(number)), None)
    from_keyboard = reads and os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    interactive = from_keyboard and screen == 1
    command = host.command(argv, user, terminal=interactive)
    with contextlib.ExitStack() as stack:
        our_end = its_end = None
        if screen is not None:
            our_end, its_end = os.openpty()
            stack.callback(os.close, our_end)
            stack.enter_context(_alike(screen, our_end, its_end))
        try:
            process = stack.enter_context(subprocess.Popen(command, **_streams(its_end, reads, from_keyboard)))
        finally:
            if its_end is not None:
                os.close(its_end)
        ended = os.pidfd_open(process.pid)
        stack.callback(os.close, ended)
        if interactive:
            stack.enter_context(_raw(0))
        carrier = _Carrier(ended, our_end, screen, process.stdin)
        if interactive:
            carrier.target = our_end
        while True:
            try:
                carrier.carry()
                status = process.wait()
                return status if status >= 0 else 128 - status
            except KeyboardInterrupt as interrupt:
                for pid in signalled(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, exit_status(interrupt) - 128)


def _streams(its_end: int | None, reads: bool, from_keyboard: bool) -> dict[str, Any]:
    """What the command has in place of our terminal; what is none of it stays."""
    streams: dict[str, Any] = {name: its_end for number, name in ((1, "stdout"), (2, "stderr")) if os.isatty(number)}
    if from_keyboard:
        streams["stdin"] = its_end if os.isatty(1) else subprocess.PIPE
    elif not reads or os.isatty(0):
        streams["stdin"] = subprocess.DEVNULL
    return {**streams, "start_new_session": True}


class _Carrier:
    """Carries what is typed to the command, and what it says to our terminal."""

    def __init__(self, ended: int, our_end: int | None, screen: int | None, pipe: IO[bytes] | None) -> None:
        self.ended, self.our_end, self.screen, self.pipe = ended, our_end, screen, pipe
        self.target = pipe.fileno() if pipe else None
        self.waiting = b""  # was typed, and is not taken yet

    def carry(self) -> None:
        """Until the command has ended and all that it has said is shown."""
        for number in filter(None, (self.our_end, self.target)):
            os.set_blocking(number, False)
        while True:
            keyboard = [0] if self.target is not None and not self.waiting else []
            output = [self.our_end] if self.our_end is not None else []
            writable = [self.target] if self.target is not None and self.waiting else []
            ready, _, _ = select.select([self.ended, *keyboard, *output], writable, [])
            if self.our_end in ready:
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
        assert self.our_end is not None and self.screen is not None  # noqa: S101 - or nothing was ready
        try:
            text = os.read(self.our_end, CHUNK)
        except OSError:  # nobody has its other end any more
            self.our_end = None
            return
        while text:
            text = text[os.write(self.screen, text) :]

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
def _alike(screen: int, our_end: int, its_end: int) -> Iterator[None]:
    """Have their terminal as ours is, also when its window changes."""
    termios.tcsetattr(its_end, termios.TCSANOW, termios.tcgetattr(screen))

    def size(*_: Any) -> None:
        fcntl.ioctl(our_end, termios.TIOCSWINSZ, fcntl.ioctl(screen, termios.TIOCGWINSZ, bytes(8)))

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
