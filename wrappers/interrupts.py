"""What breaks a client off: a signal, or time being over."""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tierbench.wrappers.failure import Failure

USUAL_GRACE_S = 4


class Interrupts:
    """Turns a signal, or time being over, into an end of the child: a polite one, then a forced one."""

    def __init__(self) -> None:
        self.status = self.reason = ""
        self.group = 0  # the child's process group
        self.grace_s = USUAL_GRACE_S  # between the polite and the forced end; HTCondor itself gives a job 30 s or more
        self.breaking = False  # whether whatever runs now must be broken off
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGALRM, self._on_alarm)

    def check(self) -> None:
        if self.reason:
            raise Failure(**self.outcome())

    def outcome(self) -> "dict[str, str]":
        """What the interrupt, if there was one, makes of the job."""
        return {"status": self.status, "message": self.reason} if self.reason else {}

    def ignore(self) -> None:
        """From here on there is only the record to be finished."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def limit(self, seconds: int) -> None:
        self.seconds = seconds
        signal.alarm(seconds)
        if self.reason:  # it came just before: what is left is the grace, not the whole time
            signal.alarm(self.grace_s)

    @contextlib.contextmanager
    def breakable(self, seconds: int) -> "Iterator[None]":
        """For code that would wait without end: a signal raises Failure in it, time being over OSError."""
        self.breaking = True
        signal.alarm(seconds)
        try:
            self.check()
            yield
        finally:
            signal.alarm(0)
            self.breaking = False

    def _on_stop(self, number: int, _: "FrameType | None") -> None:
        if not self.reason:
            self.status, self.reason = "killed", f"ended by {signal.Signals(number).name}"
        self._end_child(signal.SIGTERM)
        if self.breaking:
            self.check()

    def _on_alarm(self, *_: Any) -> None:
        if self.breaking:
            raise OSError("no answer in time")
        self._end_child(signal.SIGKILL if self.reason else signal.SIGTERM)
        if not self.reason:
            self.status, self.reason = "failed", f"no end after {self.seconds} s"

    def _end_child(self, how: signal.Signals) -> None:
        if self.group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, how)
            signal.alarm(self.grace_s)
