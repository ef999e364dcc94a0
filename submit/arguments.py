"""How a sub-command is added to the command line, and what several of them take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tierbench.spec import NAMED


def add_command(
    subcommands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, more: str = "", examples: str = ""
) -> argparse.ArgumentParser:
    """A sub-command; its own help says more than the list of all does, if there is more to say."""
    form = argparse.RawDescriptionHelpFormatter if more or examples else argparse.HelpFormatter
    parser: argparse.ArgumentParser = subcommands.add_parser(
        name, help=text, description=more or f"{text}.", epilog=examples and f"examples:\n{examples}",
        formatter_class=form,
    )  # fmt: skip
    parser.set_defaults(run=run)
    return parser


def experiment_at_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", help=NAMED)
    parser.add_argument("--site", required=True, help=NAMED)


def run_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RUN", type=Path, help="a run directory")


def as_json(parser: argparse.ArgumentParser, text: str = "as JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)
