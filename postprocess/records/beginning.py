"""How a trial's clients were to begin, and where they were to run, as its trial.json says."""

from __future__ import annotations

from dataclasses import dataclass, field

from tierbench.starts import EVERY, IN_TURN, NATURAL, TOGETHER


@dataclass(frozen=True)
class Beginning:
    """The kind of start, and the seconds from one client to the next where they begin one by one."""

    kind: str
    every_s: float = 0.0

    @property
    def gated(self) -> bool:
        """Whether each client was told when to begin."""
        return self.kind != NATURAL

    @property
    def at_one_instant(self) -> bool:
        return self.kind == TOGETHER

    @property
    def in_turn(self) -> bool:
        """Whether each client had the way for itself."""
        return self.kind == IN_TURN

    @property
    def overlapping(self) -> bool:
        """Whether all clients were to read at the same time for most of the trial."""
        return self.kind in (TOGETHER, NATURAL)

    @property
    def text(self) -> str:
        """As tables and reports have it."""
        return f"every {self.every_s:g} s" if self.kind == EVERY else self.kind


@dataclass(frozen=True)
class Placement:
    """The workers that clients were meant for, and whether each was to have a core of its own."""

    asked: str = "as-matched"
    hosts: list[str] = field(default_factory=list)
    pinned: bool = False

    @property
    def text(self) -> str:
        """As tables and reports have it."""
        return self.asked + (", pinned" if self.pinned else "")
