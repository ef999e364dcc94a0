"""The sub-commands from experiment to tables: plan, write, run, watch, stop, tables, replicas."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tierbench import files, names
from tierbench.checked_text import printable
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, from_json
from tierbench.dags.write import write_run
from tierbench.errors import BusyError, ConfigError, TierbenchError
from tierbench.interrupts import exit_status, held_back
from tierbench.site_configs.site import Site, find_site
from tierbench.spec import NAMED
from tierbench.submit import pool, replication
from tierbench.submit.answered import decide
from tierbench.submit.estimates import run_bytes
from tierbench.submit.links import leave_ceilings
from tierbench.submit.more import Asked, extension
from tierbench.submit.output import Quiet, document, say, show, warn
from tierbench.submit.planning import asked_experiment, expanded, ship_programs
from tierbench.submit.pool import PoolError, have_command_on_path
from tierbench.submit.preflight import Finding, preflight, refuse, stopping
from tierbench.submit.preview import as_content, preview
from tierbench.submit.progress import FIRST, Run
from tierbench.submit.results import check_run
from tierbench.submit.trial.skip_repeats import tierbench
from tierbench.submit.watch import ObjectView, PatientQueue, View, lost, watch

RUN = """\
examples:
  tierbench run quick --site my-site.toml
  tierbench run quick --site my-site.toml --only 'lan-*' --only direct
  tierbench run --more 3 runs/quick-20260101-120000      the same trials, three times more
"""
REMOVAL_SECONDS = 120  # jobs that do not end are given up by the trial's last step before that
MANY = 1000  # trials: a product of axes grows faster than one thinks


def register(subcommands: Any) -> None:
    """Add the sub-commands to the command line, in the order in which they are used."""

    def command(name: str, run: Any, text: str, **more: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = subcommands.add_parser(name, help=text, description=text + ".", **more)
        parser.set_defaults(run=run)
        return parser

    def experiment_at_site(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", metavar="EXPERIMENT", help=NAMED)
        parser.add_argument("--site", required=True, help=NAMED)

    def new_directory(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--into", type=Path, metavar="DIR", help="the run directory (default: runs/EXPERIMENT-TIME)"
        )
        parser.add_argument("--yes", action="store_true", help=f"more than {MANY} trials are meant: do not ask")

    def choice(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--only", metavar="PATTERN", action="append", default=[],
            help="only accesses, workloads, clients or configurations like this, such as 'xrdcp*'; may be repeated",
        )  # fmt: skip

    def run_directory(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="RUN", type=Path, help="a run directory")

    plan = command("plan", _plan, "Show just what would happen, and what is missing for it; changes nothing")
    experiment_at_site(plan)
    plan.add_argument("--json", action="store_true", help="as JSON")
    choice(plan)

    replicas = command("replicas", _replicas, "Make, or verify, the unique files that an experiment's clients read")
    experiment_at_site(replicas)
    replicas.add_argument("--verify", action="store_true", help="read all that is there and compare checksums")
    replicas.add_argument("--processes", type=int, default=4 * (os.cpu_count() or 1), help="at once (%(default)s)")
    where = replicas.add_mutually_exclusive_group()
    where.add_argument("--directory", type=Path, help="where, if not at the site's storage.replicas")
    where.add_argument("--access", help="copy them, or verify the copies, where this way of access has its own")

    write = command("write", _write, "Write a run directory, whose DAGs can be given to condor_submit_dag by hand")
    experiment_at_site(write)
    new_directory(write)
    choice(write)

    run = command(
        "run", _run, "Write a run directory, measure the links, submit its DAG, watch it, make its tables", epilog=RUN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    run.add_argument("experiment", metavar="EXPERIMENT|RUN", help=f"{NAMED}; with --more a run directory")
    run.add_argument("--site", help=NAMED)
    run.add_argument("--more", type=int, metavar="N", help="add N repetitions to a run that has ended")
    new_directory(run)
    choice(run)
    run.add_argument("--no-links", action="store_true", help="do not measure the links with iperf3 first")
    run.add_argument(
        "--anyway", action="store_true", help="also where something is missing, or the first trials are INVALID"
    )

    resume = command("submit", _submit, "Submit a run directory's DAG, or what is not complete of it")
    run_directory(resume)

    attach = command("watch", _watch, "Watch a run; Ctrl-C stops the watching, not the run")
    run_directory(attach)
    attach.add_argument("--json", action="store_true", help="each change as an object of JSON on a line")

    stop = command("stop", _stop, "End a run cleanly; what was measured is kept")
    run_directory(stop)

    tables = command("tables", _tables, "Turn samples and job records into CSVs, and show them; can be repeated")
    run_directory(tables)
    tables.add_argument("--json", action="store_true", help="show trials, summary, ratios and the answer as JSON")
    tables.add_argument("--parquet", action="store_true", help="also write each table as Parquet, beside its CSV")
    tables.add_argument("--trial", action="store_true", help="RUN is the directory of a single trial")

    needed = command(
        "enough", _enough, "Whether a trial is not needed any more: exit status 0 it is not, 1 it is, 2 an error"
    )
    run_directory(needed)
    needed.add_argument(
        "trial", metavar="TRIAL_ID", nargs="?", help="the name of the trial's folder; without it the names of all that"
        " are not needed, of a run that ends when its question is answered",
    )  # fmt: skip


# -- from definitions to a run directory ---------------------------------------------------------------


def _definitions(arguments: argparse.Namespace) -> tuple[Site, Experiment]:
    return find_site(arguments.site), asked_experiment(arguments.experiment)


def _asked(arguments: argparse.Namespace) -> str:
    return f"{arguments.experiment} --site {arguments.site}"


def _plan(arguments: argparse.Namespace) -> int:
    site, experiment = _definitions(arguments)
    plan, slots = expanded(site, experiment, arguments.only)
    findings, needed = preflight(plan, site, experiment, slots, _asked(arguments)), run_bytes(plan, site, experiment)
    if arguments.json:
        print(document("plan", {**as_content(plan, site, experiment, slots, findings), "run_bytes": needed}))
        return 0
    show("\n".join([*preview(plan, site, experiment, slots, findings), *without_tables("RUN")]))
    show(f"the run directory takes up to {needed / 1e6:.0f} MB")
    return 0


def without_tables(run: str) -> list[str]:
    """That DAGs which are submitted from here make no tables, and how these are made."""
    have_command_on_path()
    if tierbench():
        return []
    return [f"tierbench is not on the PATH here, so DAGs make no tables by themselves: `tierbench tables {run}` does"]


def _write(arguments: argparse.Namespace) -> int:
    directory = _written(arguments, incomplete=True).directory
    print(directory)
    say(
        f"tables are made where tierbench is on the access point's PATH; else `tierbench tables {directory}` makes them"
    )
    return 0


def _written(arguments: argparse.Namespace, incomplete: bool) -> Run:
    """A run directory; refused, unless an incomplete one will do, where something is missing that trials would need."""
    site, experiment = _definitions(arguments)
    plan, slots = expanded(site, experiment, arguments.only)
    _check_number(plan, arguments)
    directory = arguments.into or Path("runs") / f"{experiment.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    _check_needs(preflight(plan, site, experiment, slots, _asked(arguments), directory), incomplete)
    write_run(plan, site, experiment, directory)
    Asked.of(arguments.experiment, arguments.site, arguments.only).leave(directory)
    ship_programs(experiment, directory, say)
    return Run(directory)


def _check_needs(findings: Sequence[Finding], incomplete: bool) -> None:
    """Say what is doubtful; refused, unless an incomplete run will do, where something is missing."""
    stops = stopping(findings, anyway=incomplete)
    for finding in findings:
        if finding not in stops:
            warn(finding.line)
    refuse(stops, "" if incomplete else "; nothing was submitted, --anyway does where it can be done")


def _check_number(plan: Plan, arguments: argparse.Namespace) -> None:
    """Very many trials are asked about."""
    number = len(plan.trials)
    if number <= MANY or arguments.yes:
        return
    try:
        if sys.stdin.isatty() and input(f"{number} trials; really? [y/N] ").strip().lower() in ("y", "yes"):
            return
    except EOFError:
        print()  # Ctrl-D ends no line
    raise ConfigError(
        f"{arguments.experiment}: has {number} trials, more than {MANY}; `tierbench plan` shows what makes them,"
        " --yes runs them"
    )


# -- running ---------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    if arguments.more is not None:
        run, site = _extended(arguments)
    elif arguments.site is None:
        raise ConfigError("run: --site is missing; `tierbench list` shows the sites that come with tierbench")
    else:
        run, site = _written(arguments, incomplete=arguments.anyway), arguments.site
        say(f"{run.directory}: {len(run.plan['trials'])} trials")
    if not arguments.no_links:
        plan = from_json(files.read_text(run.directory / names.PLAN))
        try:
            leave_ceilings(find_site(site), plan, run.directory, say)
        except KeyboardInterrupt as interrupt:
            say(f"\ninterrupted before anything was submitted; `tierbench submit {run.directory}` does that")
            return exit_status(interrupt)
    return _submit_and_watch(run, None if arguments.anyway else partial(_stops, run))


def _extended(arguments: argparse.Namespace) -> tuple[Run, str]:
    """A run that has ended, with more repetitions; and its site."""
    if arguments.site or arguments.into or arguments.only:
        raise ConfigError(
            "--more: site, trials and directory are those of the run; leave --site, --only and --into out"
        )
    more = extension(Run(Path(arguments.experiment)), arguments.more)
    directory, given = more.run.directory, f"{more.asked.experiment} --site {more.asked.site}"
    _check_needs(preflight(more.added, more.site, more.experiment, more.slots, given, directory), arguments.anyway)
    more.write()
    more.run.forget_lost_dagman()
    say(f"{directory}: {len(more.added.trials)} trials more")
    return Run(directory), more.asked.site


def _submit(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    if run.copy_of:
        say(f"{run.directory}: is a copy of {run.copy_of}, which is left alone; what is not complete is done here")
        run.become_its_own()
    elif run.submission and pool.in_queue(_submitted(run)):
        cluster = run.submission.cluster
        raise BusyError(f"{run.directory}: is in the queue already, as job {cluster}; `tierbench watch` shows it")
    else:
        run.forget_lost_dagman()
    if all(trial.well for trial in run.trials()):
        raise ConfigError(f"{run.directory}: all its trials are complete; a new run of them needs a new directory")
    return _submit_and_watch(run)


def _submit_and_watch(run: Run, stops: Callable[[str], bool] | None = None) -> int:
    began = time.time()
    for line in without_tables(str(run.directory)):
        warn(line)
    try:
        with held_back():
            cluster = pool.submit_dag(run.directory / names.EXPERIMENT_DAG)
            run.record_submission(cluster, began)
    except PoolError as error:
        raise PoolError(f"{error}; `tierbench submit {run.directory}` tries it again") from None
    say(f"submitted as job {cluster}")
    return _watch_to_the_end(run, stops=stops)


def _watch(arguments: argparse.Namespace) -> int:
    view = ObjectView(sys.stdout) if arguments.json else None
    return _watch_to_the_end(Run(arguments.directory), view)


def _stops(run: Run, reason: str) -> bool:
    """Whether a run ends whose first trials are all INVALID: the user is asked, if there is one."""
    warn(f"the first {FIRST} trials are INVALID for one reason, so the others will be: {printable(reason)}")
    if sys.stdin.isatty():
        try:
            return input("go on all the same? [y/N] ").strip().lower() not in ("y", "yes")
        except EOFError:
            print()  # Ctrl-D ends no line
    warn(f"stopping the run; `tierbench submit {run.directory}` goes on with it, `run --anyway` does not stop")
    return True


def _watch_to_the_end(run: Run, objects: ObjectView | None = None, stops: Callable[[str], bool] | None = None) -> int:
    cluster = _submitted(run)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            view = objects or View(nowhere if Quiet.asked else sys.stderr)
            ended = watch(run, partial(pool.in_queue, cluster), view, stops)
        if not ended:
            _end(run, cluster)
            return 1
    except KeyboardInterrupt as interrupt:
        say(f"\nno longer watching; the run goes on. `tierbench watch {run.directory}` shows it again,")
        say(f"`tierbench stop {run.directory}` ends it")
        return exit_status(interrupt)
    usable = bool(objects) or _show_tables(run.directory)
    if (run.directory / names.ANSWERED).exists() and (sentence := decide(run.directory).sentence):
        show(sentence)
    unfinished = [trial for trial in run.trials() if not trial.well]
    if forsaken := lost(run, unfinished):
        warn(forsaken)
    elif unfinished:
        warn(f"{len(unfinished)} trials are not complete; `tierbench submit {run.directory}` repeats those")
    say(f"the tables are {run.directory}/*.csv; `tierbench report {run.directory}` makes a page with figures of it")
    if not usable:
        warn("no trial is usable: none is VALID or SUSPECT, see their reasons above")
    return 1 if unfinished or not usable else 0


def _submitted(run: Run) -> int:
    submission, original = run.submission, run.copy_of
    if submission is None:
        raise ConfigError(f"{run.directory}: was not submitted by tierbench; `tierbench submit` does that")
    if original:
        raise ConfigError(
            f"{run.directory}: is a copy; job {submission.cluster} is that of {original}. `tierbench submit` runs what"
            " is not complete in the copy"
        )
    if submission.host not in ("", socket.getfqdn()):
        raise ConfigError(f"{run.directory}: was submitted on {submission.host}; do this there")
    return submission.cluster


def _stop(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    cluster = _submitted(run)
    if not pool.in_queue(cluster):
        say(f"{run.directory}: has ended already, so there is nothing to stop")
        return 0
    _end(run, cluster)
    return 0


def _end(run: Run, cluster: int) -> None:
    """Take a run out of the queue, and make its tables."""
    pool.remove(cluster, "tierbench stop")
    say(f"job {cluster} removed; waiting for the trial at work to close its books")
    queue = PatientQueue(partial(pool.in_queue, cluster), say)
    if not _leaves(queue):
        left = ", ".join(map(str, pool.forget(cluster)))
        say(f"jobs {left} did not end within {REMOVAL_SECONDS} s, so were taken out of the queue (condor_rm -forcex)")
        if not _leaves(queue):
            raise TierbenchError(f"job {cluster} is still in the queue; see condor_q {cluster}")
    _show_tables(run.directory)


def _leaves(queue: PatientQueue) -> bool:
    """Whether a run that was removed leaves the queue in time."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while queue.holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


# -- results ---------------------------------------------------------------------------------------------


def _tables(arguments: argparse.Namespace) -> int:
    if arguments.trial:
        folder = arguments.directory
        if not (folder / names.TRIAL).is_file() and not (folder.absolute().parents[1] / names.PLAN).is_file():
            raise ConfigError(f"{folder}: is not a trial's folder (it has no {names.TRIAL}, and lies in no run)")
        from tierbench.postprocess.tables.write import trial_tables

        trial_tables(arguments.directory)
    else:
        check_run(arguments.directory, names.TRIALS)
        if arguments.parquet:
            from tierbench.postprocess.tables.parquet import arrow, write_tables

            arrow("use the CSVs")  # before the work of making them
        _show_tables(arguments.directory, as_json=arguments.json)
        for path in write_tables(arguments.directory) if arguments.parquet else ():
            say(f"wrote {path}")
    return 0


def _show_tables(directory: Path, *, as_json: bool = False) -> bool:
    """Make and show them; whether any trial is usable."""
    try:
        from tierbench.postprocess.compare.points import points
        from tierbench.postprocess.report.answer import answers
        from tierbench.postprocess.report.grid import grid_rows, grid_text
        from tierbench.postprocess.tables.load_run import read_results
        from tierbench.postprocess.tables.terminal import as_text, tables_content
        from tierbench.postprocess.tables.write import tables
        from tierbench.postprocess.verdict.counting import counts
    except ImportError as error:
        raise TierbenchError(
            f"tables need numpy: {error}; `tierbench tables {directory}` where it is installed"
        ) from None
    made = tables(directory)
    if not as_json:
        show(as_text(directory))
    sentences: list[str] = []
    grid: dict[str, Any] = {}
    try:
        results = read_results(directory, say)
        sentences, of_run = [said.sentence for said in answers(results)], points(results)
        grid = {"text": grid_text(results, of_run), "rows": list(grid_rows(results, of_run))}
    except TierbenchError as error:  # its plan may be damaged, which costs no table
        warn(f"no answer: {error}")
    if as_json:
        rows = grid.get("rows", [])
        print(document("tables", {**tables_content(directory), "answers": sentences, "points": rows}))
    elif sentences:
        show("\n".join(["", *filter(None, [*sentences[:1], grid["text"], *sentences[1:]])]))
    return any(map(counts, made.trials))


def _enough(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.verdict.counting import enough_without

    if arguments.trial is None:
        print("\n".join(decide(arguments.directory).spared))
        return 0
    try:
        unneeded = enough_without(arguments.directory, arguments.trial)
    except TierbenchError as error:
        raise ConfigError(str(error)) from None  # whose exit status is not that of a trial which is needed
    print(f"{arguments.trial}: {'not needed any more' if unneeded else 'needed'}")
    return 0 if unneeded else 1


def _replicas(arguments: argparse.Namespace) -> int:
    site, experiment = _definitions(arguments)
    if arguments.processes < 1:
        raise ConfigError(f"--processes {arguments.processes}: must be at least 1")
    complaints: list[str] = []
    if arguments.access:
        access, sets = replication.copied(site, experiment, arguments.access)
        for replicas in sets:
            if arguments.verify:
                complaints += replication.verify_copies(access, replicas, arguments.processes)
            else:
                replication.copy(site, access, replicas, arguments.processes, say)
        return _told(arguments, complaints)
    parent = arguments.directory or Path(site.storage.replicas)
    for replicas in experiment.used_replicas.values():
        if arguments.verify:
            complaints += replication.verify(replicas, parent, arguments.processes)
        else:
            replication.make(replicas, parent, arguments.processes, say)
    return _told(arguments, complaints)


def _told(arguments: argparse.Namespace, complaints: list[str]) -> int:
    """Tell what is wrong with replicas, if anything was looked for."""
    for complaint in complaints:
        print(complaint)
    if arguments.verify and not complaints:
        print("all replicas are there and intact")
    return 1 if complaints else 0
