"""A client's side of the start gate."""

import time
from pathlib import Path
from typing import Any

from tierbench.host import AccessPoint, NoChirp, in_job, now, read_text
from tierbench.starts import pause_between_looks, read_go
from tierbench.wrappers.child import Failure, Interrupts

PAUSE_S = pause_between_looks(1)
LONGEST_PAUSE_S = 5.0  # where many others have their turns before
LAST_SLEEP_S = 0.3  # into which a clock that is being corrected brings no error that counts
CHIRP_PATIENCE_S = 20


class Gate:
    """Says READY to the access point and waits for the common begin."""

    def __init__(
        self, name: str, index: int, clients: int, patience_s: float, scratch: Path, record: Any,
        interrupts: Interrupts,
    ) -> None:  # fmt: skip
        self.name, self.index, self.patience_s = name, index, patience_s
        self.pause_s = pause_between_looks(clients)
        self.share = 0.6 + 0.4 * (index * 0.618034 % 1)  # the clients are not to do things in step
        self.together = True  # whether others wake for the same instant
        self.copy = scratch / "fetched"
        self.record, self.interrupts = record, interrupts
        try:
            self.access_point = AccessPoint() if in_job() else None
        except NoChirp as error:
            raise Failure("no-gate", str(error)) from None

    def wait_until(self, go_wall_ns: int) -> "tuple[int, int]":
        """Return at this time by the wall clock, with what the clocks show then."""
        while True:
            wall, mono = now()
            left = (go_wall_ns - wall) / 1e9
            if left <= 0:
                return wall, mono
            if left > self.patience_s:
                raise Failure("no-gate", f"the go time is {left:.0f} s ahead of this host's clock")
            self.interrupts.check()
            last = LAST_SLEEP_S * self.share
            time.sleep(left if left <= LAST_SLEEP_S else min(left - last, 1.0))

    def ask_for_go(self) -> int:
        """Say that this client is ready, and return the wall-clock time of the common begin when it is known."""
        deadline, announced, trouble = time.monotonic() + self.patience_s, False, "no go came"
        pause = self.pause_s
        while time.monotonic() < deadline:
            try:
                with self.interrupts.breakable(CHIRP_PATIENCE_S):
                    if not announced:
                        if self.access_point:
                            self.access_point.announce(f"TIERBENCH READY {self.index}")
                        self.record.write("ready", *now())
                        announced = True
                    if not self.access_point:
                        text = read_text(self.name)
                    else:
                        text = read_text(str(self.copy)) if self.access_point.fetch(self.name, str(self.copy)) else ""
                if text:
                    go = read_go(text)
                    if go.called_off is not None:
                        raise Failure("called-off", go.called_off)
                    begin = go.begin(self.index)
                    if begin is not None:
                        self.together = go.together
                        return begin
                    # It need not look more often than those before it can have ended.
                    away = go.turns_away(self.index)
                    pause = min(PAUSE_S * (1 + away), max(LONGEST_PAUSE_S, self.pause_s))
            except (OSError, ValueError, TypeError) as error:
                trouble = str(error)
            self.interrupts.check()
            time.sleep(pause * self.share)
        raise Failure("no-gate", f"{trouble}, within {self.patience_s:g} s")
