"""The database of the history: its tables, what is written and what is read; docs/nightly.md explains them."""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar

from tierbench.checked_text import shown
from tierbench.errors import BusyError, ConfigError, TierbenchError
from tierbench.host import MOUNTS, mount_of
from tierbench.postprocess.compare.differences import Environment, Link
from tierbench.postprocess.history.rows import MEASURED, Acknowledgement, Measured, Night, Value, Verdicts

TABLES = """
CREATE TABLE night (
    id INTEGER PRIMARY KEY,
    nightly TEXT NOT NULL,
    planned_ns INTEGER NOT NULL,
    run TEXT NOT NULL DEFAULT '',
    directory TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'missed', 'running', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    rerun INTEGER NOT NULL DEFAULT 0,
    started_ns INTEGER,
    ended_ns INTEGER,
    control TEXT NOT NULL DEFAULT '',
    metric TEXT NOT NULL DEFAULT '',
    unit TEXT NOT NULL DEFAULT '',
    environment TEXT NOT NULL DEFAULT '',
    UNIQUE (nightly, planned_ns, run)
);
CREATE TABLE value (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    configuration TEXT NOT NULL,
    metric TEXT NOT NULL,
    mean REAL NOT NULL,
    low REAL,
    high REAL,
    n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (night, configuration, metric)
) WITHOUT ROWID;
CREATE INDEX value_of ON value (configuration, metric);
CREATE TABLE verdicts (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    configuration TEXT NOT NULL,
    valid INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    invalid INTEGER NOT NULL,
    PRIMARY KEY (night, configuration)
) WITHOUT ROWID;
CREATE TABLE link (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    line TEXT NOT NULL,
    mbps REAL,
    rtt_ms REAL,
    PRIMARY KEY (night, line)
) WITHOUT ROWID;
CREATE TABLE environment (
    digest TEXT NOT NULL,
    host TEXT NOT NULL,
    setting TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (digest, host, setting)
) WITHOUT ROWID;
CREATE TABLE acknowledgement (
    nightly TEXT NOT NULL,
    configuration TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    "by" TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    accepted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (nightly, configuration, since_ns)
) WITHOUT ROWID;
"""

# Each makes a database of one version into one of the next; never changed once it has been released.
MIGRATIONS = (TABLES,)
VERSION = len(MIGRATIONS)


PLACE = "TIERBENCH_HISTORY"  # in the environment: where the database is
WAIT_S = 60.0

OF_NIGHT = [field.name for field in fields(Night) if field.name != "id"]
KEY = ("nightly", "planned_ns", "run")


class DamagedHistory(TierbenchError):
    """The database is none any more; it can be made again from the run directories."""


def default_place() -> Path:
    """Where the history is unless somebody says so."""
    return Path(os.environ.get(PLACE) or Path.home() / ".local/share/tierbench/history.sqlite")


def network_file_system(path: Path, table: str = MOUNTS) -> str:
    """The type of the network file system that a file is on, or nothing: SQLite's locks do not hold on every one."""
    mount = mount_of(path, table)
    return mount.kind if mount.by_network else ""


def doubt_of_place(path: Path) -> str:
    """What is to be said of where a history is, or nothing."""
    kind = network_file_system(path)
    return f"the history {path} is on {kind}, where SQLite's locks may fail; {PLACE} puts it elsewhere" if kind else ""


class History:
    """An open database; `with History(path) as history`."""

    def __init__(self, path: Path | None = None, wait_s: float = WAIT_S) -> None:
        self.path = path or default_place()
        self._wait_s = wait_s
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(self.path, timeout=wait_s, isolation_level=None)
        try:
            with self._explained():
                self._prepare()
        except BaseException:
            self.database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def _prepare(self) -> None:
        self.database.execute("PRAGMA foreign_keys = ON")
        version = self._version()
        with suppress(sqlite3.OperationalError):  # another process is at it, or this user may only read
            if self.rows("PRAGMA journal_mode") == [("wal",)]:  # which who may only read cannot
                self.database.execute("PRAGMA journal_mode = DELETE")
        if version == VERSION:
            return
        if version > VERSION:
            raise ConfigError(
                f"{self.path}: is of version {version}, and this tierbench knows up to {VERSION}; use a newer tierbench"
            )
        with self.transaction():
            for script in MIGRATIONS[self._version() :]:  # asked again: another process may have been faster
                for statement in filter(str.strip, script.split(";")):
                    self.database.execute(statement)
            self.database.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        return int(self.rows("PRAGMA user_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within is there in the end, or nothing of it."""
        with self._explained():
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.database.execute("ROLLBACK")
                raise
            self.database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite says, as what to do about it."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise BusyError(
                    f"{self.path}: another program has been writing to it for {self._wait_s:.0f} s;"
                    " `fuser` says which one"
                ) from None
            raise TierbenchError(
                f"{self.path}: {error}; is there room, and may you write there? {PLACE} puts it elsewhere"
            ) from None
        except sqlite3.DatabaseError as error:
            raise DamagedHistory(
                f"{self.path}: is damaged ({error}); `tierbench history rebuild` puts it aside and makes it again"
            ) from None
        except OSError as error:
            raise TierbenchError(f"{error.filename}: {error.strerror}; {PLACE} puts the history elsewhere") from None

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._explained():
            return self.database.execute(statement, values).fetchall()

    # -- what is written -----------------------------------------------------------------------------------

    def record(self, night: Night, measured: Measured | None = None) -> int:
        """A night, in place of what was there of it; with what it measured, or leaving that as it is. Returns its id.

        What was said of a night while it had no run, such as that it was missed, gives way to its run.
        """
        with self.transaction():
            number = self._put(night, measured)
            if measured:
                self._fill(number, measured)
        return number

    def _put(self, night: Night, measured: Measured | None) -> int:
        same_time, time = "nightly = ? AND planned_ns = ?", [night.nightly, night.planned_ns]

        def number(which: str, *values: str) -> int:
            statement = f"SELECT id FROM night WHERE {same_time} AND {which} ORDER BY id LIMIT 1"  # noqa: S608
            row = self.database.execute(statement, [*time, *values]).fetchone()
            return int(row[0]) if row else 0

        if night.run:
            self.database.execute(f"DELETE FROM night WHERE {same_time} AND run = ''", time)  # noqa: S608
        elif ran := number("run != ''"):  # so it was not missed
            return ran
        content = {name: getattr(night, name) for name in OF_NIGHT}
        if measured:
            content["environment"] = digest(measured.environment)
        new = [name for name in OF_NIGHT if name not in KEY and (measured or name != "environment")]
        conflict = (
            f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in new)}"
        )
        self._insert("night", content, conflict)
        return number("run = ?", night.run)

    def _insert(self, table: str, content: dict[str, Any], conflict: str = "", verb: str = "INSERT") -> None:
        names, marks = ", ".join(f'"{name}"' for name in content), ", ".join("?" * len(content))
        statement = f"{verb} INTO {table} ({names}) VALUES ({marks}) {conflict}"
        self.database.execute(statement, list(content.values()))

    def _fill(self, night: int, measured: Measured) -> None:
        for table, rows in (("value", measured.values), ("verdicts", measured.verdicts), ("link", measured.links)):
            self.database.execute(f"DELETE FROM {table} WHERE night = ?", [night])  # noqa: S608
            for row in rows:
                self._insert(table, {"night": night, **asdict(row)})
        of = digest(measured.environment)
        for (host, setting), value in measured.environment.items():
            setting_row = {"digest": of, "host": host, "setting": setting, "value": value}
            self._insert("environment", setting_row, verb="INSERT OR IGNORE")

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        with self.transaction():
            self._insert("acknowledgement", asdict(acknowledgement), verb="INSERT OR REPLACE")


def digest(environment: Environment) -> str:
    """Letters that are the same for the same settings; none for none."""
    lines = "\n".join(f"{host}\t{setting}\t{value}" for (host, setting), value in sorted(environment.items()))
    return sha256(lines.encode()).hexdigest()[:16] if lines else ""


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

    @property
    def latest(self) -> Night | None:
        """The last night that measured all of it, and no rerun some."""
        return next((night for night in reversed(self.measured) if not night.rerun), None)

    @property
    def count(self) -> int:
        """How many nights it measured; a rerun is of the same one."""
        return len({night.planned_ns for night in self.measured})

    @cached_property
    def metric(self) -> str:
        """What is watched: what the last night goes by, of all nights, so that like is held against like."""
        return self.latest.metric if self.latest else ""

    @property
    def unit(self) -> str:
        return self.latest.unit if self.latest else ""

    @property
    def configurations(self) -> list[str]:
        """Each that was ever measured by what is watched, in the order in which they came."""
        values = (value for night in self.measured for value in self.values.get(night.id, []))
        return list(dict.fromkeys(value.configuration for value in values if value.metric == self.metric))

    @property
    def control(self) -> str:
        """The reference configuration of the latest night that has one."""
        return next((night.control for night in reversed(self.measured) if night.control), "")

    def acknowledgements_of(self, *configurations: str) -> list[Acknowledgement]:
        return [ack for ack in self.acknowledgements if ack.configuration in configurations]

    def value(self, night: Night, configuration: str, metric: str = "") -> Value | None:
        """What a night measured of a configuration, by what is watched or another metric."""
        wanted = (configuration, metric or self.metric)
        of_night = self.values.get(night.id, [])
        return next((value for value in of_night if (value.configuration, value.metric) == wanted), None)

    def counts(self, night: Night) -> dict[str, Verdicts]:
        """By configuration how many trials of a night had which verdict."""
        return {row.configuration: row for row in self.verdicts.get(night.id, [])}

    def before(self, night: Night) -> Night | None:
        return next((earlier for earlier in reversed(self.measured) if earlier.planned_ns < night.planned_ns), None)

    def environment(self, night: Night) -> Environment:
        return self.environments.get(night.environment, {})


def nightlies(history: History) -> list[str]:
    return [name for (name,) in history.rows("SELECT DISTINCT nightly FROM night ORDER BY nightly")]


def nights(history: History, nightly: str) -> list[Night]:
    """A nightly's nights in order; a rerun comes behind what it is to confirm."""
    return [night for _, night in _read(history, Night, "night", f"WHERE nightly = ? {ORDER}", nightly)]


def chronicle(history: History, nightly: str, watched: bool = False) -> Chronicle:
    """All of a nightly, or its watched values alone, which is much less; an unknown name is refused."""
    mine = nights(history, nightly)
    if not mine:
        names = ", ".join(nightlies(history)) or "none yet"
        raise ConfigError(f"{history.path}: has no nights of {shown(nightly)}; it has: {names}")
    metric = next((night.metric for night in reversed(mine) if night.outcome == MEASURED and not night.rerun), "")
    own = "WHERE nightly = ? ORDER BY since_ns"
    return Chronicle(
        nightly,
        mine,
        _by_night(history, Value, "value", nightly, *([metric] if watched else [])),
        _by_night(history, Verdicts, "verdicts", nightly),
        {} if watched else _by_night(history, Link, "link", nightly),
        {} if watched else _environments(history, nightly),
        [acknowledgement for _, acknowledgement in _read(history, Acknowledgement, "acknowledgement", own, nightly)],
    )


def _read(
    history: History, kind: type[T], table: str, which: str, *values: object, by: str = "NULL"
) -> Iterator[tuple[Any, T]]:
    """The rows of a table, each with its value of another column."""
    columns = fields(kind)  # type: ignore[arg-type]  # each is a dataclass
    named = ", ".join(f'"{column.name}"' for column in columns)
    for key, *cells in history.rows(f"SELECT {by}, {named} FROM {table} {which}", *values):  # noqa: S608
        flags = (column.type is bool for column in columns)
        yield key, kind(*(bool(cell) if flag else cell for cell, flag in zip(cells, flags, strict=True)))


def _by_night(history: History, kind: type[T], table: str, nightly: str, *metric: str) -> dict[int, list[T]]:
    by_night: dict[int, list[T]] = defaultdict(list)
    own = "WHERE night IN (SELECT id FROM night WHERE nightly = ?)" + (" AND metric = ?" if metric else "")  # noqa: S608
    for night, row in _read(history, kind, table, f"{own} ORDER BY night", nightly, *metric, by="night"):
        by_night[night].append(row)
    return dict(by_night)


def _environments(history: History, nightly: str) -> dict[str, Environment]:
    settings: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    statement = (
        "SELECT digest, host, setting, value FROM environment"
        " WHERE digest IN (SELECT environment FROM night WHERE nightly = ?)"
    )
    for of, host, setting, value in history.rows(statement, nightly):
        settings[of][host, setting] = value
    return dict(settings)
