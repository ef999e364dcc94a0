"""Whether a run is faster or slower than the nights of a nightly since its baseline started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tierbench.errors import ConfigError
from tierbench.postprocess.compare.differences import Difference, differences
from tierbench.postprocess.compare.judgement import Comparison, Judged, agreed, judgement, refuse_unlike
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.history.alarms import baseline
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import Night
from tierbench.postprocess.history.runs import values
from tierbench.postprocess.stats import Interval, student
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results, Say, read_results
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.wording import change_percent, listed

LEAST_NIGHTS = 3


def compare_with_baseline(
    run: Results, chronicle: Chronicle, size: float, say: Say, anyway: bool = False
) -> Comparison:
    """From a baseline's nights to a run: a night is one draw, so the interval is that of one more night."""
    nights = [night for night in chronicle.measured if Path(night.directory) != run.directory.resolve()]
    metric, unit = run.rate, run.unit
    latest = next((night for night in reversed(nights) if not night.rerun), None)  # which has measured all of it
    if latest is None or latest.metric != metric:
        raise ConfigError(f"{chronicle.nightly}: has no nights measured by {metric}, so nothing to compare with")
    differing = _differences_from(latest, chronicle.nightly, run, say, anyway)
    judged = []
    together = max(sum(value.metric == metric for value in values(run)), 1)
    far = strays(run.trials, metric)
    rest = replace(run, trials=[row for row in run.trials if row not in far])
    without = {value.configuration: value.mean for value in values(rest) if value.metric == metric}
    for value in values(run):
        own = baseline(chronicle, value.configuration)
        logs = own.rates[[night in nights for night in own.nights]] if len(own) else own.rates
        if value.metric != metric or not len(logs):
            continue
        ratio = _of_one_more(logs, math.log(value.mean), together)
        result, words = judgement(*ratio, size, metric), ""
        if names := [row.trial for row in far if batch_name(row.levels) == value.configuration]:
            other = _of_one_more(logs, math.log(without.get(value.configuration, value.mean)), together)
            result = agreed(result, Interval(*other), size, metric)
            words = f"{listed(names)} far off all others of the run; without: {change_percent(other[0], 1)}"
        level = math.exp(float(logs.mean()))
        judged.append(Judged(value.configuration, level, value.mean, (len(logs), value.n), *ratio, result, words))
    if not judged:
        raise ConfigError(
            f"{run.directory} and {chronicle.nightly}: have no configuration in common whose trials are VALID"
        )
    there = {each.configuration for each in judged}
    lost = [name for name in chronicle.counts(latest) if name not in there and len(baseline(chronicle, name))]
    return Comparison(chronicle.nightly, run.name, metric, unit, judged, differing, lost)


def _of_one_more(logs: Numbers, value: float, together: int) -> tuple[float, float | None, float | None]:
    factor = math.exp(value - float(logs.mean()))
    if len(logs) < LEAST_NIGHTS:
        return factor, None, None
    reach = float(student(len(logs) - 1, together) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs)))
    return factor, factor * math.exp(-reach), factor * math.exp(reach)


def _differences_from(night: Night, nightly: str, run: Results, say: Say, anyway: bool) -> Sequence[Difference] | None:
    """What a run was made differently in than a night; refused where that cannot be seen any more."""
    directory = Path(night.directory)
    if directory.is_dir():
        differing = differences(read_results(directory, say), run)
        refuse_unlike(nightly, run.name, differing, anyway)
        return differing
    if not anyway:
        raise ConfigError(
            f"{directory}: is not there any more, the run of {nightly}'s latest night, so nobody can say whether"
            f" {run.name} was made as that; --anyway compares them all the same"
        )
    return None
