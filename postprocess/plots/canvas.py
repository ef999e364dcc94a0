"""What figures are drawn on, and how they become files."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tierbench import files
from tierbench.postprocess.plots.style import GRID, INK, KNOWN, MUTED, OTHERS, PAPER, STYLE, WIDTH_IN, Look
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, verdict

DPI = 200
LEGEND_ROW_IN = 0.19
DOT, MEAN = 4.0, 6.5
MANY = 100  # marks of a line, which would run together if they were not smaller


SHOWN, FOLDED, PAPERS = "shown", "folded", "papers"  # where on a page a figure is


@dataclass(frozen=True)
class Picture:
    """A figure with its place in the report."""

    name: str
    title: str
    caption: str
    figure: Figure
    place: str = FOLDED


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


def canvas(height_in: float, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, list[Axes]]:
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
    """A line, mostly a way of access, in a legend."""
    return Line2D([], [], color=look.color, marker=look.marker, markersize=MEAN, label=label)


def verdict_marks(verdict: str, look: Look) -> dict[str, Any]:
    """How a trial's verdict shows: filled, hollow if it is suspect, crossed if it is invalid."""
    if verdict == INVALID:
        return {"marker": "x", "markersize": DOT + 2, "markeredgewidth": 1.6, "color": look.color}
    face = PAPER if verdict == SUSPECT else look.color
    return {
        "marker": look.marker,
        "markersize": DOT,
        "markeredgewidth": 1.1,
        "color": look.color,
        "markerfacecolor": face,
    }


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


def verdict_handles(verdicts: set[str]) -> list[Line2D]:
    """What the marks of single trials mean, of those that are there."""
    grey = Look(MUTED, MUTED, "o")
    told = {"a single trial": "", "a SUSPECT trial": SUSPECT, "an INVALID trial, left out": INVALID}
    there = {label: verdict for label, verdict in told.items() if not verdict or verdict in verdicts}
    return [
        Line2D([], [], linestyle="none", label=label, **verdict_marks(verdict, grey))
        for label, verdict in there.items()
    ]


@dataclass(frozen=True)
class Saved:
    """What a page needs of a figure that is drawn."""

    name: str
    title: str
    caption: str
    svg: str
    place: str = FOLDED


def save(picture: Picture, folder: Path) -> Saved:
    """Write a figure as PNG and SVG."""
    files.refuse_links(folder)
    folder.mkdir(parents=True, exist_ok=True)
    picture.figure.draw_without_rendering()
    picture.figure.set_layout_engine("none")  # the layout found serves both
    with files.replacing(folder / f"{picture.name}.png") as file:
        picture.figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    svg = _svg(picture.figure)
    files.replace(folder / f"{picture.name}.svg", svg)
    return Saved(picture.name, picture.title, picture.caption, svg, picture.place)


def inline(picture: Saved) -> str:
    """A figure as part of a page: no prolog, ids of its own, the page's own ink, paper and type."""
    text = picture.svg[picture.svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>", r'<svg viewBox="\1" aria-hidden="true">', text, count=1)
    text = re.sub(r"'DejaVu Sans'", "var(--type)", text)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r"<g((?: [^>]*)?)>\n((?:<use [^>]*/>\n)+)</g>", _styled_once, text)
    for color, name in page_colors().items():
        text = text.replace(color, f"var({name})")
    return _own_ids(text, picture.name)


def _styled_once(match: re.Match[str]) -> str:
    """Marks of one style, which their group says for all of them."""
    styles = set(re.findall(r' style="[^"]*"', match[2]))
    if len(styles) != 1 or "style=" in match[1]:
        return match[0]
    (style,) = styles
    return f"<g{match[1]}{style}>\n{match[2].replace(style, '')}</g>"


def page_colors() -> dict[str, str]:
    """The name by which a page may set each colour that figures use."""
    shades = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"}
    return shades | {look.color: f"--c{look.color[1:]}" for look in (*KNOWN.values(), *OTHERS)}


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None})
    return buffer.getvalue()


def _own_ids(text: str, prefix: str) -> str:
    """Ids that no other figure on the page has, and only those that something refers to."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))

    def kept(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in used else ""

    text = re.sub(r' id="([^"]*)"', kept, text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)
