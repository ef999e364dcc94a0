"""Where an access method saturates: the number of clients beyond which a further one brings nothing, from a ladder.

The curve is a straight line through nothing that bends into a plateau, R(n) = a n / (1 + (n/k)^p)^(1/p): each client
brings `a`, the line meets the plateau `a k` at the saturation point `k`, and `p` says how sharply it bends.
It is fitted to the logarithms of the rates, from which what a whole repetition has in common drops out. The intervals
are those of the profile likelihood: all curves that fit not significantly worse than the best one. docs/statistics.md
has their coverage, measured by simulation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.schema.run_rows import SaturationRow
from tierbench.postprocess.stats import Interval, student
from tierbench.postprocess.wording import counted, percent

FULL, FLAT, RISING, OPEN = "full", "full from the fewest jobs", "not full", "unknown"

RUNGS, REPEATS, FREEDOM = 3, 2, 2  # that it takes at least: batches, repetitions, and numbers beyond the parameters
BENDS = np.array([1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 16.0, 32.0])
BEYOND = 8.0  # so far outside the ladder the point is looked for; if it may lie there it is bounded on one side only
STEPS = 121
LEAST_NOISE = 0.001  # of a rate: smaller differences are ignored
OF_CURVE = 0.03  # of a rate: by so much the curve itself may be wrong at each batch, however often it is repeated
FALLS, MISFIT, UNLIKELY = 0.95, 0.05, 0.01  # how far below the top is falling; how far off, how unlikely is no fit


@dataclass(frozen=True)
class Rung:
    """The rate of one trial on the ladder."""

    repeat: int
    clients: int
    rate: float


def saturation(rungs: Sequence[Rung]) -> SaturationRow:
    """What a ladder says; an interval's end that the ladder does not bound is None."""
    data = _Data.of(rungs)
    if why := data.too_little() or data.falls():
        return SaturationRow(state=OPEN, why=why)
    region = _Region.of(data)
    why = region.misfit()
    return SaturationRow(state=OPEN, why=why) if why else region.result()


def next_rung(clients: Sequence[int]) -> int:
    """The batch that would come next on a ladder: by its last step where its steps are alike, else by its factor."""
    before, last, top = sorted(clients)[-3:]
    return top + (top - last) if top - last == last - before else round(top * top / last)


@dataclass(frozen=True)
class _Data:
    """The trials on the ladder, of repetitions that have two of them at least."""

    blocks: Numbers
    clients: Numbers
    logs: Numbers

    @classmethod
    def of(cls, rungs: Sequence[Rung]) -> _Data:
        batches = {(rung.repeat, rung.clients) for rung in rungs if rung.rate > 0}
        several = Counter(repeat for repeat, _ in batches)
        used = [rung for rung in rungs if rung.rate > 0 and several[rung.repeat] > 1]
        return cls(
            np.array([rung.repeat for rung in used]),
            np.array([float(rung.clients) for rung in used]),
            np.log(np.array([rung.rate for rung in used])),
        )

    @property
    def ladder(self) -> list[int]:
        return sorted({int(number) for number in self.clients})

    @property
    def repeats(self) -> list[int]:
        return sorted({int(number) for number in self.blocks})

    @property
    def freedom(self) -> int:
        return len(self.logs) - len(self.repeats) - 2

    def too_little(self) -> str:
        if len(self.ladder) < RUNGS:
            return f"needs {RUNGS} job counts, this run has {len(self.ladder)} with rates"
        if len(self.repeats) < REPEATS:
            return "a single repetition has no interval"
        return "" if self.freedom >= FREEDOM else "too few usable trials"

    def falls(self) -> str:
        """Whether the rate falls again up the ladder, as no curve with a plateau does."""
        means = {number: float(np.mean(self.logs[self.clients == number])) for number in self.ladder}
        top, last = max(means, key=lambda number: means[number]), self.ladder[-1]
        pairs = [self._of(repeat, last) - self._of(repeat, top) for repeat in self.repeats]
        pairs = [pair for pair in pairs if math.isfinite(pair)]
        if top == last or len(pairs) < REPEATS:
            return ""
        fall = float(np.mean(pairs))
        reach = student(len(pairs) - 1) * float(np.std(pairs, ddof=1)) / math.sqrt(len(pairs))
        if fall + reach < 0 and fall < math.log(FALLS):
            share = f"{math.exp(fall):.2f} of the top"
            return f"beyond {counted(top, 'job')} the rate falls again, with {last} jobs to {share}"
        return ""

    def _of(self, repeat: int, clients: int) -> float:
        own = self.logs[(self.blocks == repeat) & (self.clients == clients)]
        return float(np.mean(own)) if len(own) else math.nan

    def over_blocks(self, values: Numbers) -> Numbers:
        """The mean over each repetition's trials, along the last axis."""
        return np.stack([values[..., self.blocks == repeat].mean(axis=-1) for repeat in self.repeats], axis=-1)

    def within_blocks(self, values: Numbers) -> Numbers:
        """What is left of them without their repetition's mean."""
        left: Numbers = values - self.over_blocks(values)[..., np.searchsorted(self.repeats, self.blocks)]
        return left


def _shape(clients: Numbers, points: Numbers, bends: Numbers) -> Numbers:
    """The logarithm of the curve for a = 1, for each saturation point and bend, at each number of clients."""
    k, p, n = np.log(points)[:, None, None], bends[None, :, None], np.log(clients)[None, None, :]
    shape: Numbers = n - np.logaddexp(0.0, p * (n - k)) / p
    return shape


@dataclass(frozen=True)
class _Region:
    """All curves that fit not significantly worse than the best one, by their points and bends."""

    data: _Data
    points: Numbers
    level: Numbers  # log a of each saturation point and bend
    squares: Numbers
    accepted: NDArray[np.bool_]
    best: tuple[int, int]
    noise: float  # the standard deviation within the repetitions
    quantile: float

    @classmethod
    def of(cls, data: _Data) -> _Region:
        low, high = data.ladder[0] / BEYOND, data.ladder[-1] * BEYOND
        coarse = cls._on(data, np.geomspace(low, high, STEPS))
        inside = np.flatnonzero(coarse.accepted.any(axis=1))
        first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, STEPS - 1)
        return cls._on(data, np.geomspace(coarse.points[first], coarse.points[last], 2 * STEPS))

    @classmethod
    def _on(cls, data: _Data, points: Numbers) -> _Region:
        residuals = data.logs - _shape(data.clients, points, BENDS)
        squares: Numbers = np.sum(data.within_blocks(residuals) ** 2, axis=-1)
        best = np.unravel_index(int(np.argmin(squares)), squares.shape)
        least = float(squares[best])
        variance = max(least / data.freedom, LEAST_NOISE**2)
        quantile = student(data.freedom)
        off = variance + OF_CURVE**2 * len(data.repeats)
        return cls(
            data,
            points,
            data.over_blocks(residuals).mean(axis=-1),
            squares,
            squares <= least + quantile**2 * off,
            (int(best[0]), int(best[1])),
            math.sqrt(variance),
            quantile,
        )

    def _residuals(self) -> Numbers:
        """What the best curve leaves of the logarithms of the rates, but for its level."""
        row, column = self.best
        residuals: Numbers = self.data.logs - _shape(self.data.clients, self.points[[row]], BENDS[[column]])[0, 0]
        return residuals

    def misfit(self) -> str:
        """Whether the batches' means lie off the best curve, by more than their scatter and by a share that matters."""
        from scipy import special  # which takes a while to load

        data, freedom = self.data, len(self.data.ladder) - RUNGS
        residuals = data.within_blocks(self._residuals())
        off = {number: float(np.mean(residuals[data.clients == number])) for number in data.ladder}
        pure = sum(float(np.sum((residuals[data.clients == n] - mean) ** 2)) for n, mean in off.items())
        of_pure = len(residuals) - len(data.ladder) - len(data.repeats) + 1
        worst = max(off, key=lambda number: abs(off[number]))
        if freedom < 1 or of_pure < 1 or abs(off[worst]) < MISFIT:
            return ""
        of_means = sum(mean**2 * int(np.sum(data.clients == n)) for n, mean in off.items())
        quotient = of_means / freedom / max(pure / of_pure, LEAST_NOISE**2)
        if float(special.fdtrc(freedom, of_pure, quotient)) > UNLIKELY:
            return ""
        where = "above" if off[worst] > 0 else "below"
        at = f"with {counted(worst, 'job')} the rate is {percent(abs(off[worst]))} {where} it"
        return f"no line that bends into a plateau fits: {at}"

    def result(self) -> SaturationRow:
        ladder = self.data.ladder
        first, last = self.points[np.flatnonzero(self.accepted.any(axis=1))[[0, -1]]]
        low = float(first) if first > 1.001 * ladder[0] / BEYOND else None  # else any smaller one would fit
        high = float(last) if last < 0.999 * ladder[-1] * BEYOND else None
        why = ""
        if high is not None and high <= ladder[-1]:
            if low is not None and low < ladder[0]:
                low = None  # which nothing was measured of
            state = FULL if low is not None else FLAT
        elif low is None:
            state, why = OPEN, "the trials scatter too much to say where the rate ceases to grow"
        elif high is None:
            state = RISING
        else:
            state = OPEN
            least = f"with {low:.3g} jobs" if low >= ladder[0] else "from the fewest jobs"
            why = f"it may be full {least} or only beyond the ladder, with up to {high:.3g} jobs"
        value = float(self.points[self.best[0]]) if state in (FULL, OPEN) else None  # else it is bounded on one side
        later = next_rung(ladder)
        return SaturationRow(
            state=state,
            why=why,
            full_with=Interval(value, low, high),
            plateau=self._rate(np.log(self.points)[:, None] + self.level, below=True, above=high is not None),
            each=self._rate(self.level, below=high is None or low is not None, above=low is not None),
            predicted_jobs=later,
            predicted=self._predicted(later),
            method="profile",
        )

    def _range(self, logs: Numbers) -> tuple[float, float, float]:
        """What the best of the curves has, and the least and the most that any has."""
        inside = logs[self.accepted]
        return float(logs[self.best]), float(inside.min()), float(inside.max())

    def _rate(self, logs: Numbers, below: bool, above: bool) -> Interval:
        """A rate that each curve has, over the region and over the repetitions, whose distances add up as squares."""
        value, low, high = self._range(logs)
        reach = self._over_repeats(1 / len(self.data.repeats))
        return Interval(
            math.exp(value),
            math.exp(value - math.hypot(value - low, reach)) if below else None,
            math.exp(value + math.hypot(high - value, reach)) if above else None,
        )

    def _predicted(self, clients: int) -> Interval:
        """The mean of a batch over as many repetitions of another run, which scatter as these do."""
        value, low, high = self._range(self.level + _shape(np.array([float(clients)]), self.points, BENDS)[..., 0])
        count = len(self.data.repeats)
        scatter = math.hypot(self._over_repeats(2 / count), self.quantile * self.noise / math.sqrt(count))
        # No squares: a curve that bends just beyond the ladder is at the region's very end.
        return Interval(math.exp(value), math.exp(low - scatter), math.exp(high + scatter))

    def _over_repeats(self, share: float) -> float:
        """How far the interval of what a whole repetition has in common reaches."""
        means = self.data.over_blocks(self._residuals())
        quantile = student(len(means) - 1)
        return quantile * float(np.std(means, ddof=1)) * math.sqrt(share)
