"""What the papers found beside what was measured here: shapes, ratios between two rows, never single rates."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tierbench import names
from tierbench.dags.claims import LEAST, MOST, Claim
from tierbench.dags.levels import JOBS, WORKLOAD, level_text
from tierbench.postprocess.plots.canvas import INK, MEAN, MUTED, PAPER, PAPERS, Picture, canvas, legend
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, RatioRow
from tierbench.postprocess.stats import Interval, student
from tierbench.postprocess.tables.factors import Point, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import between, factor, figures, listed
from tierbench.spec import build

HOLDS, FAILS, OPEN = "holds here", "does not hold here", "cannot tell"
NOTE = (
    "Rates of another site say nothing here. What can be compared is a shape: by which factor one row is ahead of"
    " another."
    " A finding holds here if the 95\N{NO-BREAK SPACE}% interval of our factor lies on the paper’s side of 1, and does"
    " not if it lies on the other. Where the paper saw no difference to speak of, what that may be is said: it holds if"
    " all of the interval is so near to 1, and does not if all of it is beyond. Where some of our trials are SUSPECT,"
    " the VALID ones alone have to say the same."
)  # fmt: skip
ROW_IN, FRAME_IN = 0.48, 0.55
LABEL_LETTERS, LABEL_LINES = 30, 2
ASIDE = 0.16  # of a row: theirs above, ours below
STEPS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000)
ROOM = 1.25
THEIRS: dict[str, Any] = {"color": MUTED, "marker": "D", "markerfacecolor": PAPER, "markersize": MEAN - 1}
OURS: dict[str, Any] = {"color": INK, "marker": "o", "markersize": MEAN}


def papers_picture(results: Results) -> Iterator[Picture]:
    """The claims as shapes, theirs beside ours, if the experiment repeats any."""
    shapes = [
        Shape(str(claim.says), claim.found, _factor(results, claim, _measured(results, claim)))
        for claim in _claims(results)
    ]
    if shapes:
        caption = "Where both marks of a row lie on the same side of 1, the finding holds here; see the table."
        yield Picture("papers", "The papers’ findings as shapes", caption, shapes_plot(shapes), PAPERS)


def _claims(results: Results) -> list[Claim]:
    path = str(results.directory / names.EXPERIMENT)
    return [build(Claim, claim, path, "claims") for claim in results.experiment.get("claims") or []]


def findings(results: Results) -> Iterator[tuple[Claim, str, str]]:
    """Each claim with our ratio in words, and the answer."""
    for claim in _claims(results):
        row = _measured(results, claim)
        yield claim, _ours(results, claim, row), _verdict(results, claim, row)


def papers_table(results: Results) -> Iterator[Markup]:
    """Each claim of the papers that the experiment repeats, with what our trials say to it."""
    claims = _claims(results)
    if not claims:
        return
    rows, papers = [], dict.fromkeys(str(claim.paper) for claim in claims)
    for claim, ours, verdict in findings(results):
        finding = element(
            "span", claim.says, " ", element("span", f"({claim.source})", class_="note"), class_="finding"
        )
        words = element("b", verdict) if verdict != OPEN else verdict
        rows.append([finding, words, theirs(claim), ours, _of(claim)])
    heads = ["finding", "", "paper", "here (95 % interval, all together)", "of"]
    yield element("p", NOTE, class_="note")
    yield table(heads, rows, words=2, caption=f"Findings of {listed(list(papers))}, and whether they hold here")


def _measured(results: Results, claim: Claim) -> RatioRow | None:
    """The one row of ratios.csv that a claim is about, if there is one."""
    point = {factor: _level(results, claim, factor, level) for factor, level in claim.at.items()}
    against = _level(results, claim, claim.factor, claim.against)
    rows = [
        row
        for row in rows_at(results.ratios, point)
        if (row.factor, row.against, row.metric) == (claim.factor, against, claim.metric)
    ]
    return rows[0] if len(rows) == 1 else None


def _level(results: Results, claim: Claim, factor: str, level: Any) -> str:
    """A level as the tables have it; of batches the ends of the ladder that the claim's workload has climbed."""
    if factor != JOBS or level not in (LEAST, MOST):
        return level_text(level)
    at: Point = {WORKLOAD: claim.at[WORKLOAD]} if WORKLOAD in claim.at else {}
    ladder = results.levels(JOBS, at)
    return "" if not ladder else ladder[0] if level == LEAST else ladder[-1]


def _steps(claim: Claim, row: RatioRow) -> float:
    """Over what our ratio is taken: the one level over the other where it is a scale factor."""
    return float(level_of(row, claim.factor)) / float(row.against) if claim.levels else 1.0


def _factor(results: Results, claim: Claim, row: RatioRow | None) -> Interval:
    """Our factor with its interval, as far as it was measured."""
    if row is None:
        return Interval()
    claims, df = len(results.experiment.get("claims") or ()), row.degrees
    # Half of the error that a run's sentences may have is its answer's, the other half that of all its claims.
    return (row.ratio.as_of(df, student(df, 2 * claims)) if df and claims else row.ratio).over(_steps(claim, row))


def _verdict(results: Results, claim: Claim, row: RatioRow | None) -> str:
    """What our factor says to a claim, if its pairs of VALID trials alone say so as well."""
    interval = _factor(results, claim, row).interval
    if row is None or interval is None:
        return OPEN
    said = judged(claim, *interval)
    if not row.is_doubted:
        return said
    by_valid = row.by_valid.over(_steps(claim, row)).interval
    return said if by_valid and judged(claim, *by_valid) == said else OPEN


def judged(claim: Claim, low: float, high: float) -> str:
    """What the interval of our factor says to a claim."""
    if claim.of_equality:
        bound = claim.within_pct / 100
        outside = low > 1 + bound or high < 1 - bound
        inside = low > 1 - bound and high < 1 + bound
        return FAILS if outside else HOLDS if inside else OPEN
    if low <= 1 <= high:
        return OPEN
    return HOLDS if (low > 1) == (claim.found > 1) else FAILS


def theirs(claim: Claim) -> str:
    """The paper's ratio, and what it is of."""
    first, second = claim.values
    if claim.of_equality:
        return f"1 ± {claim.within_pct:g}\N{NO-BREAK SPACE}%"
    measured = f"{figures(first)} : {figures(second)} {claim.unit} = " if claim.unit else ""
    per = f" over {claim.levels[0]:g} : {claim.levels[1]:g}" if claim.levels else ""
    said = f"{measured.removesuffix(' = ')}{per} = {factor(claim.found)}" if measured else f"{factor(claim.found)}"
    return f"{said}, extrapolated by the paper" if claim.extrapolated else said


def _of(claim: Claim) -> str:
    return f"{claim.metric}, scale factor" if claim.levels else claim.metric


def _ours(results: Results, claim: Claim, row: RatioRow | None) -> str:
    ours = _factor(results, claim, row)
    if ours.value is None:
        return _guessed(results, claim) or "not measured"
    told = factor(ours.value) + (f" ({between(*ours.interval)})" if ours.interval else "")
    if row is None or not row.is_doubted:
        return told
    by_valid = row.by_valid.over(_steps(claim, row))
    if by_valid.value is None:
        return f"{told}; no pair of VALID trials"
    alone = f" ({between(*by_valid.interval)})" if by_valid.interval else ", a single pair"
    return f"{told}; by VALID trials alone {factor(by_valid.value)}{alone}"


def _guessed(results: Results, claim: Claim) -> str:
    """A scale factor by which our rate was extrapolated as well."""
    point = {factor: _level(results, claim, factor, level) for factor, level in claim.at.items()}
    guesses = [row for row in rows_at(results.scaling, point) if row.kind == EXTRAPOLATED]
    if not claim.levels or len(guesses) != 1 or guesses[0].scale.value is None:
        return ""
    return f"not measured; extrapolated by {factor(guesses[0].scale.value)}, that of {guesses[0].by}"


@dataclass(frozen=True)
class Shape:
    """A finding: the paper's factor, and ours with its interval as far as it was measured."""

    says: str
    theirs: float
    ours: Interval


def shapes_plot(shapes: Sequence[Shape]) -> Figure:
    """A row for each finding."""
    figure, (axes,) = canvas(FRAME_IN + ROW_IN * max(len(shapes), 2))
    axes.axvline(1, color=INK, linewidth=0.9)
    for row, shape in enumerate(shapes):
        axes.plot([shape.theirs], [row - ASIDE], linestyle="none", gid="paper", **THEIRS)
        if shape.ours.value is not None:
            below, above = shape.ours.reach
            axes.errorbar([shape.ours.value], [row + ASIDE], xerr=[[below], [above]], elinewidth=1.2, **OURS)
    axes.set_xscale("log")
    ends = [end for shape in shapes for end in (shape.theirs, shape.ours.value, *(shape.ours.interval or ())) if end]
    low, high = min([*ends, 0.8]) / ROOM, max([*ends, 1.25]) * ROOM
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([step for step in STEPS if low <= step <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(shapes)), [_short_claim(shape.says) for shape in shapes], fontsize=8.5)
    axes.set_ylim(len(shapes) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("factor between two rows (1: no difference)")
    handles = [
        Line2D([], [], linestyle="none", label="the paper", **THEIRS),
        Line2D([], [], label="here, 95 % interval", **OURS),
    ]
    legend(figure, handles)
    return figure


def _short_claim(says: str) -> str:
    lines = textwrap.wrap(says, LABEL_LETTERS, max_lines=LABEL_LINES, placeholder=" …", break_long_words=True)
    return "\n".join(lines)
