"""The database of the history, and what is written to it: each call is one transaction, whole or not at all.

Any number of processes may write: SQLite lets one at a time, the others wait for it up to WAIT_S. A process that is
killed leaves what it had committed and nothing else.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tierbench.errors import BusyError, ConfigError, TierbenchError
from tierbench.postprocess.history.rows import Acknowledgement, Environment, Measured, Message, Night
from tierbench.postprocess.history.schema import MIGRATIONS, VERSION

PLACE = "TIERBENCH_HISTORY"  # in the environment: where the database is
WAIT_S = 60.0

OF_NIGHT = [field.name for field in fields(Night) if field.name != "id"]
KEY = ("nightly", "planned_ns", "run")
SAME_TIME = "nightly = ? AND planned_ns = ?"


class DamagedHistory(TierbenchError):
    """The database is none any more; it can be made again from the run directories."""


def default_place() -> Path:
    """Where the history is unless somebody says so."""
    return Path(os.environ.get(PLACE) or Path.home() / ".local/share/tierbench/history.sqlite")


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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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
        return int(self.database.execute("PRAGMA user_version").fetchone()[0])

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
        if not night.run:
            ran = self._number(night, "run != ''")
            if ran:  # so it was not missed
                return ran
        else:
            self.database.execute(f"DELETE FROM night WHERE {SAME_TIME} AND run = ''", _time(night))  # noqa: S608
        content = {name: getattr(night, name) for name in OF_NIGHT}
        content["rerun"] = int(night.rerun)
        if measured:
            content["environment"] = digest(measured.environment)
        kept = [name for name in OF_NIGHT if name not in KEY and (measured or name != "environment")]
        self.database.execute(
            f"INSERT INTO night ({', '.join(content)}) VALUES ({', '.join('?' * len(content))})"  # noqa: S608
            f" ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in kept)}",
            list(content.values()),
        )
        return self._number(night, "run = ?", night.run)

    def _number(self, night: Night, which: str, *values: str) -> int:
        statement = f"SELECT id FROM night WHERE {SAME_TIME} AND {which} ORDER BY id LIMIT 1"  # noqa: S608
        found = self.database.execute(statement, [*_time(night), *values]).fetchone()
        return int(found[0]) if found else 0

    def _fill(self, night: int, measured: Measured) -> None:
        for table, rows in (("value", measured.values), ("verdicts", measured.verdicts), ("link", measured.links)):
            self.database.execute(f"DELETE FROM {table} WHERE night = ?", [night])  # noqa: S608
            for row in rows:
                content = (night, *astuple(row))
                self.database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(content))})", content)  # noqa: S608
        of = digest(measured.environment)
        for (host, setting), value in measured.environment.items():
            self.database.execute("INSERT OR IGNORE INTO environment VALUES (?, ?, ?, ?)", [of, host, setting, value])

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        with self.transaction():
            self.database.execute(
                "INSERT OR REPLACE INTO acknowledgement VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(acknowledgement)
            )

    def note_message(self, message: Message) -> None:
        with self.transaction():
            names = [field.name for field in fields(message)]
            self.database.execute(
                f"INSERT INTO message ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608
                astuple(message),
            )

    def forget(self, nightly: str) -> None:
        """All nights of a nightly; what was acknowledged and sent stays."""
        with self.transaction():
            self.database.execute("DELETE FROM night WHERE nightly = ?", [nightly])


def _time(night: Night) -> list[str | int]:
    return [night.nightly, night.planned_ns]


def digest(environment: Environment) -> str:
    """Letters that are the same for the same settings; none for none."""
    told = "\n".join(f"{host}\t{setting}\t{value}" for (host, setting), value in sorted(environment.items()))
    return sha256(told.encode()).hexdigest()[:16] if told else ""
