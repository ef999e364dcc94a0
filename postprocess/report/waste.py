"""Names the ways over which the storage sends much more than the jobs take in, and what that does to a comparison."""

from __future__ import annotations

from tierbench.dags.levels import ACCESS
from tierbench.postprocess.report.words import TIMES, figures, listed, span
from tierbench.postprocess.schema.rows import RATE, SENT
from tierbench.postprocess.tables.across import SummaryRow
from tierbench.postprocess.tables.points import level_name, level_of
from tierbench.postprocess.tables.results import Results

AMPLIFICATION = "amplification"
MUCH = 1.1  # sent over taken in: headers and what is usual (docs/verdicts.md) explain less than this

CACHE = "cache_mb"  # a client's option, by which it asks for more in one piece
LARGER_CACHE = f"a read cache of several clusters (option {CACHE} = 30), which asks for larger pieces in their order"
ELSE = "a smaller read-ahead on the way, or a client that asks for larger pieces in their order"


def waste(results: Results, ranked: list[SummaryRow]) -> list[str]:
    """Notes on the ways that waste, given the means of all lines at the place that decides."""

    def name(row: SummaryRow) -> str:
        return level_name(results.layout.lines, level_of(row, results.layout.lines))

    wasteful = [row for row in ranked if (row.means[AMPLIFICATION].value or 0.0) > MUCH]
    if not wasteful:
        return []
    each = [f"{name(row)} {_times(row)} ({figures(row.means[SENT].value, 'Mb/s')})" for row in wasteful]
    over = "over" if results.layout.lines == ACCESS else "with"
    workload = (results.experiment.get("workloads") or {}).get(wasteful[0].workload) or {}
    avoided = LARGER_CACHE if CACHE in (workload.get("options") or {}) else ELSE
    notes = [
        f"The storage sent more than the jobs took in: {over} {listed(each)}. The rest was read ahead in vain on the"
        f" way, sent again, or somebody else’s. What may avoid it: {avoided}."
    ]
    if results.rate != RATE:  # between two turns nothing is sent
        return notes
    by_sent = sorted(
        (row for row in ranked if row.means[SENT].value is not None), key=lambda row: -(row.means[SENT].value or 0.0)
    )
    if by_sent and name(by_sent[0]) != name(ranked[0]):
        first = by_sent[0]
        notes.append(
            f"By what the storage sent, the thesis’ measure, {name(first)} would come first"
            f" ({figures(first.means[SENT].value, 'Mb/s')},"
            f" of which its jobs took in {figures(first.means[RATE].value, 'Mb/s')})."
        )
    return notes


def _times(row: SummaryRow) -> str:
    mean = row.means[AMPLIFICATION]
    interval = span(mean)
    return f"{mean.value:.2f}{TIMES}" + (f" ({interval})" if interval else "")
