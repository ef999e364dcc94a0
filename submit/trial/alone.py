"""One process at a time, of all that run on this access point.

Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(lock: Path) -> "Iterator[None]":
    """Whoever else holds this file is waited for; who may not write it cannot hold it."""
    number = os.open(str(lock), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o622)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
