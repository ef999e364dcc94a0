"""How a night starts: the one that is due, once, unless the one before is still at work; its DAG does the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from tierbench import names
from tierbench.errors import BusyError, TierbenchError, UnmetNeed, held_back
from tierbench.submit import pool
from tierbench.submit.nightly import record
from tierbench.submit.nightly.finish_night import finish_unmeasured
from tierbench.submit.nightly.prepare import prepare, write_night
from tierbench.submit.nightly.record import Night, Nightly, Say, all_nightlies, finish_dead_nights, record_missed
from tierbench.submit.nightly.schedule import local_zone
from tierbench.submit.planning import Planned
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Run

RETRY_S = 10.0  # between two questions to a pool that does not answer

T = TypeVar("T")


def start(nightly: Nightly, asked_for: bool, say: Say) -> Night | None:
    """Start the night that is due, or one that is asked for now; None if that one has been started already."""
    now = datetime.now(UTC)
    try:
        with record.locked(nightly.directory):
            return _start(nightly, now, asked_for, say)
    except BusyError as error:  # as where a start hangs on a mount that does not answer
        planned = None if asked_for else _due(nightly, now, say)
        if planned is None:
            raise
        night = Night(planned.timestamp(), "still-running", str(error), time.time())
        return finish_unmeasured(nightly, night, say)


def _start(nightly: Nightly, now: datetime, asked_for: bool, say: Say) -> Night | None:
    planned = now if asked_for else _due(nightly, now, say)
    if planned is None:
        return None
    try:
        record_missed(nightly, planned)
    except OSError as error:  # a full disk, which this night reports
        say(f"missed nights: {error}")
    night = Night(planned.timestamp(), "running", begun_wall_s=time.time(), asked_for=asked_for)
    say(f"the night of {night.label} starts")
    try:
        at_work = _retry(nightly, lambda: finish_dead_nights(nightly, say), say)
        if at_work:
            why = f"the night of {at_work.label} is still at work, as job {at_work.cluster}"
            return finish_unmeasured(nightly, night.now(outcome="still-running", reason=why), say)
        _retry(nightly, lambda: _put_on_record(nightly, night), say)
        ready = _retry(nightly, lambda: prepare(nightly, night), say)
        cluster = _retry(nightly, lambda: _submitted(nightly, night, ready, say), say)
    except KeyboardInterrupt:
        finish_unmeasured(nightly, night.now(outcome="failed", reason="it was interrupted as it started"), say)
        raise
    except (TierbenchError, OSError) as error:
        return finish_unmeasured(nightly, night.now(outcome="failed", reason=str(error)), say)
    say(f"the night of {night.label} is at work as job {cluster}")
    return night.now(cluster=cluster)


def _put_on_record(nightly: Nightly, night: Night) -> None:
    """Record it as running, unless another of this user's nightlies is measuring at its site."""
    with record.locked(record.home()):
        others = [other for other in all_nightlies() if other.name != nightly.name]
        for other in [other for other in others if other.terms.site == nightly.terms.site]:
            for its in record.nights(other):
                if _is_at_work(other, its):
                    why = f"the nightly {other.name} measures at the same site, its night of {its.label}"
                    raise UnmetNeed(f"{why}; let one of them start later")
        record.write(nightly, night)


def _is_at_work(nightly: Nightly, night: Night) -> bool:
    """Whether a night that is recorded as running is, or is being started; one that died is for its own next night."""
    if night.outcome != "running" or night.cluster is not None:
        return night.outcome == "running" and pool.in_queue(night.cluster or 0)
    try:
        with record.locked(nightly.directory, patience_s=0.0):
            return False
    except BusyError:
        return True


def _due(nightly: Nightly, now: datetime, say: Say) -> datetime | None:
    """When the night was planned that is to start now, unless it has started already."""
    if nightly.terms.paused:
        say(f"{nightly.name} is paused")
        return None
    planned = nightly.calendar.meant(now, local_zone())
    if planned is None:
        return None
    before = [night for night in record.nights(nightly) if night.planned == planned and night.outcome != "missed"]
    if before:  # as where 02:30 comes twice
        say(f"the night of {before[0].label} has been {before[0].outcome} already")
        return None
    return planned


def _retry(nightly: Nightly, ask: Callable[[], T], say: Say) -> T:
    """An answer of the pool or the storage, asked for again for a while where there is none."""
    limit = min(nightly.terms.patience_s, nightly.calendar.longest_gap.total_seconds() / 4)
    deadline, reported = time.monotonic() + limit, False
    while True:
        try:
            return ask()
        except (PoolError, UnmetNeed) as error:
            if time.monotonic() + RETRY_S > deadline:
                raise
            if not reported:
                say(f"{error}; asking again for up to {limit / 60:.0f} min")
            reported = True
            time.sleep(RETRY_S)


def _submitted(nightly: Nightly, night: Night, ready: Planned, say: Say) -> int:
    """The number of the job that the night's DAG becomes."""
    dag = write_night(nightly, night, ready, say)
    submitted = time.time()
    with held_back():
        cluster = pool.submit_dag(dag)
        Run(dag.parent / names.NIGHT_RUN).record_submission(cluster, submitted)
        record.write(nightly, night.now(cluster=cluster))
    return cluster
