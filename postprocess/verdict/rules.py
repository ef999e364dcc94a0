"""What a rule of the verdict is, and how one is declared: above the function that measures it (`*_rules.py`)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID

Measured = Iterator[tuple[float, str]]  # values in the rule's unit, each with what was measured in words


@dataclass(frozen=True)
class Limits:
    """Beyond which values a trial is SUSPECT, and beyond which INVALID; None: never."""

    unit: str
    suspect: float | None = None
    invalid: float | None = None


@dataclass(frozen=True)
class Rule:
    """What is looked at, how much of it is too much, and what to do then."""

    name: str
    looks_at: str
    limits: Limits
    remedy: str
    bytes_only: bool  # what is not a rate of bytes does not go by the storage's samples and the window of its rate
    of_run: bool  # measured over all trials of a run; else over each trial's data and row of trials.csv
    measure: Callable[..., Iterator[Any]]


@dataclass(frozen=True)
class Evidence:
    """What was measured for a rule, in the rule's unit and in words."""

    rule: Rule
    value: float
    words: str

    @property
    def verdict(self) -> str:
        """By its limits; a value that is no number (NaN) is beyond each."""
        limits = self.rule.limits
        if limits.invalid is not None and not self.value <= limits.invalid:
            return INVALID
        return SUSPECT if limits.suspect is not None and not self.value <= limits.suspect else VALID

    @property
    def reason(self) -> str:
        """What was measured, how much of it is allowed, and what to do."""
        limits = self.rule.limits
        limit = limits.invalid if limits.suspect is None else limits.suspect
        allowed = f" (at most {limit:g} {limits.unit})" if limit else ""
        return f"{self.words}{allowed}: {self.rule.remedy}"


def rule(
    limits: Limits, *, remedy: str, bytes_only: bool = False, of_run: bool = False, worst: bool = False
) -> Callable[[Callable[..., Iterator[Any]]], Rule]:
    """Make a rule, called as the function below, which yields nothing where nothing is known.

    What it looks at is the first paragraph of the function's docstring. `worst`: of all that it measures, as of each
    client, the worst stands for all.
    """

    def make(of: Callable[..., Iterator[Any]]) -> Rule:
        looks_at = " ".join((of.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")
        measure = partial(_worst, of) if worst else of
        name = of.__name__.replace("_", " ")
        return Rule(name, looks_at[:1].lower() + looks_at[1:], limits, remedy, bytes_only, of_run, measure)

    return make


def _worst(of: Callable[..., Measured], data: TrialData, row: TrialRow) -> Measured:
    yield from sorted(of(data, row), key=lambda measured: measured[0], reverse=True)[:1]


bytes_rule, run_rule, worst_rule = partial(rule, bytes_only=True), partial(rule, of_run=True), partial(rule, worst=True)


def of_window(row: TrialRow, seconds: float, words: str, decimals: int = 1) -> Measured:
    """A time as a share of the window, in words too."""
    if row.window_s:
        share = 100 * seconds / row.window_s
        yield share, f"{words}, {share:.{decimals}f} % of the window"
