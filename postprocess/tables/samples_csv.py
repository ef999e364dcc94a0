"""The lines of samples.csv: what the kernel counted between two samples, as rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tierbench import names
from tierbench.postprocess.digits import Choice, Integers, Number, Numbers, csv_lines
from tierbench.postprocess.records.increments import CPU, Intervals
from tierbench.postprocess.records.samples import Described, UnreadableSamples, described, read_header
from tierbench.postprocess.records.trial import Sampled
from tierbench.postprocess.schema.columns import Column, columns_of, places
from tierbench.postprocess.schema.rows import OfTrial, SampleRow

LINES_AT_ONCE = 16_384
FLAGS = ("", "gap", "wrap", "gap wrap", "reset", "gap reset", "wrap reset", "gap wrap reset")
LEADING = {*places(OfTrial), "host", "role", "interface"}  # the same on all lines of an interface
COUNTED = [column for column in columns_of(SampleRow) if column.name not in LEADING]
AS_SAMPLED = [column.name for column in COUNTED if column.type == "integer"]
# Of the others most are rates: by their names, the counters that they are of, and by what those are multiplied.
RATES = {
    column.name: (f"{column.name.removesuffix(suffix)}{counter}", factor)
    for column in COUNTED
    for suffix, counter, factor in (("_mbps", "_bytes", 8 / 1e6), ("_per_s", "", 1.0))
    if column.name.endswith(suffix)
}
ALWAYS = {*AS_SAMPLED, *(counter for counter, _ in RATES.values()), *CPU}


def further_columns(folders: Iterable[Path]) -> list[Column]:
    """What the samplers of some trials have read beyond what samples.csv always has, by their files' headers."""
    columns: dict[str, Column] = {}
    for path in (path for folder in folders for path in sorted((folder / names.SAMPLES).glob("*.samples"))):
        try:
            header = read_header(path)
        except UnreadableSamples:
            continue
        for column in _further(header):
            columns.setdefault(_heading(column), _as_column(column))
    return list(columns.values())


def _further(header: Mapping[str, Any]) -> list[Described]:
    return [
        column
        for name, column in described(header).items()
        if name not in ALWAYS and column.kind in ("counter", "gauge")
    ]


def _heading(column: Described) -> str:
    return f"{column.name}_per_s" if column.kind == "counter" else column.name


def _as_column(column: Described) -> Column:
    meaning = f"{column.name} of the sampler's source {column.source}, of the {column.scope}"
    if column.kind == "gauge":
        return Column(_heading(column), "integer", column.unit, meaning)
    return Column(_heading(column), "number", f"{column.unit}/s", f"how fast it rose: {meaning}", 3)


def sample_lines(sampled: Sampled, lead: str, begin_ns: int | None, further: Sequence[Column]) -> Iterator[bytes]:
    """The CSV lines of one interface's samples, some thousands at a time; `lead` is what all begin with."""
    values = _values(sampled, begin_ns)
    unknown = np.full(len(sampled.samples), np.nan)
    for column in further:
        values.setdefault(column.name, unknown)
    columns = [*COUNTED, *further]
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
        values[name] = _or_nan(samples.columns[name]) if name in samples.columns else unknown
    for name, (counter, factor) in RATES.items():
        values[name] = intervals.differences.get(counter, unknown) * factor / intervals.seconds
    for column in _further(samples.header):
        if column.kind == "counter":
            values[_heading(column)] = intervals.differences[column.name] / intervals.seconds
        else:
            values[_heading(column)] = _or_nan(samples.columns[column.name])
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


def _or_nan(values: Integers) -> Integers | Numbers:
    """The values, without the -1 where the kernel had none."""
    return values if values.min(initial=0) >= 0 else np.where(values < 0, np.nan, values)
