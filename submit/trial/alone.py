"""One process at a time, of all that run on this access point.

Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(lock: Path) -> "Iterator[None]":
    """Whoever else holds this file is waited for."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
