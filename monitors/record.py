"""A record: the values of all sources on one line, each in its column's width."""

import argparse
from typing import Any

from tierbench.monitors.sources import SOURCES
from tierbench.monitors.tuning import tuning


class Records:
    """What is read for each record, and said of it in the header."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sources = [source(options) for source in SOURCES]
        self.columns = [column for source in self.sources for column in source.columns]
        self.format = "".join(f" %{column.width}d" for column in self.columns).encode() + b"\n"
        self.bytes = sum(1 + column.width for column in self.columns) + 1

    def header(self) -> "dict[str, Any]":
        """The columns, and what the sources say of themselves."""
        columns = [
            dict(column._asdict(), source=type(source).__name__.lower())
            for source in self.sources
            for column in source.columns
        ]
        content = {"columns": columns, "record_bytes": self.bytes}  # type: dict[str, Any]
        for source in self.sources:
            content.update(source.header())
        content["tuning"] = tuning(self.options.proc, self.options.sys, content["interfaces"][0]["name"])
        return content

    def look(self) -> "list[Any]":
        """What each source sees now."""
        return [source.look() for source in self.sources]

    def record(self, seen: "list[Any]") -> bytes:
        """The record of what they saw."""
        values = ()  # type: tuple[int, ...]
        for source, look in zip(self.sources, seen):  # noqa: B905 - Python 3.6 cannot be strict
            values += source.values(look)
        record = self.format % values
        if len(record) != self.bytes:  # a driver's nonsense must not shift the columns
            fits = [len(str(value)) <= self.columns[i].width for i, value in enumerate(values)]
            record = self.format % tuple(value if fits[i] else -1 for i, value in enumerate(values))
        return record
