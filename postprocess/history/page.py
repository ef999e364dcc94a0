"""The page of a nightly: what has changed, each configuration over the nights, and every night in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tierbench import files
from tierbench.dags.levels import ACCESS
from tierbench.postprocess.history.alarms import Watch, control_of, findings, history_of
from tierbench.postprocess.history.changepoints import LEAST_IN_ALL
from tierbench.postprocess.history.chart import chart
from tierbench.postprocess.history.queries import Chronicle
from tierbench.postprocess.history.rows import MEASURED, Night
from tierbench.postprocess.history.sentences import sentence, unmeasured, what_else
from tierbench.postprocess.plots.canvas import looks, page_colors
from tierbench.postprocess.report.markup import Markup, element, table, unbroken
from tierbench.postprocess.report.page import document, sections
from tierbench.postprocess.report.write import writing
from tierbench.postprocess.wording import NOTHING, counted, figures

LISTED = 60  # nights in the table; the export has all


def write_page(known: Chronicle, page: Path, watch: Watch) -> None:
    """Write the page, whole or not at all."""
    with writing(page):
        files.replace(page, history_page(known, watch))


def history_page(known: Chronicle, watch: Watch) -> str:
    nights = known.nights
    head = [
        element("p", f"history of nights · {nights[0].day} to {nights[-1].day}", class_="kicker"),
        element("h1", known.nightly),
        element("p", _outcomes(known), class_="verdicts"),
    ]
    return document(f"{known.nightly}, night by night", [element("header", *head), *sections(_sections(known, watch))])


def _sections(known: Chronicle, watch: Watch) -> Iterator[tuple[str, str, list[Markup | None]]]:
    yield "now", "As it stands", list(_standing(known, watch))
    drawn = [_drawing(known, name, watch) for name in known.configurations] if known.measured else []
    legend = (
        "Each night’s mean of VALID trials with its 95 % interval; grey and dashed, that night’s control, brought to"
        " the same mean before the first change; upright lines, changes, numbered as below; shaded, nights without a"
        " value; crosses, nights whose trials were not all VALID."
    )
    yield "nights", "Night by night", [element("p", legend, class_="note"), *drawn]
    yield "table", "The nights", [_table(known)]


def _outcomes(known: Chronicle) -> str:
    found = Counter(night.outcome for night in known.nights)
    return ", ".join(f"{number} {outcome}" for outcome, number in found.most_common())


def _standing(known: Chronicle, watch: Watch) -> Iterator[Markup]:
    for words in unmeasured(known):
        yield element("div", element("p", words, class_="sentence"), class_="warning")
    if not known.measured:
        return
    found = findings(known, watch)
    for one in found:
        note = element("ul", element("li", "acknowledged")) if one.acknowledged else None
        clear = " clear" if one.certain and not one.acknowledged else ""
        said = element("p", unbroken(sentence(one, known)), class_="sentence")
        yield element("div", said, note, class_=f"answer{clear}")
    if not found:
        few = len(known.measured) < LEAST_IN_ALL
        told = (
            f"Nothing can be said yet: that takes {LEAST_IN_ALL} nights, and there are {len(known.measured)}."
            if few
            else f"Nothing has changed by the night of {known.measured[-1].day}."
        )
        yield element("div", element("p", told, class_="sentence"), class_="answer")


def _drawing(known: Chronicle, configuration: str, watch: Watch) -> Markup:
    accesses = [name.split("/", 1)[0] for name in known.configurations]
    color = page_colors()[looks(ACCESS, accesses)[configuration.split("/", 1)[0]].color]
    changes = history_of(known, configuration, watch)
    of = " (the control)" if configuration == control_of(known) else ""
    items = [element("li", unbroken(sentence(found, known))) for found in changes]
    return element(
        "figure",
        element("h3", f"{configuration}{of}"),
        chart(known, configuration, color, changes),
        element("figcaption", element("ol", *items)) if items else None,
    )


def _table(known: Chronicle) -> Markup:
    names = known.configurations
    nights = known.nights[-LISTED:][::-1]
    rows = [[night.day, _outcome(night), *(_rate(known, night, name) for name in names), _beside(known, night)]
            for night in nights]  # fmt: skip
    unit = known.measured[-1].unit if known.measured else ""
    more = f"; {counted(len(known.nights) - LISTED, 'earlier night')} by `tierbench history export`"
    caption = f"Means of VALID trials, {unit}" + (more if len(known.nights) > LISTED else "")
    return table(["night", "outcome", *names, "what was otherwise"], rows, words=2, caption=caption)


def _outcome(night: Night) -> str:
    words = f"{night.outcome}{', a rerun' if night.rerun else ''}"
    return f"{words}: {night.reason}" if night.reason else words


def _rate(known: Chronicle, night: Night, name: str) -> str:
    value = known.value(night, name)
    return figures(value.mean) if value else NOTHING


def _beside(known: Chronicle, night: Night) -> str:
    before = [one for one in known.measured if one.planned_ns < night.planned_ns]
    if night.outcome != MEASURED or not before:
        return ""
    return "; ".join(what_else(known, before[-1], night, beside=0))
