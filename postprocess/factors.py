"""The axes of a run, which the tables have a column each for: by its plan, and by each trial's own record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from tierbench import stored
from tierbench.dags import names
from tierbench.dags.levels import BUILT_IN, Factor, is_level, level_text
from tierbench.postprocess.columns import Column
from tierbench.stored import Damaged

Row = dict[str, Any]


class PlannedFactor(TypedDict):
    """A factor as plan.json has it."""

    name: str
    levels: list[Any]
    label: NotRequired[str]
    arranged: NotRequired[bool]


class PlannedFactors(TypedDict):
    """What of plan.json is needed here; plans of older versions knew no factors but those that are built in."""

    factors: NotRequired[list[PlannedFactor]]


def axes_of_run(run: Path, say: Callable[[str], None]) -> tuple[Factor, ...]:
    """The axes of a run's plan; where there is no plan, or a damaged one, those that its trials have levels of."""
    try:
        plan = stored.read_as(PlannedFactors, run / names.PLAN)
        return tuple(factor for factor in planned_factors(plan, run) if factor.name not in BUILT_IN)
    except FileNotFoundError:
        pass
    except Damaged as error:
        say(str(error))
    return tuple(_axes_of_trials(run))


def _axes_of_trials(run: Path) -> Iterator[Factor]:
    levels: dict[str, dict[Any, None]] = {}
    for path in sorted(run.glob(f"{names.TRIALS}/*/{names.TRIAL}")):
        with contextlib.suppress(Damaged):  # which is told where the trial itself is read
            for name, level in stored.read_table(path).get("levels", {}).items():
                if name not in BUILT_IN and is_level(level):
                    levels.setdefault(name, {})[level] = None
    for name, seen in levels.items():
        yield Factor(name, tuple(seen))


def planned_factors(plan: PlannedFactors, run: Path) -> list[Factor]:
    """All factors of a run's plan."""
    factors = []
    for table in plan.get("factors", []):
        if not table["levels"] or not all(map(is_level, table["levels"])):
            raise Damaged(f"{run / names.PLAN} is damaged: the levels of {table['name']} are none")
        levels = tuple(table["levels"])
        factors.append(Factor(table["name"], levels, table.get("label", ""), table.get("arranged", False)))
    return factors


def axis_column(axis: Factor) -> Column:
    """The column of an axis: whole numbers, numbers, or texts."""
    whole = axis.numeric and all(isinstance(level, int) for level in axis.levels)
    meaning = axis.label or f"level of the axis {axis.name}"
    return Column(axis.name, "integer" if whole else "number" if axis.numeric else "text", "", meaning)


def levels_on_axes(trial: Mapping[str, Any]) -> dict[str, str]:
    """A trial's level of each axis, by its own record, as tables have it."""
    levels = trial.get("levels", {})
    return {name: level_text(level) for name, level in levels.items() if name not in BUILT_IN}


def check_levels(trial: Mapping[str, Any], axes: Sequence[Factor]) -> None:
    """A trial has a level of each of the run's axes, and of no other."""
    levels = levels_on_axes(trial)
    if list(levels) != [axis.name for axis in axes] or any(levels[axis.name] not in axis.texts for axis in axes):
        told = " ".join(f"{name}={level}" for name, level in levels.items()) or "none"
        raise Damaged(f"{trial['id']}: {names.TRIAL} is damaged: its levels ({told}) are not of the plan's factors")


def order(axes: Sequence[Factor]) -> Callable[[Row, str], Any]:
    """By what rows are ordered along a factor: an axis in the order of its levels, others by their own."""
    places = {axis.name: {text: place for place, text in enumerate(axis.texts)} for axis in axes}
    return lambda row, factor: places[factor][row[factor]] if factor in places else row[factor]
