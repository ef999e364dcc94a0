"""The one exit for text into what DAGMan and condor_submit read: it is quoted, or refused.

Definitions are checked where they are read (`tierbench/checked_text.py`); what would be taken for more than text
here has slipped through there, or came from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from tierbench.checked_text import shown
from tierbench.errors import ConfigError

WORD = re.compile(r"[A-Za-z0-9_.$/+@=:,~%-]+")
BLANKS = "without blanks"
MACRO = re.compile(r"\$\$|\$\w*[(\[]")


def word(text: str) -> str:
    """A name, a path or an argument in a line of a DAG, where blanks separate."""
    if not WORD.fullmatch(text) or MACRO.search(text):
        _refuse(text, "a single word")
    return text


def quoted(value: object) -> str:
    """A macro's value in a VARS line. HTCondor expands macros in it, for which no value of ours has a use."""
    text = str(value)
    if not text.isprintable() or MACRO.search(text):
        _refuse(text, "on one line, without macros")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def comment(text: str) -> str:
    """What stands behind a # in a DAG."""
    if not text.isprintable() or text.endswith("\\"):
        _refuse(text, "on one line")
    return text


def item(*fields: str) -> str:
    """A line of a list that a submit file queues from: words with commas between them; the last may have its own.

    The comma stays before an empty last field, or the one before it would be taken for both.
    """
    for field in fields[:-1]:
        if not WORD.fullmatch(field) or "," in field or MACRO.search(field):
            _refuse(field, "a word without commas")
    last = fields[-1]
    if not last.isprintable() or last != last.strip() or MACRO.search(last):
        _refuse(last, "on one line, without macros or blanks around it")
    return ", ".join(fields) + "\n"


def rows(*columns: Sequence[str]) -> list[str]:
    """The lines of a table whose columns are parted by tabs; looked at together, since there may be very many."""
    for column in columns:
        text = "".join(column)
        if not text.isprintable() or " " in text:
            _refuse(next(field for field in column if not field.isprintable() or " " in field), BLANKS)
    return [line + "\n" for line in map("\t".join, zip(*columns, strict=True))]


def _refuse(text: str, needed: str) -> NoReturn:
    raise ConfigError(f"{shown(text)} cannot be written for HTCondor: it must be {needed}")
