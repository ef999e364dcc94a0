"""What monitoring systems see of a nightly: its health, the plugin's line, and a text file for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tierbench import files
from tierbench.checked_text import printable
from tierbench.postprocess.history.database import doubt_of_place
from tierbench.submit.nightly import record
from tierbench.submit.nightly.changes import Change, Rate, rates
from tierbench.submit.nightly.definition import Nightly, duration
from tierbench.submit.nightly.messages import shown_channel, was_delivered
from tierbench.submit.nightly.record import Night

STATUS = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}
VERDICTS = ("VALID", "SUSPECT", "INVALID")
PREFIX = "tierbench_nightly"


@dataclass(frozen=True)
class Health:
    """A state, why, and the nights that it follows from."""

    state: str
    summary: str
    measured: Night | None  # the last that was
    latest: Night | None
    unmeasured: int  # nights without a number since then

    @property
    def status(self) -> int:
        return STATUS[self.state]

    def age_s(self, now: datetime) -> float | None:
        """Since the end of the last night that measured something."""
        return None if self.measured is None else now.timestamp() - (self.measured.ended_wall_s or 0.0)


def health(nightly: Nightly, changes: list[Change], now: datetime) -> Health:
    """What silence, failures and changes come to; an unmeasured night is no alarm until the silence is too long."""
    ended = (night for night in record.newest_first(nightly) if night.outcome != "running")
    latest = measured = next(ended, None)
    unmeasured = 0
    while measured and measured.outcome != "measured":
        unmeasured += 1
        measured = next(ended, None)
    state, summary = _state(nightly, changes, now, measured, latest)
    doubt = doubt_of_place(Path(nightly.terms.history)) if nightly.terms.history else ""
    return Health(state, "; ".join(filter(None, [summary, doubt])), measured, latest, unmeasured)


def _state(
    nightly: Nightly, changes: list[Change], now: datetime, measured: Night | None, latest: Night | None
) -> tuple[str, str]:
    patience = nightly.calendar.patience
    failed = latest if latest is not measured else None
    quiet_since = max(nightly.terms.since_wall_s, (measured.ended_wall_s or 0.0) if measured else 0.0)
    silence = timedelta(seconds=now.timestamp() - quiet_since)
    if nightly.terms.paused:
        return "UNKNOWN", "paused"
    if silence > patience:
        why = f"; the night of {failed.label}: {failed.outcome}: {failed.reason}" if failed else ""
        return (
            "CRITICAL",
            f"no result for {duration(silence.total_seconds())}, more than {duration(patience.total_seconds())}{why}",
        )
    alarms = [change for change in changes if change.alarming]
    if alarms:
        state = "CRITICAL" if any(change.level == "CRITICAL" for change in alarms) else "WARNING"
        return state, "; ".join(change.sentence for change in alarms)
    if failed:
        return "UNKNOWN", f"nothing was measured in the night of {failed.label} ({failed.outcome}): {failed.reason}"
    if measured is None:
        return "UNKNOWN", f"no night yet; {nightly.calendar}"
    lost = [f"{shown_channel(to)} {how}" for to, how in measured.deliveries.items() if not was_delivered(to, how)]
    if lost:
        return "WARNING", f"the message of the night of {measured.label} was not delivered: {', '.join(lost)}"
    summary = f"{len(changes)} changes, of which none is an alarm" if changes else "nothing has changed"
    return "OK", f"{summary}; last measured {measured.label}"


# -- the plugin of Nagios, Icinga and the like ---------------------------------------------------------------


def plugin_line(nightly: Nightly, health: Health, rates: list[Rate], now: datetime) -> str:
    """STATE - summary | 'label'=value;warning;critical ... by the guidelines of monitoring-plugins."""
    summary = printable(" ".join(health.summary.replace("|", "/").split()))
    age = health.age_s(now)
    data = [] if age is None else [f"age={age:.0f}s;;{nightly.calendar.patience.total_seconds():.0f};0"]
    data.append(f"unmeasured={health.unmeasured};;;0")
    counts = health.latest.counts if health.latest else {}
    data += [f"{verdict.lower()}={counts.get(verdict, 0)};;;0" for verdict in VERDICTS]
    data += [f"'{_label(rate)}'={rate.value:.4g};;;0" for rate in rates]
    return f"TIERBENCH {health.state} - {nightly.name}: {summary} | {' '.join(data)}"


def _label(rate: Rate) -> str:
    """A label may hold anything but what ends it."""
    return printable(f"{rate.configuration} {rate.unit}".strip()).replace("'", "").replace("=", ":").replace("|", "/")


# -- node_exporter's textfile collector ----------------------------------------------------------------------


def write_textfile(nightly: Nightly, changes: list[Change]) -> None:
    """Write the file, if one was asked for, readable by whoever collects it."""
    if nightly.terms.textfile:
        now_healthy = health(nightly, changes, datetime.now(UTC))
        text = "".join(f"{line}\n" for line in _metrics(nightly, now_healthy, changes, rates(nightly)))
        target = Path(nightly.terms.textfile) / f"{PREFIX}_{nightly.name}.prom"
        with files.replacing(target) as file:  # the collector passes over the unfinished one
            file.write(text.encode())
            os.fchmod(file.fileno(), 0o644)


def _metrics(nightly: Nightly, health: Health, changes: list[Change], rates: list[Rate]) -> Iterator[str]:
    of = {"nightly": nightly.name, "site": nightly.terms.site}
    counts = health.latest.counts if health.latest else {}
    verdicts = [({**of, "verdict": verdict}, float(counts.get(verdict, 0))) for verdict in VERDICTS]
    success = (health.measured.ended_wall_s if health.measured else None) or 0.0
    for name, meaning, value in (
        ("last_success_timestamp_seconds", "When the last night ended that measured something.", success),
        ("patience_seconds", "How old that may become.", nightly.calendar.patience.total_seconds()),
        ("state", "0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, at the end of the last night.", float(health.status)),
        ("unmeasured_nights", "Nights without a number since then.", float(health.unmeasured)),
        ("changes", "Changes that nobody has acknowledged.", float(sum(change.alarming for change in changes))),
    ):
        yield from _gauge(name, meaning, [(of, value)])
    yield from _gauge("trials", "Trials of the last night by their verdicts.", verdicts)
    if rates:
        values = [({**of, "configuration": rate.configuration, "unit": rate.unit}, rate.value) for rate in rates]
        yield from _gauge("value", "What the last night measured, the mean of its VALID trials.", values)


def _gauge(name: str, meaning: str, values: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {meaning}"
    yield f"# TYPE {PREFIX}_{name} gauge"
    for labels, value in values:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{PREFIX}_{name}{{{inside}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
