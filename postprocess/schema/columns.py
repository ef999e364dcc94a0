"""How a table is declared: a dataclass for its rows, whose fields are its columns with their units and meanings.

So a column is one field: headers, schema.json and docs/tables.md have it from there, and what computes it, writes it
and reads it back names it as an attribute.
"""

import contextlib
import csv
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast

from tierbench import files, names
from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD, level_text
from tierbench.errors import TierbenchError

R = TypeVar("R", bound="Row")
T = TypeVar("T")

Better = Literal["", "more", "less"]
COLUMNS, MAKE = "columns", "make"
SEPARATOR = "; "
FORMER = {names.SATURATION_CSV: "knee.csv"}  # what a table was called in runs before schema 7, its columns likewise
GONE = ("steady_peak_mbps",)  # columns of earlier versions, which are no axes
PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")  # without exponent, which digests can look like


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a CSV; a field of it is empty where there is no value."""

    name: str
    type: Literal["text", "integer", "number"]
    unit: str
    meaning: str
    decimals: int = 0
    better: Better = ""  # of two values; where that can be said, summary.csv has its mean
    compared: bool = False  # ratios.csv has its ratios
    label: str = ""  # what a figure's axis calls it
    listed: bool = False  # several texts, which its file has in one field
    path: tuple[str, ...] = ()  # where in a row its value is: attributes and keys

    @property
    def shown_unit(self) -> str:
        return "" if self.unit == "1" else self.unit


def text(meaning: str) -> str:
    return cast(str, _single(Column("", "text", "", meaning), default=""))


def texts(meaning: str) -> tuple[str, ...]:
    """A list in the row; in its file, and by the column's name, one text of all, separated by semicolons."""
    return cast("tuple[str, ...]", _single(Column("", "text", "", meaning, listed=True), default=()))


def count(meaning: str, unit: str = "1") -> int | None:
    return cast("int | None", _single(Column("", "integer", unit, meaning), default=None))


def number(
    unit: str, meaning: str, decimals: int = 3, *, better: Better = "", compared: Better = "", label: str = ""
) -> float | None:
    """A column; one that is compared has a better value too."""
    column = Column("", "number", unit, meaning, decimals, better or compared, bool(compared), label)
    return cast("float | None", _single(column, default=None))


rate = functools.partial(number, "Mb/s")


def always(meaning: str) -> int:
    """A number without which there is no row."""
    return cast(int, _single(Column("", "integer", "1", meaning), default=dataclasses.MISSING))


def factor_levels() -> Mapping[str, Any]:
    """The levels of the factors, those that are built in and the run's axes, of which only its header knows."""
    built_in = [
        Column(ACCESS, "text", "", "access method", path=(ACCESS,)),
        Column(WORKLOAD, "text", "", "what the clients did", path=(WORKLOAD,)),
        Column(JOBS, "integer", "1", "number of simultaneous jobs", path=(JOBS,)),
    ]
    return inner(built_in, dict)


def part(of: type[T]) -> T:
    """Columns that are made together, in a dataclass of their own."""
    return inner(places(of).values(), lambda values: of(**values))


def inner(columns: Iterable[Column], make: Callable[[dict[str, Any]], T]) -> T:
    """Columns that are the parts of one value, with their paths in it, and how it is made of them."""
    return dataclasses.field(default_factory=lambda: make({}), metadata={COLUMNS: columns, MAKE: make})


def _single(column: Column, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={COLUMNS: [column]})


def _places(table: Any) -> Mapping[str, Column]:
    """A table's columns in their order, by their names, with their paths in its rows."""
    columns = (
        dataclasses.replace(column, name=column.name or field.name, path=(field.name, *column.path))
        for field in dataclasses.fields(table)
        for column in field.metadata[COLUMNS]
    )
    return {column.name: column for column in columns}


places: Callable[[Any], Mapping[str, Column]] = functools.cache(_places)  # cache alone hides the types of what it calls


def columns_of(table: type[Any], axes: Iterable[Column] = ()) -> tuple[Column, ...]:
    """A table's columns; the experiment's axes stand beside the factors that are built in."""
    columns = list(places(table).values())
    if axes:
        behind = [column.name for column in columns].index(JOBS) + 1
        columns[behind:behind] = axes
    return tuple(columns)


class Row:
    """A row of a table, which lies at a level of each factor."""

    file: ClassVar[str]
    per: ClassVar[str]  # what it has a row of
    levels: Mapping[str, Any]

    @property
    def access(self) -> str:
        return str(self.levels[ACCESS])

    @property
    def workload(self) -> str:
        return str(self.levels[WORKLOAD])

    @property
    def jobs(self) -> int:
        return int(self.levels[JOBS])

    @property
    def point(self) -> dict[str, str]:
        """Its levels as texts."""
        return {factor: level_text(level) for factor, level in self.levels.items()}

    def level(self, factor: str) -> Any:
        """Its level of a factor, or of the pair of two of them."""
        return f"{self.access}/{self.workload}" if factor == PAIR else self.levels[factor]

    def __getitem__(self, column: str) -> Any:
        """The value of a column whose name only a table, a figure or an experiment knows."""
        declared = places(type(self)).get(column)
        value: Any = self
        for step in declared.path if declared else ("levels", column):
            value = value[step] if isinstance(value, Mapping) else getattr(value, step)
        return joined(value) if declared and declared.listed else value


def joined(texts: Iterable[str]) -> str:
    """Texts as a table has them: one with a semicolon in it is one text still."""
    return SEPARATOR.join(text.replace(SEPARATOR, ", ") for text in texts)


def parted(text: str | None) -> tuple[str, ...]:
    """The texts that a table has in one field."""
    return tuple(text.split(SEPARATOR)) if text else ()


def row_of(table: type[R], values: Mapping[str, Any]) -> R:
    """The row with these values, by their columns' names; what is no column of the table is the level of an axis."""
    content: dict[str, Any] = {}
    for name, value in values.items():
        if value is not None:
            column = places(table).get(name)
            value = parted(value) if column and column.listed else value
            *inside, last = column.path if column else ("levels", name)
            part_of = content
            for step in inside:
                part_of = part_of.setdefault(step, {})
            part_of[last] = value
    missing = [name for name in BUILT_IN if name not in content.get("levels", {})]
    for field in dataclasses.fields(table):  # type: ignore[arg-type]  # each is a dataclass
        if MAKE in field.metadata:
            content[field.name] = field.metadata[MAKE](content.get(field.name, {}))
        elif field.name not in content and field.default is dataclasses.MISSING:
            missing.append(field.name)
    if missing:
        raise ValueError(f"a row has no {', '.join(missing)}")
    return table(**content)


def tables_of(rows: type[Row]) -> list[type[Row]]:
    """The tables that have these rows' columns, each a file: those of trials are in several."""
    return [table for table in reversed(rows.__mro__) if issubclass(table, Row) and "file" in vars(table)]


def read_rows(table: type[R], folder: Path, schema: Mapping[str, Any] | None = None) -> list[R]:
    """The rows of a table, by the types that the run's own schema.json gives its columns; none if it is not there."""
    try:
        return [row_of(table, values) for values in plain_rows(table, folder, schema)]
    except ValueError as error:
        raise _unreadable(folder / tables_of(table)[0].file, error) from None


def plain_rows(table: type[Row], folder: Path, schema: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The same, column by column as they stand in their files; those of several files are joined by the trial."""
    types: dict[str, str] = {name: column.type for name, column in places(table).items()}
    rows: dict[Any, dict[str, Any]] = {}
    parts = [part.file for part in tables_of(table)]
    for name in parts:
        described = (schema or {}).get("files", {}).get(name, {}).get("columns", ())
        types |= {column["name"]: column["type"] for column in described}
        if name in FORMER and not (folder / name).exists():
            name = FORMER[name]
        try:
            with contextlib.suppress(FileNotFoundError), files.opened_text(folder / name, newline="") as file:
                for number, line in enumerate(csv.DictReader(file)):
                    key = line["trial"] if len(parts) > 1 else number
                    rows.setdefault(key, {}).update(
                        (name.replace("knee_", "saturation_"), _value(text, types.get(name)))
                        for name, text in line.items()
                        if name is not None and not name.startswith(GONE)  # a line's surplus fields have none
                    )
        except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError) as error:
            raise _unreadable(folder / name, error) from None
    return list(rows.values())


def _unreadable(path: Path, error: Exception) -> TierbenchError:
    return TierbenchError(f"{path}: cannot be read: {error}; `tierbench tables {path.parent}` makes it again")


def _value(text: str | None, kind: str | None) -> Any:
    """A field as what it means: None where it is empty; a column nobody described is a number if it looks like one."""
    if not text:
        return None
    if kind == "text" or (kind is None and not PLAIN_NUMBER.fullmatch(text)):
        return text
    return int(text) if kind == "integer" else float(text)
