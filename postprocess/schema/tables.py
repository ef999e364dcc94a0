"""The tables of a run: the one source of schema.json and of docs/tables.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tierbench import names
from tierbench.postprocess.schema.columns import Column, Row, columns_of
from tierbench.postprocess.schema.rows import (
    JobRow,
    MainRow,
    ResourceRow,
    SampleRow,
    SamplingRow,
    SlicesRow,
    WorkRow,
)
from tierbench.postprocess.schema.run_rows import KneeRow, RatioRow, ScalingRow, SummaryRow

SCHEMA_VERSION = 7
FILES: dict[str, tuple[str, type[Row]]] = {
    table.file: (thing, table)
    for thing, table in (
        ("trial", MainRow),
        ("trial: its parts", SlicesRow),
        ("trial: how well it was measured", SamplingRow),
        ("trial: its fetches, operations and writes, and caches", WorkRow),
        ("configuration and batch size", SummaryRow),
        ("factor, metric and ordered pair of its levels, all else being equal", RatioRow),
        ("point along the factor of [scaling], if the experiment has such", ScalingRow),
        ("ladder of two batches or more", KneeRow),
        ("trial and resource along its way", ResourceRow),
        ("client", JobRow),
        ("host, interface and sample", SampleRow),
    )
}


def schema(axes: Sequence[Column] = (), further: Sequence[Column] = ()) -> dict[str, Any]:
    """What schema.json says of the CSVs beside it; `further` columns stand at the end of samples.csv."""
    more = {names.SAMPLES_CSV: further}
    files = {
        name: {
            "one_row_per": thing,
            "columns": [
                {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
                for c in (*columns_of(table, axes), *more.get(name, ()))
            ],
        }
        for name, (thing, table) in FILES.items()
    }
    return {"schema_version": SCHEMA_VERSION, "encoding": "utf-8", "missing": "", "files": files}
