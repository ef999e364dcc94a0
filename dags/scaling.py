"""Along which factor an experiment asks how the rate scales, and by which point it extrapolates what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tierbench.checked_text import Setting
from tierbench.dags.levels import Level, level_text
from tierbench.definitions import unknown


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The [scaling] of an experiment's file: rate over rate, over level over level, along a factor of numbers.

    Points whose least level alone was measured are extrapolated by the factor found where these other levels are
    those of `by`.
    """

    along: Setting
    by: dict[str, Any] = field(default_factory=dict)


def scaling_problems(scaling: Scaling | None, factors: Mapping[str, Sequence[Level]]) -> Iterator[str]:
    """What is wrong with it for an experiment of these factors."""
    if scaling is None:
        return
    if scaling.along not in factors:
        yield unknown("scaling.along", scaling.along, factors)
    elif not all(isinstance(level, (int, float)) and level > 0 for level in factors[scaling.along]):
        yield f"scaling.along: must be a factor of numbers above 0, and {scaling.along} is not"
    for factor, level in scaling.by.items():
        if factor not in factors or factor == scaling.along:
            yield unknown("scaling.by", factor, [name for name in factors if name != scaling.along])
        elif level_text(level) not in map(level_text, factors[factor]):
            yield unknown(f"scaling.by.{factor}", str(level), map(level_text, factors[factor]))
