"""How a night ends: its tables, its place in the history, what has changed since the others, and who is told.

Whatever of this fails is told in the night's record and its message, and keeps nothing else from being done.
"""

from __future__ import annotations

import csv
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tierbench import files, names
from tierbench.dags.plan import from_json
from tierbench.errors import TierbenchError
from tierbench.site_configs.site import find_site
from tierbench.submit.calibration import leave_ceilings
from tierbench.submit.nightly import record
from tierbench.submit.nightly.changes import Change, changes, note_message, suspected, take_in
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.message import DELIVERED, NOBODY, Message, deliver
from tierbench.submit.nightly.record import Night, Said
from tierbench.submit.nightly.textfile import leave_textfile
from tierbench.submit.nightly.writing import write_again
from tierbench.submit.progress import Run

ENOUGH = 0.75  # of a night's trials are VALID, or it is told why not, as where a keytab went in the middle of it
SILENT = {NOBODY: "there was nothing to tell"}


def measure_links(nightly: Nightly, folder: Path, say: Say) -> None:
    """Another round of what the links carry, between the trials."""
    run = folder / names.NIGHT_RUN
    plan = from_json(files.read_text(run / names.PLAN))
    leave_ceilings(find_site(nightly.terms.site), plan, run, say)


def judge(nightly: Nightly, folder: Path, say: Say) -> bool:
    """Whether something seems to have changed, so that a run was written which is to confirm that."""
    night, again = record.read(folder), folder / names.NIGHT_AGAIN
    if (again / names.PLAN).exists():  # asked once more, as after a restart of the scheduler
        return True
    _make_tables(folder / names.NIGHT_RUN, say)
    take_in(nightly, night, folder / names.NIGHT_RUN, say)
    doubtful = suspected(nightly)
    if doubtful:
        say(f"{', '.join(doubtful) or 'all'} seem to have changed; they are measured again")
        write_again(nightly, night, doubtful, say)
    return bool(doubtful)


def close(nightly: Nightly, folder: Path, say: Say, died: str = "") -> Night:
    """Close the books of a night that was at work; `died` says why its DAG did not do so."""
    night = record.read(folder)
    troubles = Troubles(say)
    runs = [folder / name for name in (names.NIGHT_RUN, names.NIGHT_AGAIN) if (folder / name / names.PLAN).exists()]
    if night.outcome == "running":
        for run in runs:
            troubles.attempt("tables", partial(_make_tables, run, say))
        night = _with_outcome(night, runs[0] if runs else None, died)
        record.write(nightly, night)
    return night if night.told else _conclude(nightly, night, runs, troubles)


def close_unmeasured(nightly: Nightly, night: Night, say: Say) -> Night:
    """Close the books of a night that did not come to measure anything; it is told even if it cannot be kept."""
    troubles = Troubles(say)
    night = night.now(ended_wall_s=time.time())
    say(f"the night of {night.called}: {night.outcome}: {night.reason}")
    troubles.attempt("the night's record", lambda: record.write(nightly, night))
    return _conclude(nightly, night, [], troubles)


class Troubles:
    """What went wrong beside the night itself."""

    def __init__(self, say: Say) -> None:
        self.told: list[str] = []
        self._say = say

    def attempt(self, what: str, step: Callable[[], object]) -> None:
        try:
            step()
        except (TierbenchError, OSError, sqlite3.Error, ValueError) as error:
            self.told.append(f"{what}: {error}")
            self.say(self.told[-1])

    def say(self, line: str) -> None:
        self._say(line)


def _conclude(nightly: Nightly, night: Night, runs: list[Path], troubles: Troubles) -> Night:
    """History, reports, what has changed, one message, the text file for Prometheus; in this order."""
    measured: list[Path | None] = [*runs]
    for run in measured or [None]:
        troubles.attempt("the history", partial(take_in, nightly, night, run, troubles.say))
    for run in runs if night.outcome == "measured" else ():
        troubles.attempt("the report", partial(_make_report, run))
    found: list[Change] = []
    troubles.attempt("what has changed", lambda: found.extend(changes(nightly)))
    message = Message.of(nightly, night, found, troubles.told)
    said = [
        Said(change.direction, change.configuration, change.since_ns, change.level, change.ratio)
        for change in message.changes
    ]
    told = deliver(nightly, message) if message.sentences else SILENT
    for channel, how in told.items():
        troubles.say(f"told {channel}: {how}")
    if message.sentences:
        arrived = {channel: how == DELIVERED for channel, how in told.items() if channel != NOBODY}
        noted = partial(note_message, nightly, night, message.state, message.all_sentences, arrived)
        troubles.attempt("the history", noted)
    night = night.now(sentences=message.sentences, said=said, told=told)
    troubles.attempt("the night's record", lambda: record.write(nightly, night))
    troubles.attempt("the text file", partial(leave_textfile, nightly, found))
    return night


def _with_outcome(night: Night, run: Path | None, died: str) -> Night:
    """A night has measured something if one of its trials is VALID, however it ended."""
    rows = _trials(run) if run else []
    counts = Counter(row["verdict"] for row in rows)
    reasons = Counter(row["verdict_reasons"].split("; ")[0] for row in rows if row["verdict_reasons"])
    common = [reason for reason, _ in reasons.most_common(1)]
    if not counts["VALID"]:
        unmeasured = [*_unfinished(run), *common] if run else []
        why = "; ".join(filter(None, [died, *dict.fromkeys(unmeasured[:2])])) or "no trial of it has ended"
        return night.now(outcome="failed", reason=why, counts=dict(counts), ended_wall_s=time.time())
    few = counts["VALID"] < ENOUGH * counts.total()
    why = f"{counts['VALID']} of {counts.total()} trials are VALID: {common[0]}" if few and common else ""
    return night.now(outcome="measured", reason=died or why, counts=dict(counts), ended_wall_s=time.time())


def _trials(run: Path) -> list[dict[str, str]]:
    try:
        with (run / names.TRIALS_CSV).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        return []


def _unfinished(run: Path) -> list[str]:
    """Why trials are not complete, the most common reason first; or why that cannot be said."""
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
