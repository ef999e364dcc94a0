"""Makes a night of a run directory, from its tables and its night.json; which is all that a rebuild needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.history.environment import environment
from tierbench.postprocess.history.mark import night_mark
from tierbench.postprocess.history.rows import FAILED, MEASURED, Link, Measured, Night, Value, Verdicts
from tierbench.postprocess.measures.ceilings import measured_links
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.schema.run_rows import SUMMARISED
from tierbench.postprocess.stats import mean_interval
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results, Say, read_results
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, VALID, valid, values_of, verdict


def night_of(run: Path, nightly: str = "", control: str = "", say: Say = print) -> tuple[Night, Measured]:
    """The night that a run directory is; of a run that no nightly has started, under the name that is given."""
    of = night_mark(run, nightly, control)
    name, directory = run.resolve().name, str(run.resolve())
    try:
        results = read_results(run, say)
    except ConfigError:
        raise
    except TierbenchError as error:  # nothing measured, or damaged: a night that failed, and no gap
        reason = str(error).removeprefix(f"{run}: ")
        planned = of.planned_wall_ns or _written_ns(run)
        night = Night(of.nightly or name, planned, FAILED, name, directory, reason, rerun=of.rerun, control=of.control)
        return night, Measured()
    began = [row.submit_wall_ns or row.go_wall_ns for row in results.trials]
    started = min(filter(None, began), default=None)
    counted = verdicts(results)
    night = Night(
        nightly=of.nightly or str(results.plan.get("experiment") or name),
        planned_ns=of.planned_wall_ns or started or _written_ns(run),
        outcome=MEASURED if any(row.valid for row in counted) else FAILED,
        run=name,
        directory=directory,
        reason="" if any(row.valid for row in counted) else _why_none(results),
        rerun=of.rerun,
        started_ns=started,
        ended_ns=max(filter(None, (row.end_wall_ns for row in results.trials)), default=None),
        control=of.control,
        metric=results.rate,
        unit=results.unit,
    )
    return night, Measured(tuple(values(results)), counted, tuple(links(results)), environment(results))


def values(results: Results) -> Iterator[Value]:
    """The means of the VALID trials; a doubtful one enters no series."""
    for configuration, rows in _by_configuration(results).items():
        good = [row for row in rows if valid(row)]
        for metric in SUMMARISED:
            found = mean_interval(values_of(good, metric))
            if found and found.value is not None:
                low = None if found.low is None else max(found.low, 0.0)  # none of them is ever below
                yield Value(configuration, metric, found.value, low, found.high, len(values_of(good, metric)))


def verdicts(results: Results) -> tuple[Verdicts, ...]:
    """How many trials of each configuration had which verdict."""
    rows = []
    for configuration, members in _by_configuration(results).items():
        given = [verdict(row) for row in members]
        rows.append(Verdicts(configuration, *(given.count(word) for word in (VALID, SUSPECT, INVALID))))
    return tuple(rows)


def links(results: Results) -> Iterator[Link]:
    for line, found in measured_links(results.ceilings).items():
        yield Link(line.removeprefix("to "), found["mbps"], found["rtt_ms"])


def _by_configuration(results: Results) -> dict[str, list[TrialRow]]:
    found: dict[str, list[TrialRow]] = {}
    for row in results.trials:
        found.setdefault(batch_name(row.levels), []).append(row)
    return found


def _why_none(results: Results) -> str:
    """Why no trial is VALID: the first reason of the first trial that gives one."""
    reasons = [text for row in results.trials for text in (row.verdict_reasons, row.reasons) if text]
    first = reasons[0].split("; ")[0] if reasons else "none has ended"
    return f"none of its {len(results.trials)} trials is VALID: {first}"


def _written_ns(run: Path) -> int:
    """When the plan was written, which is as near as one gets to when a run that left nothing else was meant."""
    return (run / names.PLAN).stat().st_mtime_ns
