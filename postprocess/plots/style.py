"""How all figures look: a colour and a marker per line, each way of access having its own; type, ink and paper.

The colours are Okabe and Ito's, which people with any kind of colour vision can tell apart. What is no
colour of an access is drawn in one of four named shades, so that a page can put its own in their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tierbench.dags.levels import ACCESS

INK, MUTED, GRID, PAPER = "#1b1b1e", "#6a6a72", "#d7d7dc", "#fefefe"


@dataclass(frozen=True)
class Look:
    """What tells one line, mostly a way of access, from the others, in every figure and on every page."""

    color: str
    on_dark: str
    marker: str


# The ways of the papers keep their colours from run to run.
KNOWN = {
    "direct": Look("#0072b2", "#4fb0ec", "o"),
    "lan-xrootd": Look("#d55e00", "#ff8136", "s"),
    "wan-xrootd-private": Look("#009e73", "#2fcf9f", "^"),
    "wan-xrootd-public": Look("#cc79a7", "#e59ac4", "D"),
}
OTHERS = (
    Look("#e69f00", "#f6b93b", "v"),
    Look("#56b4e9", "#86cdf5", "P"),
    Look("#882255", "#d1699f", "X"),
    Look("#8a8620", "#c9c455", "*"),
    Look("#332288", "#9a8cf0", "h"),
    Look("#5f5f66", "#a8a8b0", "p"),
)
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
    if factor == ACCESS:
        return _looks_of_accesses(levels)
    every = (*OTHERS, *KNOWN.values())
    return {level: every[number % len(every)] for number, level in enumerate(dict.fromkeys(levels))}


def _looks_of_accesses(accesses: Iterable[str]) -> dict[str, Look]:
    """The ways that no paper knows take the others' looks by their names' order."""
    accesses = list(accesses)
    unknown = sorted(set(accesses) - KNOWN.keys())
    assigned = {name: OTHERS[number % len(OTHERS)] for number, name in enumerate(unknown)}
    return {name: KNOWN.get(name) or assigned[name] for name in dict.fromkeys(accesses)}
