"""The tables of a run: the one source of schema.json and of docs/tables.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tierbench import names
from tierbench.postprocess.schema.columns import Column, Row, columns_of
from tierbench.postprocess.schema.rows import JobRow, ResourceRow, SampleRow, TrialRow
from tierbench.postprocess.schema.run_rows import KneeRow, RatioRow, ScalingRow, SummaryRow

SCHEMA_VERSION = 6
FILES: dict[str, tuple[str, type[Row]]] = {
    names.SAMPLES_CSV: ("host, interface and sample", SampleRow),
    names.JOBS_CSV: ("client", JobRow),
    names.TRIALS_CSV: ("trial", TrialRow),
    names.RESOURCES_CSV: ("trial and resource along its way", ResourceRow),
    names.SUMMARY_CSV: ("configuration and batch size", SummaryRow),
    names.RATIOS_CSV: ("factor, metric and ordered pair of its levels, all else being equal", RatioRow),
    names.SCALING_CSV: ("point along the factor of [scaling], if the experiment has such", ScalingRow),
    names.KNEE_CSV: ("ladder of two batches or more", KneeRow),
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
