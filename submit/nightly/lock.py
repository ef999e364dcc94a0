"""One at a time begins, ends or changes a nightly; who dies lets go of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tierbench import files, names
from tierbench.errors import BusyError
from tierbench.submit.nightly.definition import Nightly, home


@contextmanager
def alone(nightly: Nightly, patience_s: float = 30.0) -> Iterator[None]:
    """Hold the nightly; the kernel frees it when this process ends, however it does."""
    busy = f"{nightly.name}: another `tierbench nightly` is beginning or ending a night"
    with _held(nightly.directory / names.NIGHTLY_LOCK, patience_s, busy):
        yield


@contextmanager
def alone_in_turn() -> Iterator[None]:
    """Hold the order in which this user's nightlies take their turns, which is done in a moment."""
    with _held(home() / names.NIGHTLY_LOCK, 30.0, f"{home()}: another nightly hangs as it takes its turn"):
        yield


def is_held(nightly: Nightly) -> bool:
    """Whether somebody is beginning or ending a night of it."""
    try:
        with alone(nightly, patience_s=0.0):
            return False
    except BusyError:
        return True


@contextmanager
def _held(path: Path, patience_s: float, busy: str) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(path, patience_s))
        except BlockingIOError:
            raise BusyError(busy) from None
        yield
