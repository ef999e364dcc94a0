"""What there is and what would happen: `tierbench list` and `show`, and what `tierbench plan` prints."""

import argparse
import itertools
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tierbench.dags.experiment import SHIPPED, Experiment, shipped_experiments
from tierbench.dags.levels import Level, level_text
from tierbench.dags.plan import Plan, Trial
from tierbench.dags.replicas import CopiedReplicas
from tierbench.dags.trial_settings import Until, most_repeats
from tierbench.site_configs.site import Site, find_site, known_sites
from tierbench.spec import NAMED, find_definition
from tierbench.submit.console import add_command, document
from tierbench.submit.planning import Finding, Planned, asked_experiment

MAKE_MBPS = 1500.0  # of `tierbench replicas`: random numbers come at 160 to 280 MB/s
SCALED = "-scaled"
LEAST_COLUMNS = 30  # for the text beside a name


def register(subcommands: Any) -> None:
    add_command(subcommands, "list", _list, "List the experiments and the sites that there are, and what each is about")
    text = "Show what an experiment asks, varies and needs, at which sites it can run, and where its file is"
    show = add_command(subcommands, "show", _show, text)
    show.add_argument("experiment", metavar="EXPERIMENT", help=NAMED)


def _list(_arguments: argparse.Namespace) -> int:
    names = shipped_experiments()
    full = [name for name in names if name.removesuffix(SCALED) not in names or not name.endswith(SCALED)]
    labels = {name: f"{name} [{SCALED}]" if f"{name}{SCALED}" in names else name for name in full}
    questions = {labels[name]: asked_experiment(name).question for name in full}
    print("\n".join(_entries("experiments", questions)))
    print(f"\n[{SCALED}]: NAME{SCALED} asks the same in a size for the testbed\n")
    print("\n".join(_entries("sites", {name: site.description for name, site in _sites().items()})))
    print("\n`tierbench show EXPERIMENT` tells more; any experiment or site may be a TOML file of your own")
    return 0


def _entries(heading: str, entries: Mapping[str, str]) -> Iterator[str]:
    yield heading
    indent = max(map(len, entries)) + 4
    columns = max(shutil.get_terminal_size().columns, indent + LEAST_COLUMNS)
    for name, text in entries.items():
        lines = textwrap.wrap(text, columns - indent, break_on_hyphens=False) or [""]
        yield f"  {name:<{indent - 2}}{lines[0]}".rstrip()
        yield from (" " * indent + line for line in lines[1:])


def _sites() -> dict[str, Site]:
    return {name: find_site(name) for name in known_sites()}


def _show(arguments: argparse.Namespace) -> int:
    print("\n".join(_description(arguments.experiment)))
    return 0


def _description(name_or_path: str) -> Iterator[str]:
    experiment = asked_experiment(name_or_path)
    yield experiment.name
    yield f"{experiment.question}\n"
    uses = list(experiment.uses())
    factors: dict[str, list[Level]] = {
        "access": list(dict.fromkeys(use.access for use in uses)),
        "workload": list(dict.fromkeys(f"{use.name} ({use.workload.client})" for use in uses)),
        "jobs": sorted({jobs for use in uses for jobs in use.batches}),
        **{axis.name: list(axis.levels) for axis in experiment.axes},
    }
    for factor, levels in factors.items():
        yield f"  {factor}: {', '.join(map(level_text, levels))}"
    yield f"  repeated: {experiment.repeats}"
    for condition, value in experiment.conditions.items():
        if all(use.conditions.get(condition) == value for use in uses):
            yield f"  in all trials: {condition} {level_text(value)}"
    accesses, conditions = {use.access for use in uses}, {name for use in uses for name in use.conditions}
    sites = _sites().items()
    offering = [name for name, site in sites if accesses <= set(site.access) and conditions <= set(site.conditions)]
    yield f"\n  sites that offer it: {', '.join(offering) or 'none that is known here'}"
    for paper in dict.fromkeys(claim.paper for claim in experiment.claims):
        yield f"  held to: {paper or 'what its own file claims'}"
    yield f"  file: {find_definition('experiment', SHIPPED, name_or_path)}"


def preview(planned: Planned, findings: Sequence[Finding]) -> Iterator[str]:
    """Just what will happen, what is there for it and what is missing."""
    plan, site, experiment = planned.plan, planned.site, planned.experiment
    yield f"{plan.experiment} at {plan.site}" + (f" (rates 1:{1 / plan.scale:g})" if plan.scale != 1 else "")
    yield f"{plan.question}\n"
    yield from _product(plan, experiment)
    width = max(len(trial.name) for trial in plan.trials)
    yield f"\n{'':>5}  {'trial':<{width}}  {'MB':>10}  replicas"
    for number, trial in enumerate(plan.trials, 1):
        last = (trial.offset + trial.files - 1) % plan.replicas[trial.replicas].count + 1
        files = f"{trial.replicas} {trial.offset + 1:04d}-{last:04d}"
        yield f"{number:>5}  {trial.name:<{width}}  {_megabytes(trial)}  {files}  {trial.work}".rstrip()
    once = [trial for trial in plan.trials if trial.work.for_s is None]
    total = sum(trial.bytes or trial.nominal_bytes for trial in once)
    read = f"{len(once)} trials move {total / 1e9:.2f} GB"
    if len(once) < len(plan.trials):
        timed = f"{len(plan.trials) - len(once)} trials read for a given time, however much that is"
        read = f"{read}, {timed}" if once else timed
    seconds, links = planned.run_s, site.links
    has_rates = links.wan or links.storage or links.worker or not once
    takes = "at the links' full rate that takes"
    unknown = "how long is not known, without [links] in the site's file: over"
    yield f"\n{read}; {takes if has_rates else unknown} {_span(seconds)}"
    if made := max(_made(experiment, trial) for trial in plan.trials):
        yield f"each trial makes and removes up to {made:,} files and folders on the storage"
    if isinstance(experiment.repeats, Until):
        rule, each = experiment.repeats, seconds / most_repeats(experiment.repeats)
        least, most = each * rule.at_least, each * rule.at_most
        span = f"{_span(least)} to {_span(max(least, min(most, rule.budget_s)))}"
        lasts = span if has_rates else f"over {_span(least)}"
        yield f"repeated {rule}: {lasts}; the plan holds all repetitions, of which not all may be needed"
        yield "(all are run of a DAG that is submitted by hand where no tierbench on the PATH can tell what is enough)"
    yield ""
    yield from _sets(plan, site, experiment)
    yield from _pools(planned)
    yield ""
    yield from [finding.line for finding in findings] or ["nothing is missing"]


def _made(experiment: Experiment, trial: Trial) -> int:
    """How many files and folders a trial makes on the storage, if it is about these."""
    own = experiment.at(trial.configuration.levels).workloads[trial.configuration.workload]
    return trial.files * own.entries if own.does == "metadata" else 0


def plan_document(planned: Planned, findings: Sequence[Finding]) -> str:
    """The same for programs."""
    plan, slots = planned.plan, planned.slots
    pools: dict[str, dict[str, Any]] = {}
    for name, workers in plan.pools.items():
        cores = None if isinstance(slots, str) else slots[name].cores
        pools[name] = {"requirements": planned.site.pools[name].requirements, "workers": list(workers), "cores": cores}
    content = {
        "experiment": plan.experiment,
        "site": plan.site,
        "question": plan.question,
        "scale": plan.scale,
        "factors": {factor.name: list(factor.levels) for factor in plan.factors},
        "trials": [
            {
                "id": trial.id, "trial": trial.name, "levels": trial.levels, "repeat": trial.repeat,
                "replicas": trial.replicas, "bytes": trial.bytes, "nominal_bytes": trial.nominal_bytes,
                "least_s": round(planned.trial_s(trial), 3),
            }
            for trial in plan.trials
        ],
        "pools": pools,
        "left_out": plan.left_out,
        "lacking": [finding.line for finding in findings],
        "run_bytes": planned.run_bytes,
    }  # fmt: skip
    return document("plan", content)


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


def _sets(plan: Plan, site: Site, experiment: Experiment) -> Iterator[str]:
    """The files that lie ready, or have to be made first: how many, what room they take, and how long that takes."""
    for folder, replicas in plan.replicas.items():
        own = experiment.used_sets[folder]
        if isinstance(own, CopiedReplicas) and not replicas.sizes:
            yield f"replicas {folder}: {replicas.count} files, as large as those that they copy"
        elif replicas.lies_ready:
            size = sum(replicas.sizes or itertools.islice(itertools.cycle(own.sizes), replicas.count))
            megabits_per_s = min(MAKE_MBPS, site.links.storage or MAKE_MBPS)
            making = "" if replicas.sizes else f", {_span(size * 8e-6 / megabits_per_s)} or more to make"
            yield f"replicas {folder}: {replicas.count} files, {size / 1e9:.2f} GB of room{making}"


def _pools(planned: Planned) -> Iterator[str]:
    slots = planned.slots
    for name, workers in planned.plan.pools.items():
        yield f"pool {name}: {planned.site.pools[name].requirements}"
        if isinstance(slots, str):
            yield f"       {len(workers)} workers by the site's file"
        else:
            machines = ", ".join(slots[name].machines) or "none"
            yield f"       matched now by {slots[name].total} cores on {machines}"
