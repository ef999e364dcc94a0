"""How a nightly stands: what a monitoring system is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tierbench.submit.nightly import record
from tierbench.submit.nightly.changes import Change
from tierbench.submit.nightly.definition import Nightly
from tierbench.submit.nightly.message import undelivered
from tierbench.submit.nightly.record import Night
from tierbench.submit.nightly.webhook import shown

STATUS = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}


@dataclass(frozen=True)
class Standing:
    """A state, why, and the nights that it follows from."""

    state: str
    summary: str
    measured: Night | None  # the last that was
    latest: Night | None
    missed: int  # nights without a number since then

    @property
    def status(self) -> int:
        return STATUS[self.state]

    def age_s(self, now: datetime) -> float | None:
        """Since the end of the last night that measured something."""
        return None if self.measured is None else now.timestamp() - (self.measured.ended_wall_s or 0.0)


def standing(nightly: Nightly, changes: list[Change], now: datetime) -> Standing:
    """What silence, failures and changes come to. That nothing is known is no alarm, until it has been so for long."""
    nights = [night for night in record.nights(nightly) if night.outcome != "running"]
    good = [night for night in nights if night.outcome == "measured"]
    measured, latest = (good[-1] if good else None), (nights[-1] if nights else None)
    since = sum(night.planned_wall_s > (measured.planned_wall_s if measured else 0.0) for night in nights)
    state, summary = _state(nightly, changes, now, measured, latest)
    return Standing(state, summary, measured, latest, since)


def _state(
    nightly: Nightly, changes: list[Change], now: datetime, measured: Night | None, latest: Night | None
) -> tuple[str, str]:
    patience = nightly.calendar.patience
    begun = max(nightly.terms.since_wall_s, (measured.ended_wall_s or 0.0) if measured else 0.0)
    silent = timedelta(seconds=now.timestamp() - begun)
    if nightly.terms.paused:
        return "UNKNOWN", "paused"
    if silent > patience:
        why = (
            f"; the night of {latest.called}: {latest.outcome}: {latest.reason}"
            if latest and latest is not measured
            else ""
        )
        return "CRITICAL", f"no result for {_span(silent)}, more than {_span(patience)}{why}"
    open_changes = [change for change in changes if change.alarming]
    unmeasured = latest is not None and latest is not measured
    if open_changes:
        state = "CRITICAL" if any(change.level == "CRITICAL" for change in open_changes) else "WARNING"
        return state, "; ".join(change.sentence for change in open_changes)
    if latest is not None and unmeasured:
        return "UNKNOWN", f"nothing was measured in the night of {latest.called} ({latest.outcome}): {latest.reason}"
    if measured is None:
        return "UNKNOWN", f"no night yet; {nightly.calendar}"
    told = ", ".join(f"{shown(channel)} {how}" for channel, how in measured.told.items() if undelivered(channel, how))
    if told:
        return "WARNING", f"the message of the night of {measured.called} was not delivered: {told}"
    seen = f"{len(changes)} changes, of which none is an alarm" if changes else "nothing has changed"
    return "OK", f"{seen}; last measured {measured.called}"


def _span(time: timedelta) -> str:
    minutes = time.total_seconds() / 60
    return f"{minutes / 60:.0f} h" if minutes >= 120 else f"{minutes:.0f} min"
