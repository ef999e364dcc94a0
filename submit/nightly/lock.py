"""One at a time begins, ends or changes a nightly; who dies lets go of it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tierbench.dags import names
from tierbench.errors import BusyError
from tierbench.submit.nightly.definition import Nightly

POLL_S = 0.2


@contextmanager
def alone(nightly: Nightly, patience_s: float = 30.0) -> Iterator[None]:
    """Hold the nightly; the kernel frees it when this process ends, however it does."""
    path = nightly.directory / names.NIGHTLY_LOCK
    deadline = time.monotonic() + patience_s
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BusyError(
                        f"{nightly.name}: another `tierbench nightly` is beginning or ending a night"
                    ) from None
                time.sleep(POLL_S)
        yield
