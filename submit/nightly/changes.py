"""What the history says of a nightly, as the schedule and its messages need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tierbench.submit.nightly import record
from tierbench.submit.nightly.definition import Nightly, Say
from tierbench.submit.nightly.record import Night


@dataclass(frozen=True)
class Change:
    """Something of which an admin is told once: its key stays the same as long as it lasts."""

    key: str
    level: str  # WARNING or CRITICAL
    sentence: str
    configuration: str
    since: str
    acknowledged: bool = False

    @property
    def content(self) -> dict[str, object]:
        return {
            "key": self.key,
            "level": self.level,
            "sentence": self.sentence,
            "configuration": self.configuration,
            "since": self.since,
        }


def take_in(nightly: Nightly, night: Night, run: Path | None, say: Say) -> None:
    """Put a night into the history, by its run or as one without; and the gaps that it does not know yet."""
    from tierbench.postprocess.history import of_run, rows
    from tierbench.postprocess.history.store import History

    with History() as history:
        if run is not None:
            history.record(*of_run.night_of(run, say=say))
        for one in [*record.nights(nightly), night]:
            if one.outcome in ("failed", "missed", "still-running") and not _has_run(nightly, one):
                outcome = rows.FAILED if one.outcome == "failed" else rows.MISSED
                planned = int(one.planned_wall_s * 1e9)
                history.record(rows.Night(nightly.name, planned, outcome, reason=one.reason))


def _has_run(nightly: Nightly, night: Night) -> bool:
    from tierbench.dags import names

    return (record.folder(nightly, night) / names.NIGHT_RUN / names.PLAN).exists()


def suspected(_nightly: Nightly, _night: Night) -> Sequence[str]:
    """The configurations that seem to have changed in this night, and have not been seen to before."""
    return []


def changes(_nightly: Nightly) -> Sequence[Change]:
    """What has changed for certain, and is so still."""
    return []


def acknowledge(nightly: Nightly, change: Change, by: str, note: str, accepted: bool) -> None:
    """Nobody is told of a change again; if it was accepted, the baseline begins anew there."""


@dataclass(frozen=True)
class Rate:
    """What the last night that measured anything has measured of a configuration."""

    configuration: str
    value: float
    unit: str


def rates(nightly: Nightly) -> list[Rate]:
    """The last night's values, by what is watched; none where the history cannot be read."""
    from tierbench.errors import TierbenchError
    from tierbench.postprocess.history.queries import chronicle
    from tierbench.postprocess.history.store import History

    try:
        with History() as history:
            known = chronicle(history, nightly.name)
    except TierbenchError:
        return []
    night = next((night for night in reversed(known.measured) if not night.rerun), None)
    values = (
        [] if night is None else [value for value in known.values.get(night.id, []) if value.metric == night.metric]
    )
    return [Rate(value.configuration, value.mean, night.unit) for value in values if night]
