"""Definitions in TOML: found by name or path, read into frozen dataclasses, all that is wrong reported at once."""

import dataclasses
import difflib
import functools
import json
import math
import re
import sys
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
TABLES = (dict, Mapping)
UNQUOTED = ("Invalid value", "Expected newline", "Illegal character")  # of tomllib's complaints
QUOTES = """a text stands in quotes, '…' around one that has " in it"""
NAMED = "a name (see `tierbench list`), or the path of a TOML file of your own"


def bounded(default: Any, low: float, high: float = math.inf) -> Any:
    """A dataclass field whose number must lie in low … high."""
    return dataclasses.field(default=default, metadata={"bounds": (low, high)})


def derived(default: Any) -> Any:
    """A dataclass field that is worked out from others, and no key of a file."""
    return dataclasses.field(default=default, metadata={"derived": True})


class Checked:
    """A dataclass whose values have to go together: `problems` says what of them does not, each by its key."""

    def __post_init__(self) -> None:
        if problems := list(self.problems()):
            raise ValueError("; ".join(problems))

    def problems(self) -> Iterator[str]:
        raise NotImplementedError


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


def merge_tables(base: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; all else in the variant replaces what the base says."""
    merged = dict(base)
    for key, value in variant.items():
        below = merged.get(key)
        merged[key] = merge_tables(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def build(cls: type[T], table: Mapping[str, Any], source: str, key: str = "") -> T:
    """Make a `cls` from a TOML table, or raise one ConfigError that names every wrong key."""
    reading = Reading(strict=True)
    value = reading.record(cls, table, key)
    refuse(reading.problems, source)
    return typing.cast(T, value)


def build_each(classes: Mapping[str, type[T]], tag: str, tables: Any, source: str, key: str) -> dict[str, T]:
    """Each [key.NAME] table as the class that its tag (client, kind) chooses."""
    if not isinstance(tables, Mapping) or not tables:
        wrong = f"{tables!r} is no table" if tables else "missing"
        raise ConfigError(f"{source}: {key}: {wrong}; at least one [{key}.NAME] table is needed")
    reading, built = Reading(strict=True), {}
    for name, table in tables.items():
        path = _join(key, printable(name))
        chosen = table.get(tag) if isinstance(table, Mapping) else None
        reading.value(Key, name, path)
        if chosen is None:
            possible = ", ".join(f'"{name}"' for name in classes)
            reading.problems.append(f"{path}.{tag}: missing; one of {possible} is needed")
        elif not isinstance(chosen, str) or chosen not in classes:
            reading.problems.append(unknown_name(f"{path}.{tag}", str(chosen), classes))
        else:
            built[name] = reading.record(classes[chosen], table, path)
    refuse(reading.problems, source)
    return built


class Reading:
    """Makes what a type says of the content of a file, and collects what is wrong with it, each by its key.

    A definition, of TOML, has no key that its dataclass has not. What a program has left, in JSON, may have others; a
    TypedDict and a whole number in place of another one stay there what they are.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict, self.problems = strict, []  # type: bool, list[str]

    def record(self, cls: Any, table: Any, key: str) -> Any:
        if not isinstance(table, Mapping):
            self.problems.append(f"{key or 'it'}: must be a table, not {_shown(table)}")
            return None
        hints, required, bounds = _fields(cls)
        problems_before = len(self.problems)
        for name in table if self.strict else ():
            if name not in hints:
                self.problems.append(f"{_join(key, printable(name))}: unknown key{suggestion(name, hints)}")
        present = [name for name in hints if name in table]
        values = {name: self.value(hints[name], table[name], _join(key, name)) for name in present}
        for name in required:
            if name not in values:
                self.problems.append(f"{_join(key, name)}: missing; {_expected(hints[name])} is needed")
        for name in bounds.keys() & values.keys():
            self._check_bounds(*bounds[name], values[name], _join(key, name))
        if typing.is_typeddict(cls) or len(self.problems) > problems_before:
            return table
        try:
            return cls(**values)
        except ValueError as error:  # a dataclass' own check across its fields, in __post_init__
            self.problems.append(f"{key}: {error}" if key else str(error))
            return None

    def value(self, hint: Any, value: Any, path: str) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            hint = arguments[1]
        if hint is Any or type(value) is hint is not float or (origin is typing.Literal and value in arguments):
            return value
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, value, path)
        if _is_record(hint):
            return self.record(hint, value, path)
        if origin in (tuple, list) and isinstance(value, list):
            return origin(self.value(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
        if origin in TABLES and isinstance(value, Mapping):
            of_key, of_value = arguments
            items = ((key, item, _join(path, printable(key))) for key, item in value.items())
            return {self.value(of_key, key, at): self.value(of_value, item, at) for key, item, at in items}
        if hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return float(value) if self.strict else value
        if _is_kind(hint) and type(value) is str:
            try:
                return hint(value)
            except ValueError as error:
                self.problems.append(f"{path}: {error}")
                return None
        self._refuse([hint], value, path)
        return None

    def _union(self, hints: typing.Sequence[Any], value: Any, path: str) -> Any:
        """As the one of several types that such a value can be of; None where a program has left nothing."""
        possible = [hint for hint in hints if hint is not types.NoneType]
        if value is None and len(possible) < len(hints):
            return None
        fitting = possible if len(possible) == 1 else [hint for hint in possible if _may_be(hint, value)]
        if fitting:
            return self.value(fitting[0], value, path)
        self._refuse(possible, value, path)
        return None

    def _refuse(self, hints: typing.Sequence[Any], value: Any, path: str) -> None:
        words = [word for hint in hints if typing.get_origin(hint) is typing.Literal for word in typing.get_args(hint)]
        expected = " or ".join(map(_expected, hints))
        self.problems.append(f"{path or 'it'}: must be {expected}, not {_shown(value)}{suggestion(value, words)}")

    def _check_bounds(self, low: float, high: float, value: Any, path: str) -> None:
        if isinstance(value, (int, float)) and not low <= value <= high:
            limits = f"at least {low}" if high == math.inf else f"in {low} … {high}"
            limits = f"at most {high}" if low == -math.inf else limits
            self.problems.append(f"{path}: must be {limits}, not {value}")


@functools.cache
def _fields(cls: Any) -> tuple[dict[str, Any], list[str], dict[str, tuple[float, float]]]:
    """The keys of a record with their types, those that it must have, and the bounds of numbers."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if typing.is_typeddict(cls):  # whose __required_keys__ are wrong where annotations are texts
        optional = {name for name, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired}
        hints = {name: typing.get_args(hint)[0] if name in optional else hint for name, hint in hints.items()}
        return hints, [name for name in hints if name not in optional], {}
    if not dataclasses.is_dataclass(cls):
        return hints, [name for name in hints if name not in cls._field_defaults], {}
    fields = [field for field in dataclasses.fields(cls) if not field.metadata.get("derived")]
    required = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
    bounds = {field.name: field.metadata["bounds"] for field in fields if "bounds" in field.metadata}
    return {field.name: hints[field.name] for field in fields}, required, bounds


def _is_record(hint: Any) -> bool:
    made = dataclasses.is_dataclass(hint) or hasattr(hint, "_field_defaults") or typing.is_typeddict(hint)
    return isinstance(hint, type) and made


def _is_kind(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Kind)


def _may_be(hint: Any, value: Any) -> bool:
    """Whether a value is of what TOML or JSON has for a type, whatever is in it."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin in TABLES or _is_record(hint):
        return isinstance(value, Mapping)
    if hint is float:
        return type(value) in (int, float)
    return hint is Any or type(value) is (list if origin in (tuple, list) else str if _is_kind(hint) else hint)


def _expected(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_expected(each) for each in arguments if each is not types.NoneType)
    if origin is typing.Literal:
        return "one of " + ", ".join(f'"{a}"' for a in arguments)
    if origin in (tuple, list):
        return "a list"
    if origin in TABLES or _is_record(hint):
        return "a table"
    if _is_kind(hint):
        return str(hint.must_be)
    words = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
    return words.get(hint, str(hint))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return shown(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}…"


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


def _is_path(name_or_path: str) -> bool:
    return "/" in name_or_path or name_or_path.endswith(".toml")


def resolved(name_or_path: str) -> str:
    """A definition's name, or its path as it holds in any directory."""
    return str(Path(name_or_path).resolve()) if _is_path(name_or_path) else name_or_path


def find_definition(kind: str, folder: Path, name_or_path: str) -> Path:
    """The file that comes with tierbench under this name; what looks like a path is one."""
    if _is_path(name_or_path):
        return Path(name_or_path)
    possible = shipped_definitions(folder)
    if name_or_path not in possible:
        there = meant(name_or_path, possible) or "; `tierbench list` names those there are"
        raise ConfigError(f'there is no {kind} "{name_or_path}"{there}; a file of your own is given by its path')
    return folder / f"{name_or_path}.toml"


def shipped_definitions(folder: Path) -> list[str]:
    """The names of the definitions in a folder of the package; what lies beside one has a dot in its name."""
    return sorted(path.stem for path in folder.glob("*.toml") if "." not in path.stem)


def unknown_name(key: str, name: str, possible: Iterable[str]) -> str:
    """What is wrong with a reference to something that is not there."""
    return f"{key}: there is no {shown(name)}{suggestion(name, possible)}"
