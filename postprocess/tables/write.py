"""Writes the CSVs of a run: first each trial's own, then all trials' together, and schema.json; the same as Parquet."""

import contextlib
import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tierbench import files, json_files, names
from tierbench.dags.levels import Factor, Scaling
from tierbench.errors import ConfigError, TierbenchError, UnmetNeed
from tierbench.postprocess.arrays import Integers, Numbers
from tierbench.postprocess.measures.bottleneck import resource_rows
from tierbench.postprocess.measures.delivered import delivered
from tierbench.postprocess.measures.over_time import over_time
from tierbench.postprocess.records.host_settings import host_settings, of_run
from tierbench.postprocess.records.increments import CPU, Intervals
from tierbench.postprocess.records.load_trial import read_trial, was_skipped
from tierbench.postprocess.records.samples import Header, SampledColumn, UnreadableSamples, described, read_header
from tierbench.postprocess.records.trial import Sampled, TrialData
from tierbench.postprocess.schema.columns import Column, Row, columns_of, places, tables_of
from tierbench.postprocess.schema.rows import JobRow, OfTrial, ResourceRow, SampleRow, TrialRow
from tierbench.postprocess.schema.run_rows import RatioRow, SaturationRow, ScalingRow, SummaryRow, schema
from tierbench.postprocess.tables.cache import keep, made_of, row_as_it_was, shared_digest
from tierbench.postprocess.tables.factors import axes_of_run, axis_column, check_levels, levels_on_axes
from tierbench.postprocess.tables.metrics import job_row, leading, trial_row
from tierbench.postprocess.tables.run_tables import ratio_rows, saturation_rows, scaling_rows, summary_rows
from tierbench.postprocess.verdict.judge import judge, judge_run
from tierbench.spec import build

# samples.csv: what the kernel counted between two samples, as rates
LINES_AT_ONCE = 16_384
MOST = 10**18  # a larger number is none that was counted
LEAD, UNKNOWN = "\x01", "nan"  # stand for what all lines begin with, and for nothing, until the lines are done
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


class Unwritten(TierbenchError):
    """A table could not be written: no room, or no permission."""


def _to_stderr(words: str) -> None:
    print(words, file=sys.stderr)


def tables(run: Path, say: Callable[[str], None] = _to_stderr) -> list[TrialRow]:
    """Write the CSVs of all trials of a run directory; return the rows of its trials.csv."""
    if (run / names.NO_SAMPLES).exists():
        raise TierbenchError(f"{run}: its samples were removed to save room, so its tables stay as they are")
    folders = [path for path in (run / names.TRIALS).glob("*") if path.is_dir()]
    if not folders:
        what = (
            f"none of its trials has started; `tierbench watch {run}` shows what it waits for"
            if (run / names.PLAN).is_file()
            else "is not a run directory (it has no trials); `tierbench write` makes one"
        )
        raise ConfigError(f"{run}: {what}")
    files.refuse_links(run / names.TRIALS, *folders)
    (run / names.NO_TABLES).unlink(missing_ok=True)  # whoever ends from now on leaves it again
    axes, pairs = axes_of_run(run, say)
    columns = [axis_column(axis) for axis in axes]
    ran = [folder for folder in folders if not was_skipped(folder)]
    further = further_columns(ran)
    trials = sorted(_trial_rows(run, ran, axes, further, say), key=lambda pair: pair[0].position)
    rows = [row for row, _ in trials]
    under = {row.trial: json_files.read_table(folder / names.CONDITIONS) for row, folder in trials}
    rows = judge_run(rows, under)
    _write_json(run / names.CONDITIONS, of_run(under))
    for of_trial in (SampleRow, JobRow, ResourceRow):
        with _replacing(run / of_trial.file) as file:
            header = _header((*columns_of(of_trial, columns), *(further if of_trial is SampleRow else ())))
            file.write(header)
            for _, folder in trials:
                with files.opened(folder / of_trial.file) as source:
                    is_whole = source.readline() == header
                if not is_whole:  # its own last step has made them meanwhile, with the columns of its own samplers
                    trial_tables(folder, axes, further)
                with files.opened(folder / of_trial.file) as source:
                    source.readline()
                    shutil.copyfileobj(source, file, 1 << 20)
    summary, ratios = summary_rows(rows, axes), ratio_rows(rows, axes, pairs=pairs)
    scaling, saturations = scaling_rows(_scaling(run, say), summary, ratios), saturation_rows(rows, summary)
    for table in tables_of(TrialRow):
        _write(run, table, rows, columns)
    _write(run, SummaryRow, summary, columns)
    _write(run, RatioRow, ratios, columns)
    _write(run, ScalingRow, scaling, columns)
    _write(run, SaturationRow, saturations, columns)
    _write_json(run / names.SCHEMA, schema(columns, further))
    return rows


def _scaling(run: Path, say: Callable[[str], None]) -> Scaling | None:
    """Along what the run's experiment asks how the rate scales."""
    path = run / names.EXPERIMENT
    try:
        asked = json_files.read_table(path).get("scaling")
        return None if asked is None else build(Scaling, asked, str(path), "scaling")
    except FileNotFoundError:
        return None
    except TierbenchError as error:
        say(f"{error}, so there is no {names.SCALING_CSV}")
        return None


def _trial_rows(
    run: Path, folders: Iterable[Path], axes: Sequence[Factor], further: Sequence[Column], say: Callable[[str], None]
) -> Iterator[tuple[TrialRow, Path]]:
    """Each trial's row and folder, and its tables there, made only where they are not what they would be anyway.

    One whose definition is broken is reported and left out, and costs no other one.
    """
    errors: list[TierbenchError] = []
    readable = 0
    shared = shared_digest(run, axes, further)
    for folder in folders:
        try:
            row = row_as_it_was(folder, shared)
            if row is None:
                of = made_of(folder, shared)
                row = trial_tables(folder, axes, further)
                keep(folder, shared, of, row)
            if row.trial_id != folder.name:
                raise TierbenchError(
                    f"{folder} holds the trial {row.trial_id}, not one of its own name; rename or remove it"
                )
        except Unwritten:  # no fault of the trial, which no mean may lack
            raise
        except TierbenchError as error:
            errors.append(error)
            say(f"left out of the tables: {error}")
            continue
        readable += 1
        yield row, folder
    if errors and not readable:
        raise errors[0]


def trial_tables(
    folder: Path, axes: Sequence[Factor] | None = None, further: Sequence[Column] | None = None
) -> TrialRow:
    """Write the CSVs of one trial into its folder; return its row of trials.csv.

    `axes` are the run's, and `further` what all its samplers have read, where its trials' tables will be put together.
    """
    data = read_trial(folder)
    if axes is not None:
        check_levels(data.trial, axes)
    columns = [Column(name, "text", "", "") for name in levels_on_axes(data.trial.levels)]
    _write_samples(folder, data, columns, further_columns([folder]) if further is None else further)
    _write(folder, JobRow, [job_row(data.trial, job) for job in data.jobs], columns)
    _write(folder, ResourceRow, resource_rows(data, leading(data.trial)), columns)
    row = judge(data, trial_row(data))
    _write_json(folder / names.CONDITIONS, host_settings(data))
    curves = over_time(data.sampled, row, delivered(data).by is not None)
    _write_json(folder / names.OVER_TIME, curves.to_record(), indent=None)
    for table in tables_of(TrialRow):
        _write(folder, table, [row], columns)
    return row


def _write_samples(folder: Path, data: TrialData, axes: Sequence[Column], further: Sequence[Column]) -> None:
    own = columns_of(SampleRow, axes)
    with _replacing(folder / SampleRow.file) as file:
        file.write(_header((*own, *further)))
        for sampled in data.sampled:
            samples = sampled.samples
            row = SampleRow(host=samples.host, role=samples.role, interface=samples.interface, **leading(data.trial))
            fields = [_field(column, row[column.name]) for column in own if column not in COUNTED]
            lead = csv_bytes([fields]).decode().rstrip("\n")
            for lines in sample_lines(sampled, lead, data.begin_ns, further):
                file.write(lines)


def further_columns(folders: Iterable[Path]) -> list[Column]:
    """What the samplers of some trials have read beyond what samples.csv always has, by their files' headers."""
    columns: dict[str, Column] = {}
    for path in (path for folder in folders for path in sorted((folder / names.SAMPLES).glob("*.samples"))):
        try:
            header = read_header(path)
        except UnreadableSamples:
            continue
        for column in map(_as_column, _further(header)):
            columns.setdefault(column.name, column)
    return list(columns.values())


def _further(header: Header) -> list[SampledColumn]:
    return [
        column
        for name, column in described(header).items()
        if name not in ALWAYS and column.kind in ("counter", "gauge")
    ]


def _as_column(column: SampledColumn) -> Column:
    meaning = f"{column.name} of the sampler's source {column.source}, of the {column.scope}"
    if column.kind == "gauge":
        return Column(column.name, "integer", column.unit, meaning)
    return Column(f"{column.name}_per_s", "number", f"{column.unit}/s", f"how fast it rose: {meaning}", 3)


def sample_lines(sampled: Sampled, lead: str, begin_ns: int | None, further: Sequence[Column]) -> Iterator[bytes]:
    """The CSV lines of one interface's samples, some thousands at a time; `lead` is what all begin with."""
    values = _values(sampled, begin_ns)
    unknown = np.full(len(sampled.samples), np.nan)
    for column in further:
        values.setdefault(column.name, unknown)
    columns = [*COUNTED, *further]
    for start in range(0, len(sampled.samples), LINES_AT_ONCE):
        part = slice(start, start + LINES_AT_ONCE)
        yield csv_lines(lead, [(values[column.name][part], column.decimals) for column in columns])


def csv_lines(lead: str, fields: Sequence[tuple[np.ndarray, int]]) -> bytes:
    """Lines that begin with the same text and go on with these columns, each with so many decimals; NaN is left empty.

    A zero has no minus.
    """
    form = [f"%.{decimals}f" if values.dtype.kind == "f" else "%s" for values, decimals in fields]
    line, columns = f"{LEAD},{','.join(form)}\n", []
    for values, decimals in fields:
        if values.dtype.kind == "f":
            scaled = np.rint(values * 10.0**decimals)
            values = np.where(np.abs(scaled) < MOST, scaled / 10.0**decimals + 0.0, np.nan)
        columns.append(values.tolist())
    return "".join([line % row for row in zip(*columns, strict=True)]).replace(UNKNOWN, "").replace(LEAD, lead).encode()


def _values(sampled: Sampled, begin_ns: int | None) -> dict[str, np.ndarray]:
    """The columns of samples.csv that are not the same on all lines."""
    samples, intervals = sampled.samples, sampled.intervals
    unknown = np.full(len(samples), np.nan)
    values = {
        "time_s": unknown if begin_ns is None else (samples.time_ns - begin_ns) / 1e9,
        "interval_s": intervals.seconds,
        "flag": np.array(FLAGS)[intervals.gap + 2 * intervals.wrap + 4 * intervals.reset],
        **_cpu_percentages(intervals, unknown),
    }
    for name in AS_SAMPLED:
        values[name] = _or_nan(samples.columns[name]) if name in samples.columns else unknown
    for name, (counter, factor) in RATES.items():
        values[name] = intervals.differences.get(counter, unknown) * factor / intervals.seconds
    for column in _further(samples.header):
        gauge = column.kind == "gauge"
        values[_as_column(column).name] = (
            _or_nan(samples.columns[column.name]) if gauge else intervals.differences[column.name] / intervals.seconds
        )
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


def _write(folder: Path, table: type[Row], rows: Iterable[Row], axes: Sequence[Column]) -> None:
    columns = columns_of(table, axes)
    with _replacing(folder / table.file) as file:
        file.write(_header(columns))
        file.write(csv_bytes([_field(column, row[column.name]) for column in columns] for row in rows))


def _write_json(path: Path, content: dict[str, Any], indent: int | None = 1) -> None:
    with _replacing(path) as file:
        file.write(json.dumps(content, indent=indent, ensure_ascii=False).encode() + b"\n")


def _header(columns: Sequence[Column]) -> bytes:
    return csv_bytes([[no_formula(column.name) for column in columns]])


def csv_bytes(lines: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets compute


def _field(column: Column, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if column.type == "number" and not isinstance(value, str):  # a level is as its file has it
        return f"{round(value, column.decimals) + 0.0:.{column.decimals}f}"  # + 0.0: no minus before a zero
    return no_formula(str(value)) if column.type == "text" else str(value)


def no_formula(text: str) -> str:
    """A text as a spreadsheet shows it, and does not compute."""
    with contextlib.suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.startswith(FORMULA) else text


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to be written beside the path, which takes its place when it is whole."""
    try:
        with files.replacing(path) as file:
            yield file
    except OSError as error:
        raise Unwritten(
            f"{error.filename or path}: {error.strerror}, so {path} was not written; tables can be made of a copy"
        ) from None


ARROW_TYPES = {"integer": "int64", "number": "float64", "text": "string"}


def arrow(instead: str) -> Any:
    """pyarrow, which is optional; `instead` is what does without it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise UnmetNeed(
            f"Parquet needs pyarrow, which is not installed; `pip install tierbench[parquet]`, or {instead}"
        ) from None
    return pyarrow


def write_parquet(run: Path) -> Iterator[Path]:
    """Each CSV of a run as Parquet beside it, with the types that schema.json gives its columns."""
    pyarrow = arrow("use the CSVs")
    for table, content in json_files.read_table(run / names.SCHEMA)["files"].items():
        if not (run / table).is_file():
            continue
        types = {each["name"]: pyarrow.type_for_alias(ARROW_TYPES[each["type"]]) for each in content["columns"]}
        options = pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
        path = (run / table).with_suffix(".parquet")
        try:
            lines = pyarrow.csv.ParseOptions(newlines_in_values=True)  # clients' messages have some
            read = pyarrow.csv.read_csv(run / table, parse_options=lines, convert_options=options)
            pyarrow.parquet.write_table(read, path)
        except (OSError, pyarrow.ArrowException) as error:
            raise TierbenchError(
                f"{path}: cannot be written: {error}; is there room, and may you write there?"
            ) from None
        yield path
