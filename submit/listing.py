"""`tierbench list` and `tierbench show`: which experiments and sites come with the package, and what one asks."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tierbench.dags.experiment import SHIPPED, Experiment, shipped_experiments
from tierbench.dags.levels import Level, level_text
from tierbench.site_configs.site import Site, find_site, known_sites
from tierbench.spec import NAMED, find_definition
from tierbench.submit.arguments import add_command
from tierbench.submit.planning import asked_experiment

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
    questions = {
        f"{name} [{SCALED}]" if f"{name}{SCALED}" in names else name: asked_experiment(name).question for name in full
    }
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
    print("\n".join(_shown(asked_experiment(arguments.experiment), arguments.experiment)))
    return 0


def _shown(experiment: Experiment, asked: str) -> Iterator[str]:
    yield experiment.name
    yield experiment.question
    yield ""
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
        yield f"  arranged for all of it: {condition} {level_text(value)}"
    yield ""
    accesses, conditions = {use.access for use in uses}, {name for use in uses for name in use.conditions}
    sites = _sites().items()
    offering = [name for name, site in sites if accesses <= set(site.access) and conditions <= set(site.conditions)]
    yield f"  sites that offer it: {', '.join(offering) or 'none that is known here'}"
    for paper in dict.fromkeys(claim.paper for claim in experiment.claims):
        yield f"  beside it: what was found in {paper}"
    yield f"  file: {find_definition('experiment', SHIPPED, asked)}"
