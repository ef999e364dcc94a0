"""How a night begins: the one that is due, once, unless the one before is still at work; its DAG does the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from tierbench import names
from tierbench.errors import BusyError, TierbenchError, UnmetNeed
from tierbench.interrupts import held_back
from tierbench.submit import pool
from tierbench.submit.nightly import books, record
from tierbench.submit.nightly.calendar import here
from tierbench.submit.nightly.definition import Nightly, Say, all_nightlies
from tierbench.submit.nightly.lock import alone, alone_in_turn, is_held
from tierbench.submit.nightly.record import Night
from tierbench.submit.nightly.writing import Prepared, prepared, write_night
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Run, Stage

AGAIN_S = 10.0  # between two questions to a pool that does not answer

LOOKED_AT = 14  # of the last nights
ENDING_S = 60.0  # a DAG leaves the queue within seconds of its night's end,
LINGERING_S = 1800.0  # and closes the books within minutes of the last trial's, also where the links hang

T = TypeVar("T")


def begin(nightly: Nightly, asked_for: bool, say: Say) -> Night | None:
    """Begin the night that is due, or one that is asked for now; None if that one has been begun already."""
    now = datetime.now(UTC)
    try:
        with alone(nightly):
            return _begin(nightly, now, asked_for, say)
    except BusyError as error:  # as where a beginning hangs on a mount that does not answer
        planned = None if asked_for else _due(nightly, now, say)
        if planned is None:
            raise
        night = Night(planned.timestamp(), "still-running", str(error), time.time())
        return books.close_unmeasured(nightly, night, say)


def _begin(nightly: Nightly, now: datetime, asked_for: bool, say: Say) -> Night | None:
    planned = now if asked_for else _due(nightly, now, say)
    if planned is None:
        return None
    try:
        take_note(nightly, planned)
    except OSError as error:  # a full disk, of which this night will tell
        say(f"missed nights: {error}")
    night = Night(planned.timestamp(), "running", begun_wall_s=time.time(), asked_for=asked_for)
    say(f"the night of {night.called} begins")
    try:
        at_work = _patiently(nightly, lambda: settle(nightly, say), say)
        if at_work:
            why = f"the night of {at_work.called} is still at work, as job {at_work.cluster}"
            return books.close_unmeasured(nightly, night.now(outcome="still-running", reason=why), say)
        _patiently(nightly, lambda: _take_turn(nightly, night), say)
        ready = _patiently(nightly, lambda: prepared(nightly, night), say)
        cluster = _patiently(nightly, lambda: _submitted(nightly, night, ready, say), say)
    except KeyboardInterrupt:
        books.close_unmeasured(nightly, night.now(outcome="failed", reason="it was interrupted as it began"), say)
        raise
    except (TierbenchError, OSError) as error:
        return books.close_unmeasured(nightly, night.now(outcome="failed", reason=str(error)), say)
    say(f"the night of {night.called} is at work as job {cluster}")
    return night.now(cluster=cluster)


def _take_turn(nightly: Nightly, night: Night) -> None:
    """Put it on record as begun, unless another of this user's nightlies measures at its site: both would be wrong."""
    with alone_in_turn():
        for other in all_nightlies():
            if other.name != nightly.name and other.terms.site == nightly.terms.site:
                for one in record.nights(other):
                    if _is_at_work(other, one):
                        raise UnmetNeed(
                            f"the nightly {other.name} measures at the same site, its night of {one.called};"
                            f" let one of them begin later"
                        )
        record.write(nightly, night)


def _is_at_work(nightly: Nightly, night: Night) -> bool:
    """Whether a night that is on record as running is, or its beginning; what has died is for its own next one."""
    if night.outcome != "running":
        return False
    return is_held(nightly) if night.cluster is None else pool.in_queue(night.cluster)


def _due(nightly: Nightly, now: datetime, say: Say) -> datetime | None:
    """When the night was planned for that is to begin now, unless it has begun already."""
    if nightly.terms.paused:
        say(f"{nightly.name} is paused")
        return None
    planned = nightly.calendar.meant(now, here())
    if planned is None:
        return None
    had = [night for night in record.nights(nightly) if night.planned == planned and night.outcome != "missed"]
    if had:  # as where 02:30 comes twice
        say(f"the night of {had[0].called} has been {had[0].outcome} already")
        return None
    return planned


def take_note(nightly: Nightly, until: datetime) -> list[Night]:
    """Record the nights that should have begun before and did not; those that are new."""
    since = datetime.fromtimestamp(nightly.terms.since_wall_s, UTC)
    had = {night.planned for night in record.nights(nightly)}
    due = [] if nightly.terms.paused else nightly.calendar.due(since, until - timedelta(seconds=1), here())
    new = [
        Night(planned.timestamp(), "missed", "nothing began it: were HTCondor or the machine down?")
        for planned in due
        if planned not in had
    ]
    return [record.write(nightly, night) for night in new]


def settle(nightly: Nightly, say: Say) -> Night | None:
    """The night that is at work; one that has died without closing its books has them closed.

    A DAG that stays in the queue though all is done is taken out of it: when the scheduler was killed DAGMan goes on,
    and the one that the new scheduler starts after it finds everything done in the log and waits for ever.
    """
    at_work = None
    nights = record.nights(nightly)
    for night in [one for one in nights if one.outcome == "running" or one in nights[-LOOKED_AT:]]:
        folder, waiting = record.folder(nightly, night), night.cluster is not None and pool.in_queue(night.cluster)
        if waiting and night.cluster is not None and _is_over(night, folder):
            say(f"the night of {night.called} is over, and its job {night.cluster} in the queue still; it is removed")
            pool.forget(night.cluster)
            waiting = False
        if night.outcome == "running" and waiting:
            at_work = night
        elif night.outcome == "running":
            why = "its DAG was gone from the queue before it had closed its books"
            books.close(nightly, folder, say, why if night.cluster else "it was interrupted as it began")
    return at_work


def _is_over(night: Night, folder: Path) -> bool:
    """Whether a night, or all of its trials, ended so long ago that its DAG should have."""
    if night.outcome != "running":
        return bool(night.told) and time.time() - (night.ended_wall_s or 0.0) > ENDING_S
    runs = [
        Run(folder / name) for name in (names.NIGHT_RUN, names.NIGHT_AGAIN) if (folder / name / names.PLAN).exists()
    ]
    trials = [trial for run in runs for trial in run.trials()]
    if not trials or any(trial.stage is not Stage.FINISHED or trial.again for trial in trials):
        return False
    ended = max((trial.directory / names.OUTCOME).stat().st_mtime for trial in trials)
    return time.time() - ended > LINGERING_S


def _patiently(nightly: Nightly, ask: Callable[[], T], say: Say) -> T:
    """An answer of the pool or the storage, asked for again for a while where there is none."""
    limit = min(nightly.terms.patience_s, nightly.calendar.longest_gap.total_seconds() / 4)
    deadline, told = time.monotonic() + limit, False
    while True:
        try:
            return ask()
        except (PoolError, UnmetNeed) as error:
            if time.monotonic() + AGAIN_S > deadline:
                raise
            if not told:
                say(f"{error}; asking again for up to {limit / 60:.0f} min")
            told = True
            time.sleep(AGAIN_S)


def _submitted(nightly: Nightly, night: Night, ready: Prepared, say: Say) -> int:
    """The number of the job that the night's DAG becomes."""
    dag = write_night(nightly, night, ready, say)
    began = time.time()
    with held_back():
        cluster = pool.submit_dag(dag)
        Run(dag.parent / names.NIGHT_RUN).record_submission(cluster, began)
        record.write(nightly, night.now(cluster=cluster))
    return cluster
