"""Which trials count: those over which means, intervals and ratios are taken."""

from __future__ import annotations

from collections.abc import Iterable

from tierbench.postprocess.schema.rows import TrialRow

VALID, SUSPECT, INVALID, UNJUDGED = "VALID", "SUSPECT", "INVALID", "not judged"
RUNNING = "running"  # a state, and all that can be said of such a trial


def verdict(row: TrialRow) -> str:
    """What to make of a trial; one that is not complete is invalid, whatever else it is."""
    if row.state == RUNNING:
        return RUNNING
    if row.state != "complete":
        return INVALID
    return row.verdict or UNJUDGED


def counts(row: TrialRow) -> bool:
    """Whether a trial is complete, and no verdict speaks against it; how far it lies from others is no reason."""
    return verdict(row) not in (INVALID, RUNNING)


def valid(row: TrialRow) -> bool:
    """Whether nothing at all speaks against a trial."""
    return verdict(row) == VALID


def values_of(rows: Iterable[TrialRow], column: str) -> list[float]:
    """The values of a column, of the trials that have one."""
    return [row[column] for row in rows if row[column] is not None]
