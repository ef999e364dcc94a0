"""What a file costs in jobs that work through a list of them: in seconds, in round trips, and how the lines differ."""

from __future__ import annotations

from tierbench.postprocess.report.words import figures
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import SummaryRow
from tierbench.postprocess.tables.points import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results
from tierbench.postprocess.verdict.counted import counts

EACH, ROUND_TRIPS = "fetch_s", "round_trips_per_fetch"


def each_files_time(results: Results, panel: Panel) -> list[str]:
    """A note for each place along x at which jobs had lists of files to work through once."""
    return [note for x in results.ladder(panel) if (note := _at(results, panel, x))]


def _at(results: Results, panel: Panel, x: str) -> str:
    point = results.at(panel, x=x)
    trials = [trial for trial in rows_at(results.trials_at(panel.levels), point) if counts(trial)]
    if not any((trial.job_files or 0) > 1 and trial.job_for_s is None for trial in trials):
        return ""
    rows = [row for row in results.summaries_at(point) if row.trials and row.means[EACH].value is not None]
    quickest_first = sorted(rows, key=lambda row: row.means[EACH].value or 0.0)
    told = [_time(results, row, before) for before, row in zip([None, *quickest_first], quickest_first, strict=False)]
    where = level_name(results.layout.x, x)
    return f"The time of a file, with its share of logging in, at {where}: {'; '.join(told)}." if told else ""


def _time(results: Results, row: SummaryRow, before: SummaryRow | None) -> str:
    lines = results.layout.lines
    trips = row.means[ROUND_TRIPS].value
    said = f"{level_name(lines, level_of(row, lines))} {_ms(row.means[EACH].value)}"
    said += f" or {figures(trips)} round trips" if trips else ""
    more = _more(results, row, before) if before else Interval()
    if more.value is None:
        return said
    interval = f" (95\N{NO-BREAK SPACE}% interval {' to '.join(map(_ms, more.interval))})" if more.interval else ""
    return f"{said}, {_ms(more.value)}{interval} more"


def _more(results: Results, row: SummaryRow, before: SummaryRow) -> Interval:
    """By how much a file's time is longer than in another row."""
    lines = results.layout.lines
    point = {name: level_of(row, name) for name in results.factors}
    wanted = (lines, level_of(before, lines), EACH)
    rows = [r.more for r in rows_at(results.ratios, point) if (r.factor, r.against, r.metric) == wanted]
    return rows[0] if rows else Interval()


def _ms(seconds: float | None) -> str:
    return figures(None if seconds is None else 1000 * seconds, "ms")
