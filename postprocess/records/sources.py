"""What the columns of a sample file are: as its header says, whichever part of the sampler reads them.

Headers of the first samplers say only their names; what those are is said where the sampler's own sources are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierbench.monitors.sources import SOURCES
from tierbench.postprocess.records.samples import plain

TICKS = "jiffies"


@dataclass(frozen=True)
class Described:
    """A column: its plain name, and what it is by its source."""

    name: str
    unit: str
    kind: str
    scope: str
    source: str


OURS = {
    column.name: Described(column.name, column.unit, column.kind, column.scope, source.__name__.lower())
    for source in SOURCES
    for column in source.columns
}


def described(header: Mapping[str, Any]) -> dict[str, Described]:
    """The columns of a file by their plain names; one of which nothing is known is left out."""
    found: dict[str, Described] = {}
    for column in header["columns"]:
        name = plain(column["name"])
        if "source" in column:
            found[name] = Described(name, *(str(column.get(key, "")) for key in ("unit", "kind", "scope", "source")))
        elif name in OURS:
            found[name] = OURS[name]
    return found


def counters(header: Mapping[str, Any]) -> dict[str, list[str]]:
    """The counters of each source, which can only begin anew together."""
    found: dict[str, list[str]] = defaultdict(list)
    for column in described(header).values():
        if column.kind == "counter":
            found[column.source].append(column.name)
    return found


def ticks(header: Mapping[str, Any]) -> set[str]:
    """Counters that the kernel works out afresh each time, so that they may fall by a tick."""
    return {column.name for column in described(header).values() if column.unit == TICKS}
