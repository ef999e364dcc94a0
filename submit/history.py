"""`tierbench history`: the nights that were measured, in a terminal, as a page or as a table, and what they take."""

import argparse
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

from tierbench.errors import ConfigError
from tierbench.postprocess.history.database import Chronicle, History, chronicle, default_place, nightlies, nights
from tierbench.submit.console import add_command, add_group, say

DESCRIPTION = """\
What the nights of a nightly have measured: each configuration with a mark for each night, what has
changed, and since when. The history is made of run directories, and can be made again from them.
"""
AGE = re.compile(r"(\d+)d")
DAY_NS = 86_400 * 10**9


def register(subcommands: Any) -> None:
    text = "What was measured night by night, and what has changed"
    parser, verbs = add_group(subcommands, "history", text, DESCRIPTION)
    verb = partial(add_command, verbs)
    parser.add_argument("--history", type=Path, metavar="FILE", help="where it is, if not at the usual place")
    listed = verb("list", _list, "Draw the nights of each nightly, or of one")
    listed.add_argument("nightly", metavar="NAME", nargs="?")
    listed.add_argument("--configuration", default="*", metavar="PATTERN", help="only these, such as 'lan-*'")
    listed.add_argument("--metric", default="", help="a column of summary.csv (default: the rate that is watched)")
    listed.add_argument("--last", type=int, default=60, metavar="N", help="nights (%(default)s)")
    show = verb("show", _show, "Show a night: its values, verdicts, links, and what differs from the night before")
    show.add_argument("nightly", metavar="NAME")
    show.add_argument("night", metavar="DAY", nargs="?", help="such as 2026-11-14 (default: the last one)")
    page = verb("page", _page, "Write a page with figures of each configuration over the nights")
    page.add_argument("nightly", metavar="NAME")
    page.add_argument("--output", type=Path, metavar="FILE", help="where to (default: NAME-history.html)")
    again = verb("rebuild", _rebuild, "Make the history again from run directories, or add some to it")
    again.add_argument("directories", metavar="DIR", nargs="+", type=Path, help="runs, or folders of runs")
    again.add_argument("--nightly", default="", metavar="NAME", help="of runs that no nightly has started")
    again.add_argument("--control", default="", metavar="CONFIGURATION", help="of such runs, the reference")
    export = verb("export", _export, "Write a nightly's nights as one table")
    export.add_argument("nightly", metavar="NAME")
    kind = export.add_mutually_exclusive_group(required=True)
    kind.add_argument("--csv", action="store_true", help="to standard output")
    kind.add_argument("--parquet", type=Path, metavar="FILE", help="needs pyarrow")
    collect = verb("gc", _gc, "Remove the samples of old nights; their tables, reports and the history stay")
    collect.add_argument("--keep-samples", required=True, metavar="DAYS", help="of this many days, such as 14d")
    collect.add_argument("--dry-run", action="store_true", help="only tell what would be removed")


def _chronicle(arguments: argparse.Namespace, nightly: str) -> Chronicle:
    with History(arguments.history) as history:
        return chronicle(history, nightly)


def _watch(name: str) -> Any:
    """What the admin has set of a nightly, if it is one of this user's, as its messages go by; else what is usual."""
    from tierbench.postprocess.history.alarms import Watch
    from tierbench.submit.nightly.monitoring import watch_of
    from tierbench.submit.nightly.record import all_nightlies

    return next((watch_of(nightly) for nightly in all_nightlies() if nightly.name == name), Watch())


def _list(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.sentences import overview

    if arguments.last < 1:
        raise ConfigError(f"--last {arguments.last}: must be at least 1")
    with History(arguments.history) as history:
        names = [arguments.nightly] if arguments.nightly else nightlies(history)
    if not names:
        raise ConfigError("no nights yet; `tierbench nightly add` has them measured, `history rebuild` adds runs")
    for name in names:
        drawn = arguments.configuration, arguments.metric, arguments.last
        print("\n".join(overview(_chronicle(arguments, name), _watch(name), *drawn)))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.sentences import night_lines

    chronicle = _chronicle(arguments, arguments.nightly)
    first, last = chronicle.nights[0].day, chronicle.nights[-1].day
    nights = [night for night in chronicle.nights if night.day == (arguments.night or last)]
    if not nights:
        raise ConfigError(f"{arguments.nightly}: has no night of {arguments.night}; it has {first} to {last}")
    for night in nights:
        print("\n".join(night_lines(chronicle, night)))
    return 0


def _page(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.page import write_page

    target = arguments.output or Path(f"{arguments.nightly}-history.html")
    write_page(_chronicle(arguments, arguments.nightly), target, _watch(arguments.nightly))
    print(target)
    return 0


def _rebuild(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.runs import rebuild

    place = arguments.history or default_place()
    count = rebuild(place, arguments.directories, say, arguments.nightly, arguments.control)
    print(f"{place}: {count} runs added")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.sentences import as_csv, write_parquet

    chronicle = _chronicle(arguments, arguments.nightly)
    if arguments.csv:
        print(as_csv(chronicle), end="")
    else:
        write_parquet(chronicle, arguments.parquet)
        print(arguments.parquet)
    return 0


def _gc(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.history.runs import nights_with_samples, remove_samples

    age = AGE.fullmatch(arguments.keep_samples)
    if not age:
        raise ConfigError(f"--keep-samples {arguments.keep_samples}: must be days, such as 14d")
    before = time.time_ns() - int(age[1]) * DAY_NS
    total = 0
    with History(arguments.history) as history:
        measured = [night for name in nightlies(history) for night in nights(history, name)]
    for old in nights_with_samples(measured, before):
        total += old.bytes
        print(f"{old.night.directory}: {len(old.files)} files, {old.bytes / 1e6:.1f} MB")
        if not arguments.dry_run:
            remove_samples(old)
    print(f"{total / 1e6:.1f} MB {'would be' if arguments.dry_run else 'were'} removed; tables and history stay")
    return 0
