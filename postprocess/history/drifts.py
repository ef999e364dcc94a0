"""Whether a series of nights goes slowly somewhere: a level that turns into a straight line, against a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.history.steps import LEVEL, Rule, Step

LEAST_NIGHTS = 14  # less is no drift, but what a step and chance look like
CLEARLY = 10.0  # by how much Schwarz's criterion has to prefer a line to steps: "very strong", Kass and Raftery 1995


@dataclass(frozen=True)
class Drift:
    """A line that a level turns into, up to the last night."""

    index: int  # of the first value of the line
    slope: float  # per night, as a logarithm
    reach: float  # half its interval
    before: float  # level, as a logarithm
    after: float  # where the line has come to
    p: float

    @property
    def difference(self) -> float:
        return self.after - self.before


def drift(values: Numbers, nights: Numbers, found: Sequence[Step], rule: Rule) -> Drift | None:
    """The drift that tells more of a series than its steps do, if there is one (by Schwarz's criterion).

    `nights` are the values' places in the calendar, so that a gap does not make a line steeper.
    """
    if len(values) < LEAST_NIGHTS:
        return None
    turns = range(len(values) - LEAST_NIGHTS + 1)
    rest, turn = min((_rest(values, _along(nights, turn)), turn) for turn in turns)
    made = _line(values, _along(nights, turn), rest, turn)
    if abs(made.difference) < rule.size_of_logarithm or made.p >= rule.significance:
        return None
    of_steps = _worth(*_of_steps(values, found), values) if found else math.inf
    return made if _worth(rest, 3, values) < of_steps - CLEARLY else None


def _along(nights: Numbers, turn: int) -> Numbers:
    """How far along the line each night is."""
    days: Numbers = np.maximum(nights - nights[turn], 0.0)
    return days


def _rest(values: Numbers, along: Numbers) -> float:
    """What the best level and line leave, as a sum of squares."""
    x, y = along - along.mean(), values - values.mean()
    return max(float(y @ y) - float(x @ y) ** 2 / float(x @ x), 0.0)


def _line(values: Numbers, along: Numbers, rest: float, turn: int) -> Drift:
    x, free = along - along.mean(), len(values) - 3  # the turn was sought, too
    slope = float(x @ values) / float(x @ x)
    error = max(math.sqrt(rest / free / float(x @ x)), 1e-12)
    level = float(values.mean()) - slope * float(along.mean())
    reach = float(stats.t.ppf((1 + LEVEL) / 2, free)) * error
    p = float(2 * stats.t.sf(abs(slope) / error, free))
    return Drift(turn, slope, reach, level, level + slope * float(along[-1]), p)


def _of_steps(values: Numbers, found: Sequence[Step]) -> tuple[float, int]:
    """What steps leave, and how many numbers they are made of."""
    parts = np.split(values, [step.index for step in found])
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts), 2 * len(found) + 1


def _worth(rest: float, numbers: int, values: Numbers) -> float:
    """Schwarz's criterion: the less the better."""
    count = len(values)
    return count * math.log(max(rest, 1e-12) / count) + numbers * math.log(count)
