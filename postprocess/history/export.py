"""The history as one tidy table: a row for each night, configuration and metric; a night without any has one too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench.errors import UnmetNeed
from tierbench.postprocess.history.queries import Chronicle

COLUMNS = (
    "nightly", "night", "planned_ns", "run", "rerun", "outcome", "reason", "control", "configuration", "metric",
    "mean", "low", "high", "n", "valid", "suspect", "invalid", "environment",
)  # fmt: skip


def rows(known: Chronicle) -> Iterator[tuple[Any, ...]]:
    """The table's rows, in the order of the nights."""
    for night in known.nights:
        own_words = (night.outcome, night.reason, night.control)
        lead = (known.nightly, night.day, night.planned_ns, night.run, night.rerun, *own_words)
        verdicts = {row.configuration: row for row in known.verdicts.get(night.id, [])}
        values = known.values.get(night.id, [])
        for value in values:
            of = verdicts.get(value.configuration)
            counts = (of.valid, of.suspect, of.invalid) if of else (None, None, None)
            own = (value.configuration, value.metric, value.mean, value.low, value.high, value.n)
            yield (*lead, *own, *counts, night.environment)
        measured = {value.configuration for value in values}
        for name, of in verdicts.items():
            if name not in measured:
                none = (None,) * 4
                yield (*lead, name, night.metric, *none, of.valid, of.suspect, of.invalid, night.environment)
        if not verdicts and not values:
            yield (*lead, "", "", *(None,) * 7, night.environment)


def as_csv(known: Chronicle) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows(known))
    return text.getvalue()


def write_parquet(known: Chronicle, path: Path) -> None:
    """The same as Parquet, where pyarrow is installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UnmetNeed(
            f"{path}: Parquet needs pyarrow, which is not installed; `pip install tierbench[parquet]`, or --csv"
        ) from None
    columns = list(zip(*rows(known), strict=True))
    table = pyarrow.table(dict(zip(COLUMNS, map(list, columns), strict=True)))
    parquet.write_table(table, path)
