"""The nights in which a configuration has a rate, as a series; a night and its rerun are one value of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.history.changepoints import winsorized
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import Night

DAY_NS = 86_400 * 10**9
ALONG = 0.5  # of a change has to be in the other series too for both to tell of one thing
BESIDE = 28  # nights on either side of a change that are asked for that


@dataclass(frozen=True)
class Series:
    """The nights in which a configuration has VALID trials, in order, with its rates as logarithms."""

    configuration: str
    nights: Sequence[Night]
    rates: Numbers

    @property
    def planned(self) -> Numbers:
        return np.array([night.planned_ns for night in self.nights], dtype=float)

    def __len__(self) -> int:
        return len(self.nights)

    def mean(self, begin: int, end: int | None = None) -> float:
        """Of some nights, in the metric's unit."""
        return math.exp(float(winsorized(self.rates[begin:end]).mean()))

    def turn(self, begin: int) -> tuple[Night, Night]:
        """The first night of what begins there, and the last one before it."""
        index = max(begin, 1)
        return self.nights[index], self.nights[index - 1]

    def goes_along(self, difference: float, begin: float, at: float, end: float, nights: int = BESIDE) -> bool | None:
        """Whether its level changed with another one's, by the nights on either side; None where there are none."""
        planned = self.planned
        before = self.rates[(planned >= begin) & (planned < at)][-nights:]
        after = self.rates[(planned >= at) & (planned <= end)][:nights]
        if not len(before) or not len(after):
            return None
        return float(np.median(after) - np.median(before)) / difference >= ALONG


def series(chronicle: Chronicle, configuration: str, begin_ns: int = 0) -> Series:
    """A configuration's rate; a night and its rerun are one value, by their trials."""
    measured: dict[int, list[tuple[Night, float, int]]] = {}
    for night in chronicle.measured:
        value = chronicle.value(night, configuration) if night.planned_ns >= begin_ns else None
        if value and value.mean > 0:
            measured.setdefault(night.planned_ns, []).append((night, value.mean, value.n))
    rates = [sum(mean * n for _, mean, n in same) / sum(n for *_, n in same) for same in measured.values()]
    return Series(configuration, [same[0][0] for same in measured.values()], np.log(rates))


def baseline(chronicle: Chronicle, configuration: str) -> Series:
    """The same since what was accepted last."""
    of_it = chronicle.acknowledgements_of("", configuration)
    return series(chronicle, configuration, max((ack.since_ns for ack in of_it if ack.accepted), default=0))
