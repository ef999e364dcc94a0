"""The rows of a run's tables, read back from its CSVs."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tierbench import files
from tierbench.errors import TierbenchError
from tierbench.postprocess.schema.columns import Row, places, row_of

R = TypeVar("R", bound=Row)

PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")  # without exponent, which digests can look like


def read_rows(table: type[R], path: Path, schema: Mapping[str, Any] | None = None) -> list[R]:
    """The rows of a table, by the types that the run's own schema.json gives its columns; none if it is not there."""
    types: dict[str, str] = {name: place.column.type for name, place in places(table).items()}
    for column in (schema or {}).get("files", {}).get(path.name, {}).get("columns", ()):
        types[column["name"]] = column["type"]
    try:
        return [row_of(table, values) for values in _lines(path, types)]
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise TierbenchError(
            f"{path}: cannot be read: {error}; `tierbench tables {path.parent}` makes it again"
        ) from None


def plain_rows(path: Path, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table, column by column as they stand in its file; none if it is not there."""
    types = {column["name"]: column["type"] for column in schema["files"].get(path.name, {}).get("columns", ())}
    return list(_lines(path, types))


def _lines(path: Path, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError), files.opened_text(path, newline="") as file:
        for line in csv.DictReader(file):
            yield {name: _value(text, types.get(name)) for name, text in line.items()}


def _value(text: str | None, kind: str | None) -> Any:
    """A field as what it means: None where it is empty; a column nobody described is a number if it looks like one."""
    if not text:
        return None
    if kind == "text" or (kind is None and not PLAIN_NUMBER.fullmatch(text)):
        return text
    return int(text) if kind == "integer" else float(text)
