"""What ends a command: errors that a user can act upon, which are printed without a traceback, and signals.

A signal breaks off what is waited for, and the exit status tells which one it was.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TierbenchError(Exception):
    """Something went wrong that its message explains: what, where, and what to do next."""

    exit_status = 1


class ConfigError(TierbenchError):
    """A configuration file, or a setting given on the command line, cannot be used."""

    exit_status = 2


def refuse(problems: Iterable[str], where: str = "") -> None:
    """Raise one ConfigError that tells all problems, if there are any."""
    lines = [f"{where}: {problem}" if where else problem for problem in problems]
    if lines:
        raise ConfigError("\n".join(lines))


class Attempts:
    """Collects what is wrong with several parts of a file, so that all of it can be said at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def run(self, attempt: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return attempt(*arguments)
        except ConfigError as error:
            self.problems.append(str(error))
            return None


class UnmetNeed(TierbenchError):
    """This machine lacks something without which nothing was started or changed."""

    exit_status = 3


class HostError(TierbenchError):
    """A command failed on a testbed host, or a daemon there did not come up."""


class BusyError(TierbenchError):
    """Somebody else is at work on the same thing."""

    exit_status = 4


def in_words(error: Exception) -> str:
    """What an error says; of one that nobody foresaw, also which it is."""
    return str(error) if isinstance(error, TierbenchError | OSError) else f"{type(error).__name__}: {error}"


def missing_library(error: ImportError) -> str:
    return f"{error}; `pip install {(error.name or 'tierbench').partition('.')[0]}` brings it"


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
