"""The sub-commands from an experiment to the end of its run: plan, write, run, submit, watch, stop."""

import argparse
import io
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.checked_text import printable
from tierbench.condition_state import slowest
from tierbench.dags.plan import from_json
from tierbench.dags.write import write_run
from tierbench.errors import BusyError, ConfigError, TierbenchError, exit_status, held_back
from tierbench.site_configs.site import find_site
from tierbench.spec import NAMED, resolved
from tierbench.submit import console, pool, programs
from tierbench.submit.console import Quiet, add_command, as_json, experiment_at_site, run_directory, say, show, warn
from tierbench.submit.links import leave_ceilings
from tierbench.submit.planning import Planned, asked_experiment, expanded, preflight, refuse
from tierbench.submit.pool import PoolError, have_command_on_path
from tierbench.submit.preview import plan_document, preview
from tierbench.submit.progress import BY_HAND, Run, Stage, Submission, measuring
from tierbench.submit.repetitions import Definitions, decide, extension
from tierbench.submit.results import show_tables
from tierbench.submit.trial.disk_reserve import give_up_reserve
from tierbench.submit.trial.finish import RUN_SECONDS, SLOT_SECONDS, TRIES
from tierbench.submit.trial.skip_repeats import tierbench
from tierbench.submit.watch import ObjectView, PatientQueue, View, lost, watch

RUN = """\
  tierbench run quick --site my-site.toml
  tierbench run quick --site my-site.toml --only 'lan-*' --only direct
  tierbench run --more 3 runs/quick-20260101-120000      the same trials, three times more
"""
REMOVAL_SECONDS = 120  # jobs that do not end are given up by the trial's last step before that
ANSWER_S = 60.0
MANY = 1000  # trials: a product of axes grows faster than one thinks


def register(subcommands: Any) -> None:
    command = partial(add_command, subcommands)

    def new_directory(parser: argparse.ArgumentParser) -> None:
        choice(parser)
        into = "the run directory (default: runs/EXPERIMENT-TIME)"
        parser.add_argument("--into", type=Path, metavar="DIR", help=into)
        parser.add_argument("--yes", action="store_true", help=f"more than {MANY} trials are meant: do not ask")

    def choice(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--only", metavar="PATTERN", action="append", default=[],
            help="only accesses, workloads, clients or configurations like this, such as 'xrdcp*'; may be repeated",
        )  # fmt: skip

    plan = command("plan", _plan, "Show just what would happen, and what is missing for it; changes nothing")
    experiment_at_site(plan)
    as_json(plan)
    choice(plan)

    write = command("write", _write, "Write a run directory, whose DAGs can be given to condor_submit_dag by hand")
    experiment_at_site(write)
    new_directory(write)

    text = "Write a run directory, measure the links, submit its DAG, watch it, make its tables"
    runs = command("run", run, text, examples=RUN)
    runs.add_argument("experiment", metavar="EXPERIMENT|RUN", help=f"{NAMED}; with --more a run directory")
    runs.add_argument("--site", help=NAMED)
    runs.add_argument("--more", type=int, metavar="N", help="add N repetitions to a run that has ended")
    new_directory(runs)
    runs.add_argument("--no-links", action="store_true", help="do not measure the links with iperf3 first")
    anyway = "also where something is missing, or the first trials are INVALID"
    runs.add_argument("--anyway", action="store_true", help=anyway)

    run_directory(command("submit", _submit, "Submit a run directory's DAG, or what is not complete of it"))
    attach = command("watch", _watch, "Watch a run; Ctrl-C stops the watching, not the run")
    run_directory(attach)
    as_json(attach, "each change as an object of JSON on a line")
    run_directory(command("stop", _stop, "End a run cleanly; what was measured is kept"))


def _plan(arguments: argparse.Namespace) -> int:
    planned = _planned(arguments)
    findings = preflight(planned, f"{arguments.experiment} --site {arguments.site}")
    if arguments.json:
        print(plan_document(planned, findings))
        return 0
    show("\n".join([*preview(planned, findings), *without_tables("RUN")]))
    show(f"the run directory takes up to {planned.run_bytes / 1e6:.0f} MB")
    return 0


def _planned(arguments: argparse.Namespace) -> Planned:
    return expanded(find_site(arguments.site), asked_experiment(arguments.experiment), arguments.only)


def without_tables(run: str) -> Iterator[str]:
    """That DAGs which are submitted from here make no tables, and how these are made."""
    have_command_on_path()
    if not tierbench():
        yield f"tierbench is not on the PATH here, so DAGs make no tables by themselves: `tierbench tables {run}` does"


def _write(arguments: argparse.Namespace) -> int:
    directory = _written(arguments, incomplete=True).directory
    print(directory)
    say(f"tables are made where tierbench is on the access point's PATH; else by `tierbench tables {directory}`")
    return 0


def _written(arguments: argparse.Namespace, incomplete: bool) -> Run:
    """A run directory; refused, unless an incomplete one will do, where something is missing that trials would need."""
    planned = _planned(arguments)
    trials = len(planned.plan.trials)
    if trials > MANY and not arguments.yes and not _confirmed(f"{trials} trials; really?"):
        remedy = "`tierbench plan` shows what makes them, --yes runs them"
        raise ConfigError(f"{arguments.experiment}: has {trials} trials, more than {MANY}; {remedy}")
    directory = arguments.into or console.new_run(planned.experiment.name)
    refuse(preflight(planned, f"{arguments.experiment} --site {arguments.site}", directory), incomplete, warn)
    write_run(planned.plan, planned.site, planned.experiment, directory)
    try:
        definitions = Definitions(resolved(arguments.experiment), resolved(arguments.site), arguments.only)
        json_files.write(directory / names.ASKED, definitions)
        programs.ship(planned.experiment, directory / names.PROGRAMS, say)
    except BaseException:  # a run without them would be measured otherwise
        files.remove(directory)
        raise
    return Run(directory)


def _confirmed(question: str) -> bool:
    """Whether somebody at a terminal says so within a minute: a run goes on meanwhile, and nobody may be there."""
    if not sys.stdin.isatty():
        return False
    print(f"{question} [y/N] ", end="", flush=True)
    answer = sys.stdin.readline() if select.select([sys.stdin], [], [], ANSWER_S)[0] else ""
    if not answer.endswith("\n"):
        print()  # neither silence nor Ctrl-D ends the line
    return answer.strip().lower() in ("y", "yes")


def run(arguments: argparse.Namespace) -> int:
    if arguments.more is not None:
        run, site = _extended(arguments)
    elif arguments.site is None:
        raise ConfigError("run: --site is missing; `tierbench list` shows the sites that come with tierbench")
    else:
        run, site = _written(arguments, incomplete=arguments.anyway), arguments.site
        say(f"{run.directory}: {len(run.plan['trials'])} trials")
    _warn_of_others(run)
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
        raise ConfigError("--more: site, trials and directory are those of the run; leave --site, --only, --into out")
    more = extension(Run(Path(arguments.experiment)), arguments.more)
    definitions = more.definitions
    call = f"{definitions.experiment} --site {definitions.site}"
    refuse(preflight(more.added, call, more.run.directory), arguments.anyway, warn)
    more.write()
    more.run.forget_lost_dagman()
    say(f"{more.run.directory}: {len(more.added.plan.trials)} trials more")
    return Run(more.run.directory), definitions.site


def _submit(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    complete = all(trial.well for trial in run.trials())
    if run.copy_of:
        say(f"{run.directory}: is a copy of {run.copy_of}, which is left alone; what is not complete is done here")
        if not complete:
            run.become_its_own()
    else:
        _refuse_queued(run)
        if run.goes_on:
            raise BusyError(f"{run.directory}: {BY_HAND}")
        run.forget_lost_dagman()
    if complete:
        raise ConfigError(f"{run.directory}: all its trials are complete; a new run of them needs a new directory")
    _warn_of_others(run)
    return _submit_and_watch(run)


def _refuse_queued(run: Run) -> None:
    if (own := run.submission) and not run.copy_of and _submitted(run).in_queue():
        raise BusyError(f"{run.directory}: is in the queue already, as job {own.cluster}; `tierbench watch` shows it")


def _submit_and_watch(run: Run, stops: Callable[[str], bool] | None = None) -> int:
    began = time.time()
    for line in without_tables(str(run.directory)):
        warn(line)
    try:
        busy = BusyError(f"{run.directory}: is being submitted by somebody else; `tierbench watch` shows it")
        with held_back(), files.locked(run.directory / names.SUBMIT_LOCK, gone=True, held=busy):
            _refuse_queued(run)
            cluster = pool.submit_dag(run.directory / names.EXPERIMENT_DAG)
            run.record_submission(cluster, began)
    except PoolError as error:
        raise PoolError(f"{error}; `tierbench submit {run.directory}` tries it again") from None
    say(f"submitted as job {cluster}")
    return _watch_to_the_end(run, stops=stops)


def _warn_of_others(run: Run) -> None:
    """Trials take turns only within a run."""
    for there, job in measuring():
        if there != run.directory.resolve():
            slows = "where both use the same storage or workers, each is slowed down, also in usable trials"
            warn(f"{there} measures, too ({job}): {slows}")


def _watch(arguments: argparse.Namespace) -> int:
    return _watch_to_the_end(Run(arguments.directory), ObjectView(sys.stdout) if arguments.json else None)


def _stops(run: Run, reason: str) -> bool:
    """Whether a run ends whose first trials are all INVALID: the user is asked, if there is one."""
    warn(f"all trials so far are INVALID for the same reason, so the others will be: {printable(reason)}")
    if _confirmed("go on all the same?"):
        return False
    warn(f"stopping the run; `tierbench submit {run.directory}` goes on with it; with --anyway it would not stop")
    return True


def _watch_to_the_end(run: Run, objects: ObjectView | None = None, stops: Callable[[str], bool] | None = None) -> int:
    own = _submitted(run)
    view = objects or View(io.StringIO() if Quiet.on else sys.stderr)
    hold_messages: set[str] = set()

    def in_queue() -> bool:
        there = own.in_queue()
        with suppress(PoolError):  # it is asked again soon
            for message in set(pool.on_hold(own.cluster) if there else ()) - hold_messages:
                hold_messages.add(message)
                view.tell(message)
        return there

    try:
        ended = watch(run, in_queue, view, stops)
    except KeyboardInterrupt as interrupt:
        say(f"\nno longer watching; the run goes on. `tierbench watch {run.directory}` shows it again,")
        say(f"`tierbench stop {run.directory}` ends it")
        return exit_status(interrupt)
    if not ended:
        _end(run, own)
        return 1
    usable = any(trial.usable for trial in run.trials()) if objects else show_tables(run.directory)
    answered = (run.directory / names.ANSWERED).exists() and not run.plan.get("extended")  # or it is of those before
    if answered and (sentence := decide(run.directory).sentence):
        (objects.tell if objects else show)(sentence)
    unfinished = [trial for trial in run.trials() if not trial.well]
    if loss := lost(run, unfinished):
        warn(loss)
    elif unfinished:
        never = all(trial.stage is Stage.WAITING for trial in run.trials())
        why = f" (none has begun: see {run.directory / names.EXPERIMENT_DAG}.dagman.out)" if never else ""
        warn(f"{len(unfinished)} trials are not complete{why}; `tierbench submit {run.directory}` repeats those")
    if not objects:
        say(f"the tables are {run.directory}/*.csv; `tierbench report {run.directory}` makes a page with figures of it")
    if not usable:
        warn("no trial is usable: none is VALID or SUSPECT, see their reasons above")
    return 1 if unfinished or not usable else 0


NOT_SUBMITTED = "was not submitted by tierbench; `tierbench submit` does that"


def _submitted(run: Run) -> Submission:
    if run.submission is None:
        by_hand = run.goes_on and not run.copy_of
        raise ConfigError(f"{run.directory}: {BY_HAND if by_hand else NOT_SUBMITTED}")
    if run.copy_of:
        whose = f"is a copy; job {run.submission.cluster} is that of {run.copy_of}"
        raise ConfigError(f"{run.directory}: {whose}. `tierbench submit` runs what is not complete in the copy")
    run.check_here()
    return run.submission


def _stop(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    own = _submitted(run)
    if own.in_queue():
        _end(run, own)
    elif run.goes_on:
        raise BusyError(f"{run.directory}: {BY_HAND}")
    else:
        say(f"{run.directory}: has ended already, so there is nothing to stop")
    return 0


def _end(run: Run, own: Submission) -> None:
    """Take a run out of the queue, and make its tables."""
    pool.remove(own.cluster, "tierbench stop")
    say(f"job {own.cluster} removed; waiting for the trial at work to finish")
    queue, seconds = PatientQueue(own.in_queue, say), REMOVAL_SECONDS
    if any(replicas.get("written") for replicas in run.plan.get("replicas", [])):
        say("what it wrote to the storage is removed by a job of its own")
        seconds += round(TRIES * (SLOT_SECONDS + RUN_SECONDS))
    seconds += round(max((slowest(trial.directory) for trial in run.trials()), default=0.0))
    if not files.poll(lambda: not queue.holds(), seconds):
        if left := ", ".join(map(str, pool.forget(own.cluster, own.place))):
            say(f"jobs {left} did not end within {seconds} s, so were taken out of the queue (condor_rm -forcex)")
        if not files.poll(lambda: not queue.holds(), REMOVAL_SECONDS):
            raise TierbenchError(f"job {own.cluster} is still in the queue; see condor_q {own.cluster}")
    for trial in run.trials():  # whose DAGMan was ended before it could
        give_up_reserve(trial.directory)
    show_tables(run.directory)
