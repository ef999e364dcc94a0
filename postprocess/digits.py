"""Kinds of arrays; and numbers as decimal ones in CSV lines, by numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

MINUS, POINT, COMMA, NEWLINE = b"-.,\n"
DROPPED, LEAD = b"\x00\x01"  # stand for nothing, and for what all lines begin with, until the lines are done
MOST = 10**18  # a larger number would not fit an int64 with certainty; none is written
QUADS = np.array([f"{n:04d}" for n in range(10_000)], dtype="S4").view("<u4")


@dataclass(frozen=True)
class Number:
    """A CSV field of numbers with so many decimals; NaN is left empty."""

    values: Integers | Numbers
    decimals: int = 0


@dataclass(frozen=True)
class Choice:
    """A CSV field of one of a few texts per line."""

    codes: Integers
    texts: Sequence[str]


def csv_lines(lead: str, fields: Sequence[Number | Choice], count: int) -> bytes:
    """So many CSV lines that begin with the same text and go on with these fields."""
    comma = np.full((count, 1), COMMA, np.uint8)
    blocks = [np.full((count, 1), LEAD, np.uint8)]
    for field in fields:
        blocks += [_number(field) if isinstance(field, Number) else _choice(field), comma]
    blocks[-1] = np.full((count, 1), NEWLINE, np.uint8)
    padded = np.concatenate(blocks, axis=1).tobytes()
    return padded.translate(None, bytes([DROPPED])).replace(bytes([LEAD]), lead.encode() + b",")


def _number(field: Number) -> Bytes:
    """The field's characters, right-aligned in columns."""
    decimals, unknown = field.decimals, None
    if np.issubdtype(field.values.dtype, np.integer):
        whole = field.values.astype(np.int64) * 10**decimals
    else:
        scaled = np.rint(field.values * 10.0**decimals)
        unknown = ~(np.abs(scaled) < MOST)
        whole = np.where(unknown, 0, scaled).astype(np.int64)
    size = np.abs(whole)
    digits = max(len(str(size.max(initial=0))), decimals + 1)
    units = digits - decimals  # how many of them stand before the point
    characters = np.full((len(size), 1 + digits + (decimals > 0)), POINT, np.uint8)
    characters[:, 0] = np.where(whole < 0, MINUS, DROPPED)
    quads = _quads(size, -(-digits // 4)).view(np.uint8)[:, -digits:]
    characters[:, 1 : 1 + units] = quads[:, :units]
    characters[:, 1 + digits + (decimals > 0) - decimals :] = quads[:, units:]
    for leading in range(units - 1):
        characters[:, 1 + leading] *= size >= 10 ** (digits - 1 - leading)
    if unknown is not None:
        characters[unknown] = DROPPED
    return characters


def _quads(size: Integers, count: int) -> NDArray[np.uint32]:
    """The digits of each number in groups of four."""
    quads = np.empty((len(size), count), "<u4")
    for place in range(count - 1, 0, -1):
        higher = size // 10_000
        quads[:, place] = QUADS[size - higher * 10_000]
        size = higher
    quads[:, 0] = QUADS[size]
    return quads


def _choice(field: Choice) -> Bytes:
    """The field's characters, left-aligned in columns."""
    texts = np.array([text.encode() for text in field.texts])  # numpy fills them up with zeros, which are dropped
    return texts.view(np.uint8).reshape(len(texts), -1)[field.codes]
