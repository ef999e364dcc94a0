"""`tierbench report`: the page that tells what came out of a run, or that compares several."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from tierbench.errors import UnmetNeed
from tierbench.submit.output import say, show

QUIET_SECONDS = 2.0

DESCRIPTION = """\
Write one self-contained HTML page about a run: the question, the answer with its interval, figures
that correspond to those of the papers, tables, each trial with its verdict and its course over time,
and where the numbers come from. It works offline and prints well. The figures are written beside it,
as PNG and SVG. Tables that are missing, or older than a trial, are made first; nothing else of the run
is changed.

With several runs the page compares them with the first: how much each rate changed, with an interval,
and what else differs. Runs that were made differently are marked as not comparable, and why.
"""

EXAMPLES = """\
  tierbench report runs/quick-20260101-120000          writes report.html and plots/ into the run
  tierbench report RUN --output ~/public_html/q.html   figures then are in q-plots/ beside it
  tierbench report runs/monday runs/tuesday            writes runs/monday-against-tuesday.html
"""


def register(subcommands: Any) -> None:
    """Add `report` to the command line."""
    parser = subcommands.add_parser(
        "report",
        help="Write a page with a run's answer, figures, tables and trials; of several runs, compare them",
        description=DESCRIPTION,
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_report)
    parser.add_argument("directories", metavar="RUN", nargs="+", type=Path, help="a run directory")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the page (default: RUN/report.html, or A-against-B.html beside A)"
    )


def _report(arguments: argparse.Namespace) -> int:
    try:
        from tierbench.postprocess.report.write import comparison, run_report
    except ImportError as error:
        raise UnmetNeed(
            f"a report needs numpy, scipy and matplotlib: {error}; install what is missing (`pip install matplotlib`,"
            " on Debian `apt install python3-matplotlib`), or copy the run directory to where they are"
        ) from None
    runs, progress = arguments.directories, Progress()
    page = run_report(runs[0], arguments.output, progress) if len(runs) == 1 else comparison(
        runs, arguments.output, progress
    )  # fmt: skip
    show(str(page))
    return 0


class Progress:
    """Tells what is going on, at most every other second, so that what is quick stays silent."""

    def __init__(self) -> None:
        self.told = time.monotonic()

    def __call__(self, words: str) -> None:
        if time.monotonic() - self.told >= QUIET_SECONDS:
            say(words)
            self.told = time.monotonic()
