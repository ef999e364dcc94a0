"""How often each trial is repeated: so many times, or until its mean is known well enough."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tierbench.spec import bounded

MOST = 1000
SKIPPED = "skipped"  # the state of a trial that was not needed


@dataclass(frozen=True, kw_only=True)
class Until:
    """Repeat until the 95 % interval of a batch's mean rate is within ± so many per cent of it."""

    within_pct: float = dataclasses.field(metadata={"bounds": (0.1, 100)})
    at_least: int = bounded(3, 2, MOST)
    at_most: int = bounded(10, 2, MOST)

    def __post_init__(self) -> None:
        if self.at_most < self.at_least:
            raise ValueError(f"at_most is {self.at_most}, which is less than at_least, {self.at_least}")

    def __str__(self) -> str:
        return f"until the mean rate is known to ±{self.within_pct:g} %, {self.at_least} … {self.at_most} times"


Repeats = int | Until


def most(repeats: Repeats) -> int:
    """How many repetitions a plan has to hold."""
    return repeats.at_most if isinstance(repeats, Until) else repeats
