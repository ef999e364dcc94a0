"""What figures are drawn on, how all of them look, and how they become files.

The colours are Okabe and Ito's, which people with any kind of colour vision can tell apart. What is no
colour of an access is drawn in one of four named shades, so that a page can put its own in their place.
"""

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench import files
from tierbench.dags.levels import ACCESS
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, verdict

INK, MUTED, GRID, PAPER = "#1b1b1e", "#6a6a72", "#d7d7dc", "#fefefe"
DPI = 200
LEGEND_ROW_IN = 0.19
DOT, MEAN = 4.0, 6.5
MANY = 100  # marks of a line, which would run together if they were not smaller
SHOWN, FOLDED, PAPERS = "shown", "folded", "papers"  # where on a page a figure is


@dataclass(frozen=True)
class Look:
    """What tells one line, mostly an access method, from the others, in every figure and on every page."""

    color: str
    on_dark: str
    marker: str

    @property
    def variable(self) -> str:
        """By what name a page sets its colour."""
        return f"--c{self.color[1:]}"


# The papers' access methods keep their colours from run to run.
PAPER_METHODS = {
    "direct": Look("#0072b2", "#4fb0ec", "o"),
    "lan-xrootd": Look("#d55e00", "#ff8136", "s"),
    "wan-xrootd-private": Look("#009e73", "#2fcf9f", "^"),
    "wan-xrootd-public": Look("#cc79a7", "#e59ac4", "D"),
}
GREY = Look(MUTED, MUTED, "o")
OTHERS = (
    Look("#e69f00", "#f6b93b", "v"),
    Look("#56b4e9", "#86cdf5", "P"),
    Look("#882255", "#d1699f", "X"),
    Look("#8a8620", "#c9c455", "*"),
    Look("#332288", "#9a8cf0", "h"),
    Look("#5f5f66", "#a8a8b0", "p"),
)
LOOKS = (*PAPER_METHODS.values(), *OTHERS)
AGAIN = tuple(replace(look, marker=other.marker) for look, other in zip(LOOKS, (*LOOKS[3:], *LOOKS), strict=False))
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))  # one for each of several runs
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "lines.linewidth": 1.6,
    "lines.markersize": 6.5,
    "errorbar.capsize": 3,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
    "svg.hashsalt": "tierbench",  # the same data give the same bytes
}
WIDTH_IN, HEIGHT_IN = 4.9, 3.5  # a column on a desktop, and still readable over the width of a phone


def looks(factor: str, levels: Iterable[str]) -> dict[str, Look]:
    """The look of each level of the factor whose levels are lines."""
    names = list(dict.fromkeys(levels))
    if factor != ACCESS:
        return dict(zip(names, itertools.cycle((*OTHERS, *PAPER_METHODS.values(), *AGAIN)), strict=False))
    # Access methods that are in no paper take the others' looks in the order of their names, then the papers'.
    free = itertools.cycle((*OTHERS, *(look for name, look in PAPER_METHODS.items() if name not in names), *AGAIN))
    assigned = dict(zip(sorted(set(names) - PAPER_METHODS.keys()), free, strict=False))
    return {name: PAPER_METHODS.get(name) or assigned[name] for name in names}


def looks_of(results: Results) -> dict[str, Look]:
    return looks(results.layout.lines, results.compared.texts)


@dataclass(frozen=True)
class Picture:
    """A figure with its place in the report, and what a page shows of it once it is saved."""

    name: str
    title: str
    caption: str
    figure: Figure
    place: str = FOLDED
    svg: str = ""


@dataclass(frozen=True)
class Missing:
    """A figure that a reader may look for, and why it is not there."""

    title: str
    why: str


@contextmanager
def style() -> Iterator[None]:
    """Everything drawn or written within looks the same."""
    with mpl.rc_context(STYLE):
        yield


def blank(height_in: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, list[Axes]]:
    """A figure of one column's width, and its axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    return figure, list(axes.flat)


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A legend above the axes, where it hides nothing, for which the figure grows."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    columns = 1 if longest > 34 else 2
    rows = -(-len(handles) // columns)
    figure.set_size_inches(WIDTH_IN, figure.get_size_inches()[1] + LEGEND_ROW_IN * rows)
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns)


def line_handle(label: str, look: Look) -> Line2D:
    """A line, mostly an access method, in a legend."""
    return Line2D([], [], color=look.color, marker=look.marker, markersize=MEAN, label=label)


def verdict_marks(verdict: str, look: Look) -> dict[str, Any]:
    """How a trial's verdict shows: filled, hollow if it is suspect, crossed if it is invalid."""
    if verdict == INVALID:
        return {"marker": "x", "markersize": DOT + 2, "markeredgewidth": 1.6, "color": look.color}
    marks = {"marker": look.marker, "markersize": DOT, "markeredgewidth": 1.1, "color": look.color}
    return {**marks, "markerfacecolor": PAPER if verdict == SUSPECT else look.color}


def trial_marks(axes: Axes, of: str, look: Look, places: Iterable[tuple[TrialRow, float, float]]) -> None:
    """Small marks of a line's trials, those of one verdict drawn at once, since there may be thousands."""
    by_verdict: dict[str, list[tuple[float, float]]] = {}
    for trial, x, y in places:
        by_verdict.setdefault(verdict(trial), []).append((x, y))
    for word, points in by_verdict.items():
        marks = verdict_marks(word, look)
        if len(points) > MANY:
            marks["markersize"] /= 2
        x_values, y_values = zip(*points, strict=True)
        axes.plot(x_values, y_values, linestyle="none", zorder=3, gid=f"{of}/{word}", **marks)


def verdict_handles(trials: Iterable[TrialRow]) -> list[Line2D]:
    """What the marks of single trials mean, of those that are there."""
    there = {"", *map(verdict, trials)}
    labels = {"": "a single trial", SUSPECT: "a SUSPECT trial", INVALID: "an INVALID trial, left out"}
    return [
        Line2D([], [], linestyle="none", label=label, **verdict_marks(word, GREY))
        for word, label in labels.items()
        if word in there
    ]


def save(picture: Picture, folder: Path) -> Picture:
    """Write a figure as PNG and SVG."""
    files.refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    picture.figure.draw_without_rendering()
    picture.figure.set_layout_engine("none")  # the same layout serves both
    with files.replacing(folder / f"{picture.name}.png") as file:
        picture.figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    buffer = io.StringIO()
    picture.figure.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None})
    files.replace(folder / f"{picture.name}.svg", buffer.getvalue())
    return replace(picture, svg=buffer.getvalue())


def inline(picture: Picture) -> str:
    """A figure as part of a page: no prolog, ids of its own, the page's own ink, paper and type."""
    text = picture.svg[picture.svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>", r'<svg viewBox="\1" aria-hidden="true">', text, count=1)
    text = re.sub(r"'DejaVu Sans'", "var(--type)", text)
    text = re.sub(r'="[^"]*"', lambda match: re.sub(r"(\d\.\d\d)\d+", r"\1", match[0]), text)  # no words
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r"<g((?: [^>]*)?)>\n((?:<use [^>]*/>\n)+)</g>", _styled_once, text)
    shades = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"}
    for color, name in {**shades, **{look.color: look.variable for look in LOOKS}}.items():
        text = text.replace(color, f"var({name})")
    # Ids that no other figure on the page has, and only those that something refers to.
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    prefix = picture.name
    text = re.sub(r' id="([^"]*)"', lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used else "", text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)


def _styled_once(match: re.Match[str]) -> str:
    """Marks of one style, which their group says for all of them."""
    styles = set(re.findall(r' style="[^"]*"', match[2]))
    if len(styles) != 1 or "style=" in match[1]:
        return match[0]
    (style,) = styles
    return f"<g{match[1]}{style}>\n{match[2].replace(style, '')}</g>"
