"""What monitoring systems see of a nightly: its health, the plugin's line, and a text file for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tierbench import files
from tierbench.checked_text import printable
from tierbench.postprocess.history.database import doubt_of_place
from tierbench.submit.nightly import record
from tierbench.submit.nightly.changes import rates
from tierbench.submit.nightly.definition import Nightly, duration
from tierbench.submit.nightly.messages import shown_channel
from tierbench.submit.nightly.record import Change

STATUS = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}
VERDICTS = ("VALID", "SUSPECT", "INVALID")
PREFIX = "tierbench_nightly"
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
IN_A_LABEL = str.maketrans({"'": "", "=": ":", "|": "/"})  # which may hold anything but what ends it


class Health:
    """A state of a nightly, why, and the nights that it follows from."""

    def __init__(self, nightly: Nightly, changes: list[Change], now: datetime) -> None:
        """What silence, failures and changes come to; an unmeasured night is no alarm until the silence is too long."""
        ended = (night for night in record.newest_first(nightly) if night.outcome != "running")
        self.latest = self.measured = next(ended, None)
        self.unmeasured = 0  # nights without a number since the last that was measured
        while self.measured and self.measured.outcome != "measured":
            self.unmeasured += 1
            self.measured = next(ended, None)
        self.ended_wall_s = (self.measured.ended_wall_s if self.measured else None) or 0.0
        self.state, self.summary = self._state(nightly, changes, now)
        if nightly.terms.history and (doubt := doubt_of_place(Path(nightly.terms.history))):
            self.summary += f"; {doubt}"
        self.age_s = now.timestamp() - self.ended_wall_s
        self.counts = {verdict: (self.latest.counts if self.latest else {}).get(verdict, 0) for verdict in VERDICTS}

    @property
    def status(self) -> int:
        return STATUS[self.state]

    def _state(self, nightly: Nightly, changes: list[Change], now: datetime) -> tuple[str, str]:
        measured, failed = self.measured, self.latest if self.latest is not self.measured else None
        patience = nightly.calendar.patience
        silence = timedelta(seconds=now.timestamp() - max(nightly.terms.since_wall_s, self.ended_wall_s))
        if nightly.terms.paused:
            return "UNKNOWN", "paused"
        if silence > patience:
            why = f"; the night of {failed.label}: {failed.outcome}: {failed.reason}" if failed else ""
            lasts, limit = duration(silence.total_seconds()), duration(patience.total_seconds())
            return "CRITICAL", f"no result for {lasts}, more than {limit}{why}"
        alarms = [change for change in changes if change.alarming]
        if alarms:
            state = "CRITICAL" if any(change.level == "CRITICAL" for change in alarms) else "WARNING"
            return state, "; ".join(change.sentence for change in alarms)
        if failed:
            return "UNKNOWN", f"nothing was measured in the night of {failed.label} ({failed.outcome}): {failed.reason}"
        if measured is None:
            return "UNKNOWN", f"no night yet; {nightly.calendar}"
        if measured.undelivered:
            lost = ", ".join(f"{shown_channel(to)} {how}" for to, how in measured.undelivered.items())
            return "WARNING", f"the message of the night of {measured.label} was not delivered: {lost}"
        summary = f"{len(changes)} changes, of which none is an alarm" if changes else "nothing has changed"
        return "OK", f"{summary}; last measured {measured.label}"


# -- the plugin of Nagios, Icinga and the like ---------------------------------------------------------------


def plugin_line(nightly: Nightly, health: Health) -> str:
    """STATE - summary | 'label'=value;warning;critical ... by the guidelines of monitoring-plugins."""
    summary = printable(" ".join(health.summary.replace("|", "/").split()))
    unit, values = rates(nightly)
    patience = nightly.calendar.patience.total_seconds()
    data = [f"age={health.age_s:.0f}s;;{patience:.0f};0"] if health.measured else []
    data += [f"unmeasured={health.unmeasured};;;0"]
    data += [f"{verdict.lower()}={count};;;0" for verdict, count in health.counts.items()]
    labels = [printable(f"{value.configuration} {unit}".strip()).translate(IN_A_LABEL) for value in values]
    data += [f"'{label}'={value.mean:.4g};;;0" for label, value in zip(labels, values, strict=True)]
    return f"TIERBENCH {health.state} - {nightly.name}: {summary} | {' '.join(data)}"


# -- node_exporter's textfile collector ----------------------------------------------------------------------


def write_textfile(nightly: Nightly, changes: list[Change]) -> None:
    """Write the file, if one was asked for, readable by whoever collects it."""
    if nightly.terms.textfile:
        text = "".join(f"{line}\n" for line in _metrics(nightly, changes))
        target = Path(nightly.terms.textfile) / f"{PREFIX}_{nightly.name}.prom"
        with files.replacing(target) as file:  # the collector passes over the unfinished one
            file.write(text.encode())
            os.fchmod(file.fileno(), 0o644)


def _metrics(nightly: Nightly, changes: list[Change]) -> Iterator[str]:
    of, health = {"nightly": nightly.name, "site": nightly.terms.site}, Health(nightly, changes, datetime.now(UTC))
    for name, meaning, value in (
        ("last_success_timestamp_seconds", "When the last night ended that measured something.", health.ended_wall_s),
        ("patience_seconds", "How old that may become.", nightly.calendar.patience.total_seconds()),
        ("state", "0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, at the end of the last night.", health.status),
        ("unmeasured_nights", "Nights without a number since then.", health.unmeasured),
        ("changes", "Changes that nobody has acknowledged.", sum(change.alarming for change in changes)),
    ):
        yield from _gauge(name, meaning, [(of, value)])
    verdicts = [({**of, "verdict": verdict}, count) for verdict, count in health.counts.items()]
    yield from _gauge("trials", "Trials of the last night by their verdicts.", verdicts)
    unit, measured = rates(nightly)
    if measured:
        values = [({**of, "configuration": value.configuration, "unit": unit}, value.mean) for value in measured]
        yield from _gauge("value", "What the last night measured, the mean of its VALID trials.", values)


def _gauge(name: str, meaning: str, values: Sequence[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {meaning}"
    yield f"# TYPE {PREFIX}_{name} gauge"
    for labels, value in values:
        inside = ",".join(f'{label}="{text.translate(ESCAPED)}"' for label, text in labels.items())
        yield f"{PREFIX}_{name}{{{inside}}} {float(value)!r}"
