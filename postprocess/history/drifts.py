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
    lines = (_line(values, nights, turn) for turn in range(len(values) - LEAST_NIGHTS + 1))
    rest, made = min(lines, key=lambda one: one[0])
    if abs(made.difference) < rule.size_of_logarithm or made.p >= rule.significance:
        return None
    return made if not found or _worth(rest, 3, values) < _worth(*_of_steps(values, found), values) else None


def _line(values: Numbers, days: Numbers, turn: int) -> tuple[float, Drift]:
    """The level up to a night and the line from there on that fit best, and what they leave."""
    along = np.maximum(days - days[turn], 0.0)
    design = np.column_stack([np.ones(len(values)), along])
    (level, slope), *_ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ np.array([level, slope])
    rest, free = float(left @ left), max(len(values) - 3, 1)  # the turn was sought, too
    error = math.sqrt(rest / free / float(((along - along.mean()) ** 2).sum()))
    p = float(2 * stats.t.sf(abs(slope) / error, free)) if error else 0.0
    reach = float(stats.t.ppf((1 + LEVEL) / 2, free)) * error
    return rest, Drift(turn, float(slope), reach, float(level), float(level + slope * along[-1]), p)


def _of_steps(values: Numbers, found: Sequence[Step]) -> tuple[float, int]:
    """What steps leave, and how many numbers they are made of."""
    parts = np.split(values, [step.index for step in found])
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts), 2 * len(found) + 1


def _worth(rest: float, numbers: int, values: Numbers) -> float:
    """Schwarz's criterion: the less the better."""
    count = len(values)
    return count * math.log(max(rest, 1e-12) / count) + numbers * math.log(count)
