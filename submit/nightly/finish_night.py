"""How a night is finished: its tables, its place in the history, what has changed, and who is notified.

Whatever of this fails is noted in the night's record and its message, and holds up nothing else.
"""

from __future__ import annotations

import csv
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tierbench import files, names
from tierbench.dags.plan import from_json
from tierbench.errors import TierbenchError
from tierbench.postprocess.schema.columns import parted
from tierbench.site_configs.site import find_site
from tierbench.submit.links import leave_ceilings
from tierbench.submit.nightly import record
from tierbench.submit.nightly.messages import Message, deliver
from tierbench.submit.nightly.monitoring import changes, note_message, record_in_history, suspected, write_textfile
from tierbench.submit.nightly.prepare import write_confirmation
from tierbench.submit.nightly.record import DELIVERED, NOBODY, Change, Night, Nightly, Say, duration
from tierbench.submit.progress import Run, hopeless

LONGEST = 0.5  # of the time between two nights: longer, and no repetition begins
ENOUGH = 0.75  # of a night's trials are VALID, or its message says why not, as where a keytab went in the middle of it


class Problems:
    """What went wrong beside the night itself."""

    def __init__(self, say: Say) -> None:
        self.lines: list[str] = []
        self.say = say

    def attempt(self, what: str, step: Callable[..., object], *given: object) -> None:
        try:
            step(*given)
        except (TierbenchError, OSError, sqlite3.Error, ValueError) as error:
            self.lines.append(f"{what}: {error}")
            self.say(self.lines[-1])


def goes_on(nightly: Nightly, folder: Path, say: Say) -> bool:
    """Whether the night goes on with another repetition, before which the links are measured; its record says why not.

    A host that does not answer keeps each of its trials waiting for a slot.
    """
    night, run = record.read(folder), folder / names.NIGHT_RUN
    limit_s = LONGEST * nightly.calendar.longest_gap.total_seconds()
    why = ""
    if time.time() - (night.begun_wall_s or night.planned_wall_s) > limit_s:
        why = f"it has taken more than {duration(limit_s)}, so it ended before its last repetition"
    elif hopeless_why := hopeless(list(Run(run).trials())):
        why = f"all its trials were INVALID for one reason, so it ended before its last repetition: {hopeless_why}"
    if why:
        say(why)
        record.write(nightly, night.now(reason=why))
        return False
    leave_ceilings(find_site(nightly.terms.site), from_json(files.read_text(run / names.PLAN)), run, say)
    return True


def needs_confirmation(nightly: Nightly, folder: Path, say: Say) -> bool:
    """Whether something seems to have changed; then a run that is to confirm it is written."""
    if (folder / names.NIGHT_AGAIN / names.PLAN).exists():  # asked once more, as after a restart of the scheduler
        return True
    night = record.read(folder)
    _make_tables(folder / names.NIGHT_RUN, say)
    record_in_history(nightly, night, [folder / names.NIGHT_RUN], say)
    doubtful = suspected(nightly)
    if doubtful:
        say(f"{', '.join(doubtful) or 'all'} seem to have changed; they are measured again")
        write_confirmation(nightly, night, doubtful, say)
    return bool(doubtful)


def finish(nightly: Nightly, folder: Path, say: Say, died: str = "") -> Night:
    """Finish a night that was at work; `died` says why its DAG did not do so."""
    night, runs, problems = record.read(folder), record.run_directories(folder), Problems(say)
    if night.outcome == "running":
        for run in runs:
            problems.attempt("tables", _make_tables, run, say)
        night = record.write(nightly, _with_outcome(night, runs[0] if runs else None, died))
    return night if night.deliveries else _conclude(nightly, night, runs, problems)


def finish_unmeasured(nightly: Nightly, night: Night, say: Say) -> Night:
    """Finish a night that did not come to measure anything; its message needs no record."""
    problems = Problems(say)
    night = night.now(ended_wall_s=time.time())
    say(f"the night of {night.label}: {night.outcome}: {night.reason}")
    problems.attempt("the night's record", record.write, nightly, night)
    return _conclude(nightly, night, [], problems)


def _conclude(nightly: Nightly, night: Night, runs: list[Path], problems: Problems) -> Night:
    """History, reports, what has changed, one message, the text file for Prometheus; in this order."""
    problems.attempt("the history", record_in_history, nightly, night, runs, problems.say)
    for run in runs if night.outcome == "measured" else ():
        problems.attempt("the report", _make_report, run)
    changed: list[Change] = []
    problems.attempt("what has changed", lambda: changed.extend(changes(nightly)))
    message = Message.of(nightly, night, changed, problems.lines)
    deliveries = deliver(message) if message.sentences else {NOBODY: "there was nothing to tell"}
    for channel, how in deliveries.items():
        problems.say(f"message to {channel}: {how}")
    if message.sentences:
        arrived = {channel: how == DELIVERED for channel, how in deliveries.items() if channel != NOBODY}
        text = "\n".join(message.sentences)
        problems.attempt("the history", note_message, nightly, night, message.state, text, arrived)
    night = night.now(sentences=message.sentences, reported=message.changes, deliveries=deliveries)
    problems.attempt("the night's record", record.write, nightly, night)
    problems.attempt("the text file", write_textfile, nightly, changed)
    return night


def _with_outcome(night: Night, run: Path | None, died: str) -> Night:
    """A night has measured something if one of its trials is VALID, however it ended."""
    rows = _trials(run) if run else []
    counts = Counter(row["verdict"] for row in rows)
    ended = night.now(counts=dict(counts), ended_wall_s=time.time())
    reasons = Counter(parted(row["verdict_reasons"])[0] for row in rows if row["verdict_reasons"])
    common = [reason for reason, _ in reasons.most_common(1)]
    if not counts["VALID"]:
        unmeasured = [*_unfinished(run), *common] if run else []
        why = "; ".join(filter(None, [died, night.reason, *dict.fromkeys(unmeasured[:2])]))
        return ended.now(outcome="failed", reason=why or "no trial of it has ended")
    few = counts["VALID"] < ENOUGH * counts.total()
    why = f"{counts['VALID']} of {counts.total()} trials are VALID: {common[0]}" if few and common else ""
    return ended.now(outcome="measured", reason=died or night.reason or why)


def _trials(run: Path) -> list[dict[str, str]]:
    try:
        with (run / names.TRIALS_CSV).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        return []


def _unfinished(run: Path) -> list[str]:
    """Why trials are not complete, the most common reason first; or why their state cannot be read."""
    try:
        trials = [trial for trial in Run(run).trials() if trial.state and not trial.well and trial.reasons]
    except (TierbenchError, OSError) as error:
        return [str(error)]
    return [reason for reason, _ in Counter(trial.reasons[0] for trial in trials).most_common()]


def _make_tables(run: Path, say: Say) -> None:
    from tierbench.postprocess.tables.write import tables

    say(f"tables of {run}")
    tables(run)


def _make_report(run: Path) -> None:
    from tierbench.postprocess.report.write import run_report

    run_report(run, None, lambda _: None)
