"""A nightly's state for Prometheus, as a file for node_exporter's textfile collector; whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tierbench.submit.nightly.changes import Change, Rate, rates
from tierbench.submit.nightly.definition import Nightly
from tierbench.submit.nightly.plugin import VERDICTS
from tierbench.submit.nightly.standing import Standing, standing

PREFIX = "tierbench_nightly"


def leave_textfile(nightly: Nightly, changes: list[Change]) -> None:
    """Write the file, if one was asked for, readable by whoever collects it."""
    if not nightly.terms.textfile:
        return
    target = Path(nightly.terms.textfile) / f"{PREFIX}_{nightly.name}.prom"
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")  # which the collector passes over
    now = datetime.now(UTC)
    text = "".join(f"{line}\n" for line in lines(nightly, standing(nightly, changes, now), changes, rates(nightly)))
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.chmod(0o644)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def lines(nightly: Nightly, seen: Standing, changes: list[Change], found: list[Rate]) -> Iterator[str]:
    of = {"nightly": nightly.name, "site": nightly.terms.site}
    counts = seen.latest.counts if seen.latest else {}
    verdicts = [({**of, "verdict": verdict}, float(counts.get(verdict, 0))) for verdict in VERDICTS]
    patience = nightly.calendar.patience.total_seconds()
    success = (seen.measured.ended_wall_s if seen.measured else None) or 0.0
    open_changes = sum(change.alarming for change in changes)
    meaning = "When the last night ended that measured something."
    yield from _gauge("last_success_timestamp_seconds", meaning, [(of, success)])
    yield from _gauge("patience_seconds", "How old that may become.", [(of, patience)])
    meaning = "0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, at the end of the last night."
    yield from _gauge("state", meaning, [(of, float(seen.status))])
    yield from _gauge("unmeasured_nights", "Nights without a number since then.", [(of, float(seen.missed))])
    yield from _gauge("changes", "Changes that nobody has acknowledged.", [(of, float(open_changes))])
    yield from _gauge("trials", "Trials of the last night by their verdicts.", verdicts)
    if found:
        values = [({**of, "configuration": rate.configuration, "unit": rate.unit}, rate.value) for rate in found]
        yield from _gauge("value", "What the last night measured, the mean of its VALID trials.", values)


def _gauge(name: str, meaning: str, values: list[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {meaning}"
    yield f"# TYPE {PREFIX}_{name} gauge"
    for labels, value in values:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{PREFIX}_{name}{{{inside}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
