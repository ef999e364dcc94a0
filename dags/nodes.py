"""The lines of a DAG file; and the one exit for text into what HTCondor reads.

Definitions are checked where they are read (`tierbench/checked_text.py`); what would be taken for more than text
here has slipped through there, or came from elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from tierbench.checked_text import MACRO, shown
from tierbench.errors import ConfigError

WORD = re.compile(r"[A-Za-z0-9_.$/+@=:,~%-]+")


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
    for word in fields[:-1]:
        if not WORD.fullmatch(word) or "," in word or MACRO.search(word):
            _refuse(word, "a word without commas")
    last = fields[-1]
    if not last.isprintable() or last != last.strip() or MACRO.search(last):
        _refuse(last, "on one line, without macros or blanks around it")
    return ", ".join(fields) + "\n"


def rows(*columns: Sequence[str]) -> list[str]:
    """The lines of a table whose columns are parted by tabs; looked at together, since there may be very many."""
    for column in columns:
        text = "".join(column)
        if not text.isprintable() or " " in text:
            _refuse(next(field for field in column if not field.isprintable() or " " in field), "without blanks")
    return [line + "\n" for line in map("\t".join, zip(*columns, strict=True))]


def _refuse(text: str, needed: str) -> NoReturn:
    raise ConfigError(f"{shown(text)} cannot be written for HTCondor: it must be {needed}")


def line(*words: object) -> str:
    """A line of a DAG in DAGMan's own words, each of them a single one."""
    return " ".join(word(str(each)) for each in words)


@dataclass(frozen=True)
class Job:
    """A node with a submit file, and the macros that it sets there.

    A SERVICE is submitted first, not waited for, and removed when the DAG ends.
    """

    name: str
    submit: str
    macros: Mapping[str, object] = field(default_factory=dict)
    keyword: Literal["JOB", "SERVICE"] = "JOB"

    def lines(self) -> Iterator[str]:
        yield line(self.keyword, self.name, self.submit)
        if self.macros:
            yield f"VARS {self.name} " + " ".join(f"{word(macro)}={quoted(v)}" for macro, v in self.macros.items())


# A DAGMan that is started again after its FINAL node has ended would wait for ever; any other ends at once by then.
ALL_OVER = "DAG_NodesTotal =?= DAG_NodesDone + DAG_NodesFailed + DAG_NodesFutile && time() - DAG_AdUpdateTime > 20"
# One that is started again while the FINAL node of a DAG that was aborted is at work asserts within a second (exit code
# 4), and is started again for ever; what the node does meanwhile, it does by and by. Beside that DAGMan's usual way.
LEAVES = "ExitSignal =?= 11 || (ExitCode =!= undefined && ExitCode >= 0 && ExitCode <= 2)"
ASSERTS = "ExitCode =?= 4 && NumJobStarts > 20"


def final(name: str, script: str, *arguments: str) -> list[str]:
    """What runs last, whatever has happened, and decides on success: a script, for which no job is submitted."""
    return [
        line("FINAL", name, f"{name}.sub", "NOOP"),
        line("SCRIPT", "POST", name, script, *arguments, "$DAG_STATUS", "$FAILED_COUNT"),
        f"SET_JOB_ATTR PeriodicRemove = {ALL_OVER}",
        f"SET_JOB_ATTR OnExitRemove = {LEAVES} || ({ASSERTS})",
    ]


def step(purpose: str, lines: Iterable[str]) -> list[str]:
    """Lines of a DAG that belong together, below what they are for."""
    return ["", f"# {comment(purpose)}", *lines]


@dataclass(frozen=True)
class Dag:
    """A DAG file: what it says about itself, DAGMan's configuration, and its parts."""

    comment: Sequence[str]
    config: str
    parts: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield from (f"# {comment(text)}" for text in self.comment)
        yield line("CONFIG", self.config)
        yield from self.parts

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"
