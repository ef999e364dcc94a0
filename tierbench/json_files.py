"""JSON that a program has left on disk: read here alone, and by one policy for damage.

A text is damaged if it is no JSON, if a number in it is not finite or does not fit 64 bits, or if it lacks what its
shape (a dataclass, a NamedTuple or a TypedDict) says that it holds, of that type. What else it holds is let pass.
Damage is told as one `Damaged` that says where and what; a file that is not there is no damage, and raises
FileNotFoundError.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tierbench import files
from tierbench.errors import TierbenchError

T = TypeVar("T")

LARGEST = 2**63 - 1
HALF = "\\ud"  # of a character beyond the first 65,536
KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


class Damaged(TierbenchError):
    """What was stored is not what should be there."""


def parse(text: str | bytes, where: str) -> Any:
    """The content of a JSON text."""
    try:
        content = json.loads(text, parse_constant=_refused, parse_float=_finite, parse_int=_whole)
        if HALF in (text if isinstance(text, str) else text.decode()).lower():  # which nobody can write again
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where} is damaged: {error}") from None
    return content


def parse_as(shape: type[T], text: str | bytes, where: str) -> T:
    """A JSON text as what it should be."""
    return typed(shape, parse(text, where), where)


def read(path: Path, where: str = "") -> Any:
    """The content of a JSON file."""
    where = where or str(path)
    try:
        text = files.read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"{where} cannot be read: {error.strerror}") from None
    return parse(text, where)


def read_as(shape: type[T], path: Path, where: str = "") -> T:
    """A JSON file as what it should be."""
    return typed(shape, read(path, where), where or str(path))


def read_table(path: Path, where: str = "") -> dict[str, Any]:
    """A JSON file that holds an object, whatever is in it."""
    return read_as(dict[str, Any], path, where)


def typed(shape: type[T], content: Any, where: str) -> T:
    """The content, if it has this shape; records that can be made are, anything else is the content itself."""
    problems = list(_problems(shape, content, ""))
    if problems:
        raise Damaged(f"{where} is damaged: {', '.join(problems[:3])}")
    return typing.cast(T, _made(shape, content))


def _made(hint: Any, value: Any) -> Any:
    """A value that is as its type says, with the dataclasses in it made."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_made(hint):
        return hint(**{name: _made(kind, value[name]) for name, kind in _fields(hint)[0].items() if name in value})
    if origin in (typing.Union, types.UnionType) and value is not None:
        return _made(arguments[0], value)  # X | None, of records
    if origin in (list, tuple) and (origin is tuple or _is_made(arguments[0])):
        return origin(_made(arguments[0], item) for item in value)
    return value


def _problems(hint: Any, value: Any, key: str) -> Iterator[str]:
    """What in a value is not as its type says."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if all(any(True for _ in _problems(kind, value, key)) for kind in arguments):
            yield from _problems(arguments[0], value, key)
    elif typing.is_typeddict(hint) or _is_made(hint):
        yield from _record_problems(hint, value, key)
    elif origin is dict:
        yield from _item_problems(dict, arguments[1], value, key)
    elif origin in (list, tuple):
        yield from _item_problems(list, arguments[0], value, key)
    elif not (hint is Any or type(value) is hint or (hint is float and type(value) is int)):
        yield _wrong(hint, value, key)


def _is_made(hint: Any) -> bool:
    """Whether a record is made to be read by its attributes."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_field_defaults"))


def _item_problems(kind: Any, hint: Any, value: Any, key: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield _wrong(kind, value, key)
        return
    for name, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _problems(hint, item, f"{key}.{name}".lstrip("."))


def _record_problems(shape: Any, value: Any, key: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield _wrong(dict, value, key)
        return
    hints, needed = _fields(shape)
    for name, hint in hints.items():
        path = f"{key}.{name}".lstrip(".")
        if name in value:
            yield from _problems(hint, value[name], path)
        elif name in needed:
            yield f"it lacks {path}"


@functools.cache
def _fields(shape: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The fields of a record with their types, and those that must be there."""
    hints = typing.get_type_hints(shape)
    if typing.is_typeddict(shape):  # whose __required_keys__ are wrong where annotations are texts, as here
        extras = typing.get_type_hints(shape, include_extras=True)
        return hints, frozenset(name for name in hints if typing.get_origin(extras[name]) is not typing.NotRequired)
    if not dataclasses.is_dataclass(shape):
        return hints, frozenset(hints) - shape._field_defaults.keys()
    missing = dataclasses.MISSING
    needed = [field.name for field in dataclasses.fields(shape) if field.default is missing is field.default_factory]
    return hints, frozenset(needed)


def _wrong(hint: Any, value: Any, key: str) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return f"{key or 'it'} must be {KINDS.get(hint, 'an object')}, not {shown}"


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return int(text)
