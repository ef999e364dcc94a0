"""Definitions in TOML: found by name or path, read into frozen dataclasses, all that is wrong reported at once."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tierbench.checked_text import Key, Kind, printable, shown
from tierbench.errors import ConfigError, refuse

T = TypeVar("T")

MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"  # with which some editors begin a file
SHOWN_LETTERS = 200
UNQUOTED = ("Invalid value", "Expected newline", "Illegal character")  # of tomllib's complaints
QUOTES = """a text stands in quotes, '…' around one that has " in it"""
NAMED = "a name (see `tierbench list`), or the path of a TOML file of your own"


def bounded(default: Any, low: float, high: float = math.inf) -> Any:
    """A dataclass field whose number must lie in low … high."""
    return dataclasses.field(default=default, metadata={"bounds": (low, high)})


def derived(default: Any) -> Any:
    """A dataclass field that is worked out from others, and no key of a file."""
    return dataclasses.field(default=default, metadata={"derived": True})


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file, or an error that says where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8").removeprefix(MARK)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; a TOML file is needed") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}; save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}{_mistaken(text, str(error))}") from None


def _mistaken(text: str, complaint: str) -> str:
    """The line that a parser complains of, and what is mostly wrong with such a one."""
    number = re.search(r"at line (\d+)", complaint)
    line = text.splitlines()[int(number[1]) - 1 :][:1] if number else []
    hint = f"; {QUOTES}" if complaint.startswith(UNQUOTED) else ""
    return "".join(f": {printable(mistaken.strip())[:SHOWN_LETTERS]}" for mistaken in line) + hint


def build(cls: type[T], table: Mapping[str, Any], source: str, key: str = "") -> T:
    """Make a `cls` from a TOML table, or raise one ConfigError that names every wrong key."""
    problems: list[str] = []
    value = _dataclass(cls, table, key, problems)
    refuse(problems, source)
    return typing.cast(T, value)


def build_each(classes: Mapping[str, type[T]], tag: str, tables: Any, source: str, key: str) -> dict[str, T]:
    """Each [key.NAME] table as the class that its tag (client, kind) chooses."""
    problems: list[str] = []
    if not isinstance(tables, Mapping) or not tables:
        wrong = f"{tables!r} is no table" if tables else "missing"
        raise ConfigError(f"{source}: {key}: {wrong}; at least one [{key}.NAME] table is needed")
    built = {}
    for name, table in tables.items():
        path = _join(key, printable(name))
        chosen = table.get(tag) if isinstance(table, Mapping) else None
        if chosen is None:
            possible = ", ".join(f'"{name}"' for name in classes)
            problems.append(f"{path}.{tag}: missing; one of {possible} is needed")
        elif not isinstance(chosen, str) or chosen not in classes:
            problems.append(unknown_name(f"{path}.{tag}", str(chosen), classes))
        else:
            built[name] = _dataclass(classes[chosen], table, path, problems)
    refuse(problems, source)
    return built


def _dataclass(cls: Any, table: Any, key: str, problems: list[str]) -> Any:
    if not isinstance(table, Mapping):
        problems.append(f"{key}: must be a table, not {_shown(table)}")
        return None
    fields = {f.name: f for f in dataclasses.fields(cls) if not f.metadata.get("derived")}
    hints = _hints(cls)
    before = len(problems)
    unknown = [name for name in table if name not in fields]
    problems.extend(f"{_join(key, printable(name))}: unknown key{suggestion(name, fields)}" for name in unknown)
    values = {}
    for name, field in fields.items():
        path = _join(key, name)
        if name in table:
            values[name] = _value(hints[name], table[name], path, problems)
            _check_bounds(field, values[name], path, problems)
        elif field.default is field.default_factory is dataclasses.MISSING:
            problems.append(f"{path}: missing; {_expected(hints[name])} is needed")
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except ValueError as error:  # a dataclass' own check across its fields, in __post_init__
        problems.append(f"{key}: {error}" if key else str(error))
        return None


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any, path: str, problems: list[str]) -> Any:
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union([a for a in arguments if a is not type(None)], value, path, problems)  # TOML has no null
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint, value, path, problems)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], v, f"{path}[{i}]", problems) for i, v in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {k: _value(arguments[1], v, _join(path, printable(k)), problems) for k, v in value.items()}
    if origin is typing.Literal and value in arguments:
        return value
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if _is_kind(hint) and type(value) is str:
        return _of_kind(hint, value, path, problems)
    if isinstance(hint, type) and type(value) is hint:
        return value
    hints = suggestion(value, arguments) if origin is typing.Literal else ""
    problems.append(f"{path}: must be {_expected(hint)}, not {_shown(value)}{hints}")
    return None


def _is_kind(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Kind)


def _of_kind(kind: type[Kind], value: str, path: str, problems: list[str]) -> Kind | None:
    try:
        return kind(value)
    except ValueError as error:
        problems.append(f"{path}: {error}")
        return None


def _union(hints: list[Any], value: Any, path: str, problems: list[str]) -> Any:
    """One of X, where the field may also be left out, or of a plain X and a table of its own class or a list of X.

    Or a number, where words may stand in its place.
    """
    tables = [hint for hint in hints if dataclasses.is_dataclass(hint)]
    lists = [hint for hint in hints if typing.get_origin(hint) is tuple]
    if lists and isinstance(value, list):
        return _value(lists[0], value, path, problems)
    plain = [hint for hint in hints if hint not in tables]
    if plain and tables and not isinstance(value, Mapping) and type(value) is not _type(plain[0]):
        problems.append(f"{path}: must be {_expected(plain[0])} or {_expected(tables[0])}, not {_shown(value)}")
        return None
    if float in plain and len(plain) > 1:
        if type(value) in (int, float):
            return _value(float, value, path, problems)
        if value not in typing.get_args(plain[0]):
            problems.append(f"{path}: must be {_expected(plain[0])} or {_expected(float)}, not {_shown(value)}")
            return None
    chosen = tables if tables and (isinstance(value, Mapping) or not plain) else plain
    return _value(chosen[0], value, path, problems)


def _type(hint: Any) -> Any:
    """The type that TOML has for what is no table."""
    return str if _is_kind(hint) or typing.get_origin(hint) is typing.Literal else hint


def _check_bounds(field: dataclasses.Field[Any], value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, (int, float)) and "bounds" in field.metadata:
        low, high = field.metadata["bounds"]
        if not low <= value <= high:
            limits = f"at least {low}" if high == math.inf else f"in {low} … {high}"
            limits = f"at most {high}" if low == -math.inf else limits
            problems.append(f"{path}: must be {limits}, not {value}")


def _expected(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(f'"{a}"' for a in arguments)
    if origin is tuple:
        return "a list"
    if origin is dict or dataclasses.is_dataclass(hint):
        return "a table"
    if _is_kind(hint):
        return str(hint.must_be)
    words = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
    return words.get(hint, str(hint))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return shown(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def suggestion(word: object, possible: typing.Iterable[object]) -> str:
    """What was probably meant, as an appendix to a complaint; or else all that is possible."""
    names = [printable(str(k)) for k in possible]
    return meant(word, names) or (f" (possible: {', '.join(names)})" if names else "")


def meant(word: object, names: typing.Sequence[str]) -> str:
    """What was probably meant, if one of the names looks like it."""
    close = difflib.get_close_matches(str(word), names, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def find_definition(kind: str, folder: Path, name_or_path: str) -> Path:
    """The file that comes with tierbench under this name; what looks like a path is one."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    possible = shipped_definitions(folder)
    if name_or_path not in possible:
        raise ConfigError(
            f'there is no {kind} "{name_or_path}"{suggestion(name_or_path, possible)};'
            " a file of your own is given by its path"
        )
    return folder / f"{name_or_path}.toml"


def shipped_definitions(folder: Path) -> list[str]:
    """The names of the definitions in a folder of the package; what lies beside one has a dot in its name."""
    return sorted(path.stem for path in folder.glob("*.toml") if "." not in path.stem)


def misnamed(key: str, names: Iterable[str]) -> Iterator[str]:
    """What is wrong with names that have to serve in file names, DAG nodes and CSV columns."""
    for name in names:
        if not Key.fits(name):
            yield f"{key}.{printable(name)}: must be {Key.must_be}"


def unknown_name(key: str, name: str, possible: Iterable[str]) -> str:
    """What is wrong with a reference to something that is not there."""
    return f"{key}: there is no {shown(name)}{suggestion(name, possible)}"
