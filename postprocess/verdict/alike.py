"""What only the trials of a run together can tell: whether one is unlike its repetitions, and whether rates add up."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tierbench.postprocess.measures.bottleneck import LATENCY, UNEXPLAINED
from tierbench.postprocess.tables.columns import CONFIGURATION, RATE
from tierbench.postprocess.verdict.counted import counts
from tierbench.postprocess.verdict.rules import Finding
from tierbench.starts import IN_TURN

Row = dict[str, Any]

FEWEST = 3  # repetitions; of two nobody knows which one is odd
OF_EXCESS = 0.1  # of the usual excess: a way that wastes much does not waste just as much each time
ADDS_UP = 0.75  # behind latency, a client among many gets at least so much of what it gets among few
BATCH = tuple(column.name for column in CONFIGURATION)


def unlike_repetitions(rows: Iterable[Row]) -> dict[str, Finding]:
    """Trials whose closure is not that of their repetitions, by their names: there the usual excess is measured."""
    found = {}
    for members in _grouped(rows, BATCH):
        closures = [row["closure"] for row in members if counts(row) and row["closure"] is not None]
        if len(closures) < FEWEST:
            continue
        usual = statistics.median(closures)
        for row in members:
            if row["closure"] is not None:
                beyond = 100 * (abs(row["closure"] - usual) - OF_EXCESS * abs(usual))
                words = f"the storage sent {row['closure']:+.1%} beyond what was read, its repetitions {usual:+.1%}"
                found[row["trial"]] = Finding("unlike its repetitions", beyond, words)
    return found


def with_rates_that_add_up(rows: Iterable[Row]) -> list[Row]:
    """Trials whose clients do not get what fewer get each are not limited by latency, behind which rates add up."""
    found = []
    for members in _grouped(rows, tuple(name for name in BATCH if name != "jobs")):
        by_jobs = {jobs: _each_mbps(list(batch)) for jobs, batch in itertools.groupby(members, lambda row: row["jobs"])}
        for row in members:
            each = row[RATE] / row["jobs"] if row[RATE] and row.get("started") != IN_TURN else None
            fewer = {jobs: mbps for jobs, mbps in by_jobs.items() if jobs < row["jobs"] and mbps is not None}
            if row["bottleneck"] == LATENCY and each is not None and fewer:
                jobs = max(fewer, key=lambda jobs: fewer[jobs] or 0.0)
                if each < ADDS_UP * (fewer[jobs] or 0.0):
                    row = row | _shared(row, each, jobs, fewer[jobs] or 0.0)
            found.append(row)
    return sorted(found, key=lambda row: row["position"])


def _each_mbps(batch: Sequence[Row]) -> float | None:
    """What each client of a batch got in the median of its trials."""
    rates = [row[RATE] / row["jobs"] for row in batch if counts(row) and row[RATE] is not None]
    return statistics.median(rates) if rates else None


def _shared(row: Row, each: float, jobs: int, mbps: float) -> Row:
    words = (
        f"not latency, behind which rates add up: each of {jobs} clients got {mbps:.1f} Mb/s, each of {row['jobs']}"
        f" gets {each:.1f}, so they share something that is not measured"
    )
    return {"bottleneck": UNEXPLAINED, "bottleneck_evidence": f"{words}; {row['bottleneck_evidence']}"}


def _grouped(rows: Iterable[Row], keys: Sequence[str]) -> Iterator[list[Row]]:
    def key(row: Row) -> list[Any]:
        return [row[name] for name in keys]

    ordered = sorted(rows, key=lambda row: (key(row), row["jobs"]))
    for _, group in itertools.groupby(ordered, key=key):
        yield list(group)
