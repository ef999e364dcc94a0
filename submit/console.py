"""What commands have in common: how they are added and what they take, and how they speak.

Results go to standard output, what goes on beside them to standard error unless it is to be quiet. A result is text,
or one JSON document. On a terminal the words that a reader looks for are coloured, unless NO_COLOR is set
(no-color.org). A library for this would be a dependency of each access point, for what are these few lines.
"""

import argparse
import codecs
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from tierbench.errors import ConfigError
from tierbench.spec import NAMED

FORMAT = 1  # of all documents
GREEN, YELLOW, RED = "32", "33", "31"
COLOURS = {
    "VALID": GREEN, "SUSPECT": YELLOW, "INVALID": RED, "INCOMPLETE": RED, "good": GREEN, "doubtful": YELLOW, "bad": RED,
    "missing:": RED,
}  # fmt: skip
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # but line's end and tab
MARKED = re.compile(r"\b(?:VALID|SUSPECT|INVALID|INCOMPLETE)\b|^(?:good|doubtful|bad)\b|^missing:", re.MULTILINE)
ASCII = {
    "\N{MULTIPLICATION SIGN}": "x", "\N{NO-BREAK SPACE}": " ", "\N{RIGHT SINGLE QUOTATION MARK}": "'", "–": "-",
    "…": "...", "→": "->", "\N{MINUS SIGN}": "-", "±": "+-", "≈": "~", "≤": "<=", "≥": ">=", "·": "*",
    "▲": "^", "△": "+", "▼": "v", "■": "#",
}  # fmt: skip


def add_command(
    subcommands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, more: str = "", examples: str = ""
) -> argparse.ArgumentParser:
    """A sub-command; its own help says more than the list of all does, if there is more to say."""
    form = argparse.RawDescriptionHelpFormatter if "\n" in more + examples else argparse.HelpFormatter
    parser: argparse.ArgumentParser = subcommands.add_parser(
        name, help=text, description=more or f"{text}.", epilog=examples and f"examples:\n{examples}",
        formatter_class=form,
    )  # fmt: skip
    parser.set_defaults(run=run)
    return parser


def add_group(
    subcommands: Any, name: str, text: str, more: str, examples: str = ""
) -> tuple[argparse.ArgumentParser, Any]:
    """A sub-command with sub-commands of its own, and what these are added to."""
    parser = add_command(subcommands, name, lambda _: 2, text, more, examples)
    return parser, parser.add_subparsers(dest="verb", metavar="VERB", required=True)


def experiment_at_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", help=NAMED)
    parser.add_argument("--site", required=True, help=NAMED)


def run_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RUN", type=Path, help="a run directory")


def new_run(name: str) -> Path:
    """Where a run lies that was given no place."""
    folder = Path("runs")
    if not os.access(folder if folder.exists() else Path(), os.W_OK):
        raise ConfigError(f"{folder.absolute()}: cannot be written; --into DIR puts the run elsewhere")
    return folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def as_json(parser: argparse.ArgumentParser, text: str = "as JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def speak_anywhere() -> None:
    """What a terminal has no character for stands there in others, and ends no command; nor does a closed stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="tierbench")


def _in_others(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def fitting(text: str, columns: int, stream: TextIO) -> str:
    """The text as the stream will show it, cut to so many columns."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "tierbench").decode(encoding)[:columns]


codecs.register_error("tierbench", _in_others)


class Quiet:
    """Whether the user has asked for no more than results and troubles."""

    on = False


def say(words: str) -> None:
    if not Quiet.on:
        warn(words)


def warn(words: str) -> None:
    """Tell what is to be seen to, however quiet it is to be."""
    print(coloured(words, sys.stderr), file=sys.stderr, flush=True)


def show(text: str) -> None:
    print(coloured(text, sys.stdout), flush=True)


def document(about: str, content: Mapping[str, Any], indent: int | None = 1) -> str:
    """A result as JSON, on one line if it is not indented; its first keys say what it is."""
    narrow = "utf" not in (sys.stdout.encoding or "utf").lower()  # and lacks characters, so these are escaped
    return json.dumps({"tierbench": about, "format": FORMAT, **content}, indent=indent, ensure_ascii=narrow)


def coloured(text: str, stream: TextIO) -> str:
    """The text, with colours where somebody sees them and wants them, and nothing that moves a terminal's cursor."""
    text = CONTROL.sub(lambda letter: json.dumps(letter[0])[1:-1], text)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return MARKED.sub(lambda word: f"\033[{COLOURS[word[0]]}m{word[0]}\033[0m", text)
