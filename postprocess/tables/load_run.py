"""What a run came to: its plan and its tables, read back from its directory."""

import csv
import functools
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from tierbench import files, json_files, names
from tierbench.dags.clients import shipped_clients
from tierbench.dags.levels import ACCESS, JOBS, PAIR, WORKLOAD, Factor, Layout, level_text
from tierbench.dags.plan import read_plan
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.schema.columns import Row, read_rows
from tierbench.postprocess.schema.rows import RATE, RATE_OF, SUMMED, TRIAL_FILES, ResourceRow, TrialRow, trial_column
from tierbench.postprocess.schema.run_rows import SCHEMA_VERSION, RatioRow, SaturationRow, ScalingRow, SummaryRow
from tierbench.postprocess.stats import over_looks, tukey
from tierbench.postprocess.tables.factors import Panel, Point, layout_of, level_name, level_of, rows_at, run_factors
from tierbench.postprocess.verdict.counting import looks_of
from tierbench.postprocess.wording import abridged, worded
from tierbench.spec import unknown_name
from tierbench.starts import IN_TURN
from tierbench.trials import INCOMPLETE

Say = Callable[[str], None]
NEEDED = (names.TRIALS_CSV, names.SUMMARY_CSV)


class DescribedColumn(TypedDict):
    name: str
    type: str


class DescribedFile(TypedDict):
    columns: list[DescribedColumn]


class SchemaTable(TypedDict):
    """What is needed here of schema.json."""

    schema_version: NotRequired[int]
    files: NotRequired[dict[str, DescribedFile]]


@dataclass(frozen=True)
class Results:
    """A run's definition and its tables; a table that this run does not have is empty."""

    directory: Path
    plan: dict[str, Any]
    site: dict[str, Any]
    experiment: dict[str, Any]
    schema_version: int | None
    trials: list[TrialRow]
    summary: list[SummaryRow]
    ratios: list[RatioRow]
    scaling: list[ScalingRow]
    saturations: list[SaturationRow]
    resources: list[ResourceRow]
    ceilings: dict[str, Any]  # what iperf3 measured before the run
    factors: Mapping[str, Factor]  # by their names, in the plan's order
    layout: Layout

    @property
    def name(self) -> str:
        return self.directory.resolve().name

    def worded(self, text: str) -> str:
        """A text about its trials in the words for what the storage did: sent, or received."""
        return worded(text, {trial.direction for trial in self.trials if ran(trial)})

    @property
    def rate(self) -> str:
        """The column that its trials are compared by: what the experiment measures; of turns the sum of the rates."""
        if (measure := self.experiment.get("measure") or "bytes") != "bytes":
            return RATE_OF[measure]
        return SUMMED if any(trial.started == IN_TURN for trial in self.trials) else RATE

    @property
    def unit(self) -> str:
        return trial_column(self.rate).unit

    @property
    def compared(self) -> Factor:
        """The factor that was asked about, whose levels are lines."""
        if self.layout.lines != PAIR:
            return self.factors[self.layout.lines]
        there = {level_of(row, PAIR) for row in self.trials}
        pairs = (f"{access}/{workload}" for access in self.accesses for workload in self.factors[WORKLOAD].texts)
        return Factor(PAIR, tuple(pair for pair in pairs if pair in there))

    def together(self, row: RatioRow) -> RatioRow:
        """A ratio with intervals that hold together with those of all that the run's answers compare.

        Whom a sentence names is chosen by the result, so all pairs of lines at a place count (Tukey), and all places.
        """
        levels = len(self._compared.get((row.factor, _place(row)), ())) if row.factor == self.layout.lines else 2
        quantile = functools.partial(tukey, levels, together=max(len(self._compared), 1) * self.looks)
        return replace(row, ratio=row.compared.at(quantile), by_valid=row.compared_by_valid.at(quantile))

    @property
    def looks(self) -> float:
        """As how many comparisons each one counts, where a run ends when its question is answered."""
        return over_looks(len(looks_of(self.plan, self.experiment)) or 1)

    def compared_with(self, row: Row, against: str, metric: str, factor: str = "") -> RatioRow | None:
        """How the point of a row compares with another level of a factor (mostly the lines), all else being equal."""
        compared = self._ratios.get((factor or self.layout.lines, against, metric, self._point(row)))
        return compared and self.together(compared)

    @functools.cached_property
    def _ratios(self) -> dict[tuple[str, str, str, tuple[str, ...]], RatioRow]:
        """By what is compared with what, in which metric and where."""
        return {(row.factor, row.against, row.metric, self._point(row)): row for row in self.ratios}

    def _point(self, row: Row) -> tuple[str, ...]:
        return tuple(level_of(row, name) for name in self.factors)

    @functools.cached_property
    def _compared(self) -> dict[tuple[str, Any], set[str]]:
        """The levels by factor and place: of the lines everywhere, and along x where a note speaks of it."""
        levels: dict[tuple[str, Any], set[str]] = {}
        along = self.layout.x if self.layout.x != JOBS else ""
        for row in self.ratios:
            if row.metric == self.rate and row.factor in (self.layout.lines, along):
                levels.setdefault((row.factor, _place(row)), set()).add(level_of(row, row.factor))
        return levels

    @property
    def absence(self) -> str:
        """That planned trials have no folder, as in a run that was copied in part; nothing where all have."""
        planned = [trial["id"] for trial in self.plan.get("trials") or ()]
        absent = [trial for trial in planned if not (self.directory / names.trial_directory(trial)).is_dir()]
        named = ", ".join(abridged(absent))
        return f"{len(absent)} of {len(planned)} planned trials have no folder: {named}." if absent else ""

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

    def lines(self, panel: Panel) -> list[str]:
        """The levels in a panel of the factor that was asked about, as the experiment names them."""
        there = {level_of(row, self.layout.lines) for row in self.trials_at(panel.levels)}
        return [text for text in self.compared.texts if text in there]

    def ladder(self, panel: Panel) -> list[str]:
        """The levels along x that trials in a panel have; numbers from the least, words as they are planned."""
        there = {level_of(row, self.layout.x) for row in self.trials_at(panel.levels)}
        return [text for text in self.factors[self.layout.x].in_order.texts if text in there]

    def at(self, panel: Panel, line: str | None = None, x: str | None = None) -> Point:
        """Where a panel's trials of one line, and of one place along x, are."""
        levels = {self.layout.lines: line, self.layout.x: x}
        return {**panel.levels, **{factor: text for factor, text in levels.items() if text is not None}}

    def line_name(self, line: str | Row) -> str:
        """A line, or that of a row, as people call it."""
        lines = self.layout.lines
        return level_name(lines, line if isinstance(line, str) else level_of(line, lines))

    def trials_have(self, column: str) -> list[str]:
        """What there is in a column, each once."""
        return list(dict.fromkeys(str(trial[column]) for trial in self.trials if trial[column] not in (None, "")))

    def trials_at(self, point: Point) -> list[TrialRow]:
        return rows_at(self.trials, point)

    def summaries_at(self, point: Point) -> list[SummaryRow]:
        """The means at a point, in the order of the factors' levels, along x at last."""
        along = [*(name for name in self.factors if name not in (ACCESS, self.layout.x)), self.layout.x]
        places = {name: self.factors[name].in_order.texts for name in along}
        rows = rows_at(self.summary, point)
        return sorted(rows, key=lambda row: [places[name].index(level_of(row, name)) for name in along])


def _place(row: RatioRow) -> Any:
    """Where a ratio was taken: its levels of the other factors."""
    varied = (ACCESS, WORKLOAD) if row.factor == PAIR else (row.factor,)
    return tuple((name, level_text(level)) for name, level in row.levels.items() if name not in varied)


def ran(trial: TrialRow) -> bool:
    """Whether a trial left any numbers."""
    return trial.mean_mbps is not None or bool(trial.jobs_ok)


def why(trial: TrialRow) -> list[str]:
    """The reasons of a trial's verdict, each once."""
    return list(dict.fromkeys([*trial.verdict_reasons, *trial.reasons]))


def read_results(directory: Path, say: Say) -> Results:
    """All that a report says of a run; the tables are made first where they are not there yet."""
    if not (directory / names.PLAN).is_file():
        raise ConfigError(f"{directory}: is not a run directory (it has no {names.PLAN}); `tierbench write` makes one")
    schema = _schema(directory)
    version = schema.get("schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        newer = f"its tables are of version {version}, and this tierbench knows up to {SCHEMA_VERSION}"
        raise ConfigError(f"{directory}: {newer}; use a newer tierbench")
    older = version < SCHEMA_VERSION and not (directory / names.NO_SAMPLES).exists()
    further = [name for name in TRIAL_FILES if name in schema.get("files", ())]  # older tables of trials are one file
    missing = not all((directory / name).is_file() for name in (*NEEDED, *further))
    if older or missing or _have_gone_on(directory):
        from tierbench.postprocess.tables.write import tables

        why = "anew, they are of an older version" if older else "first" if missing else "anew, trials have ended since"
        say(f"{directory}: making its tables {why}")
        tables(directory)
        schema = _schema(directory)
    plan = read_plan(directory)
    trials = sorted(read_rows(TrialRow, directory, schema), key=lambda row: row.position)
    factors = run_factors(plan, directory, trials)
    results = Results(
        directory=directory,
        plan=plan,
        site=_json(directory / names.SITE),
        experiment=_experiment(directory),
        schema_version=schema.get("schema_version"),
        trials=trials,
        summary=read_rows(SummaryRow, directory, schema),
        ratios=read_rows(RatioRow, directory, schema),
        scaling=read_rows(ScalingRow, directory, schema),
        saturations=read_rows(SaturationRow, directory, schema),
        resources=read_rows(ResourceRow, directory, schema),
        ceilings=_json(directory / names.CEILINGS),
        factors={factor.name: factor for factor in factors},
        layout=layout_of(plan, directory, factors),
    )
    if not any(ran(trial) for trial in results.trials):
        raise TierbenchError(f"{directory}: none of its {len(trials)} trials has measured anything{_so_far(results)}")
    return results


def _so_far(results: Results) -> str:
    for trial in results.trials:
        if trial.state == INCOMPLETE:
            return f": {trial.trial}: {'; '.join(why(trial)[:1])}; all reasons are in {names.TRIALS_CSV}"
    run = results.directory
    return f" yet; `tierbench watch {run}` shows what it is at, `tierbench submit {run}` runs it"


def _experiment(directory: Path) -> dict[str, Any]:
    """The experiment, with the defaults of options that an older tierbench did not have: so its clients worked."""
    experiment = _json(directory / names.EXPERIMENT)
    if (measure := experiment.get("measure") or "bytes") not in RATE_OF:
        raise ConfigError(f"{directory / names.EXPERIMENT}: {unknown_name('measure', str(measure), RATE_OF)}")
    for workload in (experiment.get("workloads") or {}).values():
        if file := shipped_clients().get(workload.get("client")):
            defaults = {name: option.default for name, option in file.client.options.items() if not option.needed}
            workload["options"] = json.loads(json.dumps(defaults)) | (workload.get("options") or {})
    return experiment


def _have_gone_on(directory: Path) -> bool:
    """Whether a trial has ended, or was repeated, since the run's tables were made: its own table then says when."""
    if (directory / names.NO_SAMPLES).exists():
        return False
    if (directory / names.NO_TABLES).exists():  # trials have ended, and their DAGs could make no tables
        return True
    ends = _ends(directory / names.TRIALS_CSV)
    return bool(ends) and any(
        ends.get(trial) != end
        for path in directory.glob(f"{names.TRIALS}/*/{names.TRIALS_CSV}")
        for trial, end in _ends(path).items()
    )


def _ends(path: Path) -> dict[str, tuple[str, str]]:
    """When each trial of a table ended, and its state, as they stand there."""
    try:
        with files.opened_text(path, newline="") as file:
            return {line["trial"]: (line["end_wall_ns"], line["state"]) for line in csv.DictReader(file)}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError):  # which is reported where it is read for good
        return {}


def _schema(directory: Path) -> dict[str, Any]:
    path = directory / names.SCHEMA
    return dict(json_files.typed(SchemaTable, _json(path), str(path)))


def _json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        return json_files.read_table(path)
    except FileNotFoundError:
        return {}
