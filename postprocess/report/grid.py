"""All points of a run at a glance: the fastest line at each, how far the others are behind, and that in a sentence."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tierbench.dags.levels import ACCESS, PAIR, WORKLOAD
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.points import RunPoint, Standing, within
from tierbench.postprocess.report.markup import Markup, element, joined, table, unbroken
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import level_name, level_of
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import (
    CI,
    abridged,
    aligned,
    counted,
    factor,
    figures,
    limit_percent,
    listed,
    with_interval,
)

FASTEST, LEADS, BASELINE, DOUBTED = "fastest", "leads", "baseline", "doubted"
NO_INTERVAL, NOTHING_USABLE = "no interval", "none"
MARKS = {
    FASTEST: ("▲", "fastest"), LEADS: ("△", "comes first"), BASELINE: ("■", "baseline"), FASTER: ("▲", "faster"),
    SLOWER: ("▼", "slower"), EQUIVALENT: ("=", "equivalent"), INCONCLUSIVE: ("~", "not distinguishable"),
    DOUBTED: ("?", "by SUSPECT trials alone"), NO_INTERVAL: ("·", "no interval"),
    NOTHING_USABLE: ("–", "no usable trial"),
}  # fmt: skip
NAMED = 3  # places that a sentence names; of more it says how many
WHAT = {ACCESS: "access method", PAIR: "combination", "jobs": "number of jobs"}
Cell = tuple[str, str]  # what it is, and the numbers


def what_is_compared(results: Results) -> str:
    """What the lines are, in the singular."""
    lines = results.layout.lines
    return WHAT.get(lines, lines if lines == WORKLOAD else f"level of {lines}")


def with_ci(ratio: Interval) -> str:
    """1.18 (95 % CI 1.13–1.22)."""
    return with_interval(ratio, CI)


def place_names(results: Results, points: Sequence[RunPoint]) -> list[str]:
    """What each point is called among the others: only what differs between them."""
    every = [{**point.panel.levels, results.layout.x: point.x} for point in points]
    several = [name for name in every[0] if len({levels[name] for levels in every}) > 1] if every else []
    return [", ".join(level_name(name, levels[name]) for name in several) for levels in every]


def leads_over(standings: Iterable[Standing]) -> str:
    """By what factor the reference is faster than others."""
    return listed(abridged([f"{with_ci(other.lead)} times {other.name}" for other in standings]))


def _names_of_some(names: Sequence[str]) -> str:
    """The names of the first places, and how many more there are."""
    more = [counted(len(names) - NAMED, "more point")] if len(names) > NAMED else []
    return listed([*names[:NAMED], *more])


def headline(results: Results, points: Sequence[RunPoint]) -> tuple[bool, str]:
    """Whether one line is the fastest everywhere, and at which points there are differences, in sentences."""
    what, named = what_is_compared(results), list(zip(place_names(results, points), points, strict=True))
    places = (results.trials_at(results.at(panel, x=x)) for panel in results.panels for x in results.ladder(panel))
    whole = len(points) == sum(
        len({level_of(trial, results.layout.lines) for trial in trials}) > 1 for trials in places
    )
    which = "" if whole else " with usable trials of several"
    wins: dict[str, list[tuple[str, RunPoint]]] = {}
    for name, point in named:
        if point.clear:
            wins.setdefault(point.reference.name, []).append((name, point))

    def at(some: Sequence[tuple[str, RunPoint]], everywhere: str = f"at all {len(points)} points{which}") -> str:
        return everywhere if len(some) == len(points) else f"at {_names_of_some([name for name, _ in some])}"

    def size(ratio: Interval) -> float:
        return ratio.value or 0.0

    sentences = []
    for line, won in wins.items():
        leads = sorted((min((other.lead for other in point.others), key=size) for _, point in won), key=size)
        span = " to ".join(dict.fromkeys(factor(lead.value) for lead in (leads[0], leads[-1])))
        lead = with_ci(leads[0]) if len(won) == 1 else span
        sentences.append(f"{line} is the fastest {what} {at(won)}: {lead} times the next.")
    unclear = [(name, point, [each for each in point.others if each.sure == SLOWER]) for name, point in named]
    unclear = [(name, point, slower) for name, point, slower in unclear if not point.clear]
    partly = [(name, point, slower) for name, point, slower in unclear if slower]
    for name, point, slower in partly[:NAMED]:
        first = point.reference.name
        alike = not point.without and {each.sure for each in point.others} == {SLOWER, EQUIVALENT}
        others = (
            f"equivalent within {limit_percent(within(results))} to the" if alike else "not certainly faster than all"
        )
        sentences.append(f"At {name}, {first} is {leads_over(slower)}, but {others} others.")
    if len(partly) > NAMED:
        sentences.append(f"At {len(partly) - NAMED} more points some differ, none is certainly faster than all others.")
    level = [(name, point) for name, point, slower in unclear if not slower]
    if level:
        everywhere = f"at any of {len(points)} points{which}"
        sentences.append(_nobody_faster(results, [point for _, point in level], at(level), at(level, everywhere)))
    doubted = [name for name, point in named if any(other.by_valid for other in point.others)]
    if doubted:
        sentences.append(f"Some results at {_names_of_some(doubted)} rest on SUSPECT trials and are not counted.")
    return whole and len(wins) == 1 and all(point.clear for point in points), " ".join(sentences)


def _nobody_faster(results: Results, points: Sequence[RunPoint], where: str, nowhere: str) -> str:
    """What there is to say of points at which no line is slower than the first."""
    kinds = {INCONCLUSIVE if other.by_valid else other.result for point in points for other in point.others}
    if kinds == {EQUIVALENT}:
        whose = " with usable trials" if any(point.without for point in points) else ""
        return f"All{whose} are equivalent within {limit_percent(within(results))} {where}."
    which = "not all have an interval" if any(kinds) else "there is no interval"
    why = "" if all(kinds) else f" ({which}, which takes two repetitions)"
    return f"No {what_is_compared(results)} is distinguishably the fastest {nowhere}{why}."


def _cells(results: Results, point: RunPoint) -> dict[str, Cell]:
    rate = figures(point.reference.row.means[results.rate].value, results.unit)
    lead = BASELINE if results.layout.baseline == point.reference.line else FASTEST if point.clear else LEADS
    cells = {point.reference.line: (lead if point.others else NO_INTERVAL, rate)}
    for other in point.others:
        ratio = with_interval(other.ratio) if other.ratio.value is not None else ""
        cells[other.line] = (DOUBTED if other.by_valid else other.result or NO_INTERVAL, ratio)
    return {**cells, **dict.fromkeys(point.without, (NOTHING_USABLE, ""))}


def _grid(
    results: Results, points: Sequence[RunPoint], write: Callable[[Cell], str]
) -> tuple[list[str], list[list[str]], str]:
    """Heads, rows, and the legend; the shorter side lies along the top."""
    cells = [_cells(results, point) for point in points]
    lines = [line for line in results.compared.texts if any(line in column for column in cells)]
    there = {kind for column in cells for kind, _ in column.values()}
    near = {EQUIVALENT: f" within {limit_percent(within(results))}"}
    legend = [f"{mark} {meaning}{near.get(kind, '')}" for kind, (mark, meaning) in MARKS.items() if kind in there]
    heads, row_names = place_names(results, points), [*map(results.line_name, lines)]
    table = [[write(column[line]) if line in column else "" for column in cells] for line in lines]
    if len(points) > len(lines):
        table, heads, row_names = [list(row) for row in zip(*table, strict=True)], row_names, heads
    return ["", *heads], [[name, *row] for name, row in zip(row_names, table, strict=True)], " · ".join(legend)


def _reference(results: Results, points: Sequence[RunPoint]) -> str:
    """What the ratios of a grid are to."""
    baseline = results.layout.baseline
    if not baseline:
        return "the fastest of the point"
    lacking = any(point.reference.line != baseline for point in points)
    return "the baseline" + (" (the fastest of the point where that has no usable trial)" if lacking else "")


def grid_text(results: Results, points: Sequence[RunPoint]) -> str:
    """The grid for a terminal; nothing where nothing is compared."""
    if not any(point.others for point in points):
        return ""
    heads, rows, legend = _grid(results, points, lambda cell: f"{MARKS[cell[0]][0]} {cell[1]}".strip())
    of = _reference(results, points)
    return "\n".join([*aligned([heads, *rows]), f"{legend}; ratios to {of}, 95 % CI, all together"])


def grid_table(results: Results, points: Sequence[RunPoint]) -> Markup | None:
    """The grid for a page."""
    if not any(point.others for point in points):
        return None

    def cell(of: Cell) -> Markup:
        sign, meaning = MARKS[of[0]]
        mark = element("b", sign, class_="mark", title=meaning)
        return element("span", joined([mark, unbroken(of[1])], " "), class_=f"cell {of[0].replace(' ', '-')}")

    heads, rows, legend = _grid(results, points, cell)
    caption = (
        f"{legend}. Ratios are to {_reference(results, points)}, with"
        " 95\N{NO-BREAK SPACE}% intervals that hold for all of them together."
    )
    return element("div", table(heads, rows, words=len(heads), caption=caption), class_="grid")


def grid_rows(results: Results, points: Sequence[RunPoint]) -> Iterator[dict[str, Any]]:
    """The grid for programs."""
    for point in points:
        for standing in point.standings:
            yield {
                **standing.row.levels, "rate": standing.row.means[results.rate].value,
                "against": point.reference.line, "ratio": standing.ratio.value, "low": standing.ratio.low,
                "high": standing.ratio.high, "result": standing.result,
                "rests_on_suspect_trials": standing.by_valid is not None,
            }  # fmt: skip
