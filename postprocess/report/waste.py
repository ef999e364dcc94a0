"""Names the ways over which the storage sends much more than the jobs take in, and what that does to a comparison."""

from __future__ import annotations

from tierbench.dags.levels import ACCESS
from tierbench.postprocess.report.words import TIMES, figures, listed, span
from tierbench.postprocess.tables.columns import RATE, SENT
from tierbench.postprocess.tables.points import level_name, level_of
from tierbench.postprocess.tables.results import Results, Row

MUCH = 1.1  # sent over taken in: headers and what is usual (docs/verdicts.md) explain less than this

CACHE = "cache_mb"  # a client's option, by which it asks for more in one piece
LARGER_CACHE = f"a read cache of several clusters (option {CACHE} = 30), which asks for larger pieces in their order"
ELSE = "a smaller read-ahead on the way, or a client that asks for larger pieces in their order"


def waste(results: Results, ranked: list[Row]) -> list[str]:
    """Notes on the ways that waste, given the means of all lines at the place that decides."""

    def name(row: Row) -> str:
        return level_name(results.layout.lines, level_of(row, results.layout.lines))

    wasteful = [row for row in ranked if (row.get("amplification") or 0.0) > MUCH]
    if not wasteful:
        return []
    each = [f"{name(row)} {_times(row)} ({figures(row.get(SENT), 'Mb/s')})" for row in wasteful]
    over = "over" if results.layout.lines == ACCESS else "with"
    workload = (results.experiment.get("workloads") or {}).get(wasteful[0]["workload"]) or {}
    avoided = LARGER_CACHE if CACHE in (workload.get("options") or {}) else ELSE
    notes = [
        f"The storage sent more than the jobs took in: {over} {listed(each)}. The rest was read ahead in vain on the"
        f" way, sent again, or somebody else’s. What may avoid it: {avoided}."
    ]
    if results.rate != RATE:  # between two turns nothing is sent
        return notes
    by_sent = sorted((row for row in ranked if row.get(SENT) is not None), key=lambda row: -float(row[SENT]))
    if by_sent and name(by_sent[0]) != name(ranked[0]):
        first = by_sent[0]
        notes.append(
            f"By what the storage sent, the thesis’ measure, {name(first)} would come first"
            f" ({figures(first[SENT], 'Mb/s')}, of which its jobs took in {figures(first[RATE], 'Mb/s')})."
        )
    return notes


def _times(row: Row) -> str:
    interval = span(row.get("amplification_low"), row.get("amplification_high"))
    return f"{row['amplification']:.2f}{TIMES}" + (f" ({interval})" if interval else "")
