"""The trials of a run, each with its verdict, its bottleneck and its course over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tierbench.dags.levels import BUILT_IN, WORKLOAD
from tierbench.postprocess.measures.over_time import OverTime
from tierbench.postprocess.plots.style import Look
from tierbench.postprocess.report.markup import Markup, element, joined
from tierbench.postprocess.report.sparks import chart, spark
from tierbench.postprocess.report.words import counted, figures, moment, percent
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.direction import worded
from tierbench.postprocess.tables.over_time import read_over_time
from tierbench.postprocess.tables.points import level_of
from tierbench.postprocess.tables.results import Results, why
from tierbench.postprocess.verdict.counted import values_of, verdict

STEPS, SPARK_STEPS = 160, 66
FULLY, FEWEST = 200, 32  # so many trials have charts of all these steps; of more each has fewer, so that a page loads

FACTS = (
    ("window", "window_s", "s"),
    ("wall time", "wall_time_s", "s"),
    ("taken in by the jobs", "delivered_mbps", "Mb/s"),
    ("by each of them", "client_mbps", "Mb/s"),
    ("each while at work, summed", "summed_mbps", "Mb/s"),
    ("sent by the storage", "mean_mbps", "Mb/s"),
    ("sent: wrong by at most", "mean_error_mbps", "Mb/s"),
    ("sent / taken in", "amplification", ""),
    ("volatility of what was sent", "volatility_mbps", "Mb/s"),
    ("peak of what was sent", "peak_mbps", "Mb/s"),
    ("steady state", "steady_delivered_mbps", "Mb/s"),
    ("sent in the steady state", "steady_mbps", "Mb/s"),
    ("while all were active", "all_active_delivered_mbps", "Mb/s"),
    ("sent while all were active", "all_active_mbps", "Mb/s"),
    ("ceiling", "ceiling_mbps", "Mb/s"),
    ("start skew", "start_skew_ms", "ms"),
    ("natural skew", "natural_skew_ms", "ms"),
    ("idle before", "idle_before_mbps", "Mb/s"),
    ("idle after", "idle_after_mbps", "Mb/s"),
    ("clock offset", "clock_offset_ms", "ms"),
    ("read calls", "reads", ""),
    ("each read call", "bytes_per_read", "B"),
    ("events", "events_per_s", "1/s"),
    ("operations", "operations_per_s", "1/s"),
)
WRITTEN = (("looked at afterwards", "looked_at"), ("left behind", "left_behind"))
SHARES = (
    ("efficiency", "efficiency"),
    ("all active for", "all_active_share"),
    ("CPU of the clients", "cpu_efficiency"),
)


def trial_list(results: Results, looks: Mapping[str, Look]) -> Iterator[Markup]:
    """All trials in the order in which they ran."""
    steps = steps_of(len(results.trials))
    tops = {workload: _top(results, workload) for workload in results.factors[WORKLOAD].texts}
    for trial in results.trials:
        yield _trial(results, trial, looks[level_of(trial, results.layout.lines)], tops[trial.workload], steps)


def steps_of(trials: int) -> int:
    """How many steps a trial's chart has, so that all of them together stay about as large."""
    return max(FEWEST, min(STEPS, STEPS * FULLY // trials)) if trials else STEPS


def anchor(trial: TrialRow) -> str:
    """Where on the page a trial is."""
    return f"trial-{trial.trial_id or trial.position}"


def badge(word: str) -> Markup:
    """A verdict, told by more than its colour."""
    return element("span", word, class_=f"badge {word.lower().replace(' ', '-')}")


def _top(results: Results, workload: str) -> float:
    return max(values_of(results.trials_at({WORKLOAD: workload}), "peak_mbps"), default=1.0)


def _trial(results: Results, trial: TrialRow, look: Look, top: float, steps: int) -> Markup:
    color = f"--c{look.color[1:]}"
    found = read_over_time(results.directory, trial.trial_id)
    whole = found.taken_in or found.storage
    short = whole.thinned(min(steps, SPARK_STEPS)) if whole else None
    word = verdict(trial)
    reasons = why(trial)
    head = element(
        "summary",
        badge(word),
        element("span", trial.trial, class_="name"),
        element("span", figures(trial[results.rate], results.unit), class_="rate"),
        spark(short, top, color) if short and np.isfinite(short.values).any() else element("span", class_="spark"),
        element("span", trial.limit.bottleneck, class_="bottleneck", title="bottleneck")
        if trial.limit.bottleneck
        else None,
        element("span", "; ".join(reasons), class_="reasons") if reasons else None,
    )
    return element(
        "details",
        head,
        joined(_body(results, trial, found.thinned(steps), color)),
        id=anchor(trial),
        class_=f"trial {word.lower()}",
    )


def _body(results: Results, trial: TrialRow, found: OverTime, color: str) -> Iterator[Markup]:
    if trial.limit.bottleneck_evidence:
        yield element("p", element("b", trial.limit.bottleneck or "bottleneck"), ": ", trial.limit.bottleneck_evidence)
    if found.hosts:
        yield chart(found, trial, color)
        if found.further_hosts:
            yield element("p", f"Not drawn: {counted(found.further_hosts, 'host')} that moved less.", class_="note")
    elif trial.window_s:
        yield element("p", "No readable samples, so there is no course over time.", class_="note")
    facts = [(name, level_of(trial, name)) for name in results.factors if name not in BUILT_IN]
    facts += [
        (worded(name, [trial.direction]), figures(trial[column], unit))
        for name, column, unit in FACTS
        if trial[column] is not None
    ]
    facts += [(name, percent(trial[column])) for name, column in SHARES if trial[column] is not None]
    facts += [(name, trial[name]) for name in ("started", "placed") if trial[name]]
    facts += [(name, trial[column]) for name, column in WRITTEN if trial[column]]
    facts.append(("jobs ok", f"{trial.jobs_ok or 0} of {trial.jobs}"))
    if trial.limit.ceiling_from:
        facts.append(("ceiling from", trial.limit.ceiling_from))
    if trial.go_wall_ns:
        facts.append(("began", moment(trial.go_wall_ns)))
    if trial.trial_id:
        facts.append(("folder", f"trials/{trial.trial_id}"))
    yield element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts))
