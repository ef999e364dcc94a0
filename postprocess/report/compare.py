"""The page that compares several runs: what changed from the first to each other, and what else differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD, Factor
from tierbench.postprocess.compare.changes import METHOD, Change, changes, left_out, run_names
from tierbench.postprocess.compare.differences import Difference, incomparable
from tierbench.postprocess.plots.canvas import LINES, SHOWN, Picture, looks
from tierbench.postprocess.plots.gallery import (
    RATE_FIGURE,
    STEADY_FIGURE,
    WALL_TIME_FIGURE,
    as_the_papers,
    ladder_picture,
    sheets_of,
)
from tierbench.postprocess.plots.ladder import Plot, Series
from tierbench.postprocess.report.markup import Markup, element, table, unbroken
from tierbench.postprocess.report.page import Drawn, caveat, document, gallery, relative, scale_note, sections
from tierbench.postprocess.report.page_tables import held_predictions
from tierbench.postprocess.tables.factors import Panel, level_name
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, verdict
from tierbench.postprocess.wording import NOTHING, between, counted, factor, figures, listed, moment


def comparison_pictures(runs: Sequence[Results]) -> Iterator[Picture]:
    """For each metric a figure with a plot for each panel and line, in which each run has a line, to one scale."""
    first = runs[0]
    for metric in (RATE_FIGURE, STEADY_FIGURE, WALL_TIME_FIGURE):
        plots = [
            (panel, plot)
            for panel in first.panels
            for line in first.compared.texts
            if len((plot := _plot(runs, panel, line, metric.column)).series) > 1
        ]
        for sheet in sheets_of(plots, metric.column):
            caption = f"{metric.caption} {metric.papers if as_the_papers(first) else ''}"
            yield replace(ladder_picture(metric, sheet, caption.strip()), place=SHOWN)


def _plot(runs: Sequence[Results], panel: Panel, line: str, metric: str) -> Plot:
    """A line for each run that has the metric, of one panel and one level of what the runs compare."""
    lines, x = runs[0].layout.lines, runs[0].layout.x
    look = looks(lines, runs[0].compared.texts)[line]
    series = [
        Series(name, look, run.summaries_at(point), trials, dashes)
        for name, run, dashes in zip(run_names(runs), runs, _dashes(len(runs)), strict=True)
        if (point := runs[0].at(panel, line)) and (trials := run.trials_at(point))
    ]
    having = [line for line in series if any(row[metric] is not None for row in line.trials)]
    levels = dict.fromkeys(level for run in runs if x in run.factors for level in run.factors[x].levels)
    return Plot(Factor(x, tuple(levels), runs[0].factors[x].label), having, _name(lines, line, panel.without(WORKLOAD)))


def _name(lines: str, line: str, panel: Panel) -> str:
    """What a plot is called: the line first, since it differs most."""
    return ", ".join(filter(None, [level_name(lines, line), panel.name]))


def comparison_page(
    runs: Sequence[Results], differing: Sequence[Sequence[Difference]], drawn: Drawn, page: Path, plots: Path
) -> str:
    """The whole page, as a file's text."""
    called = run_names(runs)
    title = f"{called[0]} against {listed(called[1:])}"
    head = [
        element("p", f"comparison of {counted(len(runs), 'run')}", class_="kicker"),
        element("h1", title),
        *_questions(runs),
        scale_note(runs[0]),
        caveat(runs[0]),
    ]
    body = [
        element("header", *head),
        *sections(_sections(runs, called, differing, drawn, page, plots)),
    ]
    return document(title, body)


def _sections(
    runs: Sequence[Results],
    called: Sequence[str],
    differing: Sequence[Sequence[Difference]],
    drawn: Drawn,
    page: Path,
    plots: Path,
) -> Iterator[tuple[str, str, list[Markup | None]]]:
    boxes = [
        _box(called[0], name, list(changes(runs[0], run, runs[0].rate)), differ)
        for name, run, differ in zip(called[1:], runs[1:], differing, strict=True)
    ]
    yield "answer", "Answer", list(boxes)
    yield "figures", "Figures", [gallery(drawn, page, plots)]
    yield "changes", "Changes", [
        _change_table(called[0], name, list(changes(runs[0], run, metric)), what, unit, differ)
        for name, run, differ in zip(called[1:], runs[1:], differing, strict=True)
        for metric, what, unit in ((runs[0].rate, "Rate", runs[0].unit), (WALL_TIME_FIGURE.column, "Wall time", "s"))
    ] + [
        element("p", f"Not compared, {called[0]} or {name} has no trials of it that count: {listed(missing)}.")
        for name, run in zip(called[1:], runs[1:], strict=True) if (missing := left_out(runs[0], run, runs[0].rate))
    ]  # fmt: skip
    yield "predictions", "Predictions", list(held_predictions(runs, called))
    yield "differences", "What differs", [
        _difference_table(called[0], name, differ) for name, differ in zip(called[1:], differing, strict=True)
    ]  # fmt: skip
    yield "runs", "Runs", [_run_table(runs, called, page)]


def _box(first: str, name: str, changed: Sequence[Change], differ: Sequence[Difference]) -> Markup:
    parting = incomparable(differ)
    certain = [change for change in changed if change.certain]
    clear = certain and not any(change.is_doubted or change.strays for change in certain)
    pieces = [element("p", unbroken(_sentence(first, name, changed, certain)), class_="sentence")]
    pieces += [element("p", unbroken(f"{row.name}: {row.stray_words}.")) for row in changed if row.strays]
    if parting:
        warning = element(
            "div",
            element("b", f"Not like for like: {name} was made differently."),
            " What changed in the numbers cannot be put down to what was compared. It differs in:",
            element("ul", *(element("li", difference.words) for difference in parting[:8])),
            element("p", f"and {len(parting) - 8} more, below") if len(parting) > 8 else None,
            class_="warning",
        )
        pieces.insert(0, warning)
    return element("div", *pieces, class_="answer" + (" clear" if clear and not parting else ""))


def _sentence(first: str, name: str, changed: Sequence[Change], certain: Sequence[Change]) -> str:
    if not changed:
        return f"{name} and {first} have no batch in common whose trials count."
    bounded = [change for change in changed if change.low is not None]
    if not bounded:
        return (
            f"From {first} to {name} the rates changed by factors of {_range(changed)};"
            " with a single trial a batch in either there is no telling what of that is chance."
        )
    if not certain:
        return (
            f"From {first} to {name} no rate has changed for certain:"
            f" the intervals of all {counted(len(bounded), 'ratio')} include 1."
        )
    largest = [
        f"{change.name} by a factor of {factor(change.ratio)} (95\N{NO-BREAK SPACE}% interval {_ends(change)})"
        for change in sorted(certain, key=lambda change: -abs(np.log(change.ratio)))[:4]
    ]
    doubted = [change.name for change in certain if change.is_doubted]
    return (
        f"From {first} to {name}, {len(certain)} of {counted(len(bounded), 'rate')} changed, most {listed(largest)}."
        + (f" Without the SUSPECT trials that is not so of {listed(doubted)}." if doubted else "")
    )


def _range(changed: Sequence[Change]) -> str:
    ratios = [change.ratio for change in changed]
    return f"{factor(min(ratios))} to {factor(max(ratios))}" if len(ratios) > 1 else factor(ratios[0])


def _change_table(
    first: str, name: str, changed: Sequence[Change], what: str, unit: str, differ: Sequence[Difference]
) -> Markup | None:
    if not changed:
        return None
    axes = [name for name in changed[0].point if name not in BUILT_IN]
    factors = [ACCESS, WORKLOAD, *axes, JOBS]
    rows = [
        [
            *(change.point[name] for name in factors),
            *(f"{figures(float(np.mean(values)))} ({len(values)})" for values in (change.before, change.after)),
            factor(change.ratio),
            _interval(change),
        ]
        for change in changed
    ]
    caption = (
        f"{what} in {name} over that in {first}: mean (trials that count). Interval: {METHOD}."
        + (" Not like for like, see above." if incomparable(differ) else "")
    )  # fmt: skip
    heads = [*factors, f"{first} [{unit}]", f"{name} [{unit}]", "ratio", "95 % interval"]
    return table(heads, rows, words=2, caption=caption)


def _interval(change: Change) -> Markup | str:
    ends = _ends(change)
    return element("b", ends) if change.certain else ends


def _ends(change: Change) -> str:
    return NOTHING if change.low is None or change.high is None else between(change.low, change.high)


def _difference_table(first: str, name: str, differ: Sequence[Difference]) -> Markup:
    if not differ:
        return element("p", f"{name} was made like {first}, as far as the runs tell.")
    rows = [[d.what, *d.values, "yes" if d.parts else "no"] for d in differ]
    return table(["", first, name, "keeps from comparing"], rows, words=4, caption=f"{first} and {name}")


def _questions(runs: Sequence[Results]) -> Iterator[Markup]:
    questions = dict.fromkeys(str(run.plan.get("question") or "") for run in runs)
    yield from (element("p", question) for question in questions if question)


def _run_table(runs: Sequence[Results], called: Sequence[str], page: Path) -> Markup:
    rows = []
    for run, name in zip(runs, called, strict=True):
        began = [trial.go_wall_ns for trial in run.trials if trial.go_wall_ns]
        invalid = sum(verdict(trial) == INVALID for trial in run.trials)
        own = run.directory / "report.html"
        link = element("a", "report", href=relative(own, page)) if own.is_file() else NOTHING
        when = moment(min(began)) if began else NOTHING
        where, seed = f"{run.plan.get('experiment')} at {run.plan.get('site')}", run.plan.get("seed")
        rows.append([name, where, when, link, len(run.trials), invalid, seed])
    return table(["run", "what", "began", "page", "trials", "INVALID", "seed"], rows, words=4)


def _dashes(number: int) -> list[object]:
    return [LINES[index % len(LINES)] for index in range(number)]
