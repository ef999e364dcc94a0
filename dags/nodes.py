"""The parts of a DAG file as objects that yield their lines; and the one exit for text into what HTCondor reads.

Definitions are checked where they are read (`tierbench/checked_text.py`); what would be taken for more than text
here has slipped through there, or came from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

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
            _refuse(next(field for field in column if not field.isprintable() or " " in field), BLANKS)
    return [line + "\n" for line in map("\t".join, zip(*columns, strict=True))]


def _refuse(text: str, needed: str) -> NoReturn:
    raise ConfigError(f"{shown(text)} cannot be written for HTCondor: it must be {needed}")


@dataclass(frozen=True)
class Job:
    """A node with a submit file, and the macros that it sets there."""

    name: str
    submit: str
    macros: Mapping[str, object] = field(default_factory=dict)
    keyword: ClassVar[str] = "JOB"

    def lines(self) -> Iterator[str]:
        yield f"{self.keyword} {word(self.name)} {word(self.submit)}"
        if self.macros:
            yield f"VARS {self.name} " + " ".join(f"{word(macro)}={quoted(v)}" for macro, v in self.macros.items())


class Service(Job):
    """A node that is submitted first, not waited for, and removed when the DAG ends."""

    keyword = "SERVICE"


# A DAGMan that is started again after its FINAL node has ended would wait for ever; any other ends at once by then.
ALL_OVER = "DAG_NodesTotal =?= DAG_NodesDone + DAG_NodesFailed + DAG_NodesFutile && time() - DAG_AdUpdateTime > 20"


@dataclass(frozen=True)
class Final:
    """What runs last, whatever has happened, and decides on success: a script, for which no job is submitted."""

    name: str
    script: str
    arguments: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        script = " ".join(map(word, (self.script, *self.arguments)))
        yield f"FINAL {word(self.name)} {self.name}.sub NOOP"
        yield f"SCRIPT POST {self.name} {script} $DAG_STATUS $FAILED_COUNT"
        yield f"SET_JOB_ATTR PeriodicRemove = {ALL_OVER}"


@dataclass(frozen=True)
class SubDag:
    """A node that is a DAG of its own, run in a directory of its own; the highest priority comes first."""

    name: str
    dag: str
    directory: str
    priority: int
    done: bool = False

    def lines(self) -> Iterator[str]:
        done = " DONE" if self.done else ""
        yield f"SUBDAG EXTERNAL {word(self.name)} {word(self.dag)} DIR {word(self.directory)}{done}"
        yield f"PRIORITY {self.name} {self.priority}"


@dataclass(frozen=True)
class Edge:
    """The children wait for all the parents."""

    parents: Sequence[str]
    children: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield f"PARENT {' '.join(map(word, self.parents))} CHILD {' '.join(map(word, self.children))}"


@dataclass(frozen=True)
class Before:
    """Before each try of a node a script runs in the node's directory."""

    node: str
    script: str
    arguments: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        yield " ".join(("SCRIPT PRE", *map(word, (self.node, self.script, *self.arguments))))


@dataclass(frozen=True)
class After:
    """After a node a script runs in the node's directory, whose exit status becomes the node's."""

    node: str
    script: str
    arguments: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        yield " ".join(("SCRIPT POST", *map(word, (self.node, self.script, *self.arguments))))


@dataclass(frozen=True)
class AtOnce:
    """All nodes so far share a category of which DAGMan has only so many in the queue."""

    category: str
    most: int

    def lines(self) -> Iterator[str]:
        yield f"CATEGORY ALL_NODES {self.category}"
        yield f"MAXJOBS {self.category} {self.most}"


@dataclass(frozen=True)
class Retries:
    """A node, or each one so far, is tried again if it fails."""

    retries: int
    node: str = "ALL_NODES"

    def lines(self) -> Iterator[str]:
        if self.retries:
            yield f"RETRY {self.node} {self.retries}"


@dataclass(frozen=True)
class AbortOn:
    """If a node ends with this exit status DAGMan removes all jobs and goes on to what runs last."""

    node: str
    exit_status: int

    def lines(self) -> Iterator[str]:
        yield f"ABORT-DAG-ON {self.node} {self.exit_status}"


@dataclass(frozen=True)
class SkipIf:
    """If the script before a node ends with this exit status the node is done."""

    node: str
    exit_status: int

    def lines(self) -> Iterator[str]:
        yield f"PRE_SKIP {self.node} {self.exit_status}"


@dataclass(frozen=True)
class Step:
    """Parts of a DAG that belong together, below what they are for."""

    purpose: str
    parts: Sequence[Part]

    def lines(self) -> Iterator[str]:
        yield ""
        yield f"# {comment(self.purpose)}"
        for part in self.parts:
            yield from part.lines()


Part = Job | Final | SubDag | Edge | Before | After | AtOnce | Retries | AbortOn | SkipIf | Step


@dataclass(frozen=True)
class Dag:
    """A DAG file: what it says about itself, DAGMan's configuration, and its parts."""

    comment: Sequence[str]
    config: str
    parts: Sequence[Part]

    def lines(self) -> Iterator[str]:
        yield from (f"# {comment(line)}" for line in self.comment)
        yield f"CONFIG {word(self.config)}"
        for part in self.parts:
            yield from part.lines()

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"
