"""The history as one tidy table: a row for each night, configuration and metric; a night without any has one too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench.errors import TierbenchError
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.tables.write import arrow, no_formula

TEXT, WHOLE, REAL, TRUTH = "string", "int64", "float64", "bool"  # as Arrow calls them
COLUMNS = {
    "nightly": TEXT, "night": TEXT, "planned_ns": WHOLE, "run": TEXT, "rerun": TRUTH, "outcome": TEXT, "reason": TEXT,
    "control": TEXT, "configuration": TEXT, "metric": TEXT, "mean": REAL, "low": REAL, "high": REAL, "n": WHOLE,
    "valid": WHOLE, "suspect": WHOLE, "invalid": WHOLE, "environment": TEXT,
}  # fmt: skip


def rows(chronicle: Chronicle) -> Iterator[tuple[Any, ...]]:
    """The table's rows, in the order of the nights."""
    for night in chronicle.nights:
        own_words = (night.outcome, night.reason, night.control)
        lead = (chronicle.nightly, night.day, night.planned_ns, night.run, night.rerun, *own_words)
        verdicts = {row.configuration: row for row in chronicle.verdicts.get(night.id, [])}
        values = chronicle.values.get(night.id, [])
        cells: list[tuple[Any, ...]] = [(v.configuration, v.metric, v.mean, v.low, v.high, v.n) for v in values]
        without = verdicts.keys() - {value.configuration for value in values}
        cells += [(name, night.metric, *(None,) * 4) for name in verdicts if name in without]
        for own in cells or [("", "", *(None,) * 4)]:
            of = verdicts.get(own[0])
            counts = (of.valid, of.suspect, of.invalid) if of else (None, None, None)
            yield (*lead, *own, *counts, night.environment)


def as_csv(chronicle: Chronicle) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([no_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows(chronicle))
    return text.getvalue()


def write_parquet(chronicle: Chronicle, path: Path) -> None:
    """The same as Parquet, where pyarrow is installed; each column is of its type, also where nothing was measured."""
    pyarrow = arrow("--csv")
    types = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    content = [dict(zip(COLUMNS, row, strict=True)) for row in rows(chronicle)]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content, schema=types), path)
    except OSError as error:
        raise TierbenchError(f"{error}; is there room, and may you write there?") from None
