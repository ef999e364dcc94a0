"""What a rule of the verdict is, and how one is declared: above the function that measures it (`*_rules.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID

Measured = Iterator[tuple[float, str]]  # values in the rule's unit, each with what was measured in words


@dataclass(frozen=True)
class Rule:
    """What is looked at, how much of it is too much, why, and what to do then."""

    name: str
    looks_at: str
    unit: str
    suspect: float | None  # beyond this the trial is SUSPECT; None: never
    invalid: float | None  # beyond this it is INVALID; None: never
    because: str
    remedy: str
    bytes_only: bool  # what is not a rate of bytes does not go by the storage's samples and the window of its rate
    of_run: bool  # measured over all trials of a run; else over each trial's data and row of trials.csv
    measure: Callable[..., Iterator[Any]]

    def verdict_of(self, value: float) -> str:
        """The verdict to which a value leads."""
        if self.invalid is not None and value > self.invalid:
            return INVALID
        return SUSPECT if self.suspect is not None and value > self.suspect else VALID


@dataclass(frozen=True)
class Evidence:
    """What was measured for a rule, in the rule's unit and in words."""

    rule: Rule
    value: float
    words: str

    @property
    def verdict(self) -> str:
        """The verdict to which it leads."""
        return self.rule.verdict_of(self.value)

    @property
    def reason(self) -> str:
        """What was measured, how much of it is allowed, and what to do."""
        limit = self.rule.invalid if self.rule.suspect is None else self.rule.suspect
        allowed = f" (at most {limit:g} {self.rule.unit})" if limit else ""
        return f"{self.words}{allowed}: {self.rule.remedy}"


def rule(
    name: str,
    looks_at: str,
    *,
    unit: str,
    suspect: float | None = None,
    invalid: float | None = None,
    because: str,
    remedy: str,
    bytes_only: bool = False,
    of_run: bool = False,
) -> Callable[[Callable[..., Iterator[Any]]], Rule]:
    """Make a rule of the function below, which yields nothing where nothing is known."""
    return lambda measure: Rule(name, looks_at, unit, suspect, invalid, because, remedy, bytes_only, of_run, measure)
