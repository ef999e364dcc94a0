"""Where a series of nights changes its level, gone through night by night as it came.

What is said of a night follows from that night and those before it, so a later night takes nothing back: a level ends
where another one begins. The rules for that:

1. A night can show a change only if it is itself beyond the size that was asked for.
2. Of all splits of the present level those count that leave two nights or more on either side, of which more than half
   are beyond the size (both, of two).
3. The levels on the two sides of the split, and no others, are put to a t-test. The scatter is that of all nights
   about their own levels, or of the last weeks, or of those behind the split, where these scatter more. Nights that
   follow one another are alike (autocorrelation), so they count as fewer.
4. Where single nights have been as far off before, so many of them together must be no chance (binomial test).
5. The most significant split wins.

All values are natural logarithms, so that a difference is a ratio.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tierbench.dags.levels import SAME_WITHIN
from tierbench.postprocess.arrays import Integers, Numbers
from tierbench.postprocess.stats import student
from tierbench.postprocess.wording import listed

LEAST = 2  # nights on either side of a change
LEAST_IN_ALL = 7  # nights before anything is said: of fewer nobody knows how much they scatter
LEAST_SCATTER = 0.003  # nights that agree by chance do not scatter less than this
RECENT = 28  # nights whose scatter counts where it is larger than that of all
CLEARLY_MORE = 1.5  # of a variance
ENOUGH_BEHIND = 5  # nights behind a split, whose own scatter counts where it is clearly larger
OUTLYING = 3.0  # standard deviations beyond which a night says no more than that one that far off would
MAD_TO_SD = 1.4826
TOGETHER = 1e-3  # chance of so many nights off together, where single ones are off now and then
AS_FAR = 0.75  # of a change: from here on an earlier night was as far off
SUSPICIOUS = 0.01  # of a single night: a rerun for nothing in a hundred is cheap
LEAST_OF_LINE = 14  # nights; less is no drift, but what a change and chance look like
BACK = np.unique([*range(LEAST, 15), *(round(14 * 1.15**power) for power in range(1, 40))])  # nights back to a split
CLEARLY = 10.0  # by how much Schwarz's criterion has to prefer a line to levels: "very strong", Kass and Raftery 1995


def no_change(nights: int, few: Sequence[str]) -> str:
    """What it means that no change was found in so many nights; `few` have fewer values than that takes."""
    if nights < LEAST_IN_ALL:
        return f"nothing can be said yet: that takes {LEAST_IN_ALL} nights, and there are {nights}"
    return "nothing has changed" + (f"; of {listed(few)} nothing can be said yet" if few else "")


@dataclass(frozen=True)
class Rule:
    """What a difference needs to be taken for a change."""

    size: float = SAME_WITHIN  # as a share
    # Of a single test: there is one each night for each method, and each looks at all splits.
    significance: float = 3e-5

    @property
    def size_of_logarithm(self) -> float:
        """A fall by the share, and a rise by its inverse."""
        return -math.log1p(-self.size)


@dataclass(frozen=True)
class Segment:
    """Nights in a row at one level."""

    begin: int
    end: int  # of the first value behind it
    level: float
    error: float  # standard error of the level
    detection: int = 0  # the night that showed it

    def __len__(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Single:
    """The last night, where it is far from its level."""

    difference: float
    reach: float  # half the interval of what it would have been


@dataclass(frozen=True)
class Course:
    """A series in segments."""

    segments: list[Segment]
    free: float  # degrees of freedom
    single: Single | None = None

    def reach(self, before: Segment, after: Segment) -> float:
        """Half the interval of the difference of two levels."""
        return student(self.free) * math.hypot(before.error, after.error)


def course(values: Numbers, rule: Rule) -> Course:
    """The segments of a series, in order."""
    if len(values) < LEAST_IN_ALL:
        return Course([Segment(0, len(values), float(np.median(values)) if len(values) else 0.0, math.inf)], 1.0)
    nights = _Nights(values, rule)
    for night in range(LEAST_IN_ALL, len(values) + 1):
        nights.add_night(night - 1)
    return nights.result()


class _Nights:
    """The nights so far: where levels began, and how far each night is from its own."""

    def __init__(self, values: Numbers, rule: Rule) -> None:
        self.values, self.rule, self.size = values, rule, rule.size_of_logarithm
        self.critical = np.array([student(df, level=1 - rule.significance) for df in range(1, len(values) + 2)])
        self.begins, self.detections = [0], [0]
        self.rests = np.zeros(len(values))  # from the level, as they are
        self.tamed = np.zeros(len(values))  # with those far off brought in
        self.near = np.array(values)  # the values themselves, so brought in
        self.sums, self.squares, self.products = (np.zeros(len(values) + 1) for _ in range(3))  # up to each night
        self.level = 0.0
        self._restart_level(LEAST_IN_ALL - 1)

    def add_night(self, night: int) -> None:
        off = self.values[night] - self.level
        split = self._split(night, math.copysign(1.0, off)) if abs(off) >= self.size else None
        if split is not None:
            self.begins.append(split)
            self.detections.append(night)
            self._restart_level(night + 1)
            return
        self.rests[night] = off
        near = np.sort(np.abs(self.rests[max(night - 2 * RECENT, 0) : night]))
        far = OUTLYING * max(MAD_TO_SD * float(near[len(near) // 2]), LEAST_SCATTER)
        self.tamed[night] = tamed = min(max(off, -far), far)
        self.near[night] = self.level + tamed
        self._add(night, night + 1)
        self.level += tamed / (night + 1 - self.begins[-1])

    def _restart_level(self, end: int) -> None:
        """The level of the nights since the last begin, made anew."""
        begin = self.begins[-1]
        part = winsorized(self.values[begin:end], least=LEAST_IN_ALL - 1)
        self.level = float(part.mean())
        self.rests[begin:end] = self.values[begin:end] - self.level
        self.tamed[begin:end] = part - self.level
        if not begin and end < LEAST_IN_ALL:  # where the level changes within these nights they scatter about two
            sides = ((part[:split], part[split:]) for split in range(LEAST, end - LEAST + 1))
            splits = (np.concatenate([own - own.mean() for own in of_split]) for of_split in sides)
            apart = min(splits, key=lambda rests: float(rests @ rests))
            if apart @ apart < self.tamed[:end] @ self.tamed[:end] / 16:
                self.tamed[:end] = apart
        self.near[begin:end] = part
        self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        for night in range(begin, end):
            off, before = self.tamed[night], self.tamed[night - 1] if night else 0.0
            self.sums[night + 1] = self.sums[night] + self.near[night]
            self.squares[night + 1] = self.squares[night] + off * off
            self.products[night + 1] = self.products[night] + off * before

    def _scatter(self, ends: Integers, beside: Numbers | float = 0.0, more: Numbers | float = 0.0) -> Numbers:
        """Standard deviation of nights up to each end, with what another level's nights add to squares and count."""
        squares = self.squares
        freedom = np.maximum(ends + more - len(self.begins) - (np.asarray(more) > 0), 1.0)
        recent = np.maximum(ends - RECENT, 0)
        late = (squares[ends] - squares[recent]) / np.maximum(ends - recent - 1, 1)
        pooled = (squares[ends] + beside) / freedom
        scatter: Numbers = np.sqrt(np.where(late > CLEARLY_MORE * pooled, late, pooled))
        return np.maximum(scatter, LEAST_SCATTER)

    def _autocorrelation(self, ends: Integers) -> Numbers:
        """The autocorrelation from night to night up to each end; its estimate from few nights is too low."""
        raw = self.products[ends] / np.maximum(self.squares[ends], 1e-12)
        correlation: Numbers = np.clip(raw + (1 + 4 * raw) / ends - 0.5 / np.sqrt(ends), 0.0, 0.9)
        return correlation

    def _split(self, night: int, sign: float) -> int | None:
        """Where the present level ended, if another one began before this night."""
        begin = self.begins[-1]
        off = (self.values[begin : night + 1] - self.level) * sign
        splits = night + 1 - BACK[: np.searchsorted(BACK, night + 1 - begin - LEAST, side="right")]
        if not len(splits):
            return None
        before, after = (splits - begin).astype(float), night + 1.0 - splits
        own = ((self.sums[splits] - self.sums[begin]) / before - self.level) * sign
        correlation = self._autocorrelation(splits)
        count = (night + 1.0) * (1 - correlation**2) / (1 + correlation**2)
        critical = self.critical[np.clip(count - len(self.begins) - 1, 1, len(self.critical)).astype(int) - 1]
        limit = 0.8 * critical.min() * float(self._scatter(splits[:1])[0])
        tamed = np.minimum(off, max(limit, self.size))
        sums, squares = (np.cumsum(part[::-1])[::-1][splits - begin] for part in (tamed, tamed**2))
        difference = sums / after - own
        rests = np.maximum(squares - sums**2 / after, 0.0)
        scatter, behind = self._scatter(splits, rests, after), np.sqrt(rests / np.maximum(after - 1, 1))
        behind = np.where((after >= ENOUGH_BEHIND) & (behind**2 > CLEARLY_MORE * scatter**2), behind, scatter)
        error = np.sqrt(
            scatter**2 * _inflation(correlation, before) / before + behind**2 * _inflation(correlation, after) / after
        )
        worth = difference / error / critical
        for place in np.argsort(-worth):
            if worth[place] < 1:
                return None
            split, beyond = int(splits[place]), int((off[splits[place] - begin :] >= own[place] + self.size).sum())
            if beyond > after[place] // 2 and not self._is_by_chance(
                split, int(after[place]), beyond, difference[place], sign
            ):
                return split
        return None

    def _is_by_chance(self, split: int, after: int, beyond: int, difference: float, sign: float) -> bool:
        """Whether nights off by themselves, as there were before, may have come together."""
        from scipy import special

        earlier = int((self.rests[:split] * sign >= AS_FAR * difference).sum())
        return bool(special.bdtrc(beyond - 1, after, earlier / split) > TOGETHER)

    def result(self) -> Course:
        count = len(self.values)
        ends = np.array([count])
        scatter, correlation = float(self._scatter(ends)[0]), self._autocorrelation(ends)
        edges = [*self.begins, count]
        parts = []
        for (begin, end), detection in zip(itertools.pairwise(edges), self.detections, strict=True):
            level = float(winsorized(self.values[begin:end]).mean())
            spread = math.sqrt(float(_inflation(correlation, float(end - begin))[0]) / (end - begin))
            parts.append(Segment(begin, end, level, scatter * spread, detection))
        free = max(count / float(_inflation(correlation, float(count))[0]) - len(parts), 1.0)
        return Course(parts, free, self._single(parts[-1], free))

    def _single(self, last: Segment, free: float) -> Single | None:
        """The last night alone, against the level that it would have left."""
        if len(last) < LEAST_IN_ALL - 1:
            return None
        before = winsorized(self.values[last.begin : last.end - 1])
        scatter = float(self._scatter(np.array([last.end - 1]))[0]) * math.sqrt(1 + 1 / len(before))
        off = float(self.values[-1] - before.mean())
        if abs(off) < self.size or abs(off) / scatter < student(free, level=1 - SUSPICIOUS):
            return None
        return Single(off, student(free) * scatter)


def _inflation(correlation: Numbers, count: Numbers | float) -> Numbers:
    """By how much the variance of a mean of so many nights is larger than if they had nothing to do with each other."""
    rest = 1 - correlation
    larger: Numbers = (1 + correlation) / rest - 2 * correlation * (1 - correlation**count) / (count * rest**2)
    return np.maximum(larger, 1.0)


def winsorized(values: Numbers, least: int = LEAST + 1) -> Numbers:
    """The values, with those far off brought in: one night gone wrong neither moves a level nor hides a change."""
    if len(values) < least:
        return values
    middle = np.median(values)
    far = OUTLYING * max(MAD_TO_SD * float(np.median(np.abs(values - middle))), LEAST_SCATTER)
    near: Numbers = np.clip(values, middle - far, middle + far)
    return near


@dataclass(frozen=True)
class Line:
    """A line that a level turns into, up to the last night."""

    index: int  # of the first value of the line
    slope: float  # per night, as a logarithm
    reach: float  # half its interval
    difference: float  # to where it has come


def line(values: Numbers, days: Numbers, segments: list[Segment]) -> Line | None:
    """The line that tells more of a series than its levels do, if there is one (by Schwarz's criterion).

    `days` are the values' places in the calendar, so that a gap does not make a line steeper.
    """
    count = len(values)
    if count < LEAST_OF_LINE:
        return None
    centred = values - values.mean()
    along = np.maximum(days - days[: count - LEAST_OF_LINE + 1, None], 0.0)  # of a line from each night on
    along -= along.mean(axis=1, keepdims=True)
    rests = centred @ centred - (along @ centred) ** 2 / (along**2).sum(axis=1)
    turn = int(np.argmin(rests))
    best, x = float(rests[turn]), along[turn]
    slope = float(x @ centred) / float(x @ x)
    free = max(count - 3, 1)  # the turn was sought, too
    error = math.sqrt(max(best, 1e-12) / free / float(x @ x))
    parts = (values[segment.begin : segment.end] for segment in segments)
    levels = sum(float(((part - part.mean()) ** 2).sum()) for part in parts if len(part))

    def worth(rest: float, numbers: int) -> float:
        return count * math.log(max(rest, 1e-12) / count) + numbers * math.log(count)

    if worth(best, 3) >= worth(levels, 2 * len(segments) - 1) - CLEARLY:
        return None
    return Line(turn, slope, student(free) * error, slope * float(days[-1] - days[turn]))
