"""The lines of samples.csv: what the kernel counted between two samples, as rates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tierbench.postprocess.columns import SAMPLES, TRIAL
from tierbench.postprocess.counters import CPU, Intervals
from tierbench.postprocess.digits import Choice, Integers, Number, Numbers, csv_lines
from tierbench.postprocess.trial import Sampled

LINES_AT_ONCE = 16_384
FLAGS = ("", "gap", "wrap", "gap wrap", "reset", "gap reset", "wrap reset", "gap wrap reset")
LEADING = (*(column.name for column in TRIAL), "host", "role", "interface")
AS_SAMPLED = (
    "wall_ns", "rx_bytes", "tx_bytes", "cpu_busiest", "cpu_busiest_busy_pct", "softirq_busiest_pct", "mem_cached_kb",
)  # fmt: skip
MEGABITS = {
    "rx_mbps": "rx_bytes",
    "tx_mbps": "tx_bytes",
    "disk_read_mbps": "disk_read_bytes",
    "disk_written_mbps": "disk_written_bytes",
}
PER_SECOND = tuple(column.name for column in SAMPLES if column.name.endswith("_per_s"))


def sample_lines(sampled: Sampled, lead: str, begin_ns: int | None) -> Iterator[bytes]:
    """The CSV lines of one host's samples, some thousands at a time; `lead` is what all begin with."""
    values = _values(sampled, begin_ns)
    columns = [column for column in SAMPLES if column.name not in LEADING]
    for start in range(0, len(sampled.samples), LINES_AT_ONCE):
        end = min(start + LINES_AT_ONCE, len(sampled.samples))
        fields = [
            Choice(values["flag"][start:end].astype(np.int64), FLAGS)
            if column.name == "flag"
            else Number(values[column.name][start:end], column.decimals)
            for column in columns
        ]
        yield csv_lines(lead, fields, end - start)


def _values(sampled: Sampled, begin_ns: int | None) -> dict[str, Integers | Numbers]:
    """The columns of samples.csv that are not the same on all lines."""
    samples, intervals = sampled.samples, sampled.intervals
    unknown = np.full(len(samples), np.nan)
    values: dict[str, Integers | Numbers] = {
        "time_s": unknown if begin_ns is None else (samples.time_ns - begin_ns) / 1e9,
        "interval_s": intervals.seconds,
        "flag": intervals.gap + 2 * intervals.wrap + 4 * intervals.reset,
        **_cpu_percentages(intervals, unknown),
    }
    for name in AS_SAMPLED:
        values[name] = _known(samples.columns[name]) if name in samples.columns else unknown
    for name, counter in MEGABITS.items():
        values[name] = intervals.differences.get(counter, unknown) * (8 / 1e6) / intervals.seconds
    for name in PER_SECOND:
        values[name] = intervals.differences.get(name.removesuffix("_per_s"), unknown) / intervals.seconds
    return values


def _cpu_percentages(intervals: Intervals, unknown: Numbers) -> dict[str, Numbers]:
    jiffies = {name: intervals.differences.get(name, unknown) for name in CPU}
    per_cent = 100 / np.maximum(sum(jiffies.values(), np.zeros(len(unknown))), 1)
    busy = sum((jiffies[name] for name in CPU if name not in ("cpu_idle", "cpu_iowait")), np.zeros(len(unknown)))
    return {
        "cpu_busy_pct": busy * per_cent,
        "cpu_iowait_pct": jiffies["cpu_iowait"] * per_cent,
        "cpu_softirq_pct": jiffies["cpu_softirq"] * per_cent,
    }


def _known(values: Integers) -> Integers | Numbers:
    """The values, without the -1 where the kernel had none."""
    return values if values.min(initial=0) >= 0 else np.where(values < 0, np.nan, values)
