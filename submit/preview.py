"""What `tierbench plan` prints: just what will happen, what is there for it and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tierbench.dags.experiment import Experiment
from tierbench.dags.levels import level_text
from tierbench.dags.plan import Plan, Trial
from tierbench.dags.trial_settings import Until, most_repeats
from tierbench.site_configs.site import Site
from tierbench.submit.planning import run_s, trial_s
from tierbench.submit.pool import Slots
from tierbench.submit.preflight import Finding

MAKE_MBPS = 1500.0  # of `tierbench replicas`: random numbers come at 160 to 280 MB/s


def preview(
    plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, findings: Sequence[Finding]
) -> Iterator[str]:
    """Lines of text; `slots` are the live pool's, or why it could not be asked"""
    yield f"{plan.experiment} at {plan.site}" + (f" (rates 1:{1 / plan.scale:g})" if plan.scale != 1 else "")
    yield plan.question
    yield ""
    yield from _product(plan, experiment)
    yield ""
    width = max(len(trial.name) for trial in plan.trials)
    yield f"{'':>5}  {'trial':<{width}}  {'MB':>10}  replicas"
    for number, trial in enumerate(plan.trials, 1):
        last = (trial.offset + trial.files - 1) % plan.replicas[trial.replicas].count + 1
        yield (
            f"{number:>5}  {trial.name:<{width}}  {_megabytes(trial)}"
            f"  {trial.replicas} {trial.offset + 1:04d}-{last:04d}" + (f"  {trial.work}" if str(trial.work) else "")
        )
    once = [trial for trial in plan.trials if trial.work.for_s is None]
    total = sum(trial.bytes or trial.nominal_bytes for trial in once)
    seconds = run_s(plan, site, experiment)
    yield ""
    read = f"{len(once)} trials move {total / 1e9:.2f} GB"
    if len(once) < len(plan.trials):
        timed = f"{len(plan.trials) - len(once)} trials read for a given time, however much that is"
        read = f"{read}, {timed}" if once else timed
    yield f"{read}; at the links' full rate that takes {_span(seconds)}"
    if isinstance(experiment.repeats, Until):
        rule, each = experiment.repeats, seconds / most_repeats(experiment.repeats)
        least, most = each * rule.at_least, each * rule.at_most
        yield (
            f"repeated {rule}: {_span(least)} to {_span(max(least, min(most, rule.budget_s)))}; the plan holds all"
            " repetitions, of which not all may be needed"
        )
        yield "(all are run of a DAG that is submitted by hand where no tierbench on the PATH can tell what is enough)"
    yield ""
    yield from _sets(plan, site)
    yield from _pools(plan, site, slots)
    yield ""
    yield from [finding.line for finding in findings] or ["nothing is missing"]


def as_content(
    plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, findings: Sequence[Finding]
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "experiment": plan.experiment,
        "site": plan.site,
        "question": plan.question,
        "scale": plan.scale,
        "factors": {factor.name: list(factor.levels) for factor in plan.factors},
        "trials": [
            {
                "id": trial.id, "trial": trial.name, "levels": trial.levels, "repeat": trial.repeat,
                "replicas": trial.replicas, "bytes": trial.bytes, "nominal_bytes": trial.nominal_bytes,
                "least_s": round(trial_s(plan, site, experiment, trial), 3),
            }
            for trial in plan.trials
        ],
        "pools": {
            name: {
                "requirements": site.pools[name].requirements,
                "workers": list(workers),
                "cores": None if isinstance(slots, str) else slots[name].cores,
            }
            for name, workers in plan.pools.items()
        },
        "left_out": plan.left_out,
        "lacking": [finding.line for finding in findings],
    }  # fmt: skip


def _product(plan: Plan, experiment: Experiment) -> Iterator[str]:
    """The levels of each factor, and how many trials they make."""
    for factor in plan.factors:
        arranged = "; the site arranges it" if factor.arranged else ""
        yield f"{factor.name}: {', '.join(level_text(level) for level in factor.levels)}{arranged}"
    points = len({(trial.configuration.id, trial.jobs) for trial in plan.trials})
    yield f"{points} points, {most_repeats(experiment.repeats)} times each: {len(plan.trials)} trials"
    panels = f", a panel for each {' and '.join(plan.report.panels)}" if plan.report.panels else ""
    yield f"the report compares {plan.report.lines} along {plan.report.x}{panels}"
    yield from (f"left out: {number} points ({because})" for because, number in plan.left_out.items())


def _megabytes(trial: Trial) -> str:
    if trial.work.for_s is not None:
        return f"{f'{trial.work.for_s:g} s':>10}"
    if not trial.nominal_bytes:  # its client says for how long
        return f"{'?':>10}"
    if trial.bytes is None:
        return f"~{trial.nominal_bytes / 1e6:>9.1f}"
    return f"{trial.bytes / 1e6:>10.1f}"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


def _sets(plan: Plan, site: Site) -> Iterator[str]:
    """The files that lie ready, or have to be made first: how many, what room they take, and how long that takes."""
    for folder, replicas in plan.replicas.items():
        if replicas.lies_ready:
            size = sum(replicas.sizes) if replicas.sizes else replicas.count * replicas.nominal_bytes
            megabits_per_s = min(MAKE_MBPS, site.links.storage or MAKE_MBPS)
            making = "" if replicas.sizes else f", {_span(size * 8e-6 / megabits_per_s)} or more to make"
            yield f"replicas {folder}: {replicas.count} files, {size / 1e9:.2f} GB of room{making}"


def _pools(plan: Plan, site: Site, slots: dict[str, Slots] | str) -> Iterator[str]:
    for name, workers in plan.pools.items():
        yield f"pool {name}: {site.pools[name].requirements}"
        if isinstance(slots, str):
            yield f"       {len(workers)} workers by the site's file"
        else:
            machines = ", ".join(slots[name].machines) or "none"
            yield f"       matched now by {slots[name].total} cores on {machines}"
