"""Standard output, which may be slow, and must not hold up a tick."""

import collections
import os
import select
import time

from tierbench.monitors.refusal import Refusal


class Output:
    """A stream that never holds up a tick: what the pipe does not take at once waits here, in order."""

    def __init__(self, fd: int, max_blocked_s: float) -> None:
        self.fd = fd
        self.max_blocked_s = max_blocked_s
        self.waiting: collections.deque[bytes] = collections.deque()
        self.blocked_since: float | None = None
        self.writable = select.poll()
        self.writable.register(fd, select.POLLOUT)

    def put(self, data: bytes) -> None:
        # A pipe that polls writable takes this much without blocking.
        self.waiting.extend([data[i : i + select.PIPE_BUF] for i in range(0, len(data), select.PIPE_BUF)])
        self._write(0)

    def drain(self) -> None:
        while self.waiting:
            self._write(100)

    def _write(self, patience_ms: int) -> None:
        while self.waiting:
            if not self.writable.poll(patience_ms):
                self._blocked()
                return
            try:
                written = os.write(self.fd, self.waiting[0])
            except OSError as error:
                raise Refusal(5, f"standard output failed: {error.strerror}") from None
            self.blocked_since = None
            if written < len(self.waiting[0]):
                self.waiting[0] = self.waiting[0][written:]
            else:
                self.waiting.popleft()

    def _blocked(self) -> None:
        if self.blocked_since is None:
            self.blocked_since = time.monotonic()
        elif time.monotonic() - self.blocked_since > self.max_blocked_s:
            raise Refusal(6, f"standard output took nothing for {self.max_blocked_s:g} s")
