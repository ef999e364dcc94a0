"""Findings that an experiment is held to, a paper's or values of one's own, and the ceilings that it expects to hit."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tierbench.checked_text import Line, Setting
from tierbench.dags.levels import ACCESS, JOBS, PAIR, SAME_WITHIN, Factors, level_text, listed, unknown_levels
from tierbench.errors import ConfigError, refuse
from tierbench.spec import Checked, bounded, build, merge_tables, read_toml

SUFFIX = ".reference.toml"
RUNGS = {"least": 0, "second": 1, "most": -1}  # of a ladder of batches, whatever their sizes are

Kind = Literal["faster", "slower", "equal", "at_least", "value"]
FASTER, SLOWER, EQUAL, AT_LEAST, VALUE = get_args(Kind)
TOLERANT = (EQUAL, VALUE)
ANSWERS = REPRODUCED, CONTRADICTED, INCONCLUSIVE, NOT_TESTED = (
    "reproduced", "contradicted", "inconclusive", "not tested",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Claim(Checked):
    """A metric at a point: its ratio to another level of a factor, all else being equal; with no factor its value."""

    says: Line
    kind: Kind
    source: Line = Line("")
    metric: Setting  # a column of ratios.csv's metrics
    unit: Line = Line("")
    factor: Setting | None = None
    at: dict[str, Any]  # the level of each factor; of jobs also the ends of the ladder
    against: Any = None
    values: tuple[float, ...] = ()  # of the point, and of what it is compared with; a direction needs none
    within_pct: float | None = bounded(None, 0.1, 1000)  # how far from 1, or from the value, is still as claimed
    paper: Line = Line("")
    levels: tuple[float, ...] = ()  # two: of the factor in the paper; then the scale factor is what is compared
    extrapolated: bool = False  # whether the paper has measured but the second of its values

    @property
    def reference(self) -> float:
        """The paper's ratio, with levels its scale factor (so much of what so many more could bring); or its value.

        Not a number where it is just said which is faster.
        """
        if not self.values:
            return 1.0 if self.kind == EQUAL else math.nan
        if self.factor is None:
            return self.values[0]
        ratio = self.values[0] / self.values[1]
        return ratio / (self.levels[0] / self.levels[1]) if self.levels else ratio

    def result(self, low: float, high: float, better: str = "more") -> str:
        """What the interval of our number says to it; `better` is which of two values of the metric is the better."""
        if self.kind == AT_LEAST:
            holds, fails = low >= self.reference, high < self.reference
        elif self.kind in TOLERANT:
            middle, share = 1.0 if self.kind == EQUAL else self.reference, (self.within_pct or 0) / 100
            least, most = middle * (1 - share), middle * (1 + share)
            holds, fails = low > least and high < most, low > most or high < least
        else:
            ahead, paper = (low, high), self.reference
            if (self.kind == SLOWER) != (better == "less"):
                ahead, paper = (1 / high, 1 / low if low > 0 else math.inf), 1 / paper
            fails = ahead[1] < min(1 + SAME_WITHIN, math.sqrt(paper))  # not ahead by half of what the paper saw
            holds = ahead[0] > 1 and not fails
        return REPRODUCED if holds else CONTRADICTED if fails else INCONCLUSIVE

    def problems(self) -> Iterator[str]:
        needed = 1 if self.factor is None else 2
        if (self.values or self.kind in (AT_LEAST, VALUE)) and (len(self.values) != needed or min(self.values) <= 0):
            what = "one number above 0, or factor and against" if needed == 1 else "two numbers above 0"
            yield f"values: must be {what}"
        if self.factor is None and self.kind not in (AT_LEAST, VALUE):
            yield f'factor: missing; without one the kind is "{VALUE}" or "{AT_LEAST}"'
        if self.factor is None and (self.against is not None or self.levels):
            yield "against, levels: are of a factor, which is missing"
        if self.factor is not None and (self.factor not in self.at or self.against is None):
            yield f"needs at.{self.factor}, and against: the level of {self.factor} to compare with"
        if self.levels and (len(self.levels) != 2 or min(self.levels) <= 0):
            yield "levels: must be two numbers above 0"
        if (self.within_pct is None) == (self.kind in TOLERANT):
            of = f'kind "{self.kind}"'
            yield f"within_pct: missing; {of} needs one" if self.within_pct is None else f"within_pct: {of} has none"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Which ceiling trials at some points are to hit, by the bottleneck's label; or they test no finding."""

    where: dict[str, Any]  # a level, or several, of each factor named; of jobs also a rung of the ladder
    bottleneck: tuple[Line, ...]  # any of these
    because: Line = Line("")

    def levels(self, factor: str) -> list[Any]:
        return listed(self.where[factor])


@dataclass(frozen=True)
class _Reference:
    claims: tuple[Any, ...]
    defaults: dict[str, Any] = field(default_factory=dict)  # of what a claim does not say itself
    paper: Line = Line("")


def reference_of(experiment: Path) -> Path:
    return experiment.with_name(f"{experiment.stem}{SUFFIX}")


def read_claims(experiments: Iterable[Path]) -> tuple[Claim, ...]:
    """The claims beside an experiment, or else beside the nearest of those that it extends."""
    path = next((path for path in map(reference_of, experiments) if path.is_file()), None)
    if path is None:
        return ()
    reference = build(_Reference, read_toml(path), str(path))
    claims: list[Claim] = []
    for number, own in enumerate(reference.claims):
        key, table = f"claims[{number}]", merge_tables(reference.defaults, own) if isinstance(own, dict) else own
        claims += (build(Claim, each, str(path), key) for each in _at_each_level(table, str(path), key))
    return tuple(dataclasses.replace(claim, paper=reference.paper) for claim in claims)


def _at_each_level(table: Any, path: str, key: str) -> Iterator[Any]:
    """One claim for each of several levels in `at`, with the level for {factor} in its words."""
    at = table.get("at") if isinstance(table, dict) else None
    factors = at if isinstance(at, dict) else {}
    several = next((factor for factor, level in factors.items() if isinstance(level, list)), None)
    if several is None:
        yield table
        return
    says, place = str(table.get("says")), f"{{{several}}}"
    if not factors[several] or place not in says:
        raise ConfigError(f"{path}: {key}.says: needs {place}, for each level of at.{several} is a claim of its own")
    for level in factors[several]:
        claim = {**table, "says": says.replace(place, level_text(level)), "at": {**factors, several: level}}
        yield from _at_each_level(claim, path, key)


def check_claims(path: Path, claims: Sequence[Claim], factors: Factors, pairs: Collection[tuple[str, str]]) -> None:
    """Refuse claims beside an experiment about what it does not vary; those of another that it extends may be."""
    source = reference_of(path)
    if not source.is_file():
        return
    problems: list[str] = []
    for claim in claims:
        levels: list[tuple[str, str, Any]] = [(f"at.{factor}", factor, level) for factor, level in claim.at.items()]
        if claim.factor in factors:
            levels.append(("against", str(claim.factor), claim.against))
        for key, factor, level in levels:
            problems += _unknown(f'claim "{claim.says}": {key}', factor, [level], factors)
        ends = [{(at, work) for at, work in pairs if at == end} for end in (claim.at.get(ACCESS), claim.against)]
        if claim.factor == ACCESS and all(ends) and not set.intersection(*({work for _, work in own} for own in ends)):
            own, other = ("/".join(min(end)) for end in ends)
            remedy = f'say at.{PAIR} = "{own}", factor = "{PAIR}", against = "{other}"'
            problems.append(f'claim "{claim.says}": against: the two have no workload in common; {remedy}')
    refuse(problems, str(source))


def expected_problems(expects: Sequence[Expected], factors: Factors) -> Iterator[str]:
    """What is wrong with the points for which a ceiling is expected."""
    for number, expected in enumerate(expects):
        for factor in expected.where:
            yield from _unknown(f"expects[{number}].where.{factor}", factor, expected.levels(factor), factors)


def _unknown(key: str, factor: str, levels: Iterable[Any], factors: Factors) -> Iterator[str]:
    return unknown_levels(factors, factor, levels, key, more=tuple(RUNGS) if factor == JOBS else ())
