"""How a report lays an experiment out: what was asked about as lines, something along x, all else as panels.

And along which factor it asks how the rate scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tierbench.checked_text import Line, Setting, printable
from tierbench.dags.levels import ACCESS, JOBS, PAIR, WORKLOAD, Factor, Factors, is_level, level_text, unknown_levels
from tierbench.spec import bounded, unknown_name


@dataclass(frozen=True)
class Report:
    """The [report] of an experiment's file: factors by their names; what is left out follows from the factors."""

    lines: Setting | None = None
    x: Setting | None = None
    panels: tuple[Setting, ...] = ()
    counterpart: Line = Line("")
    baseline: Any = None  # the level of the lines that all others are compared with
    same_within: float = bounded(0.05, 0.001, 0.5)  # a ratio that is nearer to 1 is no difference that matters


@dataclass(frozen=True)
class Layout:
    """Which factor is compared, which one is along x, and which ones have a panel for each of their levels."""

    lines: str
    x: str
    panels: tuple[str, ...]
    counterpart: str = ""
    baseline: str = ""  # the level of the lines that all others are compared with; "": the fastest is


def layout(report: Report, factors: Sequence[Factor], *, apart: bool = False) -> Layout:
    """The layout that a report asks for, or that suggests itself; `apart`: no two accesses share a workload.

    Every factor of several levels has a place in it, so that what is compared differs in nothing but the lines.
    """
    lines = report.lines or _lines(report, factors, apart)
    x = report.x or _x(lines, factors)
    inside = (ACCESS, WORKLOAD) if lines == PAIR else ()
    several = [factor.name for factor in factors if factor.several]
    first = (*report.panels, WORKLOAD, *several)
    panels = tuple(name for name in dict.fromkeys(first) if name not in (lines, x, *inside))
    baseline = "" if report.baseline is None else level_text(report.baseline)
    return Layout(lines, x, panels, report.counterpart, baseline)


def problems(report: Report, factors: Factors) -> Iterator[str]:
    """What is wrong with a report for an experiment of these factors and their levels."""
    names = [name for name in factors if name != PAIR]
    if report.baseline is not None:
        levels = factors.get(report.lines or "", ())
        named = is_level(report.baseline) or isinstance(report.baseline, str)
        if not named or level_text(report.baseline) not in map(level_text, levels):
            yield (
                f"report.baseline: {printable(str(report.baseline))} is no level of report.lines; say lines, and one of"
                f" its levels: {', '.join(map(level_text, levels)) or 'none is known'}"
            )
    places: Mapping[str, Any] = {"lines": (report.lines,), "x": (report.x,), "panels": report.panels}
    for key, asked in places.items():
        able = list(factors) if key == "lines" else names
        yield from (unknown_name(f"report.{key}", name, able) for name in asked if name and name not in able)
    asked = [name for those in places.values() for name in those if name]
    yield from (f"report: {name} has two places" for name in dict.fromkeys(asked) if asked.count(name) > 1)
    if report.lines == PAIR:
        yield from (
            f"report: {name} is part of the pair, which is compared" for name in (ACCESS, WORKLOAD) if name in asked
        )


def _lines(report: Report, factors: Sequence[Factor], apart: bool) -> str:
    """What was asked about: the first axis of several levels, or else the accesses, with their workloads if need be."""
    placed = (report.x, *report.panels, ACCESS, WORKLOAD, JOBS)
    return next(
        (factor.name for factor in factors if factor.several and factor.name not in placed),
        PAIR if apart and not {ACCESS, WORKLOAD} & {report.x, *report.panels} else ACCESS,
    )


def _x(lines: str, factors: Sequence[Factor]) -> str:
    """The batches, or where there is but one of them, numbers."""
    taken = (ACCESS, WORKLOAD) if lines == PAIR else (lines,)
    free = [factor for factor in factors if factor.name not in taken]
    ladder = [factor for factor in free if factor.name == JOBS and factor.several]
    numbers = [factor for factor in free if factor.numeric and factor.several]
    return [*ladder, *numbers, *(factor for factor in free if factor.name == JOBS), *free][0].name


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The [scaling] of an experiment's file: rate over rate, over level over level, along a factor of numbers.

    Points whose least level alone was measured are extrapolated by the factor found where these other levels are
    those of `by`.
    """

    along: Setting
    by: dict[str, Any] = field(default_factory=dict)


def scaling_problems(scaling: Scaling | None, factors: Factors) -> Iterator[str]:
    """What is wrong with it for an experiment of these factors."""
    if scaling is None:
        return
    if scaling.along not in factors:
        yield unknown_name("scaling.along", scaling.along, factors)
    elif not all(isinstance(level, (int, float)) and level > 0 for level in factors[scaling.along]):
        yield f"scaling.along: must be a factor of numbers above 0, and {scaling.along} is not"
    others = {name: levels for name, levels in factors.items() if name != scaling.along}
    for factor, level in scaling.by.items():
        yield from unknown_levels(others, factor, [level], "scaling.by", f"scaling.by.{factor}")
