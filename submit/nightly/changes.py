"""What the history says of a nightly, as the schedule and its messages need it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tierbench.errors import TierbenchError
from tierbench.submit.nightly import record
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.record import Change, Night

if TYPE_CHECKING:  # numpy and scipy are loaded where they are needed, which takes a second
    from tierbench.postprocess.history.alarms import Finding, Watch
    from tierbench.postprocess.history.database import Chronicle, History
    from tierbench.postprocess.history.rows import Value

CRITICAL_RATIO = 0.75  # of what an access method had


def record_in_history(nightly: Nightly, night: Night, measured: list[Path], say: Say) -> None:
    """Put a night into the history, with its runs; and the nights without a run that it does not have yet."""
    from tierbench.postprocess.history import rows, runs

    outcomes = {"failed": rows.FAILED, "missed": rows.MISSED, "still-running": rows.MISSED}

    with _history(nightly) as history:
        for run in measured:
            history.record(*runs.night_of(run, say=say))
        for each in [*record.nights(nightly), night]:
            if each.outcome in outcomes and not record.run_directories(record.folder(nightly, each)):
                planned = int(each.planned_wall_s * 1e9)
                history.record(rows.Night(nightly.name, planned, outcomes[each.outcome], reason=each.reason))


def note_message(nightly: Nightly, night: Night, state: str, text: str, deliveries: dict[str, bool]) -> None:
    """Keep in the history what was said of a night by which channel, and whether it arrived."""
    from tierbench.postprocess.history.rows import Message

    with _history(nightly) as history:
        for channel, delivered in deliveries.items():
            planned = round(night.planned_wall_s * 1e9)
            history.note_message(Message(nightly.name, planned, channel, state, text, time.time_ns(), delivered))


def _history(nightly: Nightly) -> History:
    """Where its nights are, whoever asks: a monitoring system is another user, with a home of its own."""
    from tierbench.postprocess.history.database import History

    return History(Path(nightly.terms.history) if nightly.terms.history else None)


def suspected(nightly: Nightly) -> list[str]:
    """The configurations that only the last night says have changed; "" stands for all of them."""
    from tierbench.postprocess.history import alarms

    known = _chronicle(nightly, watched=True)
    return [found.configuration for found in alarms.suspected(known, watch_of(nightly))] if known else []


def changes(nightly: Nightly) -> list[Change]:
    """What has changed for certain, and is so still."""
    from tierbench.postprocess.history import alarms

    known, watch = _chronicle(nightly, watched=True), watch_of(nightly)
    found = [finding for finding in alarms.findings(known, watch) if finding.certain] if known else []
    known = _chronicle(nightly) if found else None  # with all that was otherwise in those nights
    if known is None:
        return []
    from tierbench.postprocess.history.sentences import sentence  # which loads much, and mostly nothing has changed

    return [
        Change(
            finding.direction,
            finding.configuration,
            finding.since.planned_ns,
            _level(finding, watch),
            0.0 if math.isnan(finding.ratio[0]) else finding.ratio[0],
            sentence(finding, known),
            (finding.latest or finding.since).planned_ns,
            finding.acknowledged,
        )
        for finding in found
    ]


def watch_of(nightly: Nightly) -> Watch:
    """What its admin wants to hear of."""
    from tierbench.postprocess.history.alarms import Watch
    from tierbench.postprocess.history.changepoints import Rule

    return Watch(Rule(size=nightly.terms.size_pct / 100), nightly.terms.floors)


def _level(found: Finding, watch: Watch) -> str:
    """What is better is reported, and is no alarm; what has a floor and measures nothing is below it."""
    if found.direction == "better":
        return "OK"
    below = found.kind == "floor" or (found.kind == "lost" and found.configuration in watch.floors)
    return "CRITICAL" if below or found.ratio[0] < CRITICAL_RATIO else "WARNING"


def _chronicle(nightly: Nightly, watched: bool = False) -> Chronicle | None:
    """What the history knows of a nightly, once it has measured anything."""
    from tierbench.postprocess.history.database import chronicle, nightlies

    with _history(nightly) as history:
        known = chronicle(history, nightly.name, watched) if nightly.name in nightlies(history) else None
    return known if known and known.measured else None


def acknowledge(nightly: Nightly, change: Change, by: str, note: str, accepted: bool) -> None:
    """A change is reported no more; if it was accepted, the baseline begins anew there."""
    from tierbench.postprocess.history.rows import Acknowledgement

    with _history(nightly) as history:
        of = nightly.name, change.configuration, change.since_ns
        history.acknowledge(Acknowledgement(*of, by, time.time_ns(), note, accepted))


def rates(nightly: Nightly) -> tuple[str, list[Value]]:
    """What the last night measured, and its unit; nothing where the history cannot be read."""
    from tierbench.postprocess.history.database import last_values

    try:
        with _history(nightly) as history:
            return last_values(history, nightly.name)
    except TierbenchError:
        return "", []
