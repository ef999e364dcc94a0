"""`tierbench nightly check` as monitoring systems read it: a state, one line, and behind a bar its performance data."""

from __future__ import annotations

from datetime import datetime

from tierbench.checked_text import printable
from tierbench.submit.nightly.changes import Rate
from tierbench.submit.nightly.definition import Nightly
from tierbench.submit.nightly.standing import Standing

VERDICTS = ("VALID", "SUSPECT", "INVALID")


def line(nightly: Nightly, standing: Standing, rates: list[Rate], now: datetime) -> str:
    """STATE - summary | 'label'=value;warning;critical ... by the guidelines of monitoring-plugins."""
    summary = printable(" ".join(standing.summary.replace("|", "/").split()))
    return f"TIERBENCH {standing.state} - {nightly.name}: {summary} | {' '.join(_data(nightly, standing, rates, now))}"


def _data(nightly: Nightly, standing: Standing, rates: list[Rate], now: datetime) -> list[str]:
    age = standing.age_s(now)
    found = [] if age is None else [f"age={age:.0f}s;;{nightly.calendar.patience.total_seconds():.0f};0"]
    found.append(f"unmeasured={standing.missed};;;0")
    counts = standing.latest.counts if standing.latest else {}
    found += [f"{verdict.lower()}={counts.get(verdict, 0)};;;0" for verdict in VERDICTS]
    return found + [f"'{_label(rate)}'={rate.value:.4g};;;0" for rate in rates]


def _label(rate: Rate) -> str:
    """A label may hold anything but what ends it."""
    return printable(f"{rate.configuration} {rate.unit}".strip()).replace("'", "").replace("=", ":").replace("|", "/")
