"""`tierbench status`: how far a run has come, read from its directory alone."""

from __future__ import annotations

import argparse
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tierbench.checked_text import printable
from tierbench.submit import output, pool
from tierbench.submit.progress import Run, Stage, TrialProgress
from tierbench.submit.trial.dagman import is_held


def register(subcommands: Any) -> None:
    """Add `status` to the command line."""
    text = "Show how far a run has come, from its directory alone"
    parser = subcommands.add_parser("status", help=text, description=f"{text}; `watch` follows it.")
    parser.set_defaults(run=_status)
    parser.add_argument("directory", metavar="RUN", type=Path, help="a run directory")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _status(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    trials = list(run.trials())
    if arguments.json:
        submission = run.submission
        content = {
            "run": str(run.directory),
            "cluster": submission.cluster if submission else None,
            "lost": lost(run, trials),
            "trials": [trial.as_record() for trial in trials],
        }
        print(output.document("status", content))
    else:
        output.show("\n".join([*_lines(trials), *filter(None, [lost(run, trials)])]))
    return 0


def lost(run: Run, trials: Sequence[TrialProgress]) -> str:
    """In words, that a run with trials at work is in no queue any more, and what to do; of any other nothing."""
    at_work = [trial.name for trial in trials if trial.stage not in (Stage.FINISHED, Stage.WAITING)]
    submission = run.submission
    if not at_work or submission is None or run.copy_of or submission.host not in ("", socket.getfqdn()):
        return ""
    if any(map(is_held, run.directory.glob("*.dag.lock"))):
        return ""
    try:
        if pool.in_queue(submission.cluster):
            return ""
    except pool.PoolError:  # it may be restarted just now
        return ""
    return printable(
        f"job {submission.cluster} is in no queue any more, so nobody runs {', '.join(at_work)}; "
        f"`tierbench submit {run.directory}` does what is not complete"
    )


def _lines(trials: Sequence[TrialProgress]) -> Iterator[str]:
    numbers = Counter(trial.state if trial.stage is Stage.FINISHED else trial.stage.value for trial in trials)
    yield f"{len(trials)} trials: " + ", ".join(f"{number} {state}" for state, number in numbers.items())
    for trial in trials:
        if trial.stage is Stage.FINISHED and not trial.well:
            yield printable(f"{trial.name}: INCOMPLETE: {'; '.join(trial.reasons)}")
        elif trial.stage not in (Stage.FINISHED, Stage.WAITING):
            waits = f"; waits for {trial.waiting_for}" if trial.waiting_for else ""
            yield printable(f"{trial.name}: {trial.stage.value}, {trial.ready} ready, {trial.done} done{waits}")
