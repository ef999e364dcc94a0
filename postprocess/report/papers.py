"""What the papers found beside what was measured here: shapes, ratios between two rows, never single rates."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tierbench.dags.claims import AT_LEAST, CONTRADICTED, EQUAL, REPRODUCED, VALUE, Claim
from tierbench.postprocess.compare.claims import Finding, ceilings, findings, points_of
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.plots.ladder import Series, draw_line
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED
from tierbench.postprocess.tables.factors import batch_name, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import factor, figures, listed, with_interval

NOTE = (
    "Rates of another site say nothing here; what can be compared is a ratio between two rows, by its"
    " 95\N{NO-BREAK SPACE}% interval. Reproduced: all of it is as claimed. Contradicted: all of it is otherwise,"
    " or nobody is ahead by 5\N{NO-BREAK SPACE}%. Inconclusive: neither, or the VALID trials alone do not say the same."
    " Not tested: a point has no usable trials, or they hit another limit than expected."
)  # fmt: skip
ROW_IN, FRAME_IN = 0.48, 0.55
LETTERS, LINES = 30, 2  # of a row's label
ASIDE = 0.16  # of a row: theirs above, ours below
STEPS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000)
ROOM = 1.25
SIZE = canvas.MEAN - 1
THEIRS: dict[str, Any] = {"color": canvas.MUTED, "marker": "D", "markerfacecolor": canvas.PAPER, "markersize": SIZE}
OURS = Series("here, 95 % interval", canvas.Look(canvas.INK, canvas.INK, "o"), [], [])


def papers_picture(results: Results) -> Iterator[canvas.Picture]:
    """The claims about ratios as shapes, theirs beside ours, if the experiment has any."""
    ratios = [finding for finding in findings(results) if finding.claim.factor]
    if ratios:
        caption = "The papers’ ratios beside ours; what follows from them is in the table."
        yield canvas.Picture("papers", "The papers’ findings as shapes", caption, _shapes_plot(ratios), canvas.PAPERS)


def papers_table(results: Results) -> Iterator[Markup]:
    """Each claim that the experiment is held to, with what our trials say to it, and the ceilings that it expects."""
    rows, run_findings = [], findings(results)
    for finding in run_findings:
        claim = finding.claim
        source = [" ", element("span", f"({claim.source})", class_="note")] if claim.source else []
        says = element("span", claim.says, *source, class_="finding")
        answer = element("b", finding.answer) if finding.answer in (REPRODUCED, CONTRADICTED) else finding.answer
        of = f"{claim.metric}, scale factor" if claim.levels else claim.metric
        rows.append([says, answer, theirs(claim), ours(results, finding), of])
    if rows:
        papers = dict.fromkeys(str(finding.claim.paper) for finding in run_findings if finding.claim.paper)
        heads = ["finding", "answer", "reference", "here (95 % interval of each)", "of"]
        yield element("p", NOTE, class_="note")
        yield table(heads, rows, words=2, caption=f"Findings{f' of {listed(list(papers))}' if papers else ''}")
    limits = []
    for ceiling in ceilings(results):
        expected, result = ceiling.expected, "as expected" if ceiling.hit else element("b", "another")
        point = batch_name(ceiling.levels)
        limits.append([point, " or ".join(expected.bottleneck), ceiling.measured, result, str(expected.because)])
    if limits:
        heads = ["point", "expected limit", "measured limit", "", "because"]
        yield table(heads, limits, words=5, caption="What was to limit each point, and what did")


def theirs(claim: Claim) -> str:
    """The paper's ratio and what it is of, or a value, with what is asked of ours."""
    tolerance = f"± {claim.within_pct or 0:g}\N{NO-BREAK SPACE}%"
    if not claim.values:
        return f"1 {tolerance}" if claim.kind == EQUAL else claim.kind
    if claim.factor is None:
        value = figures(claim.values[0], claim.unit)
        return f"at least {value}" if claim.kind == AT_LEAST else f"{value} {tolerance}"
    if claim.kind == EQUAL and math.isclose(claim.reference, 1):
        return f"1 {tolerance}"
    per = f" over {claim.levels[0]:g} : {claim.levels[1]:g}" if claim.levels else ""
    measured = f"{figures(claim.values[0])} : {figures(claim.values[1])} {claim.unit}{per} = " if claim.unit else ""
    least = "at least " if claim.kind == AT_LEAST else ""
    demand = {EQUAL: f", as 1 {tolerance}", VALUE: f" {tolerance}"}.get(claim.kind, "")
    source = ", extrapolated by the paper" if claim.extrapolated else ""
    return f"{measured}{least}{factor(claim.reference)}{demand}{source}"


def ours(results: Results, finding: Finding) -> str:
    """Our number in words, and why it tests nothing where it does not."""
    why = f"; {finding.why}" if finding.why else ""
    write = figures if finding.claim.factor is None else factor
    if finding.ours.value is None:
        return _guessed(results, finding.claim) or finding.why or "not measured"
    number = with_interval(finding.ours, write=write)
    by_valid = finding.by_valid
    if by_valid is None:
        return f"{number}{why}"
    if by_valid.value is None:
        return f"{number}; no VALID trials{' to pair' if finding.claim.factor else ''}{why}"
    alone = with_interval(by_valid, write=write) + ("" if by_valid.interval else ", a single one")
    return f"{number}; by VALID trials alone {alone}{why}"


def _guessed(results: Results, claim: Claim) -> str:
    """A scale factor by which our rate was extrapolated as well."""
    guesses = [row for row in rows_at(results.scaling, points_of(results.trials, claim)[0]) if row.kind == EXTRAPOLATED]
    if not claim.levels or len(guesses) != 1 or guesses[0].scale.value is None:
        return ""
    return f"not measured; extrapolated by {factor(guesses[0].scale.value)}, that of {guesses[0].by}"


def _shapes_plot(findings: Sequence[Finding]) -> Figure:
    """A row for each finding: the paper's factor, and ours with its interval as far as it was measured."""
    figure, (axes,) = canvas.blank(FRAME_IN + ROW_IN * max(len(findings), 2))
    axes.axvline(1, color=canvas.INK, linewidth=0.9)
    references = [finding.claim.reference for finding in findings]
    axes.plot(references, [row - ASIDE for row in range(len(findings))], linestyle="none", gid="paper", **THEIRS)
    rows = [(row + ASIDE, finding.ours) for row, finding in enumerate(findings)]
    draw_line(axes, OURS, rows, sideways=True, linestyle="none")
    axes.set_xscale("log")
    ends = [end for _, of in rows for end in (of.value, *(of.interval or ()))]
    sizes = [end for end in (*references, *ends) if end and end > 0]
    low, high = min([*sizes, 0.8]) / ROOM, max([*sizes, 1.25]) * ROOM
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([step for step in STEPS if low <= step <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    says = [textwrap.fill(str(each.claim.says), LETTERS, max_lines=LINES, placeholder=" …") for each in findings]
    axes.set_yticks(range(len(findings)), says, fontsize=8.5)
    axes.set_ylim(len(findings) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("factor between two rows (1: no difference)")
    theirs = Line2D([], [], linestyle="none", label="the paper", **THEIRS)
    canvas.legend(figure, [theirs, canvas.line_handle(OURS.label, OURS.look)])
    return figure
