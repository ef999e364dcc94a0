"""Signals that ask a command to end: each breaks off what it waits for, and its exit status tells which one it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal has asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def listen() -> None:
    """Have every such signal raise Interrupted; one that is ignored already, as by nohup, stays so."""
    for number in ASKING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """As a shell tells of a command that a signal has ended: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT)


@contextmanager
def held_back() -> Iterator[None]:
    """For steps that belong together: a signal that comes meanwhile is answered after them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
