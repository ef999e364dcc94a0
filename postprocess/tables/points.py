"""Points of the product of a run's factors: how they are named, and which rows of a table lie there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD, Levels, level_text, named_levels
from tierbench.postprocess.schema.columns import Row

R = TypeVar("R", bound=Row)
Point = Mapping[str, str]  # levels, as texts, by the names of their factors


@dataclass(frozen=True)
class Panel:
    """What has a figure and an answer of its own: one level of each factor that makes panels."""

    levels: Point

    @property
    def id(self) -> str:
        """Its name in names of files."""
        return ".".join(_level_id(factor, text) for factor, text in self.levels.items())

    def without(self, factor: str) -> Panel:
        """The same panel where that factor goes without saying."""
        return Panel({name: text for name, text in self.levels.items() if name != factor})

    @property
    def name(self) -> str:
        return ", ".join(level_name(factor, text) for factor, text in self.levels.items())


def _level_id(factor: str, text: str) -> str:
    if factor in (ACCESS, WORKLOAD):
        return text
    return f"x{int(text):03d}" if factor == JOBS else f"{factor}={text}"


def level_of(row: Row, factor: str) -> str:
    """A row's level of a factor, as a text."""
    return level_text(row.level(factor))


def level_name(factor: str, text: str) -> str:
    """A level, as people call it."""
    if factor in (ACCESS, WORKLOAD, PAIR):
        return text
    return f"{text} job{'' if text == '1' else 's'}" if factor == JOBS else f"{factor}={text}"


def batch_name(levels: Levels) -> str:
    """A point of all factors, as trials are named but for the repeat."""
    axes = named_levels({name: level for name, level in levels.items() if name not in BUILT_IN})
    return " ".join([f"{levels[ACCESS]}/{levels[WORKLOAD]}", *axes, f"\N{MULTIPLICATION SIGN}{levels[JOBS]}"])


def rows_at(rows: Iterable[R], point: Point) -> list[R]:
    """The rows that have all these levels."""
    return [
        row
        for row in rows
        if all(factor in (PAIR, *row.levels) and level_of(row, factor) == text for factor, text in point.items())
    ]
