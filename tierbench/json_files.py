"""JSON that programs leave on disk: read here alone, and by one policy for damage.

A text is damaged if it is no JSON, if a number in it is not finite or does not fit 64 bits, or if it lacks what its
shape (a dataclass, a NamedTuple or a TypedDict) says that it holds, of that type. What else it holds is let pass.
Damage is raised as one `Damaged` that says where and what; a file that is not there is no damage, and raises
FileNotFoundError.
"""

import dataclasses
import json
import math
import typing
from pathlib import Path
from typing import Any, TypeVar

from tierbench import files
from tierbench.errors import TierbenchError
from tierbench.spec import Reading

T = TypeVar("T")

LARGEST = 2**63 - 1
HALF = "\\ud"  # of a character beyond the first 65,536


class Damaged(TierbenchError):
    """What was stored is not what should be there."""


def parse(text: str | bytes, where: str) -> Any:
    try:
        content = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
        if HALF in (text if isinstance(text, str) else text.decode()).lower():  # which nobody can write again
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where} is damaged: {error}") from None
    return content


def parse_as(shape: type[T], text: str | bytes, where: str) -> T:
    return typed(shape, parse(text, where), where)


def read(path: Path, where: str = "") -> Any:
    where = where or str(path)
    try:
        text = files.read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"{where} cannot be read: {error.strerror}") from None
    return parse(text, where)


def read_as(shape: type[T], path: Path, where: str = "") -> T:
    return typed(shape, read(path, where), where or str(path))


def read_table(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object, whatever is in it."""
    return read_as(dict[str, Any], path)


def read_or(default: T, path: Path) -> T:
    """A JSON file as something of this kind; this one where there is none, or a damaged one."""
    try:
        return read_as(type(default), path)
    except (FileNotFoundError, Damaged):
        return default


def write(path: Path, record: Any) -> None:
    """Leave a dataclass in a file, whole, in place of what has its name."""
    content = {"format": 1, **dataclasses.asdict(record)}
    files.replace(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def typed(shape: type[T], content: Any, where: str) -> T:
    """The content, if it has this shape; records that can be made are, anything else is the content itself."""
    reading = Reading(strict=False)
    value = reading.value(shape, content, "")
    if reading.problems:
        raise Damaged(f"{where} is damaged: {', '.join(reading.problems[:3])}")
    return typing.cast(T, value)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return int(text)
