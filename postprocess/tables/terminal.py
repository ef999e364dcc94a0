"""A run's tables as text for the terminal."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from tierbench.dags import names
from tierbench.errors import TierbenchError
from tierbench.kinds import printable
from tierbench.postprocess.tables.columns import RATE, SUMMED
from tierbench.starts import IN_TURN

# What is shown of each table: the column, and the heading above it.
TRIALS = {
    "trial": "trial",
    "jobs_ok": "ok",
    "delivered_mbps": "Mb/s",
    "mean_mbps": "sent",
    "amplification": "sent/read",
    "volatility_mbps": "volatility",
    "peak_mbps": "peak",
    "window_s": "window s",
    "wall_time_s": "wall s",
    "start_skew_ms": "skew ms",
    "verdict": "verdict",
}
SUMMARY = {
    "configuration": "configuration",
    "jobs": "jobs",
    "trials": "trials",
    "delivered_mbps": "Mb/s",
    "delivered_mbps_sd": "± trials",
    "interval": "95 %",
    "mean_mbps": "sent",
    "amplification": "sent/read",
    "volatility_mbps": "volatility",
    "peak_mbps": "peak",
    "window_s": "window s",
    "wall_time_s": "wall s",
    "start_skew_ms": "skew ms",
}
WORDS = {"trial", "configuration", "verdict"}
DECIMALS = {
    "delivered_mbps": 1, "delivered_mbps_sd": 1, "summed_mbps": 1, "mean_mbps": 1,
    "amplification": 2, "volatility_mbps": 1,
    "peak_mbps": 1, "window_s": 1, "wall_time_s": 1, "start_skew_ms": 1,
}  # fmt: skip


def show(run: Path) -> str:
    """The trials of a run, why some are not valid, and the summary."""
    trials, summary = _rows(run / names.TRIALS_CSV), _rows(run / names.SUMMARY_CSV)
    reasons = [printable(f"{row['trial']}: {row['verdict_reasons']}") for row in trials if row["verdict_reasons"]]
    reasons += [
        f"{row['trial']}: left behind: {printable(row['left_behind'])}" for row in trials if row.get("left_behind")
    ]
    summary = [{**row, "interval": _interval(row)} for row in summary]
    summed = any(row.get("started") == IN_TURN for row in trials)
    parts = [
        aligned(trials, _with_sum(TRIALS, summed)),
        "\n".join(reasons),
        aligned(summary, _with_sum(SUMMARY, summed)),
    ]
    return "\n\n".join(part for part in parts if part)


def _with_sum(columns: dict[str, str], summed: bool) -> dict[str, str]:
    """The columns, with the sum of the clients' own rates where clients have taken turns."""
    at = list(columns).index(RATE)
    names = [*list(columns)[:at], *([SUMMED] if summed else []), *list(columns)[at:]]
    return {name: columns.get(name, "summed") for name in names}


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
    return f"{float(text):.{DECIMALS[name]}f}" if name in DECIMALS else text


def _interval(row: dict[str, str]) -> str:
    """The interval of the mean rate, where there is one."""
    low, high = row.get("delivered_mbps_low"), row.get("delivered_mbps_high")
    return f"{float(low):.1f}…{float(high):.1f}" if low and high else ""


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise TierbenchError(f"{path}: no such table; `tierbench tables {path.parent}` makes it") from None
