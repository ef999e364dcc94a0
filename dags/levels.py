"""The level of a factor: a number, a word or yes and no, and how it stands in names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

Level = str | int | float | bool
Levels = Mapping[str, Level]

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


def named_levels(levels: Levels) -> list[str]:
    """Levels with their factors, as names have them: rtt_ms=14."""
    return [f"{factor}={level_text(level)}" for factor, level in levels.items()]
