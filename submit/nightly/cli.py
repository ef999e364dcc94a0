"""tierbench nightly add | list | run | pause | resume | remove | check | ack

What only one of them needs is loaded by it: a monitoring system gives `check` little time.
"""

import argparse
import contextlib
import getpass
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tierbench import names
from tierbench.checked_text import printable, shown
from tierbench.errors import ConfigError, TierbenchError, in_words
from tierbench.json_files import Damaged
from tierbench.spec import NAMED
from tierbench.submit.console import add_command, add_group
from tierbench.submit.nightly import record
from tierbench.submit.nightly.record import Nightly, Terms, all_nightlies, find_nightly, finish_dead_nights
from tierbench.submit.nightly.schedule import SCHEDULERS

DESCRIPTION = """\
Measure a small experiment every night, by HTCondor's own schedule or systemd's, and hear of it when a
number has changed, with what else changed that night, or when nothing was measured.
"""
EXAMPLES = """\
  tierbench nightly add quick --site my-site.toml --at 02:30 --mail me@site.example
  tierbench nightly list                        when each is due, and how its last night went
  tierbench nightly run quick                   a night now
  tierbench nightly check quick                 for Nagios, Icinga and the like: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
  tierbench nightly ack quick --note "new disks"    acknowledge what has changed: no more messages
  tierbench nightly remove quick                no more nights; what was measured stays

They live in $TIERBENCH_NIGHTS (default ~/tierbench-nights), not below /tmp.
"""
CONFIGURATION = "a configuration as `plan` names it, without the repeat: 'direct/root \N{MULTIPLICATION SIGN}4'"

ENVIRONMENT = "environment"  # what `ack` calls a change of all


def register(subcommands: Any) -> None:
    text = "Measure a small experiment every night, and hear of it when a number has changed"
    _, verbs = add_group(subcommands, "nightly", text, DESCRIPTION, EXAMPLES)
    verb = partial(add_command, verbs)

    def of_one(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = verb(name, run, text)
        sub.add_argument("nightly", metavar="NAME", help="which nightly")
        return sub

    new = verb("add", _add, "Have an experiment measured every night")
    new.add_argument("experiment", metavar="EXPERIMENT", help=NAMED)
    new.add_argument("--site", required=True, help=NAMED)
    at = "by this machine's clock; or */MINUTES, to try it out"
    new.add_argument("--at", required=True, metavar="HH:MM", help=at)
    new.add_argument("--days", default="", metavar="DAY,…", help="mon,tue,… (default: every day)")
    new.add_argument("--by", choices=sorted(SCHEDULERS), default="condor", help="who begins it (%(default)s)")
    new.add_argument("--name", help="what it is called (default: as the experiment)")
    control = f"access method, or {CONFIGURATION}, to compare with"
    new.add_argument("--control", default="", metavar="ACCESS", help=control)
    new.add_argument("--mail", default="", metavar="ADDRESS", help="who gets a mail, by the pool's own mailer")
    new.add_argument("--webhook", default="", metavar="URL", help="where the same is posted as JSON")
    new.add_argument("--textfile", default="", metavar="DIR", help="where node_exporter collects its textfiles")
    size = "smaller differences are no change (%(default)s)"
    new.add_argument("--size", type=float, default=Terms.size_pct, metavar="PERCENT", help=size)
    by_name = f"the least rate of {CONFIGURATION}; may be repeated"
    new.add_argument("--floor", type=floor, action="append", default=[], metavar="NAME=RATE", help=by_name)

    verb("list", _list, "Show each nightly: when it is due, and how its last nights went")
    of_one("run", _run, "Begin a night now")
    of_one("pause", _change, "Begin no nights until `resume`")
    of_one("resume", _change, "Go on after `pause`")
    of_one("remove", _change, "Begin no more nights; what was measured stays")
    of_one("check", _check, "For a monitoring system: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, and one line")
    ack = of_one("ack", _ack, "Acknowledge what has changed: no more messages of it")
    ack.add_argument("configuration", nargs="?", default="", help=f"of which, or {ENVIRONMENT} (default: of all)")
    ack.add_argument("--accept", action="store_true", help="keep the change: the baseline begins anew there")
    ack.add_argument("--note", default="", help="why, for the history")

    step = verbs.add_parser("step")  # what the schedule and the nights' DAGs call, without a line in the help
    step.set_defaults(run=_step)
    step.add_argument("nightly")
    step.add_argument("step", choices=("begin", "links", "judge", "close"))
    step.add_argument("folder", nargs="?", type=Path, default=Path())
    step.add_argument("dag", nargs="*", help="DAGMan's status and the number of failed nodes")


def floor(text: str) -> tuple[str, float]:
    """A configuration and its least rate, as --floor has them."""
    name, _, rate = text.rpartition("=")
    try:
        least = float(rate)
    except ValueError:
        least = 0.0
    if not name or not 0 < least < math.inf:
        raise argparse.ArgumentTypeError(f"must be NAME=RATE, the rate a number above 0, not {shown(text)}")
    return name, least


def say(words: str) -> None:
    """Tell what is going on; that nobody can hear it, as where the disk is full, changes nothing."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {printable(words)}", file=sys.stderr, flush=True)


def _add(arguments: argparse.Namespace) -> int:
    from tierbench.submit.nightly import setup

    channels = {name: getattr(arguments, name) for name in ("mail", "webhook", "textfile")}
    watched = {"size_pct": arguments.size, "floors": dict(arguments.floor)}
    terms = Terms(arguments.site, arguments.at, arguments.days, arguments.by, "", 0.0, **channels, **watched)
    name = arguments.name or Path(arguments.experiment).stem
    setup.add(name, arguments.experiment, arguments.control, terms, print)
    return 0


def _list(_: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    nightlies = list(all_nightlies())
    if not nightlies:
        print(f"there are none in {record.home()}; `tierbench nightly add` sets one up")
    for nightly in nightlies:
        _look(nightly, now)
        try:
            print(f"{nightly.name}: {_in_short(nightly, now)}")
            trouble = SCHEDULERS[nightly.terms.by].problem(nightly)
        except Damaged as error:  # of one, which says nothing of the others
            print(f"{nightly.name}: {error}")
            continue
        except TierbenchError as error:
            trouble = str(error)
        if trouble:
            print(f"  {trouble}")
        for night in [*islice(record.newest_first(nightly), 3)][::-1]:
            counts = ", ".join(f"{number} {verdict}" for verdict, number in night.counts.items())
            why = "; ".join(filter(None, [counts, *(night.sentences or [night.reason])]))
            print(
                f"  {nightly.label(night)}  {night.outcome}" + (f": {printable(' '.join(why.split()))}" if why else "")
            )
    return 0


def _in_short(nightly: Nightly, now: datetime) -> str:
    terms, zone = nightly.terms, nightly.zone
    due = next(nightly.calendar.due(now, now + timedelta(days=9), zone))
    when = "paused" if terms.paused else f"next {due.astimezone(zone):%Y-%m-%d %H:%M}"
    return f"{nightly.calendar} at {terms.site}, by {terms.by}; {when}"


def _look(nightly: Nightly, now: datetime) -> None:
    """Its owner who looks at a nightly leaves a record of the nights that did not come; root would own files there."""
    if nightly.directory.stat().st_uid != os.geteuid():
        return
    # Another process that is at work on it sees to that.
    with contextlib.suppress(TierbenchError, OSError), record.locked(nightly.directory, patience_s=0):
        record.record_missed(nightly, now - nightly.calendar.window)
        finish_dead_nights(nightly)


def _run(arguments: argparse.Namespace) -> int:
    from tierbench.submit.nightly.steps import start

    night = start(find_nightly(arguments.nightly, say), True)
    return 0 if night and night.outcome == "running" else 1


def _change(arguments: argparse.Namespace) -> int:
    from tierbench.submit.nightly import setup

    nightly = find_nightly(arguments.nightly)
    setup.change(nightly, arguments.verb)
    if arguments.verb == "remove":
        print(f"{nightly.name}: no more nights; what was measured is in {nightly.directory}/{names.NIGHTS}")
        for night in record.newest_first(nightly):
            if night.outcome == "running":
                print(
                    f"the night of {nightly.label(night)}, job {night.cluster}, ends after the repetition at work,"
                    f" without tables or a message; `condor_rm {night.cluster}` ends it now"
                )
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """One line on the standard output and a status, whatever happens; anything unforeseen is UNKNOWN."""
    from tierbench.submit.nightly.monitoring import STATUS, Health, changes, plugin_line

    now = datetime.now(UTC)
    try:
        nightly = find_nightly(arguments.nightly)
        _look(nightly, now)
        try:
            health = Health(nightly, changes(nightly), now)
        except TierbenchError as error:
            health = Health(nightly, [], now)
            if health.state == "OK":
                raise TierbenchError(f"{nightly.name}: {error}") from None
        print(plugin_line(nightly, health))
        return health.status
    except Exception as error:  # whatever it is: a traceback is exit status 1, and that is WARNING
        print(f"TIERBENCH UNKNOWN - {' '.join(printable(in_words(error)).split())}")
        return STATUS["UNKNOWN"]


def _ack(arguments: argparse.Namespace) -> int:
    from tierbench.submit.nightly.monitoring import acknowledge, changes, write_textfile

    nightly = find_nightly(arguments.nightly)
    changed = changes(nightly)
    matching = [change for change in changed if arguments.configuration in ("", change.configuration or ENVIRONMENT)]
    if changed and not matching:
        others = ", ".join(change.configuration or ENVIRONMENT for change in changed)
        raise ConfigError(f"{arguments.configuration}: has not changed; what has is {others}")
    for change in matching:
        acknowledge(nightly, change, getpass.getuser(), arguments.note, arguments.accept)
        print(f"acknowledged{' and accepted' if arguments.accept else ''}: {change.sentence}")
    write_textfile(nightly, changes(nightly))
    if not matching:
        print("there is nothing to acknowledge")
    return 0


def _step(arguments: argparse.Namespace) -> int:
    """A step of a night; it never fails for what the next steps can do without."""
    from tierbench.dags.graphs import NOTHING_TO_DO
    from tierbench.submit.nightly.steps import finish, goes_on, needs_confirmation, start

    nightly = find_nightly(arguments.nightly, say)
    folder = arguments.folder.absolute().resolve()
    try:
        match arguments.step:
            case "begin":
                night = start(nightly, False)
                return 1 if night and night.outcome == "failed" else 0
            case "links":
                return 0 if goes_on(nightly, folder) else NOTHING_TO_DO
            case "judge":
                return 0 if needs_confirmation(nightly, folder) else NOTHING_TO_DO
        finish(nightly, folder)
        return 0
    except (TierbenchError, OSError) as error:
        say(f"{arguments.step}: {error}")
        return {"judge": NOTHING_TO_DO, "links": 0}.get(arguments.step, 1)
