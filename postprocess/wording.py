"""Words and numbers as a reader likes them; the storage sends to jobs that read, and receives from those that write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tierbench.dags.measure import RECEIVED, SENT

if TYPE_CHECKING:
    from tierbench.postprocess.stats import Interval

NOTHING = "–"
TIMES = "\N{MULTIPLICATION SIGN}"
TO = "–"
CI, INTERVAL = "95\N{NO-BREAK SPACE}% CI ", "95\N{NO-BREAK SPACE}% interval "  # labels of intervals
OF_WRITING, OF_BOTH = "received", "carried"
SENT_WORD = re.compile(r"\bsent\b(?! again)", re.IGNORECASE)
SHOWN = 8


def figures(value: float | None, unit: str = "") -> str:
    """About three figures that mean something."""
    if value is None:
        return NOTHING
    size = abs(value)
    form = ".0f" if size >= 100 else ".1f" if size >= 10 else ".3g" if 0 < size < 0.1 else ".2f"
    return _minus(f"{value:{form}}") + _of_unit(unit)


def _of_unit(unit: str) -> str:
    return f"\N{NO-BREAK SPACE}{unit}" if unit else ""


def factor(ratio: float | None) -> str:
    """A ratio: to a hundredth, unless it is so small or large that this says nothing."""
    if ratio is None:
        return NOTHING
    size = abs(ratio)
    return _minus(f"{ratio:.0f}" if size >= 100 else f"{ratio:.2f}" if size >= 0.1 else f"{ratio:.2g}")


def _minus(number: str) -> str:
    return number.replace("-", "\N{MINUS SIGN}")


def bounds(bounded: Interval, write: Callable[[float | None], str] = factor) -> str:
    """An interval's two ends: 1.13–1.22; nothing where there is none."""
    return TO.join(_end(end) if write is factor else write(end) for end in bounded.interval or ())


def _end(ratio: float) -> str:
    """An end of a ratio's interval; one that rounds to 1 has the digits that show on which side of 1 it lies."""
    closer = (f"{ratio:.{decimals}f}" for decimals in (3, 4))
    return factor(ratio) if factor(ratio) != "1.00" else next((each for each in closer if float(each) != 1), "1.00")


def with_interval(
    bounded: Interval, label: str = "", write: Callable[[float | None], str] = factor, unit: str = ""
) -> str:
    """A ratio, or what else is written so, with its interval: 1.18 (1.13–1.22)."""
    interval = f" ({label}{bounds(bounded, write)})" if bounded.interval else ""
    return f"{write(bounded.value)}{_of_unit(unit)}{interval}"


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def limit_percent(value: float) -> str:
    """A limit, as it was given."""
    return f"{100 * value:g}\N{NO-BREAK SPACE}%"


def change_percent(factor: float, decimals: int = 0) -> str:
    """By how much a factor changes something, with its sign."""
    change = round(100 * (factor - 1), decimals)
    sign = "\N{MINUS SIGN}" if change < 0 else "+" if change > 0 else ""
    return f"{sign}{abs(change):.{decimals}f}\N{NO-BREAK SPACE}%"


def listed(words: Sequence[str]) -> str:
    """a, b and c; with semicolons where one of them has commas."""
    comma, last = ("; ", "; and ") if len(words) > 1 and any(", " in word for word in words) else (", ", " and ")
    return last.join([*([comma.join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def far_off(trials: Sequence[str]) -> str:
    """Which trials ratios leave out as strays."""
    lie, are = ("lies", "is") if len(trials) == 1 else ("lie", "are")
    return f"{listed(trials)} {lie} far off all others and {are} left out"


def numbered(words: Counter[str]) -> str:
    """Each word, the most frequent first, with how often it is there if there are several."""
    several = len(words) > 1
    return ", ".join(f"{word} {number}{TIMES}" if several else word for word, number in words.most_common())


def counted(number: int, noun: str) -> str:
    """1 trial, 2 trials."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def aligned(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Rows as lines of text, whose cells stand below each other, in columns of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.rjust if place in numbers else str.ljust for place in range(len(widths))]
    lines = ([pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)] for row in rows)
    return ["  ".join(line).rstrip() for line in lines]


def moment(wall_ns: int) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def worded(text: str, directions: Iterable[str]) -> str:
    """A text about what the storage sent, for trials of these directions; of records that say none the trials read."""
    there = {direction or SENT for direction in directions}
    if there <= {SENT}:
        return text
    word = OF_WRITING if there == {RECEIVED} else OF_BOTH
    return SENT_WORD.sub(lambda match: word.capitalize() if match[0][0].isupper() else word, text)


def enumerated(words: Sequence[str]) -> str:
    """The first words with commas between them, and how many more there are."""
    return ", ".join(abridged(words))


def abridged(words: Sequence[str], most: int = SHOWN) -> list[str]:
    """The first words, and how many more there are."""
    return [*words[:most], f"{len(words) - most} more"] if len(words) > most else list(words)
