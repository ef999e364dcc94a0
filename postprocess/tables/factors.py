"""A run's factors, the points of their product, and which rows of a table lie there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from tierbench import json_files, names
from tierbench.dags.levels import (
    ACCESS,
    BUILT_IN,
    JOBS,
    PAIR,
    SIMULTANEOUS,
    WORKLOAD,
    Factor,
    Layout,
    Levels,
    Report,
    is_level,
    layout,
    level_text,
    named_levels,
)
from tierbench.json_files import Damaged
from tierbench.postprocess.records.definition import Definition
from tierbench.postprocess.schema.columns import Column, Row

R = TypeVar("R", bound=Row)
Point = Mapping[str, str]  # levels, as texts, by the names of their factors


@dataclass(frozen=True)
class Planned:
    """What of plan.json is needed here."""

    factors: list[Factor] = field(default_factory=list)
    report: Layout | None = None


def axes_of_run(run: Path, say: Callable[[str], None]) -> tuple[tuple[Factor, ...], bool]:
    """The axes of a run's plan, and whether it compares accesses with their workloads.

    Where there is no plan, or a damaged one, the axes are those that its trials have levels of.
    """
    try:
        plan = json_files.read_as(Planned, run / names.PLAN)
        axes = tuple(factor for factor in _factors_of(plan, run) if factor.name not in BUILT_IN)
        return axes, plan.report is not None and plan.report.lines == PAIR
    except FileNotFoundError:
        pass
    except Damaged as error:
        say(str(error))
    return tuple(_axes_of_trials(run)), False


def _axes_of_trials(run: Path) -> Iterator[Factor]:
    levels: dict[str, dict[Any, None]] = {}
    for path in sorted(run.glob(f"{names.TRIALS}/*/{names.TRIAL}")):
        with contextlib.suppress(Damaged):  # which is reported where the trial itself is read
            for name, level in json_files.read_table(path).get("levels", {}).items():
                if name not in BUILT_IN and is_level(level):
                    levels.setdefault(name, {})[level] = None
    for name, seen in levels.items():
        yield Factor(name, tuple(seen))


def run_factors(content: Mapping[str, Any], run: Path, trials: Sequence[Row]) -> list[Factor]:
    """All factors of a run: those of its plan, with whatever other levels its trials have."""
    plan = json_files.typed(Planned, content, str(run / names.PLAN))
    planned = {name: Factor(name, ()) for name in BUILT_IN} | {each.name: each for each in _factors_of(plan, run)}
    planned[JOBS] = replace(planned[JOBS], label=planned[JOBS].label or SIMULTANEOUS)
    factors = []
    for factor in planned.values():
        others = sorted(
            {row.levels[factor.name] for row in trials if level_text(row.levels[factor.name]) not in factor.texts}
        )
        factors.append(replace(factor, levels=(*factor.levels, *others)))
    return factors


def layout_of(content: Mapping[str, Any], run: Path, factors: Sequence[Factor]) -> Layout:
    """How a run's report is laid out, by its plan, or as suggests itself for an older one."""
    report = json_files.typed(Planned, content, str(run / names.PLAN)).report
    if report is None:
        return layout(Report(), factors)
    factor_names, places = {PAIR, *(factor.name for factor in factors)}, (report.lines, report.x, *report.panels)
    if not factor_names >= set(places) or len(set(places)) < len(places):
        raise Damaged(f"{run / names.PLAN} is damaged: its report is of factors that the run does not have")
    return report


def _factors_of(plan: Planned, run: Path) -> list[Factor]:
    for factor in plan.factors:  # what accesses and workloads are called is whatever another site's files have
        if not all(
            isinstance(level, (str, int)) if factor.name in BUILT_IN else is_level(level) for level in factor.levels
        ):
            raise Damaged(f"{run / names.PLAN} is damaged: the levels of {factor.name} are none")
    return plan.factors


def axis_column(axis: Factor) -> Column:
    """The column of an axis: whole numbers, numbers, or texts."""
    whole = axis.numeric and all(isinstance(level, int) for level in axis.levels)
    meaning = axis.label or f"level of the axis {axis.name}"
    return Column(axis.name, "integer" if whole else "number" if axis.numeric else "text", "", meaning)


def levels_on_axes(levels: Levels) -> dict[str, str]:
    """A trial's level of each axis, of those in its own record, as tables have it."""
    return {name: level_text(level) for name, level in levels.items() if name not in BUILT_IN}


def check_levels(trial: Definition, axes: Sequence[Factor]) -> None:
    """A trial has a level of each of the run's axes, and of no other."""
    levels = levels_on_axes(trial.levels)
    if list(levels) != [axis.name for axis in axes] or any(levels[axis.name] not in axis.texts for axis in axes):
        named = " ".join(f"{name}={level}" for name, level in levels.items()) or "none"
        raise Damaged(f"{trial.id}: {names.TRIAL} is damaged: its levels ({named}) are not of the plan's factors")


def order(axes: Sequence[Factor]) -> Callable[[Row, str], Any]:
    """By what rows are ordered along a factor: an axis in the order of its levels, others by their own."""
    places = {axis.name: {text: place for place, text in enumerate(axis.texts)} for axis in axes}
    return lambda row, factor: places[factor][row.levels[factor]] if factor in places else row.level(factor)


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
    return [
        row
        for row in rows
        if all(factor in (PAIR, *row.levels) and level_of(row, factor) == text for factor, text in point.items())
    ]
