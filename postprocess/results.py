"""What a run came to: its plan and its tables, read back from its directory."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench import stored
from tierbench.dags import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.columns import FILES, SCHEMA_VERSION, SENT

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

    @property
    def name(self) -> str:
        return self.directory.resolve().name

    @property
    def workloads(self) -> list[str]:
        return _unique(row["workload"] for row in self.trials)

    @property
    def accesses(self) -> list[str]:
        """The ways of access in the order in which the experiment names them."""
        planned = [str(configuration["access"]) for configuration in self.plan.get("configurations", [])]
        return _unique([*planned, *(row["access"] for row in self.trials)])

    def batches(self, workload: str) -> list[int]:
        """The ladder of simultaneous jobs that a workload climbed."""
        return sorted({row["jobs"] for row in self.trials if row["workload"] == workload})

    def summaries(self, workload: str, access: str) -> list[Row]:
        """The means of one configuration, from the smallest batch to the largest."""
        rows = [row for row in self.summary if (row["workload"], row["access"]) == (workload, access)]
        return sorted(rows, key=lambda row: int(row["jobs"]))

    def trials_of(self, workload: str, access: str | None = None, jobs: int | None = None) -> list[Row]:
        """The trials of a workload, of one access and of one batch if so asked."""
        return [
            row
            for row in self.trials
            if row["workload"] == workload and access in (None, row["access"]) and jobs in (None, row["jobs"])
        ]


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
        from tierbench.postprocess.tables import tables

        say(f"{directory}: making its tables {'anew, they are of an older version' if older else 'first'}")
        tables(directory)
        schema = _json(directory / names.SCHEMA)
    types = _types(schema)
    results = Results(
        directory=directory,
        plan=_json(directory / names.PLAN),
        site=_json(directory / names.SITE),
        experiment=_json(directory / names.EXPERIMENT),
        schema_version=schema.get("schema_version"),
        trials=sorted(_rows(directory / names.TRIALS_CSV, types), key=lambda row: row.get("position") or 0),
        summary=_rows(directory / names.SUMMARY_CSV, types),
        ratios=_rows(directory / names.RATIOS_CSV, types),
        resources=_rows(directory / names.RESOURCES_CSV, types),
        ceilings=_json(directory / names.CEILINGS),
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
