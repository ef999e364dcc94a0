"""The page of a nightly: what has changed, each configuration over the nights as a drawing, every night in a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from tierbench import files
from tierbench.dags.levels import ACCESS
from tierbench.postprocess.history.alarms import Finding, Watch, few_nights, findings, history_of
from tierbench.postprocess.history.changepoints import no_change
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import MEASURED, Night, Value
from tierbench.postprocess.history.sentences import sentence, unmeasured, what_else
from tierbench.postprocess.history.series import DAY_NS
from tierbench.postprocess.plots.canvas import looks
from tierbench.postprocess.report.markup import Frame, Markup, element, svg, table, unbroken
from tierbench.postprocess.report.page import Sections, answer_box, document
from tierbench.postprocess.report.write import writing
from tierbench.postprocess.wording import counted, figures

LISTED = 60  # nights in the table; the export has all


def write_page(chronicle: Chronicle, page: Path, watch: Watch) -> None:
    with writing(page):
        files.replace(page, history_page(chronicle, watch))


def history_page(chronicle: Chronicle, watch: Watch) -> str:
    nights = [night for night in chronicle.nights if not night.rerun] or chronicle.nights
    outcomes = Counter(night.outcome for night in nights).most_common()
    head = [
        element("p", f"history of nights · {nights[0].day} to {nights[-1].day}", class_="kicker"),
        element("h1", chronicle.nightly),
        element("p", ", ".join(f"{number} {outcome}" for outcome, number in outcomes), class_="verdicts"),
    ]
    title = f"{chronicle.nightly}, night by night"
    return document(title, [element("header", *head)], _sections(chronicle, watch))


def _sections(chronicle: Chronicle, watch: Watch) -> Sections:
    yield "now", "As it stands", list(_standing(chronicle, watch))
    drawn = [_drawing(chronicle, name, watch) for name in chronicle.configurations] if chronicle.measured else []
    legend = (
        "Each night’s mean of VALID trials with its 95 % interval; grey and dashed, that night’s control, brought to"
        " the same mean before the first change; upright lines, changes, numbered as below; shaded, nights without a"
        " value; crosses, nights whose trials were not all VALID."
    )
    yield "nights", "Night by night", [element("p", legend, class_="note"), *drawn]
    yield "table", "The nights", [_table(chronicle)]


def _standing(chronicle: Chronicle, watch: Watch) -> Iterator[Markup]:
    for words in unmeasured(chronicle):
        yield element("div", element("p", words, class_="sentence"), class_="warning")
    if not chronicle.measured:
        return
    changes = findings(chronicle, watch)
    for change in changes:
        note = element("ul", element("li", "acknowledged")) if change.acknowledged else None
        yield answer_box(sentence(change, chronicle), change.certain and not change.acknowledged, note)
    if not changes:
        words = no_change(chronicle.count, few_nights(chronicle))
        yield answer_box(f"{words.capitalize()}; last measured {chronicle.measured[-1].day}.")


def _drawing(chronicle: Chronicle, configuration: str, watch: Watch) -> Markup:
    accesses = [name.split("/", 1)[0] for name in chronicle.configurations]
    color = looks(ACCESS, accesses)[configuration.split("/", 1)[0]].variable
    changes = history_of(chronicle, configuration, watch)
    of = " (the control)" if configuration == chronicle.control else ""
    items = [element("li", unbroken(sentence(change, chronicle))) for change in changes]
    return element(
        "figure",
        element("h3", f"{configuration}{of}"),
        chart(chronicle, configuration, color, changes),
        element("figcaption", element("ol", *items)) if items else None,
    )


def _table(chronicle: Chronicle) -> Markup:
    configurations, rows = chronicle.configurations, []
    for night in chronicle.nights[-LISTED:][::-1]:
        values = (chronicle.value(night, name) for name in configurations)
        rates = [figures(value.mean if value else None) for value in values]
        before = chronicle.before(night) if night.outcome == MEASURED else None
        otherwise = what_else(chronicle, before, night, beside=0) if before else []
        outcome = f"{night.outcome}{', a rerun' if night.rerun else ''}" + (f": {night.reason}" if night.reason else "")
        rows.append([night.day, outcome, *rates, "; ".join(otherwise)])
    more = f"; {counted(len(chronicle.nights) - LISTED, 'earlier night')} by `tierbench history export`"
    caption = f"Means of VALID trials, {chronicle.unit}" + (more if len(chronicle.nights) > LISTED else "")
    return table(["night", "outcome", *configurations, "what was otherwise"], rows, words=2, caption=caption)


T = TypeVar("T")

WIDTH, HEIGHT = 960, 210
LEFT, RIGHT, TOP, BASE = 56, 946, 16, 168
STRIP = 176  # where the marks of nights stand that have something to say besides the rate
ROOM = 0.08  # above and below what is drawn
FEW = 120  # nights up to which each has its dot and its interval as a bar; of more, a line in a band


Dot = tuple[Night, Value, float | None]  # a night, its mean, and the control's, brought to the same scale


def chart(chronicle: Chronicle, configuration: str, color: str, changes: Sequence[Finding]) -> Markup:
    """The drawing; `changes` are numbered as they stand in the list below it."""
    dots = _dots(chronicle, configuration, changes[0].since.planned_ns if changes else None)
    # All rates have room, intervals of few trials as far as they are no larger than that twice over.
    rates = [rate for _, value, control in dots for rate in (value.mean, control) if rate] or [0.0, 1.0]
    span = max(max(rates) - min(rates), 0.1 * max(rates))
    low, high = max(min(rates) - 0.5 * span, 0.0), max(rates) + (0.5 + ROOM) * span
    first, last = chronicle.nights[0].planned_ns, chronicle.nights[-1].planned_ns
    frame = Frame(LEFT + 8, RIGHT - 8, TOP, BASE, first, max(last, first + DAY_NS), low, high)
    nights, unit = chronicle.nights, chronicle.unit
    parts = [*replace(frame, left=LEFT, right=RIGHT).scale(figures(high), unit, figures(low))]
    for mark in sorted({0, len(nights) // 3, 2 * len(nights) // 3, len(nights) - 1}):
        anchor = "start" if mark == 0 else "end" if mark == len(nights) - 1 else "middle"
        x = frame.x(nights[mark].planned_ns)
        parts.append(element("text", nights[mark].day, x=x, y=HEIGHT - 6, text_anchor=anchor))
    parts += _gaps(chronicle, configuration, frame)
    for number, change in enumerate(changes, start=1):
        x = frame.x((change.last.planned_ns + change.since.planned_ns) / 2)
        parts.append(element("path", d=f"M{x} {TOP - 3}V{BASE}", class_="edge"))
        parts.append(element("text", number, x=x, y=TOP - 5, text_anchor="middle"))
    parts += [
        *_line([(night, control) for night, _, control in dots if control], frame, "var(--muted)", "4 3"),
        *_intervals(dots, frame, color),
        *_line([(night, value.mean) for night, value, _ in dots], frame, f"var({color})", None),
        *(_dot(dot, frame, color, unit) for dot in dots if len(dots) <= FEW),
    ]
    label = f"{configuration} over the nights"
    return svg(*parts, width=WIDTH, height=HEIGHT, class_="chart nights", aria_label=label)


def _dots(chronicle: Chronicle, configuration: str, until_ns: int | None) -> list[Dot]:
    """The nights; the control is brought to the mean of those before the first change."""
    control = chronicle.control
    there = [
        (night, value, chronicle.value(night, control))
        for night in chronicle.measured
        if (value := chronicle.value(night, configuration))
    ]
    of_both = [
        (value.mean, reference.mean)
        for night, value, reference in there
        if reference and (until_ns is None or night.planned_ns < until_ns)
    ]
    scale = sum(mean for mean, _ in of_both) / sum(mean for _, mean in of_both) if of_both else 0.0
    dots = []
    for night, value, reference in there:
        low, high = (value.mean if end is None else end for end in (value.low, value.high))
        beside = reference.mean * scale if reference and configuration != control else None
        dots.append((night, replace(value, low=low, high=high), beside))
    return dots


def _gaps(chronicle: Chronicle, configuration: str, frame: Frame) -> Iterator[Markup]:
    """A night without a rate is a shaded stripe; one whose trials were not all VALID has a mark below."""
    width = max(round(frame.x(frame.first + DAY_NS) - frame.left, 1), 1.5)
    for night in chronicle.nights:
        title = element("title", f"{night.day}: {night.outcome}{f', {night.reason}' if night.reason else ''}")
        x = frame.x(night.planned_ns)
        if not night.rerun and (night.outcome != MEASURED or chronicle.value(night, configuration) is None):
            stripe = {"x": round(x - width / 2, 1), "y": TOP, "width": width, "height": BASE - TOP}
            yield element("rect", title, **stripe, class_="steady")
        counted = chronicle.counts(night).get(configuration)
        if counted and counted.valid < counted.trials:
            words = f"{night.day}: {counted.valid} of {counted.trials} trials VALID"
            mark = f"M{x - 2.5} {STRIP}L{x + 2.5} {STRIP + 5}M{x + 2.5} {STRIP}L{x - 2.5} {STRIP + 5}"
            yield element("path", element("title", words), d=mark, style="stroke:var(--ink)")


def _intervals(dots: Sequence[Dot], frame: Frame, color: str) -> Iterator[Markup]:
    if len(dots) <= FEW:
        bars = (f"M{frame.x(night.planned_ns)} {frame.y(of.low)}V{frame.y(of.high)}" for night, of, _ in dots)
        yield element("path", d="".join(bars), style=f"stroke:var({color})", opacity="0.45")
        return
    for part in _unbroken([(night, value) for night, value, _ in dots]):
        up = _path(((night, value.high or 0.0) for night, value in part), frame)
        down = _path(((night, value.low or 0.0) for night, value in reversed(part)), frame)
        yield element("path", d=f"M{up}L{down}Z", style=f"fill:var({color});stroke:none", opacity="0.22")


def _line(points: Sequence[tuple[Night, float]], frame: Frame, color: str, dashes: str | None) -> Iterator[Markup]:
    parts = [_path(part, frame) for part in _unbroken(points)]
    yield element("path", d="".join(f"M{part}" for part in parts), style=f"stroke:{color}", stroke_dasharray=dashes)


def _path(points: Iterable[tuple[Night, float]], frame: Frame) -> str:
    return "L".join(f"{frame.x(night.planned_ns)} {frame.y(rate)}" for night, rate in points)


def _unbroken(points: Sequence[tuple[Night, T]]) -> list[list[tuple[Night, T]]]:
    """The points in pieces, a new one behind each gap of more than a night and a half."""
    apart = sorted(later.planned_ns - night.planned_ns for (night, _), (later, _) in pairwise(points))
    longest = 1.5 * max(apart[len(apart) // 2], DAY_NS) if apart else 0.0
    pieces: list[list[tuple[Night, T]]] = []
    for point in points:
        if pieces and point[0].planned_ns - pieces[-1][-1][0].planned_ns <= longest:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _dot(dot: Dot, frame: Frame, color: str, unit: str) -> Markup:
    night, value, _ = dot
    words = f"{night.named}: {figures(value.mean, unit)}"
    words += f" ({figures(value.low)}…{figures(value.high)})" if value.low != value.high else ""
    x, y = frame.x(night.planned_ns), frame.y(value.mean)
    return element("circle", element("title", words), cx=x, cy=y, r=2.4, style=f"fill:var({color})")
