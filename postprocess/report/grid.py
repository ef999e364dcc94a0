"""All points of a run at a glance: the fastest line at each, how far the others are behind, and that in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tierbench.dags.levels import ACCESS, PAIR, WORKLOAD
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.points import RunPoint, within
from tierbench.postprocess.report.markup import Markup, element, joined, table, unbroken
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import level_name
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import counted, factor, figures, listed, percent, with_interval

FASTEST, LEADS, BASELINE, DOUBTED = "fastest", "leads", "baseline", "doubted"
NO_INTERVAL, NOTHING_USABLE = "no interval", "none"
MARKS = {
    FASTEST: ("▲", "fastest"), LEADS: ("△", "highest mean"), BASELINE: ("■", "baseline"), FASTER: ("▲", "faster"),
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


def bounded(ratio: Interval) -> str:
    """1.18 (95 % CI 1.13–1.22)."""
    return with_interval(ratio, "95\N{NO-BREAK SPACE}% CI ")


def place_names(results: Results, points: Sequence[RunPoint]) -> list[str]:
    """What each point is called among the others: only what differs between them."""
    every = [{**point.panel.levels, results.layout.x: point.x} for point in points]
    several = [name for name in every[0] if len({levels[name] for levels in every}) > 1] if every else []
    return [", ".join(level_name(name, levels[name]) for name in several) for levels in every]


def headline(results: Results, points: Sequence[RunPoint]) -> tuple[bool, str]:
    """Whether one line is the fastest everywhere, and at which points there are differences, in sentences."""
    what, lines = what_is_compared(results), results.layout.lines
    names = place_names(results, points)
    places = dict(zip(map(id, points), names, strict=True))
    wins: dict[str, list[RunPoint]] = {}
    for point in points:
        if point.clear:
            wins.setdefault(point.reference.line, []).append(point)
    sentences = []
    for line, won in wins.items():
        leads = sorted((min((other.lead for other in point.others), key=_size) for point in won), key=_size)
        much = bounded(leads[0]) if len(won) == 1 else f"{factor(leads[0].value)} to {factor(leads[-1].value)}"
        named = _at(points, won, places)
        sentences.append(f"{level_name(lines, line)} is the fastest {what} {named}: {much} times the next.")
    partly = [point for point in points if not point.clear and any(other.result == SLOWER for other in point.sure)]
    for point in partly[:NAMED]:
        slower = [other for other in point.sure if other.result == SLOWER]
        behind = listed([f"{bounded(other.lead)} times {level_name(lines, other.line)}" for other in slower])
        first = level_name(lines, point.reference.line)
        sentences.append(f"At {places[id(point)]}, {first} is {behind}, but not faster than all others.")
    if len(partly) > NAMED:
        sentences.append(f"At {len(partly) - NAMED} more points some differ, none is faster than all others.")
    level = [point for point in points if not point.clear and point not in partly]
    if level:
        alike = all(other.result == EQUIVALENT for point in level for other in point.others)
        where = _at(points, level, places)
        any_of = f"at any of {len(points)} points" if len(level) == len(points) else where
        equivalent = f"All are equivalent within {percent(within(results))} {where}."
        sentences.append(equivalent if alike else f"No {what} is faster {any_of}.")
    doubted = [places[id(point)] for point in points if any(other.by_valid for other in point.others)]
    if doubted:
        sentences.append(f"Differences at {listed(doubted[:NAMED])} rest on SUSPECT trials and are not counted.")
    return len(wins) == 1 and all(point.clear for point in points), " ".join(sentences)


def _size(ratio: Interval) -> float:
    return ratio.value or 0.0


def _at(points: Sequence[RunPoint], some: Sequence[RunPoint], places: Mapping[int, str]) -> str:
    if len(some) == len(points):
        return f"at all {len(points)} points"
    named = [places[id(point)] for point in some]
    rest = [counted(len(named) - NAMED, "more point")] if len(named) > NAMED else []
    return f"at {listed([*named[:NAMED], *rest])}"


def _cells(results: Results, point: RunPoint) -> dict[str, Cell]:
    rate = figures(point.reference.row.means[results.rate].value, results.unit)
    lead = BASELINE if results.layout.baseline == point.reference.line else FASTEST if point.clear else LEADS
    cells = {point.reference.line: (lead if point.others else NO_INTERVAL, rate)}
    for other in point.others:
        ratio = with_interval(other.ratio) if other.ratio.value is not None else ""
        cells[other.line] = (DOUBTED if other.by_valid else other.result or NO_INTERVAL, ratio)
    return {**cells, **dict.fromkeys(point.without, (NOTHING_USABLE, ""))}


def _grid(results: Results, points: Sequence[RunPoint]) -> tuple[list[str], list[list[Any]], list[str]]:
    """Heads, rows of cells after their names, and the legend; the shorter side lies along the top."""
    cells = [_cells(results, point) for point in points]
    lines = [line for line in results.compared.texts if any(line in column for column in cells)]
    names, called = place_names(results, points), [level_name(results.layout.lines, line) for line in lines]
    there = {kind for column in cells for kind, _ in column.values()}
    near = {EQUIVALENT: f" within {percent(within(results))}"}
    shown = (f"{mark} {meaning}{near.get(kind, '')}" for kind, (mark, meaning) in MARKS.items() if kind in there)
    legend = list(dict.fromkeys(shown))
    if len(points) <= len(lines):
        rows = [[name, *(column.get(line) for column in cells)] for name, line in zip(called, lines, strict=True)]
        return ["", *names], rows, legend
    return ["", *called], [[name, *map(column.get, lines)] for name, column in zip(names, cells, strict=True)], legend


def grid_text(results: Results, points: Sequence[RunPoint]) -> str:
    """The grid for a terminal; nothing where nothing is compared."""
    if not any(point.others for point in points):
        return ""
    heads, rows, legend = _grid(results, points)
    texts = [heads, *([row[0], *map(_cell_text, row[1:])] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in texts]
    of = "baseline" if results.layout.baseline else "fastest of the point"
    return "\n".join([*lines, f"{' · '.join(legend)}; ratios to the {of}, 95 % CI, all together"])


def _cell_text(cell: Cell | None) -> str:
    return f"{MARKS[cell[0]][0]} {cell[1]}".strip() if cell else ""


def grid_table(results: Results, points: Sequence[RunPoint]) -> Markup | None:
    """The grid for a page."""
    if not any(point.others for point in points):
        return None
    heads, rows, legend = _grid(results, points)
    of = "baseline" if results.layout.baseline else "fastest"
    caption = (
        f"{' · '.join(legend)}. Ratios are to the {of} of the same point, with 95\N{NO-BREAK SPACE}% intervals that"
        " hold for all of them together."
    )
    body = [[row[0], *(_cell_markup(cell) for cell in row[1:])] for row in rows]
    return element("div", table(heads, body, words=len(heads), caption=caption), class_="grid")


def _cell_markup(cell: Cell | None) -> Markup | str:
    if cell is None:
        return ""
    sign, meaning = MARKS[cell[0]]
    mark = element("b", sign, class_="mark", title=meaning)
    return element("span", joined([mark, unbroken(cell[1])], " "), class_=f"cell {cell[0].replace(' ', '-')}")


def grid_rows(results: Results, points: Sequence[RunPoint]) -> Iterator[dict[str, Any]]:
    """The grid for programs."""
    for point in points:
        for standing in point.standings:
            yield {
                **results.at(point.panel, standing.line, point.x), "rate": standing.row.means[results.rate].value,
                "against": point.reference.line, "ratio": standing.ratio.value, "low": standing.ratio.low,
                "high": standing.ratio.high, "result": standing.result,
                "rests_on_suspect_trials": standing.by_valid is not None,
            }  # fmt: skip
