"""A run's tables as text for the terminal."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from tierbench.dags import names
from tierbench.errors import TierbenchError

# What is shown of each table: the column, and the heading above it.
TRIALS = {
    "trial": "trial",
    "jobs_ok": "ok",
    "mean_mbps": "Mb/s",
    "volatility_mbps": "±",
    "peak_mbps": "peak",
    "window_s": "window s",
    "wall_time_s": "wall s",
    "start_skew_ms": "skew ms",
    "closure": "closure",
    "verdict": "verdict",
}
SUMMARY = {
    "configuration": "configuration",
    "jobs": "jobs",
    "trials": "trials",
    "mean_mbps": "Mb/s",
    "mean_mbps_sd": "± trials",
    "interval": "95 %",
    "volatility_mbps": "volatility",
    "peak_mbps": "peak",
    "window_s": "window s",
    "wall_time_s": "wall s",
    "start_skew_ms": "skew ms",
    "closure": "closure",
}
WORDS = {"trial", "configuration", "verdict"}
PERCENT = {"closure"}
SHORT = {"mean_mbps", "mean_mbps_sd", "volatility_mbps", "peak_mbps", "window_s", "wall_time_s", "start_skew_ms"}


def show(run: Path) -> str:
    """The trials of a run, why some are not valid, and the summary."""
    trials, summary = _rows(run / names.TRIALS_CSV), _rows(run / names.SUMMARY_CSV)
    reasons = [f"{row['trial']}: {row['verdict_reasons']}" for row in trials if row["verdict_reasons"]]
    summary = [{**row, "interval": _interval(row)} for row in summary]
    parts = [aligned(trials, TRIALS), "\n".join(reasons), aligned(summary, SUMMARY)]
    return "\n\n".join(part for part in parts if part)


def aligned(rows: list[dict[str, str]], columns: dict[str, str]) -> str:
    """A table of these columns, words to the left and numbers to the right."""
    cells = [list(columns.values()), *([_cell(name, row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(_padded(line, widths, columns)).rstrip() for line in cells)


def _padded(line: list[str], widths: list[int], columns: dict[str, str]) -> Iterator[str]:
    for text, width, name in zip(line, widths, columns, strict=True):
        yield text.ljust(width) if name in WORDS else text.rjust(width)


def _cell(name: str, text: str) -> str:
    if not text:
        return "-"
    if name in PERCENT:
        return f"{float(text):+.1%}"
    return f"{float(text):.1f}" if name in SHORT else text


def _interval(row: dict[str, str]) -> str:
    """The interval of the mean rate, where there is one."""
    low, high = row.get("mean_mbps_low"), row.get("mean_mbps_high")
    return f"{float(low):.1f}…{float(high):.1f}" if low and high else ""


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise TierbenchError(f"{path}: no such table; `tierbench tables {path.parent}` makes it") from None
