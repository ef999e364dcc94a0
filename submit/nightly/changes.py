"""What the history says of a nightly, as the schedule and its messages need it."""

from __future__ import annotations

import math
import time
from pathlib import Path

from tierbench.errors import TierbenchError
from tierbench.postprocess.history import alarms, database
from tierbench.postprocess.history.alarms import Finding, Watch
from tierbench.postprocess.history.changepoints import Rule
from tierbench.postprocess.history.database import Chronicle, History
from tierbench.postprocess.history.rows import FAILED, MISSED, Acknowledgement, Message, Value
from tierbench.postprocess.history.rows import Night as NightRow
from tierbench.submit.nightly import record
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.record import Change, Night

CRITICAL_RATIO = 0.75  # of what an access method had
UNMEASURED = {"failed": FAILED, "missed": MISSED, "still-running": MISSED}


def record_in_history(nightly: Nightly, night: Night, measured: list[Path], say: Say) -> None:
    """Put a night into the history, with its runs; and the nights without a run that it does not have yet."""
    from tierbench.postprocess.history.runs import night_of  # which loads much

    with _history(nightly) as history:
        for run in measured:
            history.record(*night_of(run, say=say))
        for each in [*record.nights(nightly), night]:
            if each.outcome in UNMEASURED and not record.run_directories(record.folder(nightly, each)):
                planned = int(each.planned_wall_s * 1e9)
                history.record(NightRow(nightly.name, planned, UNMEASURED[each.outcome], reason=each.reason))


def note_message(nightly: Nightly, night: Night, state: str, text: str, deliveries: dict[str, bool]) -> None:
    """Keep in the history what was said of a night by which channel, and whether it arrived."""
    with _history(nightly) as history:
        for channel, delivered in deliveries.items():
            planned = round(night.planned_wall_s * 1e9)
            history.note_message(Message(nightly.name, planned, channel, state, text, time.time_ns(), delivered))


def _history(nightly: Nightly) -> History:
    """Where its nights are, whoever asks: a monitoring system is another user, with a home of its own."""
    return History(Path(nightly.terms.history) if nightly.terms.history else None)


def watch_of(nightly: Nightly) -> Watch:
    """What its admin wants to hear of."""
    return Watch(Rule(size=nightly.terms.size_pct / 100), nightly.terms.floors)


def suspected(nightly: Nightly) -> list[str]:
    """The configurations that only the last night says have changed; "" stands for all of them."""
    return [finding.configuration for finding in _findings(nightly) if not finding.certain]


def changes(nightly: Nightly) -> list[Change]:
    """What has changed for certain, and is so still."""
    findings = [finding for finding in _findings(nightly) if finding.certain]
    chronicle = _chronicle(nightly) if findings else None  # with all that was otherwise in those nights
    if chronicle is None:
        return []
    from tierbench.postprocess.history.sentences import sentence  # which loads much, and mostly nothing has changed

    watch = watch_of(nightly)
    return [
        Change(
            finding.direction,
            finding.configuration,
            finding.since.planned_ns,
            _level(finding, watch),
            0.0 if math.isnan(finding.ratio[0]) else finding.ratio[0],
            sentence(finding, chronicle),
            (finding.latest or finding.since).planned_ns,
            finding.acknowledged,
        )
        for finding in findings
    ]


def _findings(nightly: Nightly) -> list[Finding]:
    chronicle = _chronicle(nightly, watched=True)
    return alarms.findings(chronicle, watch_of(nightly)) if chronicle else []


def _level(finding: Finding, watch: Watch) -> str:
    """What is better is reported, and is no alarm; what has a floor and measures nothing is below it."""
    if finding.direction == "better":
        return "OK"
    below = finding.kind == "floor" or (finding.kind == "lost" and finding.configuration in watch.floors)
    return "CRITICAL" if below or finding.ratio[0] < CRITICAL_RATIO else "WARNING"


def _chronicle(nightly: Nightly, watched: bool = False) -> Chronicle | None:
    """What the history has of a nightly, once it has measured anything."""
    with _history(nightly) as history:
        if nightly.name not in database.nightlies(history):
            return None
        chronicle = database.chronicle(history, nightly.name, watched)
    return chronicle if chronicle.measured else None


def acknowledge(nightly: Nightly, change: Change, by: str, note: str, accepted: bool) -> None:
    """A change is reported no more; if it was accepted, the baseline begins anew there."""
    with _history(nightly) as history:
        of = nightly.name, change.configuration, change.since_ns
        history.acknowledge(Acknowledgement(*of, by, time.time_ns(), note, accepted))


def rates(nightly: Nightly) -> tuple[str, list[Value]]:
    """What the last night measured, and its unit; nothing where the history cannot be read."""
    try:
        with _history(nightly) as history:
            return database.last_values(history, nightly.name)
    except TierbenchError:
        return "", []
