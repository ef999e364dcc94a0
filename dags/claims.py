"""What a paper found, as data beside the experiment that repeats it: a ratio between two of its rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench.checked_text import Line, Setting
from tierbench.errors import ConfigError
from tierbench.spec import bounded, build, read_toml

SUFFIX = ".reference.toml"
LEAST, MOST = "least", "most"  # the ends of a ladder of batches, whatever their sizes are


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a level of a factor differs from another one in a metric, all else being equal, and by how much."""

    says: Line
    source: Line
    metric: Setting  # a column of ratios.csv's metrics
    unit: Line
    factor: Setting
    at: dict[str, Any]  # the level of each factor; of jobs also the ends of the ladder
    against: Any
    values: tuple[float, ...]  # two: of the level at, and of the one that it is compared with
    within_pct: float = bounded(10.0, 0.1, 100)  # of equal values: how far apart is still as much as
    paper: Line = Line("")
    levels: tuple[float, ...] = ()  # two: of the factor in the paper; then the scale factor is what is compared
    extrapolated: bool = False  # whether the paper has measured but the second of its values

    @property
    def found(self) -> float:
        """The paper's ratio; with levels its scale factor, so much of what so many more could bring."""
        ratio = self.values[0] / self.values[1]
        return ratio / (self.levels[0] / self.levels[1]) if self.levels else ratio

    @property
    def of_equality(self) -> bool:
        """Whether the paper saw no difference; 0.6 : 0.2 over 6 : 2 is one, whatever its last bit says."""
        return math.isclose(self.found, 1)


@dataclass(frozen=True)
class _Reference:
    paper: Line
    claims: tuple[Any, ...]


def reference_of(experiment: Path) -> Path:
    """Where the claims of a paper lie that an experiment repeats."""
    return experiment.with_name(f"{experiment.stem}{SUFFIX}")


def read_claims(experiments: Iterable[Path]) -> tuple[Claim, ...]:
    """The claims beside an experiment, or else beside the nearest of those that it extends."""
    return next((tuple(_claims(path)) for path in map(reference_of, experiments) if path.is_file()), ())


def _claims(path: Path) -> list[Claim]:
    reference = build(_Reference, read_toml(path), str(path))
    claims = []
    for number, table in enumerate(reference.claims):
        claim = build(Claim, table, str(path), f"claims[{number}]")
        if claim.factor not in claim.at or len(claim.values) != 2 or min(claim.values) <= 0:
            raise ConfigError(f"{path}: claims[{number}]: needs its factor among at, and two values above 0")
        if claim.levels and (len(claim.levels) != 2 or min(claim.levels) <= 0):
            raise ConfigError(f"{path}: claims[{number}]: levels: must be two numbers above 0")
        claims.append(dataclasses.replace(claim, paper=reference.paper))
    return claims
