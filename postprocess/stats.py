"""What repetitions say: means and ratios with their intervals, and how sure several comparisons are together.

docs/statistics.md says why it is done so; benchmarks/interval_coverage.py how often it holds. scipy is loaded where it
is needed: a trial's own tables, which are made within the DAG, do without; scipy.stats takes a second more to load.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tierbench.dags.levels import SAME_WITHIN, no_difference
from tierbench.postprocess.arrays import Booleans, Numbers

MOST_LOG = 700.0  # of a ratio: the largest number has little more

LEVEL = 0.95
RESOLUTION = 0.001  # of a rate: clients start within 10 ms in windows of 10 s, so trials resolve no less
OTHER_SCATTER = 0.01  # how probable it may be that scatter differs by chance, of workloads or of points
FAR_NOISIER = 100.0  # times the variance: of less nobody knows by three trials which points are noisy
STRAY = 0.01  # how often a run without a stray trial is said to have one
DOUBT, DOUBT_OF_STRAYS = 8.0, 1.0  # so many times 2 / (points - 1) more than they seem to variances may differ
LEAST_TRIALS, LEAST_POINTS = 3, 3  # of a point, and in a repetition, to tell a stray trial from its neighbours
LEAST_DF = 0.5  # below it an interval says nothing, and its ends are no numbers
LARGEST_DF = 1000.0  # beyond, Student's distribution is the normal one
SUMMED = np.linspace(-8.5, 8.5, 171)  # standard deviations: the normal density in steps that leave no error to speak of
HALVED = 30  # times, an interval to find a root in
Trial = tuple[Hashable, Hashable]  # a point, and a repetition
Values = Mapping[Trial, float]
Kind = Callable[[Hashable], Hashable]  # of a point


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval, as far as they are known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def leaves_out(self, number: float) -> bool:
        """Whether there is an interval, and the number is not in it."""
        return self.interval is not None and not self.interval[0] <= number <= self.interval[1]

    def over(self, number: float) -> Interval:
        """All of it, divided by a number above 0."""
        return Interval(*(None if bound is None else bound / number for bound in (self.value, self.low, self.high)))

    @property
    def inverted(self) -> Interval:
        """Of a ratio: the other way round."""
        return Interval(*(1 / bound if bound and bound > 0 else None for bound in (self.value, self.high, self.low)))

    @property
    def reach(self) -> tuple[float, float]:
        """How far the interval reaches below and above the value; nowhere where there is none."""
        if self.value is None or self.low is None or self.high is None:
            return 0.0, 0.0
        return max(self.value - self.low, 0.0), max(self.high - self.value, 0.0)


@dataclass(frozen=True)
class Compared:
    """A ratio with its interval, and the degrees of freedom of the scatter that it rests on."""

    ratio: Interval
    df: float | None = None
    at_resolution: bool = False  # the trials scatter by less than they resolve

    @property
    def inverted(self) -> Compared:
        return replace(self, ratio=self.ratio.inverted)

    def at(self, quantile: Callable[[float], float]) -> Interval:
        """The ratio with its interval at another quantile of its distribution, which goes by the degrees of freedom."""
        if not self.df:
            return self.ratio
        value, bounds = self.ratio.value, (self.ratio.low or 0, self.ratio.high or 0)
        if not value or min(bounds) <= 0:  # or they have no logarithms
            return Interval(value)
        widened = quantile(self.df) / student(self.df)
        reach = (widened * math.log(bound / value) for bound in bounds)
        return Interval(value, *(value * math.exp(max(-MOST_LOG, min(MOST_LOG, log))) for log in reach))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent values, and its interval by Student's t; of equal values by what trials resolve."""
    if not values:
        return Interval()
    mean = float(np.mean(values))
    scatter = float(np.std(values, ddof=1)) if len(values) > 1 and np.ptp(values) else RESOLUTION * abs(mean)
    if len(values) < 2 or not scatter:
        return Interval(mean)
    reach = student(len(values) - 1) * scatter / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def student(df: float, together: float = 1, level: float = LEVEL) -> float:
    """By what a standard error is multiplied, if so many intervals are to hold together (Šidák)."""
    from scipy import special

    return float(special.stdtrit(df, (1 + level ** (1 / together)) / 2))


def tukey(levels: int, df: float, together: float = 1) -> float:
    """The same for all pairs of so many levels, in each of so many places: whichever is picked by its result."""
    if levels <= 2:
        return student(df, together)
    return _studentized_range(levels, float(math.floor(df)) if df >= 1 else df, together)


def over_looks(number: int) -> float:
    """As how many comparisons so many looks at growing data count: fewer than they are, since they share trials.

    Of Pocock's constants (1977) for looks that are further apart than these, the power that lies above them.
    """
    return float(number**0.75)


@functools.cache
def _studentized_range(levels: int, df: float, together: float) -> float:
    """Its quantile over the root of 2; it lies between that of one pair and that of so many independent ones."""
    from scipy import special

    df = min(df, LARGEST_DF)
    least, most = max(float(special.chdtri(df, 1 - 1e-12)), 1e-300), float(special.chdtri(df, 1e-15))
    deviation = np.sqrt(np.geomspace(least, most, 200) / df)  # what of the scatter few trials may show, by chance
    weights = deviation**df * np.exp(-df * (deviation**2 - 1) / 2)
    density = levels * np.exp(-(SUMMED**2) / 2) * (SUMMED[1] - SUMMED[0]) / math.sqrt(2 * math.pi)

    def within(quantile: float) -> float:
        reach = special.ndtr(SUMMED + quantile * math.sqrt(2) * deviation[:, None]) - special.ndtr(SUMMED)
        return float(weights @ (reach ** (levels - 1) @ density) / weights.sum())

    low, high = student(df, together), student(df, together * levels * (levels - 1) / 2)
    for _ in range(HALVED):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < LEVEL ** (1 / together) else (low, middle)
    return (low + high) / 2


class Blocks:
    """The logarithms of a metric: a level for each point and a shift for each repetition, by least squares.

    Trials that are missing take nothing from the others, as long as points are linked by repetitions that they share.
    The scatter of each point is its own, drawn towards that of all (Smyth 2004), with the degrees of freedom of both;
    that of `noisy` points towards theirs, whose trials say as little of the shifts as their `weight`. A `trimmed`
    point, of which a stray trial is left out, has its own alone: it may be a noisy one.
    """

    def __init__(
        self, values: Values, noisy: Collection[Hashable] = (), weight: float = 1.0, trimmed: Collection[Hashable] = ()
    ) -> None:
        self.trials = [key for key, value in values.items() if value > 0]
        logs = np.log([values[key] for key in self.trials])
        self.points = {point: place for place, point in enumerate(dict.fromkeys(key[0] for key in self.trials))}
        self.repeats = {repeat: place for place, repeat in enumerate(dict.fromkeys(key[1] for key in self.trials))}
        self.at = np.array([self.points[point] for point, _ in self.trials], dtype=int)
        repeat_of = np.array([self.repeats[repeat] for _, repeat in self.trials], dtype=int)
        present = np.zeros((len(self.points), len(self.repeats)))
        present[self.at, repeat_of] = 1.0
        is_noisy = np.array([point in noisy for point in self.points], dtype=bool)
        weights = np.where(is_noisy, weight, 1.0)
        self.counts = present.sum(1)
        self.repeat_counts = present.sum(0)[repeat_of]  # how many trials each one's repetition has
        self.share = present / self.counts[:, None]
        self.laplacian = np.diag(weights @ present) - present.T @ (weights[:, None] * self.share)
        self.inverse = np.linalg.pinv(self.laplacian, hermitian=True)
        own = np.eye(len(self.repeats))[repeat_of] - self.share[self.at]
        self.own = weights[self.at, None] * own
        self.means = np.bincount(self.at, logs, len(self.points)) / self.counts
        self.shifts = self.inverse @ self.own.T @ logs
        self.rest = logs - (self.means - self.share @ self.shifts)[self.at] - self.shifts[repeat_of]
        self.free = 1 - 1 / self.counts[self.at] - np.einsum("ij,jk,ik->i", self.own, self.inverse, own)
        self.freedom = np.bincount(self.at, self.free, len(self.points)).astype(float)
        self.squares = np.bincount(self.at, self.rest**2, len(self.points)).astype(float)
        joined = (present @ present.T) > 0
        for _ in range(len(joined).bit_length()):
            joined = (joined.astype(float) @ joined) > 0
        self.linked = [int(row.argmax()) for row in joined]  # by points, a number of all that repetitions link
        is_trimmed = np.array([point in trimmed for point in self.points], dtype=bool)
        self.variances, self.dfs = moderated(self.squares, self.freedom, is_noisy, is_trimmed)
        self.most_df = np.where(is_trimmed, self.dfs, self.df)  # of a ratio

    @property
    def df(self) -> float:
        """Of the scatter of all points together."""
        return float(self.freedom.sum())

    def ratio(self, point: Hashable, against: Hashable) -> Compared | None:
        """The one over the other; nothing where no repetition links them."""
        if point not in self.points or against not in self.points:
            return None
        first, second = self.points[point], self.points[against]
        if self.linked[first] != self.linked[second]:
            return None
        weights = (self.at == first) / self.counts[first] - (self.at == second) / self.counts[second]
        apart = self.share[first] - self.share[second]
        weights = weights - self.own @ (self.inverse @ apart)
        log = self.means[first] - self.means[second] - apart @ self.shifts
        if min(self.counts[first], self.counts[second]) < 2:
            return Compared(Interval(math.exp(log)))
        parts = np.bincount(self.at, weights**2, len(self.points)) * self.variances
        at_resolution = bool((self.variances[[first, second]] <= RESOLUTION**2).all())
        most_df = float(self.most_df[[first, second]].min())
        return replace(_from_log(float(log), parts, self.dfs, most_df), at_resolution=at_resolution)


def blocks(values: Values, trimmed: Collection[Hashable] = ()) -> tuple[Blocks, list[Trial]]:
    """The model of these values, without trials that are strays, and those: at most one in twenty, at least one.

    A stray lies further from what the others of its repetition and its point foretell than chance has it.
    """
    from scipy import special

    used, strays = dict(values), []
    model = Blocks(used, trimmed=trimmed)
    for _ in range(max(1, len(used) // 20)):
        can = (model.counts[model.at] >= LEAST_TRIALS) & (model.repeat_counts >= LEAST_POINTS) & (model.free > 1e-9)
        if not can.any() or not model.squares.any():
            break
        far = np.where(can, np.abs(model.rest) / np.sqrt(np.where(can, model.free, 1.0)), 0.0)
        worst = int(far.argmax())
        stray = model.trials[worst]
        without = Blocks({key: value for key, value in used.items() if key != stray})
        place = without.points[stray[0]]
        drawn = moderated(without.squares, without.freedom, doubt=DOUBT_OF_STRAYS)
        variance, df = (float(of[place]) for of in drawn)
        if df <= 0 or variance <= 0:
            break
        if 2 * len(used) * float(special.stdtr(df, -far[worst] / math.sqrt(variance))) >= STRAY:
            break
        strays.append(stray)
        del used[stray]
        model = Blocks(used, trimmed={*trimmed, *_points(strays)})
    return model, strays


class ApartBlocks:
    """Blocks for all points together, but for what scatters otherwise: by what is noisy nobody else gets uncertain.

    Each kind (workload) is by itself where the scatter of kinds differs, and so is of a kind what lies `within` it
    (access methods), but to compare the one with the other; and of each the points that scatter far more than the
    others have a scatter of their own. The ratio of two kinds is by the pairs of both.
    """

    def __init__(self, values: Values, kind: Kind, within: Kind = lambda _: None) -> None:
        self._models: list[Blocks] = []  # of what lies within a kind before the kind's
        self.strays: list[Trial] = []
        for of_kind, model, strays in _apart(values, kind):
            finer = _apart(_without(of_kind, strays), within, _points(strays))
            for part in finer if len(finer) > 1 else ():
                self._add(*part)
            if len(finer) > 1:  # what one model leaves out no other one uses
                left_out = [*strays, *self.strays]
                rest = _without(of_kind, left_out)
                self._add(rest, Blocks(rest, trimmed=_points(left_out)), strays)
            else:
                self._add(of_kind, model, strays)
        self._every, self._values = values, _without(values, self.strays)

    def _add(self, values: Values, model: Blocks, strays: Sequence[Trial]) -> None:
        apart, others = _noisy_apart(values, model, strays)
        self._models.append(apart)
        self.strays += [key for key in dict.fromkeys((*strays, *others)) if key not in self.strays]

    def ratio(self, point: Hashable, against: Hashable) -> Compared | None:
        """The one over the other; where a trial decides it by being left out, by the pairs of both with all trials."""
        both = (model for model in self._models if point in model.points and against in model.points)
        pairs, every = (
            {key: value for key, value in values.items() if key[0] in (point, against)}
            for values in (self._values, self._every)
        )
        ratio = (next(both, None) or Blocks(pairs)).ratio(point, against)
        whole = Blocks(every).ratio(point, against) if ratio and len(every) > len(pairs) else None
        return whole if ratio and whole and _is_other(ratio.ratio, whole.ratio) else ratio


def _is_other(ratio: Interval, whole: Interval) -> bool:
    """Whether a ratio says faster, slower or alike, and the one of all trials is on the other side, or not alike."""
    if ratio.interval is None or whole.value is None:
        return False
    (low, high), value, (least, most) = ratio.interval, whole.value, no_difference(SAME_WITHIN)
    return low > 1 >= value or high < 1 <= value or (least < low and high < most and not least < value < most)


def _without(values: Values, strays: Sequence[Trial]) -> Values:
    return {key: value for key, value in values.items() if key not in strays}


def _points(trials: Sequence[Trial]) -> set[Hashable]:
    return {point for point, _ in trials}


def _apart(
    values: Values, kind: Kind, trimmed: Collection[Hashable] = ()
) -> Sequence[tuple[Values, Blocks, Sequence[Trial]]]:
    """The values of each kind with their model and its strays, or all together where the scatter does not differ."""
    parts: dict[Hashable, dict[Trial, float]] = {}
    for key, value in values.items():
        parts.setdefault(kind(key[0]), {})[key] = value
    every = [(part, *blocks(part, trimmed)) for part in parts.values()]
    alone = len(every) == 1 or _scatter_differs([model for _, model, _ in every])
    return every if alone else [(values, *blocks(values, trimmed))]


def _noisy_apart(values: Values, model: Blocks, strays: Sequence[Trial]) -> tuple[Blocks, Sequence[Trial]]:
    """The model with a scatter of their own for the points that scatter far more than the others, and its strays.

    One after the other the noisiest is taken out, up to half of all, for among several each hides the others. Those
    are apart, if any, whose scatter differs most surely from that of the rest (F test, for all choices of so many).
    """
    from scipy import special

    present = model.share > 0
    own = np.zeros(present.shape)
    for point, repeat in model.trials:
        own[model.points[point], model.repeats[repeat]] = math.log(values[point, repeat])
    own = np.where(present, own - model.means[:, None], 0.0)
    df, calm = model.counts - 1, np.full(len(own), fill_value=True)
    surest, noisy, weight = math.log(OTHER_SCATTER), calm & False, 1.0
    squares = _about(own, present, calm)
    for number in range(1, len(own) // 2 + 1):
        calm = calm & (np.arange(len(own)) != np.where(calm, squares / np.maximum(df, 1), -1.0).argmax())
        squares = _about(own, present, calm)
        df_calm, df_noisy = df[calm].sum() - present[calm].any(0).sum() + 1, df[~calm].sum()
        if df_calm < 1 or df_noisy < 2 * number - 1:  # of two trials each nobody knows which points are noisy
            break
        variance = max(float(squares[calm].sum()) / df_calm, RESOLUTION**2)
        times = float(squares[~calm].sum()) / df_noisy / variance
        by_chance = max(float(special.fdtrc(df_noisy, df_calm, times)), sys.float_info.min)
        chance = math.log(math.comb(len(own), number)) + math.log(by_chance)
        if chance < surest and times > FAR_NOISIER:
            surest, noisy, weight = chance, ~calm, 1 / times
    if not noisy.any():
        return model, strays
    apart = {point for point, place in model.points.items() if noisy[place]}
    _, others = blocks({key: value for key, value in values.items() if key[0] not in apart})
    strays = [*others, *(key for key in strays if key[0] in apart)]
    return Blocks(_without(values, strays), apart, weight, _points(strays)), strays


def _about(own: Numbers, present: Numbers, calm: Numbers) -> Numbers:
    """Each point's sum of squares about the shifts of the calm ones."""
    shifts = own[calm].sum(0) / np.maximum(present[calm].sum(0), 1)
    rest = np.where(present, own - shifts, 0.0)
    rest = rest - present * (rest.sum(1) / np.maximum(present.sum(1), 1))[:, None]
    return np.asarray((rest**2).sum(1))


def _scatter_differs(models: Sequence[Blocks]) -> bool:
    """Whether one variance for all models is beyond chance (Bartlett's test)."""
    from scipy import special

    freedom = np.array([model.df for model in models])
    if len(models) < 2 or freedom.min() < 1:
        return False
    squares = np.array([model.squares.sum() for model in models])
    variances = np.maximum(squares / freedom, RESOLUTION**2)
    total = freedom.sum()
    spread = total * math.log(variances @ freedom / total) - float(freedom @ np.log(variances))
    correction = 1 + ((1 / freedom).sum() - 1 / total) / (3 * (len(models) - 1))
    return bool(special.chdtrc(len(models) - 1, spread / correction) < OTHER_SCATTER)


def moderated(
    squares: Numbers,
    freedom: Numbers,
    noisy: Booleans | None = None,
    trimmed: Booleans | None = None,
    doubt: float = DOUBT,
) -> tuple[Numbers, Numbers]:
    """Variances from sums of squares, each drawn towards all of them, and their degrees of freedom.

    As limma's squeezeVar, but for two things that few trials of few points need, by simulation: they are drawn towards
    their mean and not their geometric mean, and they may differ by more than they seem to. Noisy ones are drawn to the
    mean of the noisy, the others to theirs, and no more than all differ: a noisy one that looks calm is among the calm.
    """
    variances, dfs = np.zeros(len(squares)), np.zeros(len(squares))
    prior = _prior_df(squares, freedom, doubt)
    nowhere = np.zeros(len(squares), dtype=bool)
    noisy, trimmed = (nowhere if places is None else places for places in (noisy, trimmed))
    for part in (noisy, ~noisy):
        total = float(freedom[part].sum())
        if total < 1e-9:
            continue
        pooled = max(float(squares[part].sum()) / total, RESOLUTION**2)
        if prior is None or pooled == RESOLUTION**2:
            variances[part], dfs[part] = pooled, total
            continue
        priors = np.where(trimmed[part], 0.0, prior)
        both = np.maximum(priors + freedom[part], 1e-9)
        variances[part] = np.maximum((priors * pooled + squares[part]) / both, RESOLUTION**2)
        dfs[part] = np.minimum(both, total)
    return variances, dfs


def _prior_df(squares: Numbers, freedom: Numbers, doubt: float) -> float | None:
    """As how many degrees of freedom the mean variance counts for each one; None where they are too few to differ."""
    from scipy import special

    has, total = freedom > 1e-9, float(freedom.sum())
    if has.sum() < 3 or squares.sum() / total <= RESOLUTION**2:
        return None
    pooled, variances, half = float(squares.sum()) / total, squares[has] / freedom[has], freedom[has] / 2
    logs = np.log(np.maximum(variances, 1e-5 * max(float(np.median(variances)), 1e-5 * pooled)))
    logs = logs - special.digamma(half) + np.log(half)
    expected = float(special.polygamma(1, half).mean())
    beyond = max(float(logs.var(ddof=1)) - expected, 0.0)
    return 2 * _inverse_trigamma(beyond + doubt * (expected + beyond) * 2 / (len(logs) - 1))


def _inverse_trigamma(value: float) -> float:
    from scipy import special

    root = 0.5 + 1 / value
    for _ in range(50):
        there = float(special.polygamma(1, root))
        step = there * (1 - there / value) / float(special.polygamma(2, root))
        root += step
        if abs(step) < 1e-8 * root:
            break
    return root


def _from_log(log: float, parts: Numbers, dfs: Numbers, most: float) -> Compared:
    """A ratio from its logarithm and the parts of that one's variance (Satterthwaite)."""
    variance = float(parts.sum())
    used = (parts > 0) & (dfs > 0)
    df = min(variance**2 / float((parts[used] ** 2 / dfs[used]).sum()), most) if used.any() else most
    if df < LEAST_DF:
        return Compared(Interval(math.exp(log)))
    reach = student(df) * math.sqrt(variance)
    return Compared(Interval(math.exp(log), math.exp(log - reach), math.exp(log + reach)), df)


def over(first: Compared, second: Compared) -> Compared:
    """One ratio over another that shares no trial with it, so that their variances add up."""
    value, of = (first.ratio.value or 1.0) / (second.ratio.value or 1.0), (first, second)
    if not all(each.df and each.ratio.interval and min(each.ratio.interval) > 0 for each in of):
        return Compared(Interval(value))
    dfs = np.array([each.df for each in of], dtype=float)
    reaches = np.array([math.log((each.ratio.high or 1) / (each.ratio.low or 1)) / 2 for each in of])
    errors = reaches / [student(df) for df in dfs]
    return _from_log(math.log(value), errors**2, dfs, float(dfs.sum()))


def changes(before: Values, after: Values, *, with_strays: bool = False) -> dict[Hashable, Compared]:
    """By points that both runs have: the later over the earlier.

    Repetitions of two runs are not the same hours, so their shifts are a part of the scatter here, and the same one for
    all points of a run.
    """
    models = [Blocks(values) if with_strays else blocks(values)[0] for values in (before, after)]
    squares, freedom = (np.concatenate(of) for of in zip(*((m.squares, m.freedom) for m in models), strict=True))
    variances, dfs = moderated(squares, freedom)
    within = float(squares.sum() / freedom.sum()) if freedom.sum() > 1e-9 else 0.0
    steps = float(sum(len(m.shifts) - len(set(m.linked)) for m in models))
    shift_squares = float(sum(m.shifts @ m.laplacian @ m.shifts for m in models)) - steps * within
    weight = float(sum(np.trace(m.laplacian) for m in models))
    least = RESOLUTION**2 if freedom.sum() < 1e-9 else 0.0  # where all scatter is that of the repetitions
    shift = max(shift_squares / weight, least) if weight > 1e-9 else 0.0
    offsets = (0, len(models[0].counts))
    most = float(freedom.sum()) + (steps if shift or freedom.sum() < 1e-9 else 0.0)
    compared = {}
    for point in (point for point in models[0].points if point in models[1].points):
        places = [m.points[point] for m in models]
        counts = np.array([m.counts[place] for m, place in zip(models, places, strict=True)])
        log = float(models[1].means[places[1]] - models[0].means[places[0]])
        if counts.min() < 2:
            compared[point] = Compared(Interval(math.exp(log)))
            continue
        own = [place + offset for place, offset in zip(places, offsets, strict=True)]
        parts = np.append(variances[own] / counts, shift * float((1 / counts).sum()))
        compared[point] = _from_log(log, parts, np.append(dfs[own], steps), most)
    return compared


def simultaneous(compared: Mapping[Hashable, Compared], looks: float = 1.0) -> dict[Hashable, Interval]:
    """The ratios with intervals that hold all together in 95 % of runs, looked at so often."""
    number = max(sum(each.df is not None for each in compared.values()), 1) * looks
    return {key: each.at(functools.partial(student, together=number)) for key, each in compared.items()}


@dataclass(frozen=True)
class RoundTrips:
    """Of an operation: the round trips that it waits for, and what it takes beside them."""

    each: Interval
    beside_s: float


def round_trips(trials: Sequence[tuple[float, float]]) -> RoundTrips | None:
    """The slope over (round-trip time, time of an operation); None where distances or trials are too few for a line."""
    far, took = np.array(trials, dtype=float).reshape(-1, 2).T
    if len(far) < LEAST_TRIALS or not np.ptp(far):
        return None
    apart = far - far.mean()
    slope = float(apart @ took / (apart @ apart))
    off = took - took.mean() - slope * apart
    reach = student(len(far) - 2) * math.sqrt(off @ off / (len(far) - 2) / (apart @ apart))
    return RoundTrips(Interval(slope, slope - reach, slope + reach), float(took.mean() - slope * far.mean()))
