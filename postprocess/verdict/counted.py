"""Which trials count: those over which means, intervals and ratios are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

VALID, SUSPECT, INVALID, UNJUDGED = "VALID", "SUSPECT", "INVALID", "not judged"
RUNNING = "running"  # a state, and all that can be said of such a trial


def verdict(row: dict[str, Any]) -> str:
    """What to make of a trial; one that is not complete is invalid, whatever else it is."""
    if row.get("state") == RUNNING:
        return RUNNING
    if row.get("state") != "complete":
        return INVALID
    return str(row.get("verdict") or UNJUDGED)


def counts(row: dict[str, Any]) -> bool:
    """Whether a trial is complete, and no verdict speaks against it; how far it lies from others is no reason."""
    return verdict(row) not in (INVALID, RUNNING)


def valid(row: dict[str, Any]) -> bool:
    """Whether nothing at all speaks against a trial."""
    return verdict(row) == VALID


def known(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    """The values of a column that are known; of rows of trials.csv as of those in memory."""
    return [float(row[name]) for row in rows if row.get(name) not in (None, "")]
