"""Whether the repetitions so far answer a run's question, and what more of them would bring.

    question = question_of(plan, experiment)         # or Question(lines="access", x="jobs", looks=looks(3, 10))
    look = look_at(rows_of_trials_csv, question)     # after the repetitions of question.looks: 3, 4, 6, 8 and 10
    look.is_enough                                   # nothing is open that more repetitions could answer
    look.needed                                      # else whose trials they need, as `batch_name` names points
    look.sentences                                   # what is open, why, and how many repetitions it takes

It compares each two lines at each place of the layout, and what the paper's claims say. At all looks the intervals of
lines hold all together, each claim's by itself; docs/statistics.md says how, benchmarks/interval_coverage.py how often.
No clock, no files.
"""

import bisect
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tierbench.dags.claims import NOT_TESTED, Claim, Expected
from tierbench.dags.levels import ACCESS, JOBS, PAIR, SAME_WITHIN, WORKLOAD, Layout, no_difference
from tierbench.postprocess import stats
from tierbench.postprocess.compare.claims import (
    answer,
    ceilings_at,
    claims_of,
    expected_of,
    mean_of,
    metric_problems,
    missed_ceilings,
    points_of,
)
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.measures.bottleneck import LATENCY, NIC, UNEXPLAINED, WINDOW
from tierbench.postprocess.schema.rows import RATE, RATE_OF, SUMMED, TrialRow
from tierbench.postprocess.stats import Compared, Interval
from tierbench.postprocess.tables.factors import batch_name, level_of, rows_at
from tierbench.postprocess.tables.run_tables import Ratios
from tierbench.postprocess.verdict.counting import LEAST_REPEATS, SUSPECT, counts, looks_of, verdict
from tierbench.postprocess.wording import INTERVAL, bounds, counted, factor
from tierbench.starts import IN_TURN

MOST_REPEATS = 1000  # that are foretold
OF_ONE_HOST = {*NIC.values(), "worker CPU", "door CPU", "gateway CPU"} - {"storage"}  # each access has its own

Point = tuple[tuple[str, str], ...]  # the level of each factor, as texts
Trials = Mapping[Point, Sequence[TrialRow]]


@dataclass(frozen=True)
class Question:
    """What a run compares: `lines` at each place, `x` among them, by a metric; and when it looks."""

    lines: str
    x: str
    metric: str = RATE  # where clients took turns the sum of their own rates stands for it, as in reports
    same_within: float = SAME_WITHIN
    claims: Sequence[Claim] = ()
    expects: Sequence[Expected] = ()  # ceilings, without which a claim is not tested
    looks: Sequence[int] = ()  # after so many repetitions
    may_grow: bool = False  # beyond the last of them, by hand

    @property
    def later(self) -> float:
        """By what a further look, at repetitions that are added, multiplies the number of comparisons."""
        number = len(self.looks) or 1
        return stats.over_looks(number + 1) / stats.over_looks(number)


def question_of(plan: Mapping[str, Any], experiment: Mapping[str, Any], layout: Layout | None = None) -> Question:
    """What a run asks by its plan.json and experiment.json; by a layout where its plan is older than layouts."""
    lines, x = (layout.lines, layout.x) if layout else (plan["report"]["lines"], plan["report"]["x"])
    return Question(
        lines=lines,
        x=x,
        metric=RATE_OF[experiment.get("measure") or "bytes"],
        same_within=same_within(experiment),
        claims=claims_of(experiment),
        expects=expected_of(experiment),
        looks=looks_of(plan, experiment),
        may_grow=bool(plan.get("extended")),
    )


def same_within(experiment: Mapping[str, Any]) -> float:
    """How near to 1 all of a ratio's interval lies where two lines are equivalent."""
    asked = (experiment.get("report") or {}).get("same_within")
    return SAME_WITHIN if asked is None else float(asked)


@dataclass(frozen=True)
class Comparison:
    """The first point over the second; the interval holds at all looks, of lines together with all others'."""

    first: Point
    second: Point
    name: str  # who and where, or what the claim says
    result: str = INCONCLUSIVE  # faster, slower or equivalent; of a claim its own words; or inconclusive
    by_valid: str = ""  # the same by VALID trials alone, where that is another
    ratio: Interval = field(default_factory=Interval)
    obstacle: str = ""  # why more repetitions cannot answer it
    more: int | None = None  # repetitions until a difference as small as `resolves` shows; None: nobody can say
    resolves: float = SAME_WITHIN

    @property
    def is_open(self) -> bool:
        return self.result in (INCONCLUSIVE, NOT_TESTED)

    @property
    def needs_repeats(self) -> bool:
        """Whether more repetitions can answer it."""
        return bool(self.is_open or self.by_valid) and not self.obstacle

    @property
    def sentence(self) -> str:
        if self.result == NOT_TESTED:
            return f"{self.name}: {self.result}; {self.obstacle}."
        if self.ratio.interval is None:
            return f"{self.name}: inconclusive, too few repetitions have usable trials of both."
        stands = f"ratio {factor(self.ratio.value)}, {INTERVAL}{bounds(self.ratio)}"
        if self.by_valid:
            doubt = f"; by VALID trials alone {self.by_valid}"
            return f"{self.name}: {self.result} ({stands}){doubt}{self.obstacle and f', and {self.obstacle}'}."
        if not self.is_open:
            return f"{self.name}: {self.result} ({stands})."
        words = f"{self.name}: not distinguishable ({stands})"
        if self.obstacle:
            return f"{words}; {self.obstacle}, so more repetitions will not tell them apart."
        if self.more is None:
            return f"{words}."
        percent = f"{100 * self.resolves:g}\N{NO-BREAK SPACE}%"
        return f"{words}; {counted(self.more, 'more repetition')} would resolve {percent}."


@dataclass(frozen=True)
class Look:
    """Where the run's question stands."""

    repeats: int
    comparisons: tuple[Comparison, ...]

    @property
    def open(self) -> list[Comparison]:
        return [each for each in self.comparisons if each.is_open or each.by_valid]

    @property
    def is_enough(self) -> bool:
        """Whether nothing is open that more repetitions could answer."""
        return self.repeats >= LEAST_REPEATS and not self.needed

    @property
    def needed(self) -> set[str]:
        """The points whose trials would help, named as trials are but for the repetition."""
        points = {point for each in self.comparisons if each.needs_repeats for point in (each.first, each.second)}
        return {batch_name(dict(point)) for point in points}

    @property
    def sentences(self) -> list[str]:
        return [each.sentence for each in self.open]


def look_at(trials: Iterable[TrialRow], question: Question) -> Look:
    """Where a question stands by these trials, rows of trials.csv; those that are not usable count for nothing.

    An answer that VALID trials alone do not give needs more of them, unless they are too seldom.
    """
    at: dict[Point, list[TrialRow]] = {}
    for trial in trials:
        at.setdefault(tuple(trial.point.items()), []).append(trial)
    if question.metric == RATE and any(trial.started == IN_TURN for rows in at.values() for trial in rows):
        question = dataclasses.replace(question, metric=SUMMED)
    usable = {point: [trial for trial in rows if counts(trial)] for point, rows in at.items()}
    repeats = len({trial.repeat for rows in usable.values() for trial in rows})
    comparisons = (*_of_lines(at, usable, question), *_of_claims(at, usable, question))
    certain = {point: [trial for trial in rows if verdict(trial) != SUSPECT] for point, rows in usable.items()}
    if certain == usable:
        return Look(repeats, comparisons)
    alone = *_of_lines(at, certain, question), *_of_claims(at, certain, question)
    share = {point: len(certain[point]) / len(rows) for point, rows in at.items()}
    most = question.looks[-1] if question.looks and not question.may_grow else MOST_REPEATS
    seldom = {point for point in at if round(share[point] * most) < LEAST_REPEATS}
    return Look(repeats, tuple(_with_doubt(*pair, seldom) for pair in zip(comparisons, alone, strict=True)))


def _with_doubt(comparison: Comparison, by_valid: Comparison, seldom: set[Point]) -> Comparison:
    """A comparison, with what VALID trials alone say where that is not the same; `seldom` will not have enough."""
    if comparison.is_open or by_valid.result == comparison.result:
        return comparison
    obstacle = "too few trials are VALID" if {comparison.first, comparison.second} & seldom else by_valid.obstacle
    return dataclasses.replace(comparison, by_valid=by_valid.result, obstacle=obstacle)


def _of_lines(at: Trials, usable: Trials, question: Question) -> Iterator[Comparison]:
    ratios = _ratios(usable, question.metric, question.lines)
    places = _places(at, question.lines)
    along = [] if question.x in (JOBS, question.lines) else _places(at, question.x)  # notes compare along x, too
    number = (len(places) + len(along)) * stats.over_looks(len(question.looks) or 1)

    def name(first: Point, second: Point) -> str:
        lines = [level_of(at[point][0], question.lines) for point in (first, second)]
        shared = [level for level in first if level in second]
        jobs = [counted(int(level), "job") for factor, level in shared if factor == JOBS]
        others = [level if factor == WORKLOAD else f"{factor}={level}" for factor, level in shared if factor != JOBS]
        return f"{' and '.join(lines)}, {', '.join([*jobs, *others])}"

    judge = functools.partial(outcome, same_within=question.same_within)
    for points in places:
        pairs = list(itertools.combinations(points, 2))
        quantile = functools.partial(stats.tukey, len(points), together=number)
        later = number * len(pairs) * question.later
        for pair in pairs:
            comparison = Comparison(*pair, name(*pair), resolves=question.same_within)
            ratio = ratios.ratio(*(usable[point] for point in pair))
            yield _with_result(comparison, ratio, usable, quantile, later, judge)


def _of_claims(at: Trials, usable: Trials, question: Question) -> Iterator[Comparison]:
    number = stats.over_looks(len(question.looks) or 1)
    planned = [rows[0] for rows in at.values()]
    for claim in question.claims:
        if any(metric_problems(claim)):
            continue  # `findings` names it
        wanted = points_of(planned, claim)
        points = [[point for point, rows in at.items() if rows_at(rows[:1], levels)] for levels in wanted]
        if any(len(those) != 1 for those in points):
            continue  # nothing of this plan is about it
        ends = points[0][0], points[-1][0]
        if claim.factor != PAIR and {name for name, _ in set(ends[0]) ^ set(ends[1])} - {claim.factor}:
            continue  # they differ in more, as access methods of unlike workloads do
        if claim.factor:
            compared = _ratios(usable, claim.metric, claim.factor).ratio(*(usable[end] for end in ends))
        else:
            compared = mean_of(usable[ends[0]], claim.metric)
        levels = [float(dict(end)[claim.factor]) for end in ends] if claim.factor and claim.levels else [1.0, 1.0]

        def judge(ratio: Interval, claim: Claim = claim, steps: float = levels[0] / levels[1]) -> str:
            return answer(claim, ratio.over(steps))

        comparison = Comparison(*ends, str(claim.says), resolves=question.same_within)
        quantile = functools.partial(stats.student, together=number)
        comparison = _with_result(comparison, compared, usable, quantile, number * question.later, judge)
        others = [at for end in ends for at in ceilings_at(question.expects, usable[end], planned) if not at.hit]
        result, obstacle = (NOT_TESTED, missed_ceilings(others[:1])) if others else (comparison.result, "")
        yield dataclasses.replace(comparison, result=result, obstacle=obstacle)  # a growth has one limit


def _with_result(
    comparison: Comparison, compared: Compared | None, usable: Trials, quantile: Callable[[float], float],
    later: float, judge: Callable[[Interval], str],
) -> Comparison:  # fmt: skip
    """A comparison with what its ratio says, or what keeps it open; with a further look it counts as `later`."""
    if compared is None or not compared.df:
        return comparison
    these, those = usable[comparison.first], usable[comparison.second]
    repeats, ratio = min(len(these), len(those)), compared.at(quantile)
    enough = repeats >= LEAST_REPEATS and ratio.interval is not None
    result = judge(ratio) if enough else INCONCLUSIVE
    if result != INCONCLUSIVE:
        return dataclasses.replace(comparison, result=result, ratio=ratio, more=0)
    obstacle = _same_ceiling(these, those, comparison.resolves) if enough else ""
    more = _repeats_to_resolve(compared, repeats, comparison.resolves, later)
    return dataclasses.replace(comparison, ratio=ratio, obstacle=obstacle, more=more)


def outcome(ratio: Interval, same_within: float = SAME_WITHIN) -> str:
    """What the interval of a ratio says, of a metric of which more is better; nothing without one."""
    if ratio.interval is None:
        return ""
    low, high = ratio.interval
    least, most = no_difference(same_within)
    if least < low and high < most:
        return EQUIVALENT
    return FASTER if low > 1 else SLOWER if high < 1 else INCONCLUSIVE


def _ratios(usable: Trials, metric: str, factor: str) -> Ratios:
    return Ratios(itertools.chain.from_iterable(usable.values()), metric, across=factor in (WORKLOAD, PAIR))


def _places(at: Mapping[Point, Sequence[TrialRow]], lines: str) -> list[list[Point]]:
    """The points that differ in nothing but the lines, where there are several."""
    varied = (ACCESS, WORKLOAD) if lines == PAIR else (lines,)
    places: dict[Point, list[Point]] = {}
    for point in at:
        places.setdefault(tuple(level for level in point if level[0] not in varied), []).append(point)
    return [points for points in places.values() if len(points) > 1]


def common_limit(trials: Sequence[TrialRow]) -> str:
    """What limited most of the trials; nothing where no one thing did."""
    labels = Counter(trial.limit.bottleneck for trial in trials).most_common(1)
    return next((label for label, number in labels if number > len(trials) / 2), "")


def _same_ceiling(these: Sequence[TrialRow], those: Sequence[TrialRow], within: float) -> str:
    """That one thing limits most trials of both points; where each access has one of its own, both must be alike."""
    label = common_limit(these)
    if label != common_limit(those) or label in ("", LATENCY, WINDOW, UNEXPLAINED):
        return ""
    ceilings = [row.limit.ceiling_mbps or 0.0 for row in (*these, *those)]
    if label in OF_ONE_HOST and max(ceilings) > (1 + within) * min(ceilings):
        return ""
    return f"the {label} limits both sides"


def _repeats_to_resolve(compared: Compared, repeats: int, resolves: float, together: float) -> int | None:
    """How many more repetitions, with the same scatter, it takes for an interval of so much to either side."""
    interval, df = compared.ratio.interval, compared.df
    if interval is None or not df or not compared.ratio.value or repeats < 2 or interval[0] <= 0:
        return None
    error = math.log(interval[1] / compared.ratio.value) / stats.student(df)

    def resolved(number: int) -> bool:
        freedom = df * (number - 1) / (repeats - 1)
        return stats.student(freedom, together) * error * math.sqrt(repeats / number) <= math.log1p(resolves)

    number = bisect.bisect_left(range(MOST_REPEATS), True, lo=repeats, key=resolved)
    return number - repeats if number < MOST_REPEATS else None
