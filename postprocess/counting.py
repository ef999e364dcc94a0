"""Which trials count: those over which means, intervals and ratios are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def counts(row: dict[str, Any]) -> bool:
    """Whether a trial is complete, and no verdict speaks against it; how far it lies from others is no reason."""
    return row["state"] == "complete" and row.get("verdict") != "INVALID"


def known(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    """The values of a column that are known; of rows of trials.csv as of those in memory."""
    return [float(row[name]) for row in rows if row.get(name) not in (None, "")]
