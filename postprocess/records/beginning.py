"""How a trial's clients were to begin, and where they were to run, as its trial.json says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from tierbench.starts import EVERY, IN_TURN, NATURAL, TOGETHER


class StartRecord(TypedDict):
    """The start, as trial.json has it."""

    kind: str
    every_s: float


class PlacementRecord(TypedDict):
    """The placement, as trial.json has it."""

    asked: str
    hosts: list[str]
    pinned: bool


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


def beginning_of(trial: Mapping[str, Any]) -> Beginning:
    """From trial.json; earlier versions knew but a gate, and none."""
    if "start" in trial:
        return Beginning(trial["start"]["kind"], trial["start"]["every_s"])
    return Beginning(TOGETHER if trial.get("gate") else NATURAL)


def placement_of(trial: Mapping[str, Any]) -> PlacementRecord:
    """From trial.json; earlier versions left it to HTCondor."""
    return trial.get("placement") or PlacementRecord(asked="as-matched", hosts=[], pinned=False)


def placement_text(placement: PlacementRecord) -> str:
    """As tables and reports have it."""
    return placement["asked"] + (", pinned" if placement["pinned"] else "")
