"""A run's tables as Parquet, with the types that schema.json gives their columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench import json_files, names
from tierbench.errors import TierbenchError, UnmetNeed

ARROW_TYPES = {"integer": "int64", "number": "float64", "text": "string"}


def arrow(instead: str) -> Any:
    """pyarrow, which is optional; `instead` is what does without it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise UnmetNeed(
            f"Parquet needs pyarrow, which is not installed; `pip install tierbench[parquet]`, or {instead}"
        ) from None
    return pyarrow


def write_tables(run: Path) -> Iterator[Path]:
    """Write each CSV of a run as Parquet beside it."""
    pyarrow = arrow("use the CSVs")
    schema = json_files.read_table(run / names.SCHEMA)["files"]
    for table in (name for name in schema if (run / name).is_file()):
        types = {
            column["name"]: pyarrow.type_for_alias(ARROW_TYPES[column["type"]]) for column in schema[table]["columns"]
        }
        options = pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
        path = (run / table).with_suffix(".parquet")
        try:
            content = pyarrow.csv.read_csv(run / table, convert_options=options)
            pyarrow.parquet.write_table(content, path)
        except (OSError, pyarrow.ArrowException) as error:
            raise TierbenchError(
                f"{path}: cannot be written: {error}; is there room, and may you write there?"
            ) from None
        yield path
