"""Whether a run reproduces what its experiment is held to, and hit the ceilings at which that can be tested."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tierbench import names
from tierbench.dags.claims import (
    EQUAL,
    FASTER,
    INCONCLUSIVE,
    NOT_TESTED,
    REPRODUCED,
    RUNGS,
    SLOWER,
    VALUE,
    Claim,
    Expected,
    Kind,
)
from tierbench.dags.levels import JOBS, PAIR, WORKLOAD, level_text
from tierbench.errors import ConfigError
from tierbench.postprocess.measures.bottleneck import LABELS
from tierbench.postprocess.schema.rows import COMPARED, SUMMARISED, TrialRow, trial_column
from tierbench.postprocess.schema.run_rows import RatioRow
from tierbench.postprocess.stats import Compared, Interval, mean_interval, student
from tierbench.postprocess.tables.factors import Point, batch_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results, ran
from tierbench.postprocess.verdict.counting import counts, valid, values_of, with_value
from tierbench.postprocess.wording import listed, numbered
from tierbench.spec import build, unknown_name

DEFAULT_WITHIN_PCT = 10.0  # of equality, in runs from before claims had kinds


@dataclass(frozen=True)
class Finding:
    """A claim with our number, and the answer."""

    claim: Claim
    answer: str
    ours: Interval = field(default_factory=Interval)
    by_valid: Interval | None = None  # by the VALID trials alone, where others are usable, too
    why: str = ""  # it was not tested


@dataclass(frozen=True)
class Ceiling:
    """What limited the usable trials of a point, and what was to limit them."""

    levels: Mapping[str, Any]
    expected: Expected
    labels: Counter[str]

    @property
    def hit(self) -> bool:
        """Whether most of the trials hit a ceiling that was expected."""
        return 2 * sum(self.labels[label] for label in self.expected.bottleneck) > self.labels.total()

    @property
    def measured(self) -> str:
        """The labels, with the number of trials where they differ."""
        return numbered(self.labels)


def missed_ceilings(those: Iterable[Ceiling]) -> str:
    """What limited points in place of what was expected; nothing where all hit that."""
    points: dict[str, list[str]] = {}
    for each in (each for each in those if not each.hit):
        why = f"limited by {each.measured}, not by {' or '.join(each.expected.bottleneck)}"
        points.setdefault(why, []).append(batch_name(each.levels))
    return listed([f"{listed(at)} {'was' if len(at) == 1 else 'were'} {why}" for why, at in points.items()])


def findings(results: Results) -> list[Finding]:
    """Each claim of the run's experiment, held against what was measured."""
    path = str(results.directory / names.EXPERIMENT)
    claims = claims_of(results.experiment, path)
    if wrong := [words for claim in claims for words in metric_problems(claim)]:
        raise ConfigError(f"{path}: {'; '.join(wrong)}")
    return [_finding(results, claim) for claim in claims]


def ceilings(results: Results) -> list[Ceiling]:
    """Each point that was measured and for which the experiment expects a ceiling."""
    return [ceiling for row in results.summary for ceiling in _ceilings(results, row.point)]


def ceilings_at(
    expects: Sequence[Expected], trials: Sequence[TrialRow], planned: Sequence[TrialRow]
) -> Iterator[Ceiling]:
    """What was expected at the point of these usable trials, with what they were limited by."""
    for expected in expects if trials else ():
        if all(_is_among(trials[0], factor, expected.levels(factor), planned) for factor in expected.where):
            labels = Counter(trial.limit.bottleneck or "not known" for trial in trials)
            yield Ceiling(trials[0].levels, expected, labels)


def expected_of(experiment: Mapping[str, Any]) -> list[Expected]:
    """The ceilings as experiment.json has them."""
    return [build(Expected, table, names.EXPERIMENT, "expects") for table in experiment.get("expects") or []]


def claims_of(experiment: Mapping[str, Any], path: str = names.EXPERIMENT) -> list[Claim]:
    """The claims as experiment.json has them, of a run from before claims had kinds, too."""
    return [_claim_of(table, path) for table in experiment.get("claims") or []]


def problems(claims: Sequence[Claim], expects: Sequence[Expected]) -> Iterator[str]:
    """What is wrong with metrics, sides and labels, of which an experiment's own file knows nothing."""
    for claim in claims:
        wrong = list(metric_problems(claim))
        yield from wrong
        paper = Interval(claim.reference, claim.reference, claim.reference)
        if not wrong and claim.kind in (FASTER, SLOWER) and claim.values and answer(claim, paper) != REPRODUCED:
            direction = f"{claim.metric} is better where it is {better(claim)}"
            yield f'claim "{claim.says}": its own values are not {claim.kind}; {direction}'
    for number, expected in enumerate(expects):
        wrong = [label for label in expected.bottleneck if label not in LABELS]
        yield from (unknown_name(f"expects[{number}].bottleneck", label, LABELS) for label in wrong)


def metric_problems(claim: Claim) -> Iterator[str]:
    able = COMPARED if claim.factor else SUMMARISED
    if claim.metric not in able:
        yield unknown_name(f'claim "{claim.says}": metric', claim.metric, able)


def points_of(trials: Sequence[TrialRow], claim: Claim) -> list[Point]:
    """Where a claim's first value was measured, and what it is compared with, if that is a level of a factor."""
    point = _levels(trials, claim.at)
    if claim.factor is None:
        return [point]
    return [point, {**point, claim.factor: _levels(trials, {**claim.at, claim.factor: claim.against})[claim.factor]}]


def _claim_of(table: Mapping[str, Any], path: str) -> Claim:
    content = {key: value for key, value in table.items() if value is not None}
    if "kind" in content:
        return build(Claim, content, path, "claims")
    within_pct = content.pop("within_pct", DEFAULT_WITHIN_PCT)
    claim = build(Claim, {**content, "kind": VALUE, "within_pct": within_pct}, path, "claims")
    if math.isclose(claim.reference, 1):
        return dataclasses.replace(claim, kind=EQUAL)
    kind: Kind = FASTER if (claim.reference > 1) == (better(claim) != "less") else SLOWER
    return dataclasses.replace(claim, kind=kind, within_pct=None)


def better(claim: Claim) -> str:
    """Which of two values of its metric is the better."""
    return trial_column(claim.metric).better if claim.metric in SUMMARISED else ""


def _levels(trials: Sequence[TrialRow], levels: Mapping[str, Any]) -> Point:
    """Levels as the tables have them; of batches a rung of the ladder that the workload has climbed."""
    point = {factor: level_text(level) for factor, level in levels.items()}
    if point.get(JOBS) in RUNGS:
        rung, workload = RUNGS[point[JOBS]], point.get(WORKLOAD) or point.get(PAIR, "").rpartition("/")[2]
        ladder = sorted({trial.jobs for trial in trials if workload in ("", trial.workload)})
        point[JOBS] = str(ladder[rung]) if ladder and len(ladder) > rung else ""
    return point


def _finding(results: Results, claim: Claim) -> Finding:
    points = points_of(results.trials, claim)
    point = points[0]
    if open_factors := _open_factors(results.trials, points):
        return Finding(claim, NOT_TESTED, why=f"its point (at) leaves {listed(open_factors)} open")
    if claim.factor is None:
        trials = list(filter(counts, rows_at(results.trials, point)))
        ours, by_valid, has_value = *_means(trials, claim, results.looks), bool(values_of(trials, claim.metric))
    else:
        key = (claim.factor, points[1][claim.factor], claim.metric)
        rows = [row for row in rows_at(results.ratios, point) if (row.factor, row.against, row.metric) == key]
        has_value = len(rows) == 1
        ours, by_valid = _ratio(claim, rows[0], results.looks) if has_value else (Interval(), None)
    if not has_value:
        return Finding(claim, NOT_TESTED, why=_why_not(results.trials, points, claim.metric))
    if others := missed_ceilings(ceiling for at in points for ceiling in _ceilings(results, at)):
        return Finding(claim, NOT_TESTED, ours, by_valid, why=others)
    result = answer(claim, ours)
    doubted = by_valid is not None and answer(claim, by_valid) != result
    return Finding(claim, INCONCLUSIVE if doubted else result, ours, by_valid)


def _open_factors(trials: Sequence[TrialRow], points: Sequence[Point]) -> list[str]:
    """The factors of which a claim's points have trials at several levels."""
    usable = list(filter(counts, trials))
    at = [[row.point for row in rows_at(usable, point)] for point in points]
    return [
        factor
        for factor in (usable[0].point if usable else ())
        if any(len({of[factor] for of in those}) > 1 for those in at)
    ]


def _why_not(trials: Sequence[TrialRow], points: Sequence[Point], metric: str) -> str:
    """Why there is no number of a claim: what was measured may all be INVALID, or of other repetitions each."""
    at = [list(filter(ran, rows_at(trials, point))) for point in points]
    if not all(at):
        return "not measured"
    without = [those[0] for those in at if not values_of(filter(counts, those), metric)]
    if without:
        what = f"{metric} is not known" if all(any(map(counts, those)) for those in at) else "no usable trials"
        return f"{what} of {listed([batch_name(trial.levels) for trial in without])}"
    return "no repetition has usable trials of both"


def answer(claim: Claim, ours: Interval) -> str:
    """What a number with its interval says of a claim."""
    return claim.result(*ours.interval, better(claim)) if ours.interval else INCONCLUSIVE


def mean_of(trials: Sequence[TrialRow], metric: str) -> Compared:
    """The mean of a metric, with the degrees of freedom of its interval."""
    values = values_of(trials, metric)
    return Compared(mean_interval(values), len(values) - 1.0 if len(values) > 1 else None)


def _means(trials: Sequence[TrialRow], claim: Claim, looks: float) -> tuple[Interval, Interval | None]:
    """The mean at a point, and that of the VALID trials alone."""
    measured = with_value(trials, claim.metric)
    alone = list(filter(valid, measured))
    mean, by_valid = (mean_of(of, claim.metric).at(partial(student, together=looks)) for of in (measured, alone))
    return mean, by_valid if len(alone) < len(measured) else None


def _ratio(claim: Claim, row: RatioRow, looks: float) -> tuple[Interval, Interval | None]:
    """Our ratio, or scale factor, and the one by VALID trials alone."""
    steps = float(level_of(row, row.factor)) / float(row.against) if claim.levels else 1.0
    compared = (row.compared, row.compared_by_valid)
    ratio, by_valid = (each.at(partial(student, together=looks)).over(steps) for each in compared)
    return ratio, by_valid if row.is_doubted else None


def _ceilings(results: Results, point: Point) -> Iterator[Ceiling]:
    trials = list(filter(counts, rows_at(results.trials, point)))
    return ceilings_at(expected_of(results.experiment), trials, results.trials)


def _is_among(trial: TrialRow, factor: str, levels: Sequence[Any], planned: Sequence[TrialRow]) -> bool:
    if factor not in trial.levels:
        return False
    places = (_levels(planned, {WORKLOAD: trial.workload, factor: level}) for level in levels)
    return level_of(trial, factor) in [place[factor] for place in places]
