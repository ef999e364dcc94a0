"""What `tierbench plan` prints: just what will happen, what is there for it and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import slot_problems
from tierbench.dags.levels import PAIR, level_text
from tierbench.dags.placement import places
from tierbench.dags.plan import Plan, Trial
from tierbench.dags.repeats import Until, most
from tierbench.dags.start import Every
from tierbench.postprocess.verdict.rules import BY_NAME
from tierbench.site_configs.site import Site
from tierbench.starts import IN_TURN
from tierbench.submit.pool import Slots

# Seconds of a trial in which nothing is read: flush, start, gate, tables.
OVERHEAD_S = 4.5
FEWER = "make the batches smaller, or have the workers advertise more (NUM_CPUS)"
MAKE_MBPS = 1500.0  # of `tierbench replicas`: random numbers come at 160 to 280 MB/s
TURN_S = 2.0  # from a client's end to the next one's begin, where they take turns


def preview(plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, asked: str) -> Iterator[str]:
    """Lines of text; `slots` are the live pool's, or why it could not be asked; `asked` is what the user gave."""
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
    seconds = sum(estimate_s(plan, site, experiment, trial) for trial in plan.trials)
    yield ""
    read = f"{len(once)} trials move {total / 1e9:.2f} GB"
    if len(once) < len(plan.trials):
        timed = f"{len(plan.trials) - len(once)} trials read for a given time, however much that is"
        read = f"{read}, {timed}" if once else timed
    yield f"{read}; at the links' full rate that takes {_span(seconds)}"
    if isinstance(experiment.repeats, Until):
        yield f"repeated {experiment.repeats}; the plan holds the most of them, of which not all may be needed"
        yield "(all are run of a DAG that is submitted by hand where no tierbench on the PATH can tell what is enough)"
    yield ""
    yield from _sets(plan, site)
    yield from _pools(plan, site, slots)
    yield ""
    yield from list(missing(plan, site, experiment, slots, asked)) or ["nothing is missing"]


def as_content(
    plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, lacking: Sequence[str]
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
                "least_s": round(estimate_s(plan, site, experiment, trial), 3),
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
        "lacking": list(lacking),
    }  # fmt: skip


def _product(plan: Plan, experiment: Experiment) -> Iterator[str]:
    """The levels of each factor, and how many trials they make."""
    for factor in plan.factors:
        arranged = "; the site arranges it" if factor.arranged else ""
        yield f"{factor.name}: {', '.join(level_text(level) for level in factor.levels)}{arranged}"
    points = len({(trial.configuration.id, trial.jobs) for trial in plan.trials})
    yield f"{points} points, {most(experiment.repeats)} times each: {len(plan.trials)} trials"
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


def estimate_s(plan: Plan, site: Site, experiment: Experiment, trial: Trial) -> float:
    """A lower bound: what the slowest link that is known takes for the trial's bytes."""
    own, pool = experiment.at(trial.configuration.levels), plan.pools[trial.configuration.pool]
    placed = set(places(own.placement, pool, trial.jobs))
    workers = 1 if own.start == IN_TURN else min(len(placed or pool) or trial.jobs, trial.jobs)
    ceilings = [rate for rate in (site.links.wan, site.links.storage) if rate]
    if site.links.worker:
        ceilings.append(site.links.worker * workers)
    work_s = (trial.bytes or trial.nominal_bytes) * 8 / 1e6 / min(ceilings) if ceilings else 0.0
    if trial.work.for_s is not None:
        work_s = trial.work.for_s * (trial.jobs if own.start == IN_TURN else 1)
    if isinstance(own.start, Every):
        return OVERHEAD_S + max(work_s, (trial.jobs - 1) * own.start.every_s + (trial.work.for_s or 0.0))
    return OVERHEAD_S + work_s + (TURN_S * (trial.jobs - 1) if own.start == IN_TURN else 0.0)


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


def missing(plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, asked: str) -> Iterator[str]:
    """What would have to be there, and what could not be looked at."""
    if isinstance(slots, str):
        yield f"not checked: the live pool ({slots})"
    else:
        cores = {name: slots[name].cores for name in plan.pools}
        yield from (f"missing: {problem}; {FEWER}" for problem in slot_problems(site, experiment, plan, cores))
    yield from too_short(plan, site, experiment)
    yield from alone(plan)
    for name, replicas in plan.replicas.items():
        if replicas.sizes is None and replicas.lies_ready:
            yield (
                f"missing: the catalogue of replicas {name} in {replicas.directory}; where the storage is mounted,"
                f" `tierbench replicas {asked}` makes the {replicas.count} files"
            )


def alone(plan: Plan) -> Iterator[str]:
    """That no trial has another one to be compared with."""
    lines, panels = plan.report.lines, (*plan.report.panels, plan.report.x)
    seen: dict[tuple[object, ...], set[object]] = {}
    for trial in plan.trials:
        levels: dict[str, object] = {**trial.levels, PAIR: (trial.configuration.access, trial.configuration.workload)}
        seen.setdefault(tuple(levels[name] for name in panels), set()).add(levels[lines])
    if all(len(compared) == 1 for compared in seen.values()):
        yield (
            f"doubtful: nothing will be compared: nowhere do trials differ in {lines} alone; give the experiment"
            " another access, or say in [report] what the lines are"
        )


def too_short(plan: Plan, site: Site, experiment: Experiment) -> Iterator[str]:
    """Trials that, as far as the links tell, are over before enough samples are taken.

    Of a scale model the links do not tell it: there clients wait more for other things.
    """
    few = BY_NAME["few samples"]
    if plan.scale != 1 or experiment.measure == "operations" or few.suspect is None:
        return
    shares = []
    for trial in plan.trials:
        reading_s = estimate_s(plan, site, experiment, trial) - OVERHEAD_S
        period_s = experiment.at(trial.configuration.levels).sample_period_s
        if 0 < reading_s < 100 * period_s / few.suspect:
            shares.append((100 * period_s / reading_s, reading_s, period_s))
    if shares:
        share, reading_s, period_s = max(shares)
        yield (
            f"doubtful: at the links' full rate {len(shares)} trials are too short:"
            f" the shortest reads for {reading_s:.1f} s,"
            f" of which a sampling period of {period_s:g} s is {share:.0f} % (verdict: {few.name}, {few.suspect:g} %);"
            f" make size_mb {math.ceil(share / few.suspect)} times as large, or sample_period_s shorter"
        )
