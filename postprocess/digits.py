"""Decimal numbers as bytes in numpy, both ways: fixed-width columns to integers, numbers to CSV lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

WORD = 8
MINUS, POINT, COMMA, NEWLINE = b"-.,\n"
DROPPED, LEAD = b"\x00\x01"  # stand for nothing, and for what all lines begin with, until the lines are done
MOST = 10**18  # a larger number would not fit an int64 with certainty; none is written
QUADS = np.array([f"{n:04d}" for n in range(10_000)], dtype="S4").view("<u4")


def integers(block: bytes | memoryview, record_bytes: int, start: int, width: int) -> Integers:
    """The right-aligned decimal column at bytes start … start + width of every record of the block."""
    end = start + width
    total = np.zeros(1, np.uint64)
    for low in range(end - WORD, start - WORD, -WORD):
        word = _word(block, record_bytes, max(low, start), low + WORD)
        value = word[:1] if (word == word[0]).all() else word  # the leading digits seldom change
        total = total + _eight_digits(value) * np.uint64(10 ** (end - low - WORD))
    count = len(block) // record_bytes
    result = np.broadcast_to(total.astype(np.int64), (count,)).copy()
    column = np.ndarray((count, width), np.uint8, block, start, (record_bytes, 1))
    # A minus is 13 among digits of 0 … 9; only the kernel's "no such thing", -1, has one.
    if (column[:, -2:-1] == MINUS).any():
        result[column[:, -2] == MINUS] = -1
    return result


def _word(block: bytes | memoryview, record_bytes: int, start: int, end: int) -> NDArray[np.uint64]:
    """Characters start … end of each record, at most eight, as a number with the last one on top."""
    spare = 8 * (WORD - (end - start))
    before = end >= WORD  # take the missing characters from before the column, or else from behind it
    offset = end - WORD if before else start
    record = np.dtype({"names": ["word"], "formats": ["<u8"], "offsets": [offset], "itemsize": record_bytes})
    word: NDArray[np.uint64] = np.frombuffer(block, record)["word"].copy()
    if spare and before:
        word >>= np.uint64(spare)
    if spare:
        word <<= np.uint64(spare)
    return word


def _eight_digits(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The number in eight characters, blanks being zeros: neighbours are joined to pairs, fours, eight."""
    word = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    word *= np.uint64(10 * 2**8 + 1)
    word >>= np.uint64(8)
    word &= np.uint64(0x00FF00FF00FF00FF)
    word *= np.uint64(100 * 2**16 + 1)
    word >>= np.uint64(16)
    word &= np.uint64(0x0000FFFF0000FFFF)
    word *= np.uint64(10_000 * 2**32 + 1)
    word >>= np.uint64(32)
    return word


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
