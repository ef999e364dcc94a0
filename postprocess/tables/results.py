"""What a run came to: its plan and its tables, read back from its directory."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench import stored
from tierbench.dags import names
from tierbench.dags.layout import Layout
from tierbench.dags.levels import ACCESS, Factor
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.tables.columns import FILES, RATE, SCHEMA_VERSION, SENT, SUMMED
from tierbench.postprocess.tables.factors import layout_of, run_factors
from tierbench.postprocess.tables.points import Panel, Point, level_of, rows_at
from tierbench.starts import IN_TURN

Row = dict[str, Any]
Say = Callable[[str], None]

PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")  # without exponent, which digests can look like
NEEDED = (names.TRIALS_CSV, names.SUMMARY_CSV)


@dataclass(frozen=True)
class Results:
    """A run's definition and its tables; a table that this run does not have is empty."""

    directory: Path
    plan: dict[str, Any]
    site: dict[str, Any]
    experiment: dict[str, Any]
    schema_version: int | None
    trials: list[Row]
    summary: list[Row]
    ratios: list[Row]
    resources: list[Row]
    ceilings: dict[str, Any]  # what iperf3 measured before the run
    factors: Mapping[str, Factor]  # by their names, in the plan's order
    layout: Layout

    @property
    def name(self) -> str:
        return self.directory.resolve().name

    @property
    def rate(self) -> str:
        """The column that its trials are compared by: where clients have taken turns, the sum of their own rates."""
        return SUMMED if any(trial.get("started") == IN_TURN for trial in self.trials) else RATE

    @property
    def accesses(self) -> list[str]:
        """The ways of access in the order in which the experiment names them."""
        return self.factors[ACCESS].texts

    @property
    def panels(self) -> list[Panel]:
        """What has a figure and an answer of its own, of what there are trials."""
        names = self.layout.panels
        there = {tuple(level_of(row, name) for name in names) for row in self.trials}
        points = itertools.product(*(self.factors[name].texts for name in names))
        return [Panel(dict(zip(names, point, strict=True))) for point in points if point in there]

    def levels(self, factor: str, point: Point) -> list[str]:
        """The levels of a factor that trials at a point have; numbers from the least, words as they are planned."""
        there = {level_of(row, factor) for row in self.trials_at(point)}
        return [text for text in self.factors[factor].in_order.texts if text in there]

    def lines(self, panel: Panel) -> list[str]:
        """The levels in a panel of the factor that was asked about, as the experiment names them."""
        there = {level_of(row, self.layout.lines) for row in self.trials_at(panel.levels)}
        return [text for text in self.factors[self.layout.lines].texts if text in there]

    def ladder(self, panel: Panel) -> list[str]:
        """The levels along x in a panel."""
        return self.levels(self.layout.x, panel.levels)

    def at(self, panel: Panel, line: str | None = None, x: str | None = None) -> Point:
        """Where a panel's trials of one line, and of one place along x, are."""
        levels = {self.layout.lines: line, self.layout.x: x}
        return {**panel.levels, **{factor: text for factor, text in levels.items() if text is not None}}

    def trials_have(self, column: str) -> list[str]:
        """What there is in a column, each once."""
        return list(dict.fromkeys(str(trial[column]) for trial in self.trials if trial.get(column) is not None))

    def trials_at(self, point: Point) -> list[Row]:
        return rows_at(self.trials, point)

    def summaries_at(self, point: Point) -> list[Row]:
        """The means at a point, in the order of the factors' levels, along x at last."""
        along = [*(name for name in self.factors if name not in (ACCESS, self.layout.x)), self.layout.x]
        places = {name: self.factors[name].in_order.texts for name in along}
        rows = rows_at(self.summary, point)
        return sorted(rows, key=lambda row: [places[name].index(level_of(row, name)) for name in along])


def ran(trial: Row) -> bool:
    """Whether a trial left any numbers."""
    return trial.get(SENT) is not None or bool(trial.get("jobs_ok"))


def why(trial: Row) -> list[str]:
    """The reasons of a trial's verdict, each once."""
    told = [trial.get("verdict_reasons") or "", trial.get("reasons") or ""]
    return _unique(reason for text in told for reason in str(text).split("; ") if reason)


def read_results(directory: Path, say: Say) -> Results:
    """All that a report tells of a run; the tables are made first where they are not there yet."""
    if not (directory / names.PLAN).is_file():
        raise ConfigError(f"{directory}: is not a run directory (it has no {names.PLAN}); `tierbench write` makes one")
    schema = _json(directory / names.SCHEMA)
    older = schema.get("schema_version", SCHEMA_VERSION) < SCHEMA_VERSION
    if older or not all((directory / name).is_file() for name in NEEDED):
        from tierbench.postprocess.tables.write import tables

        say(f"{directory}: making its tables {'anew, they are of an older version' if older else 'first'}")
        tables(directory)
        schema = _json(directory / names.SCHEMA)
    types = _types(schema)
    plan = _json(directory / names.PLAN)
    trials = sorted(_rows(directory / names.TRIALS_CSV, types), key=lambda row: row.get("position") or 0)
    factors = run_factors(plan, directory, trials)
    results = Results(
        directory=directory,
        plan=plan,
        site=_json(directory / names.SITE),
        experiment=_json(directory / names.EXPERIMENT),
        schema_version=schema.get("schema_version"),
        trials=trials,
        summary=_rows(directory / names.SUMMARY_CSV, types),
        ratios=_rows(directory / names.RATIOS_CSV, types),
        resources=_rows(directory / names.RESOURCES_CSV, types),
        ceilings=_json(directory / names.CEILINGS),
        factors={factor.name: factor for factor in factors},
        layout=layout_of(plan, directory, factors),
    )
    if not any(ran(trial) for trial in results.trials):
        raise TierbenchError(
            f"{directory}: none of its {len(results.trials)} trials has measured anything yet;"
            f" `tierbench watch {directory}` shows what it is at, `tierbench submit {directory}` runs it"
        )
    return results


def _types(schema: dict[str, Any]) -> dict[str, str]:
    """The type of each column that is known, by the run's own schema before ours."""
    types = {column.name: column.type for _, columns in FILES.values() for column in columns}
    told = [column for table in schema.get("files", {}).values() for column in table["columns"]]
    return {**types, **{column["name"]: column["type"] for column in told}}


def _rows(path: Path, types: dict[str, str]) -> list[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [{name: _value(text, types.get(name)) for name, text in row.items()} for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise TierbenchError(
            f"{path}: cannot be read: {error}; `tierbench tables {path.parent}` makes it again"
        ) from None


def _value(text: str | None, kind: str | None) -> Any:
    """A field as what it means: None where it is empty; a column nobody described is a number if it looks like one."""
    if not text:
        return None
    if kind == "text" or (kind is None and not PLAIN_NUMBER.fullmatch(text)):
        return text
    return int(text) if kind == "integer" else float(text)


def _json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        return stored.read_table(path)
    except FileNotFoundError:
        return {}


def _unique(words: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(word) for word in words))
