"""What a rule of the verdict is, and how one is declared: above the function that measures it (`*_rules.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

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
        limits = self.rule.limits
        if limits.invalid is not None and self.value > limits.invalid:
            return INVALID
        return SUSPECT if limits.suspect is not None and self.value > limits.suspect else VALID

    @property
    def reason(self) -> str:
        """What was measured, how much of it is allowed, and what to do."""
        limits = self.rule.limits
        limit = limits.invalid if limits.suspect is None else limits.suspect
        allowed = f" (at most {limit:g} {limits.unit})" if limit else ""
        return f"{self.words}{allowed}: {self.rule.remedy}"


def rule(
    looks_at: str, limits: Limits, *, remedy: str, bytes_only: bool = False, of_run: bool = False
) -> Callable[[Callable[..., Iterator[Any]]], Rule]:
    """Make a rule, called as the function below, which yields nothing where nothing is known."""
    return lambda of: Rule(of.__name__.replace("_", " "), looks_at, limits, remedy, bytes_only, of_run, of)


bytes_rule, run_rule = partial(rule, bytes_only=True), partial(rule, of_run=True)


def of_window(row: TrialRow, seconds: float, words: str, decimals: int = 1) -> Measured:
    """A time as a share of the window, in words too."""
    if row.window_s:
        share = 100 * seconds / row.window_s
        yield share, f"{words}, {share:.{decimals}f} % of the window"
