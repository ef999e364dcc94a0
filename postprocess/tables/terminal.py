"""A run's tables as text for the terminal."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tierbench import json_files, names
from tierbench.checked_text import printable
from tierbench.errors import TierbenchError
from tierbench.postprocess.schema.columns import Row, plain_rows, read_rows
from tierbench.postprocess.schema.rows import RATE, SUMMED, TrialRow
from tierbench.postprocess.schema.run_rows import RatioRow, SummaryRow
from tierbench.postprocess.wording import aligned, worded
from tierbench.starts import IN_TURN

INTERVAL = "interval"  # of the mean rate, where there is one

# What is shown of each table: the column, and the heading above it.
NUMBERS = {
    "mean_mbps": "sent",
    "amplification": "sent/read",
    "volatility_mbps": "volatility",
    "peak_mbps": "peak",
    "window_s": "window s",
    "wall_time_s": "wall s",
    "start_skew_ms": "skew ms",
}
TRIALS = {"trial": "trial", "jobs_ok": "ok", SUMMED: "summed", RATE: "Mb/s", **NUMBERS, "verdict": "verdict"}
SUMMARY = {
    "configuration": "configuration",
    "jobs": "jobs",
    "trials": "trials",
    SUMMED: "summed",
    RATE: "Mb/s",
    "delivered_mbps_sd": "± trials",
    INTERVAL: "95 %",
    **NUMBERS,
}
WORDS = {"trial", "configuration", "verdict"}


def tables_content(run: Path) -> dict[str, Any]:
    """The same tables and their ratios for programs, each row with all its columns, as schema.json describes them."""
    schema = json_files.read_table(run / names.SCHEMA)
    shown = {"trials": TrialRow, "summary": SummaryRow, "ratios": RatioRow}
    return {name: plain_rows(table, run, schema) for name, table in shown.items()}


def as_text(run: Path) -> str:
    """The trials of a run, why some are not valid, and the summary."""
    for path in (run / names.TRIALS_CSV, run / names.SUMMARY_CSV):
        if not path.is_file():
            raise TierbenchError(f"{path}: no such table; `tierbench tables {run}` makes it")
    trials, summary = read_rows(TrialRow, run), read_rows(SummaryRow, run)
    reasons = [printable(_why(trial)) for trial in trials if trial.verdict_reasons]
    if any(len(trial.verdict_reasons) > 1 for trial in trials):
        reasons.append(f"All reasons are in {names.TRIALS_CSV} (verdict_reasons) and in the report.")
    reasons += [
        f"{trial.trial}: left behind: {printable(trial['left_behind'])}" for trial in trials if trial.left_behind
    ]
    directions = {trial.direction for trial in trials if trial.mean_mbps is not None}
    summed = any(trial.started == IN_TURN for trial in trials)
    parts = [
        _table(trials, _headed(TRIALS, summed, directions)),
        "\n".join(reasons),
        _table(summary, _headed(SUMMARY, summed, directions)),
    ]
    return "\n\n".join(part for part in parts if part)


def _why(trial: TrialRow) -> str:
    """Its first reason, and how many more there are: a busy host gives a dozen for each trial."""
    first, *more = trial.verdict_reasons
    return f"{trial.trial}: {first}" + (f" (and {len(more)} more)" if more else "")


def _headed(columns: Mapping[str, str], summed: bool, directions: Collection[str]) -> Mapping[str, str]:
    """The columns, with the sum of the clients' own rates only where clients have taken turns, in the trials' words."""
    return {name: worded(heading, directions) for name, heading in columns.items() if summed or name != SUMMED}


def _table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    cells = [list(columns.values()), *([_cell(row, name) or "-" for name in columns] for row in rows)]
    return "\n".join(aligned(cells, [place for place, name in enumerate(columns) if name not in WORDS]))


def _cell(row: Row, name: str) -> str:
    if name == INTERVAL:
        return "…".join(f"{end:.1f}" for end in row.means[RATE].interval or ()) if isinstance(row, SummaryRow) else ""
    value = row[name]
    if isinstance(value, float):
        return f"{value:.2f}" if name == "amplification" else f"{value:.1f}"
    return "" if value is None else str(value)
