"""tierbench testbed up | check | run | attach | status | exec | shell | down"""

import argparse
import time
from pathlib import Path
from typing import Any

from tierbench.errors import ConfigError
from tierbench.spec import NAMED
from tierbench.submit.console import add_command, add_group, new_run, warn
from tierbench.testbed import settings, terminal
from tierbench.testbed.check import check
from tierbench.testbed.run import attach, more, run
from tierbench.testbed.testbed import SHIPPED, Testbed

DESCRIPTION = """\
An emulated Tier-2/Tier-3 pair on this Linux machine, of real daemons: HTCondor, XRootD, MIT
Kerberos, NAT and a WAN with delay and rate cap, each host in namespaces of its own. A stand-in
(MooseFS behind a Kerberos gate) takes the place of Kerberized Lustre, which needs kernel modules.
"""
EXAMPLES = """\
  tierbench testbed up                                bring it up, as site-configs/testbed.toml says
  tierbench testbed up --name far --set rtt_ms=53     another one beside it, farther away
  tierbench testbed check                             read by each access method from a real job on each worker
  tierbench testbed run quick                         an experiment, with all that it needs
  tierbench testbed run quick --name far --set rtt_ms=53    the same on another one, farther away
  tierbench testbed run --all-papers --list           the hours of all papers' experiments
  tierbench testbed attach runs/quick-…               again to one that goes on after Ctrl-C
  tierbench testbed status                            ask every host and daemon how it is
  tierbench testbed exec wn01 -- ping -c3 oss.uf.test
  tierbench testbed exec --user bench ce -- condor_status
  tierbench testbed shell dgt
  tierbench testbed down                              leave nothing behind

Testbeds and the cached root file systems live in $TIERBENCH_HOME (default /var/lib/tierbench).
"""


def register(subcommands: Any) -> None:
    text = "Emulate a Tier-2/Tier-3 pair on this machine"
    _, verbs = add_group(subcommands, "testbed", text, DESCRIPTION, EXAMPLES)

    def verb(name: str, run: Any, what: str, more: str = "") -> argparse.ArgumentParser:
        sub = add_command(verbs, name, run, what, f"{what[0].upper()}{what[1:]}. {more}")
        sub.add_argument("--name", default="default", help="which testbed, if there are several (%(default)s)")
        return sub

    up = verb("up", _up, "bring it up; finds it running if it is")
    file = "a site file with a [testbed] table (default: the testbed.toml that comes with tierbench)"
    up.add_argument("--config", type=Path, metavar="FILE", help=file)
    setting = "override one setting, such as rtt_ms=53 or rates_mbps.wan=500; may be repeated"
    reading = "read a file by each access method, caches cold, from an HTCondor job on each worker"
    check = verb("check", _check, reading, "Exit status 1 if any file arrived damaged.")
    check.add_argument("--mb", type=int, default=32, metavar="N", help="size of each file in MiB (%(default)s)")
    running = "make an experiment's replicas on its storage, run it on its access point, bring the run directory home"
    experiment = verb("run", _run, running)
    what = f"{NAMED}; with --more, a run directory"
    experiment.add_argument("experiment", metavar="EXPERIMENT|RUN", nargs="?", help=what)
    into = "the run directory (default: runs/EXPERIMENT-TIME, or runs/all-papers)"
    experiment.add_argument("--into", type=Path, metavar="DIR", help=into)
    repetitions = "N repetitions more of a run that has come home, also if its testbed is gone"
    kind = experiment.add_mutually_exclusive_group()
    kind.add_argument("--more", type=int, metavar="N", help=repetitions)
    for sub in (up, kind):
        sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=setting)
    every = "every -scaled experiment in turn, each on the testbed that it needs, with a page of all of them; "
    every += "called again, it goes on where it stopped"
    kind.add_argument("--all-papers", action="store_true", help=every)
    anyway = "also where something is missing, or the first trials are INVALID"
    experiment.add_argument("--anyway", action="store_true", help=anyway)
    experiment.add_argument("--list", action="store_true", help="with --all-papers: show its hours, run nothing")
    watching = "watch a run that goes on in it, and bring it home when it has ended"
    again = verb("attach", lambda arguments: attach(Testbed(arguments.name), arguments.into, Progress()), watching)
    again.add_argument("into", type=Path, metavar="DIR", help="the run directory, as it was to be called here")
    verb("down", _down, "take it down, whatever state it is in")
    states = "Exit status 1 if any is not well, 2 if there is no testbed."
    verb("status", _status, "ask every host and daemon how it is", states)
    execute = verb("exec", _exec, "run a command on one of its hosts")
    shell = verb("shell", _exec, "a shell on one of its hosts")
    for sub in (execute, shell):
        sub.add_argument("--user", help="as whom (root); jobs are bench's")
        sub.add_argument("host", metavar="HOST")
    execute.add_argument("command", nargs="+", metavar="CMD", help="after --, so that its options are its own")
    shell.set_defaults(command=["bash", "-i"])


class Progress:
    """Says what is being done, and when it began."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def __call__(self, words: str) -> None:
        warn(f"{self.seconds:6.1f} s  {words}")


def _up(arguments: argparse.Namespace) -> int:
    site = arguments.config or SHIPPED
    demanded = settings.load(site, arguments.set)
    testbed, progress = Testbed(arguments.name), Progress()
    as_it_is = not arguments.config and not arguments.set and testbed.is_up  # perhaps as an experiment demanded
    if not as_it_is and testbed.up(demanded, progress, site):
        print(f"testbed {testbed.name!r} is up after {progress.seconds:.1f} s: {', '.join(testbed.hosts)}")
    else:
        print(f"testbed {testbed.name!r} was up already")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    testbed, progress = Testbed(arguments.name), Progress()
    if testbed.down():
        print(f"testbed {testbed.name!r} is down after {progress.seconds:.1f} s; nothing is left of it")
    else:
        print(f"there was no testbed {testbed.name!r}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    replies = Testbed(arguments.name).status()
    for reply in replies:
        print(f"{'ok ' if reply.well else 'BAD'}  {reply.host:<5} {reply.thing:<15} {reply.detail}")
    return 0 if all(reply.well for reply in replies) else 1


def _check(arguments: argparse.Namespace) -> int:
    if arguments.mb < 1:
        raise ConfigError(f"--mb {arguments.mb}: must be at least 1")
    outcomes = check(Testbed(arguments.name), arguments.mb, Progress())
    print(
        f"{'access method':<19} {'worker':<22} {'MiB':>4} {'s':>6} {'Mb/s':>6}  {'contents':<8}  sent by storage / read"
    )
    for outcome in outcomes:
        for reading in outcome.readings:
            rate = outcome.file_bytes * 8 / 1e6 / reading.seconds
            print(
                f"{outcome.access:<19} {reading.worker:<22} {arguments.mb:>4} {reading.seconds:>6.1f} {rate:>6.0f}"
                f"  {'intact' if reading.intact else 'DAMAGED':<8}  {outcome.sent_per_byte_read:.3f}"
            )
    return 0 if all(reading.intact for outcome in outcomes for reading in outcome.readings) else 1


def _run(arguments: argparse.Namespace) -> int:
    testbed = Testbed(arguments.name)
    if bool(arguments.experiment) == arguments.all_papers:
        raise ConfigError("testbed run needs an experiment, or --all-papers, and not both")
    if arguments.list and not arguments.all_papers:
        raise ConfigError("--list goes with --all-papers; `tierbench plan` shows a single experiment")
    if arguments.all_papers:
        from tierbench.testbed.all_papers import run_all, show_list  # with the planner, which nothing else here needs

        into = arguments.into or Path("runs/all-papers")
        if arguments.list:
            show_list(into)
            return 0
        return run_all(testbed, into, Progress(), arguments.anyway)
    if arguments.more is not None and arguments.into:
        raise ConfigError("--more adds to the run that is named, and --into names a new one: not both")
    if arguments.more is not None:
        return more(testbed, arguments.more, Path(arguments.experiment), Progress(), arguments.anyway)
    into = arguments.into or new_run(Path(arguments.experiment).stem)
    return run(testbed, arguments.experiment, into, Progress(), arguments.anyway, arguments.set)


def _exec(arguments: argparse.Namespace) -> int:
    host = Testbed(arguments.name).host(arguments.host)
    if arguments.user and not host.succeeds("id", arguments.user):
        raise ConfigError(f"{host.name} has no user {arguments.user!r}; jobs and their owner are bench's")
    return terminal.run(host, arguments.command, arguments.user)
