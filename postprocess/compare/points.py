"""Every point of a run: which line is the fastest there, and how the others compare with it or with the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, SLOWER
from tierbench.postprocess.compare.sequential import look_at, outcome, question_of, same_within
from tierbench.postprocess.schema.run_rows import SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import Panel, level_of
from tierbench.postprocess.tables.load_run import Results


@dataclass(frozen=True)
class Standing:
    """A line at a point, against the reference there."""

    line: str
    name: str  # of the line, as people call it
    row: SummaryRow
    lead: Interval = field(default_factory=Interval)  # the reference over this line
    result: str = ""  # none of the reference, and without an interval
    by_valid: Interval | None = None  # the lead by VALID trials alone, where they have another result

    @property
    def ratio(self) -> Interval:
        return self.lead.inverted

    @property
    def sure(self) -> str:
        """The result, unless SUSPECT trials alone give it."""
        return self.result if self.by_valid is None else ""


@dataclass(frozen=True)
class RunPoint:
    """The lines at one place along x of a panel, the fastest first."""

    panel: Panel
    x: str
    reference: Standing
    others: tuple[Standing, ...]
    without: tuple[str, ...]  # lines all of whose trials there are unusable

    @property
    def clear(self) -> bool:
        """Whether the reference is faster than all others, also by VALID trials alone."""
        return bool(self.others) and not self.without and all(other.sure == SLOWER for other in self.others)

    @property
    def standings(self) -> tuple[Standing, ...]:
        return (self.reference, *self.others)


def points(results: Results) -> list[RunPoint]:
    """All places of all panels at which a line has a rate."""
    places = ((panel, x) for panel in results.panels for x in results.ladder(panel))
    return [point for place in places if (point := point_at(results, *place))]


def point_at(results: Results, panel: Panel, x: str | None = None) -> RunPoint | None:
    """The lines at a place along x, or at the one that decides; none where no line has a rate there."""
    x = deciding_place(results, panel) if x is None else x
    lines, ranked = results.layout.lines, ranking(results, panel, x)
    if not ranked:
        return None
    levels = {level_of(row, lines): row for row in ranked}
    first = results.layout.baseline if results.layout.baseline in levels else level_of(ranked[0], lines)
    others = tuple(_standing(results, line, row, levels[first]) for line, row in levels.items() if line != first)
    there = dict.fromkeys(level_of(trial, lines) for trial in results.trials_at(results.at(panel, x=x)))
    without = tuple(line for line in there if line not in levels)
    return RunPoint(panel, x, Standing(first, results.line_name(first), levels[first]), others, without)


def _standing(results: Results, line: str, row: SummaryRow, reference: SummaryRow) -> Standing:
    name, compared = results.line_name(line), results.compared_with(reference, line, results.rate)
    if compared is None:
        return Standing(line, name, row)
    result, by_valid = (outcome(ratio.inverted, within(results)) for ratio in (compared.ratio, compared.by_valid))
    doubted = compared.is_doubted and result in (FASTER, SLOWER, EQUIVALENT) and by_valid != result
    return Standing(line, name, row, compared.ratio, result, compared.by_valid if doubted else None)


def ranking(results: Results, panel: Panel, x: str) -> list[SummaryRow]:
    """The lines' means at a place along x, the fastest first: by ratios, since a stray trial is in the mean alone."""
    rows = [row for row in results.summaries_at(results.at(panel, x=x)) if row.trials]
    means = [(mean, row) for row in rows if (mean := row.means[results.rate].value) is not None]
    ranked = [row for _, row in sorted(means, key=lambda pair: -pair[0])]
    first = level_of(ranked[0], results.layout.lines) if ranked else ""
    compared = [results.compared_with(row, first, results.rate) for row in ranked[1:]]
    if not ranked or any(row is None or row.ratio.value is None for row in compared):
        return ranked
    behind = [1.0, *(row.ratio.value or 0.0 for row in compared if row)]
    return [row for _, row in sorted(zip(behind, ranked, strict=True), key=lambda pair: -pair[0])]


def deciding_place(results: Results, panel: Panel) -> str:
    """The last place along x, mostly the largest number of jobs, at which most lines have usable trials."""
    ladder = results.ladder(panel)
    return max(ladder, key=lambda x: (len(ranking(results, panel, x)), ladder.index(x)))


def more_repetitions(results: Results, points: Sequence[RunPoint]) -> tuple[list[int | None], int]:
    """How many more would resolve 5 %, for each comparison at these points that they can answer; None where nobody can
    say. And how many of them stay open whatever is repeated."""
    question = question_of(results.plan, results.experiment, results.layout)
    places = [results.at(point.panel, x=point.x).items() for point in points]
    here = [
        each
        for each in look_at(results.trials, question).comparisons
        if each.is_open
        and any(place <= end for place in places for end in [dict({*each.first} & {*each.second}).items()])
    ]
    return [each.more for each in here if each.needs_repeats], sum(bool(each.obstacle) for each in here)


def within(results: Results) -> float:
    """How near to 1 all of a ratio's interval lies where two lines are equivalent."""
    return same_within(results.experiment)
