"""Where a run's numbers come from: site, hosts, versions, tuning, plan, seed, times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import tierbench
from tierbench.postprocess.compare.differences import Headers, conditions, headers
from tierbench.postprocess.report.markup import Markup, element, joined, table
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import NOTHING, abridged, counted, listed, moment

KINDS = 5  # columns of hosts beside each other, so that a printed page holds them


def provenance(results: Results) -> Iterator[Markup]:
    """The page's last part."""
    facts = dict(_facts(results))
    yield element("dl", *(element("div", element("dt", key), element("dd", value)) for key, value in facts.items()))
    of_hosts = headers(results)
    if of_hosts:
        yield from _host_tables(of_hosts)
    recorded = conditions(results)
    if recorded is not None:
        text = json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True)
        yield element("details", element("summary", "Recorded conditions"), element("pre", text))
        yield from _unlike(recorded)
    order = [trial.trial for trial in results.trials]
    yield element(
        "details",
        element("summary", f"The plan: {counted(len(order), 'trial')} in this order"),
        element("p", ", ".join(order)),
    )


def _host_tables(of_hosts: Headers) -> Iterator[Markup]:
    """A column for the hosts of a kind, since settings are many; first what all of them have alike."""
    keys = list(dict.fromkeys(key for host in of_hosts.values() for key in host))
    columns: dict[tuple[str, ...], tuple[list[str], list[Markup | str]]] = {}
    for host, said in of_hosts.items():
        cells = [_value(said.get(key, [])) for key in keys]
        columns.setdefault(tuple(map(str, cells)), ([], cells))[0].append(host)
    for start in range(0, len(columns), KINDS):
        part = list(columns.values())[start : start + KINDS]
        rows = [[key, *(cells[number] for _, cells in part)] for number, key in enumerate(keys)]
        heads: list[Markup | str] = [""]
        for hosts, _ in part:
            names = (joined(host.split("."), Markup(".<wbr>")) for host in abridged(hosts))
            heads.append(joined(names, ", "))
        caption = (
            "Hosts and tuning, as their samplers found them; “then” parts values that changed between trials. Hosts"
            " alike share a column."
        )
        yield table(heads, rows, words=1 + len(part), caption=caption if not start else None)


def _unlike(recorded: Any) -> Iterator[Markup]:
    """Which trials' hosts were not as in most of the run; that other workers got the clients is no difference."""
    differing = recorded.get("differences") if isinstance(recorded, dict) else None
    if differing is None:
        return
    if not differing:
        yield element("p", "No host had other conditions in one trial than in the others.")
        return
    words = f"{counted(len(differing), 'trial')} had hosts with other conditions than in most trials: "
    yield element("p", words, listed(abridged(list(differing))), ".")


def _facts(results: Results) -> Iterator[tuple[str, Any]]:
    plan, site, experiment = results.plan, results.site, results.experiment
    scale = float(plan.get("scale") or 1)
    yield "site", f"{plan.get('site')}: {site.get('description') or 'no description'}"
    if scale != 1:
        yield "scale", f"{scale:g} of the real site’s rates"
    yield "experiment", plan.get("experiment")
    began = [trial.go_wall_ns for trial in results.trials if trial.go_wall_ns]
    ended = [trial.end_wall_ns for trial in results.trials if trial.end_wall_ns]
    if began and ended:
        yield "measured", f"{moment(min(began))} to {moment(max(ended))}"
    yield "seed", plan.get("seed")
    repeats = experiment.get("repeats")
    if isinstance(repeats, dict):  # the rule by which it was decided how often
        repeats = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in repeats.items())
    yield "repetitions", NOTHING if repeats is None else repeats
    yield "sampling period", f"{experiment['sample_period_s']:g} s" if "sample_period_s" in experiment else NOTHING
    yield "clients started", listed(results.trials_have("started")) or NOTHING
    yield "clients placed", listed(results.trials_have("placed")) or NOTHING
    strategy = (site.get("flush") or {}).get("strategy", NOTHING)
    yield "caches flushed", f"yes, by {strategy}" if experiment.get("flush") else "no"
    for pool, workers in (plan.get("pools") or {}).items():
        yield f"pool {pool}", listed(list(workers)) or NOTHING
    for replicas in plan.get("replicas") or []:
        size = f"{replicas['nominal_bytes'] / 1e6:g} MB"
        yield f"replicas {replicas['name']}", f"{replicas['count']} files of about {size} in {replicas['directory']}"
    for access, offer in (site.get("access") or {}).items():
        if access in results.accesses:
            by = f"({offer.get('protocol')}, pool {offer.get('pool')})"
            yield f"access {access}", f"{offer.get('description') or ''} {by}"
    yield "tables", f"schema version {results.schema_version or NOTHING}"
    yield "report by", f"tierbench {tierbench.version()}"


def _value(values: list[str]) -> Markup | str:
    if len(values) > 1:
        return element("b", joined(values, " then "))
    return values[0] if values else NOTHING
