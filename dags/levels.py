"""Factors and their levels, how they stand in names; the axes that an experiment declares, and their product.

And how a report lays them out: what was asked about as lines, something along x, all else as panels; and along which
factor it asks how the rate scales.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from tierbench.checked_text import Key, Line, Setting, printable
from tierbench.errors import Attempts, ConfigError, refuse
from tierbench.spec import bounded, build, unknown_name

Level = str | int | float | bool
Levels = Mapping[str, Level]
Factors = Mapping[str, Sequence[Level]]  # their levels by their names

ACCESS, WORKLOAD, JOBS = BUILT_IN = ("access", "workload", "jobs")  # factors of every experiment; others are axes
PAIR = "pair"  # an access with its workload, as access/workload: lines where no two accesses share a workload
SIMULTANEOUS = "simultaneous jobs"
SAME_WITHIN = 0.05  # a ratio that is nearer to 1 is no difference that matters, unless somebody sets another limit

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
CONDITIONS = "conditions"
# What is the same for all trials of an experiment, so that no axis can set it.
COMMON = (
    "name", "question", "access", "batches", "repeats", "seed", "retries", "axes", "except", "report", "scaling",
    "expects", "extends", "without", "measure", "scale",
)  # fmt: skip

Tables = dict[str, Any]


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
    return [f"{factor}={level_text(level)}" for factor, level in levels.items()]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A factor: for each of its levels, by the text that names it, the keys of the experiment that it sets."""

    name: str
    levels: tuple[Level, ...]
    settings: tuple[Mapping[str, Any], ...]
    label: Line = Line("")

    @property
    def keys(self) -> list[str]:
        """All that it sets at any of its levels."""
        return sorted({key for settings in self.settings for key in settings})

    @property
    def arranged(self) -> bool:
        """Whether it changes what the site is like, which takes time and so is done as seldom as can be."""
        return any(key.startswith(f"{CONDITIONS}.") for key in self.keys)


@dataclass(frozen=True)
class LeftOut:
    """Points of the product that make no sense: those that have one of the levels named of each factor named."""

    where: dict[str, Any]
    because: Line

    def matches(self, levels: Levels) -> bool:
        texts = {factor: level_text(level) for factor, level in levels.items()}
        return all(texts.get(factor, "") in map(level_text, listed(allowed)) for factor, allowed in self.where.items())


@dataclass(frozen=True)
class _Written:
    """An axis as a file has it, unless its values are a table."""

    values: tuple[Any, ...]
    sets: Setting | None = None
    arranges: Key | None = None
    label: Line = Line("")


@dataclass(frozen=True)
class _Named:
    """An axis whose levels have names, and each a table of what it sets."""

    values: dict[str, Any]
    label: Line = Line("")


def read_axes(table: Any, source: str) -> tuple[Axis, ...]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{source}: axes: must be tables like [axes.cache_mb]")
    attempts = Attempts()
    axes = [attempts.run(_axis, name, axis, source) for name, axis in table.items()]
    valid_axes = tuple(filter(None, axes))
    for first, second in itertools.combinations(valid_axes, 2):
        if key := next(_set_by_both(first, second), ""):
            where = f"{source}: axes.{first.name} and axes.{second.name}"
            attempts.problems.append(f"{where}: both set {key}: leave it to one")
    refuse(attempts.problems)
    return valid_axes


def _set_by_both(first: Axis, second: Axis) -> Iterator[str]:
    """Keys that an axis sets, and another one too, or within them."""
    for pair in itertools.product(first.keys, second.keys):
        shorter, longer = sorted(pair, key=len)
        if f"{longer}.".startswith(f"{shorter}."):
            yield longer


def read_left_out(table: Any, source: str) -> tuple[LeftOut, ...]:
    if not isinstance(table, list):
        raise ConfigError(f"{source}: except: must be tables like [[except]]")
    return tuple(build(LeftOut, entry, source, f"except[{number}]") for number, entry in enumerate(table))


def points(axes: Sequence[Axis]) -> Iterator[tuple[Levels, Tables]]:
    """Every combination of the axes' levels, with all that it sets; one without any where there are no axes."""
    choices = [list(zip(axis.levels, axis.settings, strict=True)) for axis in axes]
    for chosen in itertools.product(*choices):
        levels = {axis.name: level for axis, (level, _) in zip(axes, chosen, strict=True)}
        yield levels, {key: value for _, settings in chosen for key, value in settings.items()}


def with_settings(tables: Mapping[str, Any], settings: Mapping[str, Any]) -> Tables:
    """An experiment's tables with some of its keys set anew; a key is a path like workloads.root.options.cache_mb."""
    changed = dict(tables)
    for path, value in settings.items():
        first, *others = path.split(".")
        below = changed.get(first)
        rest = ".".join(others)
        changed[first] = with_settings(below if isinstance(below, Mapping) else {}, {rest: value}) if rest else value
    return changed


def unknown_factors(left_out: Sequence[LeftOut], factors: Factors) -> Iterator[str]:
    """What is wrong with the points that are left out: factors and levels that the experiment does not have."""
    for number, entry in enumerate(left_out):
        for factor, levels in entry.where.items():
            key = f"except[{number}].where"
            yield from unknown_levels(factors, factor, listed(levels), key, f"{key}.{factor}")


def unknown_levels(
    factors: Factors, factor: str, levels: Iterable[Any], key: str, level_key: str = "", more: Sequence[str] = ()
) -> Iterator[str]:
    """A factor, or levels of it, that the experiment does not have; `more` are names of some that it has."""
    if factor not in factors:
        yield unknown_name(key, factor, factors)
        return
    texts = [*map(level_text, factors[factor]), *more]
    for text in map(level_text, levels):
        if text not in texts:
            yield unknown_name(level_key or key, printable(text), texts)


def _axis(name: str, table: Any, source: str) -> Axis:
    key = f"axes.{printable(name)}"
    if not NAME.fullmatch(name):
        raise ConfigError(f'{source}: {key}: a factor is named by small letters, digits and "_", like cache_mb')
    if name == PAIR:
        raise ConfigError(f"{source}: {key}: stands for an access method with its workload; name the axis otherwise")
    if isinstance(table, Mapping) and isinstance(table.get("values"), Mapping):
        named = build(_Named, table, source, key)
        levels, settings, label = tuple(named.values), tuple(named.values.values()), named.label
    else:
        axis = build(_Written, table, source, key)
        if bool(axis.sets) == bool(axis.arranges):
            either = "sets, a key like workloads.root.options.cache_mb, or arranges, a condition of the site"
            raise ConfigError(f"{source}: {key}: needs either {either}; or values with a table for each level")
        path = axis.sets or f"{CONDITIONS}.{axis.arranges}"
        levels, label = axis.values, axis.label
        settings = tuple({path: level} for level in levels)
    refuse((f"{key}.{problem}" for problem in _problems(levels, settings)), source)
    return Axis(name=name, levels=levels, settings=settings, label=label)


def _problems(levels: Sequence[Any], settings: Sequence[Any]) -> Iterator[str]:
    if not levels:
        yield "values: must not be empty"
    for level in levels:
        if not is_level(level):
            yield f"values: must be numbers, true or false, or texts of letters, digits and . _ -, not {level!r}"
    texts = [level_text(level) for level in levels if is_level(level)]
    yield from (f"values: has {text} twice" for text in sorted(set(texts)) if texts.count(text) > 1)
    for level, table in zip(levels, settings, strict=True):
        if not isinstance(table, Mapping) or not table:
            named = printable(str(level))
            yield f'values.{named}: must be a table of what it sets, like {{ "replicas.files.size_mb" = 8 }}'
            continue
        for path in table:
            if path.split(".")[0] in COMMON:
                yield f"values: {printable(path)} is the same for all trials, no axis can set it"


def listed(levels: Any) -> list[Any]:
    """The levels that a table names, one or several."""
    return levels if isinstance(levels, list) else [levels]


def setting_problems(key: str, tables: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a path into tables whose names are the user's: it leads into none that is there."""
    first, *others = key.split(".")
    there = tables.get(first, {})
    if first in ("workloads", "replicas") and others and isinstance(there, Mapping) and others[0] not in there:
        yield unknown_name(key, others[0], there)


@dataclass(frozen=True)
class Report:
    """The [report] of an experiment's file: factors by their names; what is left out follows from the factors."""

    lines: Setting | None = None
    x: Setting | None = None
    panels: tuple[Setting, ...] = ()
    counterpart: Line = Line("")
    baseline: Any = None  # the level of the lines that all others are compared with
    same_within: float = bounded(SAME_WITHIN, 0.001, 0.5)


@dataclass(frozen=True)
class Layout:
    """Which factor is compared, which one is along x, and which ones have a panel for each of their levels."""

    lines: str
    x: str
    panels: tuple[str, ...]
    counterpart: str = ""
    baseline: str = ""  # the level of the lines that all others are compared with; "": the fastest is


def no_difference(within: float) -> tuple[float, float]:
    """Between which ratios a difference does not matter: as far above 1 as below, as factors."""
    return 1 - within, 1 / (1 - within)


def are_apart(pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether there are several accesses, by pairs of an access and its workload, and no two share a workload."""
    accesses, workloads = map(set, zip(*(pairs := set(pairs)), strict=True))
    return len(workloads) == len(pairs) > 1 < len(accesses)


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


def report_problems(report: Report, factors: Factors) -> Iterator[str]:
    """What is wrong with a report for an experiment of these factors and their levels."""
    names = [name for name in factors if name != PAIR]
    if report.baseline is not None:
        levels = factors.get(report.lines or "", ())
        named = is_level(report.baseline) or isinstance(report.baseline, str)
        if not named or level_text(report.baseline) not in map(level_text, levels):
            level, there = printable(str(report.baseline)), ", ".join(map(level_text, levels)) or "none is known"
            yield f"report.baseline: {level} is no level of report.lines; say lines, and one of its levels: {there}"
    places: Mapping[str, Any] = {"lines": (report.lines,), "x": (report.x,), "panels": report.panels}
    for key, chosen in places.items():
        possible = list(factors) if key == "lines" else names
        yield from (unknown_name(f"report.{key}", name, possible) for name in chosen if name and name not in possible)
    placed = [name for chosen in places.values() for name in chosen if name]
    yield from (f"report: {name} has two places" for name in dict.fromkeys(placed) if placed.count(name) > 1)
    if report.lines == PAIR:
        parts = (name for name in (ACCESS, WORKLOAD) if name in placed)
        yield from (f"report: {name} is part of the pair, which is compared" for name in parts)


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
