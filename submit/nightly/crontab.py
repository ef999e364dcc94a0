"""A nightly by HTCondor itself: a job on the access point that stays in the queue, and begins each night."""

from __future__ import annotations

from collections.abc import Iterator

from tierbench import names
from tierbench.submit import pool
from tierbench.submit.nightly.definition import Nightly

BY_USER = 1  # HTCondor's code for "held by somebody"
RELEASED_S = 60  # after it was held for anything else


def lines(nightly: Nightly) -> Iterator[str]:
    """The submit file. The job lives in HTCondor's queue, so it survives restarts of the scheduler and the machine."""
    yield f"# Begins the nights of {nightly.name}: {nightly.calendar}. `tierbench nightly add` submits it."
    yield "universe          = local"
    yield f"executable        = {nightly.starter}"
    yield "arguments         = begin"
    yield f"initialdir        = {nightly.directory}"
    yield f"output            = {names.SCHEDULE}.out"
    yield f"error             = {names.SCHEDULE}.err"
    yield f"log               = {names.SCHEDULE}.log"
    yield "on_exit_remove    = false"
    yield from (f"{key:<17} = {value}" for key, value in nightly.calendar.crontab.items())
    yield "# Or a late one, as after a restart of the scheduler, would be held and never run again."
    yield f"cron_window       = {nightly.calendar.window.total_seconds():.0f}"
    yield f"periodic_release  = HoldReasonCode =!= {BY_USER} && time() - EnteredCurrentStatus > {RELEASED_S}"
    yield f'My.TierbenchNightly = "{nightly.name}"'
    yield f'batch_name        = "tierbench nightly {nightly.name}"'
    yield "queue"


def start(nightly: Nightly) -> str:
    """Submit the job; what it is called."""
    text = "".join(f"{line}\n" for line in lines(nightly))
    (nightly.directory / f"{names.SCHEDULE}.sub").write_text(text, encoding="utf-8")
    return f"job {pool.submit(text)}"


def pause(nightly: Nightly) -> None:
    pool.act("Hold", _mine(nightly), "tierbench nightly pause")


def resume(nightly: Nightly) -> None:
    pool.act("Release", _mine(nightly), "tierbench nightly resume")


def stop(nightly: Nightly) -> None:
    pool.act("Remove", _mine(nightly), "tierbench nightly remove")


def trouble(nightly: Nightly) -> str:
    """Why no night will begin, or nothing."""
    found = pool.jobs(_mine(nightly), ["JobStatus", "HoldReason", "HoldReasonCode"])
    if not found:
        return f"its job is not in the queue; `condor_submit {nightly.directory}/{names.SCHEDULE}.sub` puts it there"
    if found[0].get("JobStatus") == 5 and not nightly.terms.paused:
        return f"its job is held: {found[0].get('HoldReason', '')}"
    return ""


def _mine(nightly: Nightly) -> str:
    return f'TierbenchNightly == "{nightly.name}" && Iwd == "{nightly.directory}"'
