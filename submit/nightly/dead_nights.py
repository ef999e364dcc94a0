"""Nights that did not come, and nights whose DAG died: whoever looks at a nightly next leaves their records.

`check` looks, too, so little is loaded here before it is needed.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tierbench import names
from tierbench.submit import pool
from tierbench.submit.nightly import record
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.record import Night
from tierbench.submit.nightly.schedule import local_zone

CHECKED_NIGHTS = 14  # the last ones, whose DAGs may linger
ENDING_S = 60.0  # a DAG leaves the queue within seconds of its night's end,
LINGERING_S = 1800.0  # and finishes the night within minutes of the last trial's, also where the links hang


def record_missed(nightly: Nightly, until: datetime) -> list[Night]:
    """Record the nights that should have started before and did not; those that are new."""
    since = datetime.fromtimestamp(nightly.terms.since_wall_s, UTC)
    recorded = record.recorded(nightly)
    due = [] if nightly.terms.paused else nightly.calendar.due(since, until - timedelta(seconds=1), local_zone())
    why = "nothing started it: were HTCondor or the machine down?"
    missed = [Night(planned.timestamp(), "missed", why) for planned in due]
    return [record.write(nightly, night) for night in missed if night.folder_name not in recorded]


def finish_dead_nights(nightly: Nightly, say: Say) -> Night | None:
    """The night that is at work; one whose DAG died is finished.

    A DAG that stays in the queue though all is done is taken out of it: when the scheduler was killed DAGMan goes on,
    and the one that the new scheduler starts after it finds everything done in the log and waits for ever.
    """
    at_work = None
    for night in _recent(nightly):
        folder, waiting = record.folder(nightly, night), night.cluster is not None and pool.in_queue(night.cluster)
        if waiting and night.cluster is not None and _is_over(night, folder):
            say(f"the night of {night.label} is over, and its job {night.cluster} in the queue still; it is removed")
            pool.forget(night.cluster)
            waiting = False
        if night.outcome == "running" and waiting:
            at_work = night
        elif night.outcome == "running":
            from tierbench.submit.nightly.finish_night import finish  # which loads much, and mostly no night is dead

            why = "its DAG was gone from the queue before it had finished the night"
            finish(nightly, folder, say, why if night.cluster else "it was interrupted as it started")
    return at_work


def _recent(nightly: Nightly) -> list[Night]:
    """The last nights, as far back as one may be at work or its DAG linger: each that comes meanwhile says so."""
    recent, over = [], 0
    for night in record.newest_first(nightly):
        recent.append(night)
        over += night.outcome in ("measured", "failed")
        if over == CHECKED_NIGHTS:
            break
    return recent[::-1]


def _is_over(night: Night, folder: Path) -> bool:
    """Whether a night, or all of its trials, ended so long ago that its DAG should have."""
    if night.outcome != "running":
        return bool(night.deliveries) and time.time() - (night.ended_wall_s or 0.0) > ENDING_S
    from tierbench.submit.progress import Run, Stage

    trials = [trial for run in record.run_directories(folder) for trial in Run(run).trials()]
    if not trials or any(trial.stage is not Stage.FINISHED or trial.again for trial in trials):
        return False
    ended = max((trial.directory / names.OUTCOME).stat().st_mtime for trial in trials)
    return time.time() - ended > LINGERING_S
