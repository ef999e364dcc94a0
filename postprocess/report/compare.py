"""The page that compares several runs: what changed from the first to each other, and what else differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD
from tierbench.postprocess.compare.differences import Difference, differences
from tierbench.postprocess.compare.judgement import METHOD, Change, changes, left_out, run_names
from tierbench.postprocess.report.markup import Markup, element, table, unbroken
from tierbench.postprocess.report.notes import WALL_TIME, without_suspects
from tierbench.postprocess.report.page import (
    PAGE,
    Drawn,
    Sections,
    answer_box,
    began_at,
    document,
    gallery,
    relative,
    site_notes,
)
from tierbench.postprocess.report.page_tables import prediction_table
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, verdict
from tierbench.postprocess.wording import INTERVAL, NOTHING, bounds, counted, factor, figures, listed


@dataclass(frozen=True)
class _Pair:
    """The first run and another, as they are called, and what differs in how they were made."""

    first: Results
    second: Results
    before: str
    after: str

    @cached_property
    def differences(self) -> list[Difference]:
        return differences(self.first, self.second)

    @property
    def parting(self) -> list[Difference]:
        return [difference for difference in self.differences if difference.parts]

    def changes(self, metric: str) -> list[Change]:
        return list(changes(self.first, self.second, metric))


def comparison_page(runs: Sequence[Results], drawn: Drawn, page: Path) -> str:
    names = run_names(runs)
    title = f"{names[0]} against {listed(names[1:])}"
    questions = dict.fromkeys(str(run.plan.get("question") or "") for run in runs)
    head = [
        element("p", f"comparison of {counted(len(runs), 'run')}", class_="kicker"),
        element("h1", title),
        *(element("p", question) for question in questions if question),
        *site_notes(runs[0]),
    ]
    return document(title, [element("header", *head)], _sections(runs, names, drawn, page))


def _sections(runs: Sequence[Results], names: Sequence[str], drawn: Drawn, page: Path) -> Sections:
    pairs = [_Pair(runs[0], run, names[0], name) for run, name in zip(runs[1:], names[1:], strict=True)]
    rate = runs[0].rate
    yield "answer", "Answer", [_box(pair) for pair in pairs]
    yield "figures", "Figures", [gallery(drawn, page)]
    metrics = (rate, "Rate", runs[0].unit), (WALL_TIME, "Wall time", "s")
    tables = [_change_table(pair, *metric) for pair in pairs for metric in metrics]
    without = [
        element("p", f"Not compared, {pair.before} or {pair.after} has no usable trials of it: {listed(missing)}.")
        for pair in pairs
        if (missing := left_out(pair.first, pair.second, rate))
    ]
    yield "changes", "Changes", [*tables, *without]
    yield "predictions", "Predictions", [prediction_table(runs, names)]
    yield "differences", "What differs", [_difference_table(pair) for pair in pairs]
    rows = []
    for run, name in zip(runs, names, strict=True):
        own, plan = run.directory / PAGE, run.plan
        link = element("a", "report", href=relative(own, page)) if own.is_file() else NOTHING
        where, invalid = f"{plan.get('experiment')} at {plan.get('site')}", [*map(verdict, run.trials)].count(INVALID)
        rows.append([name, where, began_at(run) or NOTHING, link, len(run.trials), invalid, plan.get("seed")])
    yield "runs", "Runs", [table(["run", "what", "began", "page", "trials", "INVALID", "seed"], rows, words=4)]


def _box(pair: _Pair) -> Markup:
    rate_changes, parting = pair.changes(pair.first.rate), pair.parting
    certain = [change for change in rate_changes if change.certain]
    clear = bool(certain) and not parting and not any(change.is_doubted or change.strays for change in certain)
    strays = [element("p", unbroken(f"{row.name}: {row.stray_words}.")) for row in rate_changes if row.strays]
    warning = element(
        "div",
        element("b", f"Not like for like: {pair.after} was made differently."),
        " What changed in the numbers cannot be put down to what was compared. It differs in:",
        element("ul", *(element("li", difference.words) for difference in parting[:8])),
        element("p", f"and {len(parting) - 8} more, below") if len(parting) > 8 else None,
        class_="warning",
    )
    return answer_box(_sentence(pair, rate_changes), clear, *strays, before=warning if parting else None)


def _sentence(pair: _Pair, rate_changes: Sequence[Change]) -> str:
    from_to = f"From {pair.before} to {pair.after}"
    if not rate_changes:
        return f"{pair.after} and {pair.before} have no point in common with usable trials."
    bounded = [change for change in rate_changes if change.ratio.interval]
    if not bounded:
        ratios = [change.factor for change in rate_changes]
        ends = " to ".join(dict.fromkeys(map(factor, (min(ratios), max(ratios)))))
        chance = "a single trial at a point gives no interval, so this may be chance"
        return f"{from_to} the rates changed by factors of {ends}; {chance}."
    certain = [change for change in bounded if change.certain]
    if not certain:
        every = f"the intervals of all {counted(len(bounded), 'ratio')}"
        return f"{from_to} no rate has changed for certain: {every} include 1."
    largest = [
        f"{change.name} by a factor of {factor(change.factor)} ({INTERVAL}{bounds(change.ratio)})"
        for change in sorted(certain, key=lambda change: -abs(np.log(change.factor)))[:4]
    ]
    doubtful = without_suspects([change.name for change in certain if change.is_doubted])
    return f"{from_to}, {len(certain)} of {counted(len(bounded), 'rate')} changed, most {listed(largest)}.{doubtful}"


def _change_table(pair: _Pair, metric: str, what: str, unit: str) -> Markup | None:
    metric_changes = pair.changes(metric)
    if not metric_changes:
        return None
    factors = [ACCESS, WORKLOAD, *(name for name in metric_changes[0].point if name not in BUILT_IN), JOBS]
    rows = [
        [
            *(change.point[name] for name in factors),
            *(f"{figures(float(np.mean(values)))} ({len(values)})" for values in (change.before, change.after)),
            factor(change.factor),
            element("b", bounds(change.ratio)) if change.certain else bounds(change.ratio) or NOTHING,
        ]
        for change in metric_changes
    ]
    caption = f"{what} in {pair.after} over that in {pair.before}: mean (usable trials). Interval: {METHOD}."
    caption += " Not like for like, see above." if pair.parting else ""
    heads = [*factors, f"{pair.before} [{unit}]", f"{pair.after} [{unit}]", "ratio", "95 % interval"]
    return table(heads, rows, words=2, caption=caption)


def _difference_table(pair: _Pair) -> Markup:
    first, name = pair.before, pair.after
    if not pair.differences:
        return element("p", f"{name} was made like {first}, as far as the runs tell.")
    rows = [[d.what, *d.values, "yes" if d.parts else "no"] for d in pair.differences]
    return table(["", first, name, "keeps from comparing"], rows, words=4, caption=f"{first} and {name}")
