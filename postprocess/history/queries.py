"""What is read from the history, as typed rows in the order of the nights."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeVar

from tierbench.errors import ConfigError
from tierbench.postprocess.history.rows import (
    MEASURED,
    Acknowledgement,
    Environment,
    Link,
    Message,
    Night,
    Value,
    Verdicts,
)
from tierbench.postprocess.history.store import History

T = TypeVar("T")

ORDER = "ORDER BY planned_ns, rerun, run"


@dataclass(frozen=True)
class Chronicle:
    """All that is known of a nightly: its nights in order, and by their ids what they measured."""

    nightly: str
    nights: list[Night]
    values: dict[int, list[Value]]
    verdicts: dict[int, list[Verdicts]]
    links: dict[int, list[Link]]
    environments: dict[str, Environment]  # by their digests
    acknowledgements: list[Acknowledgement]

    @property
    def measured(self) -> list[Night]:
        return [night for night in self.nights if night.outcome == MEASURED]

    @cached_property
    def metric(self) -> str:
        """What is watched: what the latest night goes by, of all nights, so that like is held against like."""
        return self.measured[-1].metric if self.measured else ""

    @property
    def configurations(self) -> list[str]:
        """Each that was ever measured by what is watched, in the order in which they came."""
        return list(
            dict.fromkeys(
                value.configuration
                for night in self.measured
                for value in self.values.get(night.id, [])
                if value.metric == self.metric
            )
        )

    def value(self, night: Night, configuration: str, metric: str = "") -> Value | None:
        """What a night measured of a configuration, by what is watched or another metric."""
        wanted = (configuration, metric or self.metric)
        of_night = self.values.get(night.id, [])
        return next((value for value in of_night if (value.configuration, value.metric) == wanted), None)

    def environment(self, night: Night) -> Environment:
        return self.environments.get(night.environment, {})


def nightlies(history: History) -> list[str]:
    """All nightlies that have a night."""
    return [name for (name,) in history.rows("SELECT DISTINCT nightly FROM night ORDER BY nightly")]


def nights(history: History, nightly: str) -> list[Night]:
    """A nightly's nights in order; a rerun comes behind what it is to confirm."""
    return _made(history, Night, "night", f"WHERE nightly = ? {ORDER}", nightly)


def chronicle(history: History, nightly: str, watched: bool = False) -> Chronicle:
    """All of a nightly, or its watched values alone, which is much less; a name that nobody knows is told."""
    mine = nights(history, nightly)
    if not mine:
        names = ", ".join(nightlies(history)) or "none yet"
        raise ConfigError(f"{history.path}: has no nights of {nightly!r}; it has: {names}")
    metric = next((night.metric for night in reversed(mine) if night.outcome == MEASURED), "")
    return Chronicle(
        nightly,
        mine,
        _by_night(history, Value, "value", nightly, *(["metric", metric] if watched else [])),
        _by_night(history, Verdicts, "verdicts", nightly),
        {} if watched else _by_night(history, Link, "link", nightly),
        {} if watched else _environments(history, nightly),
        acknowledgements(history, nightly),
    )


def acknowledgements(history: History, nightly: str) -> list[Acknowledgement]:
    return _made(history, Acknowledgement, "acknowledgement", "WHERE nightly = ? ORDER BY since_ns", nightly)


def messages(history: History, nightly: str) -> list[Message]:
    """What was sent, the latest last."""
    return _made(history, Message, "message", "WHERE nightly = ? ORDER BY id", nightly)


def _made(history: History, kind: type[T], table: str, which: str, *values: object) -> list[T]:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # each is a dataclass
    columns = ", ".join(f'"{name}"' for name in names)
    flags = [names.index(name) for name in ("rerun", "accepted", "delivered") if name in names]
    found = history.rows(f"SELECT {columns} FROM {table} {which}", *values)  # noqa: S608
    return [kind(*(bool(cell) if place in flags else cell for place, cell in enumerate(row))) for row in found]


def _by_night(history: History, kind: type[T], table: str, nightly: str, *only: str) -> dict[int, list[T]]:
    columns = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]  # each is a dataclass
    found: dict[int, list[T]] = defaultdict(list)
    own = "night IN (SELECT id FROM night WHERE nightly = ?)" + (f" AND {only[0]} = ?" if only else "")  # noqa: S608
    statement = f"SELECT night, {columns} FROM {table} WHERE {own} ORDER BY night"  # noqa: S608
    for number, *content in history.rows(statement, nightly, *only[1:]):
        found[number].append(kind(*content))
    return dict(found)


def _environments(history: History, nightly: str) -> dict[str, Environment]:
    found: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    statement = (
        "SELECT digest, host, setting, value FROM environment"
        " WHERE digest IN (SELECT environment FROM night WHERE nightly = ?)"
    )
    for of, host, setting, value in history.rows(statement, nightly):
        found[of][host, setting] = value
    return dict(found)
