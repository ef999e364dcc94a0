"""Factors and their levels: a level is a number, a word or yes and no; and how it stands in names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

Level = str | int | float | bool
Levels = Mapping[str, Level]

ACCESS, WORKLOAD, JOBS = BUILT_IN = ("access", "workload", "jobs")  # factors of every experiment; others are axes
PAIR = "pair"  # an access with its workload, as access/workload: lines where no two accesses share a workload
SIMULTANEOUS = "simultaneous jobs"

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


def is_level(value: Any) -> TypeGuard[Level]:
    """Whether a value can be a level: it has to serve in names of files and of a DAG's nodes."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (int, bool)) or (isinstance(value, str) and bool(WORD.fullmatch(value)))


def level_text(level: Level) -> str:
    """A level in words: 0.1, 14, large, yes."""
    if isinstance(level, bool):
        return "yes" if level else "no"
    return str(level).removesuffix(".0") if isinstance(level, float) else str(level)


@dataclass(frozen=True)
class Factor:
    """What trials differ in, and its levels in the order in which the experiment names them."""

    name: str
    levels: tuple[Level, ...]
    label: str = ""
    arranged: bool = False

    @property
    def texts(self) -> list[str]:
        return [level_text(level) for level in self.levels]

    @property
    def numeric(self) -> bool:
        return all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in self.levels)

    @property
    def several(self) -> bool:
        return len(self.levels) > 1

    @property
    def in_order(self) -> Factor:
        """The same with numbers from the least to the largest; words stay as the experiment has them."""
        return replace(self, levels=tuple(sorted(self.levels))) if self.numeric else self


def named_levels(levels: Levels) -> list[str]:
    """Levels with their factors, as names have them: rtt_ms=14."""
    return [f"{factor}={level_text(level)}" for factor, level in levels.items()]
