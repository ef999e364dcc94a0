"""Whether this machine gave everybody its time: one that is busy, or paused by its own host, shows it to all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STEP_S = 0.01
LATE_S = 0.04  # a few per cent of the shortest windows
BESIDE_S = 0.5  # what comes just before a window or after it is in its edges


class Machine:
    """A thread that wants to run each hundredth of a second, and keeps when it could not."""

    def __init__(self) -> None:
        self._kept_waiting: list[tuple[float, float]] = []
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[Machine]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        before = time.time()
        while not self._over.wait(STEP_S):
            now = time.time()
            if now - before - STEP_S > LATE_S:
                self._kept_waiting.append((before, now))
            before = now

    def was_at_rest(self, begin_s: float, end_s: float) -> bool:
        """Whether nobody was kept waiting in a time, by the wall clock."""
        return not any(
            since < end_s + BESIDE_S and until > begin_s - BESIDE_S for since, until in list(self._kept_waiting)
        )
