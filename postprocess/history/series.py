"""A configuration's nights as numbers: what it measured, and that over the night's control, since its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.history.queries import Chronicle
from tierbench.postprocess.history.rows import Acknowledgement, Night

DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Series:
    """The nights in which a configuration has VALID trials, in order; all numbers are logarithms."""

    configuration: str
    nights: Sequence[Night]
    rates: Numbers  # what it measured
    values: Numbers  # what is looked at: the rates, or their ratios to the control
    until_ns: int  # the last night that measured anything, which this configuration may be without

    @property
    def places(self) -> Numbers:
        """The nights in the calendar, in days from the first."""
        planned = np.array([night.planned_ns for night in self.nights], dtype=float)
        days: Numbers = (planned - planned[0]) / DAY_NS
        return days

    @property
    def ends_early(self) -> bool:
        """Whether it tells nothing of the last night."""
        return not self.nights or self.nights[-1].planned_ns < self.until_ns

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
    """A configuration's rate since its baseline began, which is anew at what was accepted last."""
    begin = baseline_ns(chronicle.acknowledgements, configuration)
    rows = [
        (night, value.mean)
        for night in chronicle.measured
        if night.planned_ns >= begin and (value := chronicle.value(night, configuration)) and value.mean > 0
    ]
    rates = np.log([rate for _, rate in rows])
    until_ns = chronicle.measured[-1].planned_ns if chronicle.measured else 0
    return Series(configuration, [night for night, _ in rows], rates, rates, until_ns)


def by_control(rate: Series, chronicle: Chronicle) -> Series | None:
    """The same by its ratio to the control, in the nights that have both; none if none has."""
    control = control_of(chronicle)
    beside = [value.mean if (value := chronicle.value(night, control)) else 0.0 for night in rate.nights]
    both = np.array(beside) > 0
    if rate.configuration == control or not both.any():
        return None
    nights = [night for night, has in zip(rate.nights, both, strict=True) if has]
    rates = rate.rates[both]
    return replace(rate, nights=nights, rates=rates, values=rates - np.log(np.array(beside)[both]))


def baseline_ns(acknowledgements: Sequence[Acknowledgement], configuration: str) -> int:
    accepted = [one.since_ns for one in acknowledgements if one.accepted and one.configuration in ("", configuration)]
    return max(accepted, default=0)
