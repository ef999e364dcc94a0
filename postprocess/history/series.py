"""A configuration's nights as numbers: what it measured, and that over the night's control, since its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.history.queries import Chronicle
from tierbench.postprocess.history.rows import Acknowledgement, Night

DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Series:
    """The nights in which a configuration has VALID trials, in order; `logs` are of what it measured."""

    configuration: str
    nights: Sequence[Night]
    logs: Numbers
    controls: Numbers | None  # the control's logarithms; none unless every night has one

    @property
    def ratios(self) -> Numbers | None:
        """To the control."""
        return None if self.controls is None else self.logs - self.controls

    @property
    def places(self) -> Numbers:
        """The nights in the calendar, in days from the first."""
        planned = np.array([night.planned_ns for night in self.nights], dtype=float)
        days: Numbers = (planned - planned[0]) / DAY_NS
        return days

    def __len__(self) -> int:
        return len(self.nights)


def control_of(chronicle: Chronicle) -> str:
    """The reference configuration of the latest night that has one."""
    return next((night.control for night in reversed(chronicle.measured) if night.control), "")


def ways(chronicle: Chronicle) -> list[str]:
    """What is watched: every configuration but the control."""
    control = control_of(chronicle)
    return [name for name in chronicle.configurations if name != control]


def series(chronicle: Chronicle, configuration: str) -> Series:
    """A configuration since its baseline began, which is anew at what was accepted last."""
    begin = baseline_ns(chronicle.acknowledgements, configuration)
    control = control_of(chronicle)
    rows = [
        (night, value.mean, reference.mean if (reference := chronicle.value(night, control)) else 0.0)
        for night in chronicle.measured
        if night.planned_ns >= begin and (value := chronicle.value(night, configuration)) and value.mean > 0
    ]
    if configuration != control and any(row[2] > 0 for row in rows):
        rows = list(_with_control(rows))
        controls = np.log([row[2] for row in rows])
    else:
        controls = None
    return Series(configuration, [row[0] for row in rows], np.log([row[1] for row in rows]), controls)


def _with_control(rows: list[tuple[Night, float, float]]) -> Iterator[tuple[Night, float, float]]:
    """A night whose control failed tells of no way."""
    return (row for row in rows if row[2] > 0)


def baseline_ns(acknowledgements: Sequence[Acknowledgement], configuration: str) -> int:
    accepted = [one.since_ns for one in acknowledgements if one.accepted and one.configuration in ("", configuration)]
    return max(accepted, default=0)
