"""What keeps two runs from being compared like for like, and what changed between them beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tierbench.postprocess.report.provenance import Headers, headers
from tierbench.postprocess.report.words import NOTHING, listed
from tierbench.postprocess.results import Results

VERSIONS = ("kernel", "python")


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in two runs; `parts` says that their rates cannot be compared because of it."""

    what: str
    values: tuple[str, str]
    parts: bool

    @property
    def words(self) -> str:
        return f"{self.what}: {self.values[0]} against {self.values[1]}"


def differences(one: Results, other: Results) -> list[Difference]:
    """All that differs in how two runs were made, what parts them first."""
    found = [*_settings(one, other), *_replicas(one, other), *_clients(one, other), *_hosts(one, other)]
    return sorted(found, key=lambda difference: not difference.parts)


def _settings(one: Results, other: Results) -> Iterator[Difference]:
    yield from _differ("site", one.plan.get("site"), other.plan.get("site"))
    yield from _differ("scale", one.plan.get("scale"), other.plan.get("scale"))
    for key, what in {
        "sample_period_s": "sampling period [s]",
        "gate": "start gate",
        "flush": "caches flushed",
    }.items():
        yield from _differ(what, one.experiment.get(key), other.experiment.get(key))
    strategies = [(results.site.get("flush") or {}).get("strategy") for results in (one, other)]
    yield from _differ("way of flushing", *strategies)
    for access in (access for access in one.accesses if access in other.accesses):
        mine, theirs = ((results.site.get("access") or {}).get(access) or {} for results in (one, other))
        for key in ("protocol", "pool", "prefix"):
            yield from _differ(f"{key} of {access}", mine.get(key), theirs.get(key))
    pools = set(one.plan.get("pools") or {}) & set(other.plan.get("pools") or {})
    for pool in sorted(pools):
        mine, theirs = (listed(list(results.plan["pools"][pool])) for results in (one, other))
        yield from _differ(f"workers of pool {pool}", mine, theirs)
    rates = [(results.site.get("testbed") or {}).get("rates_mbps") for results in (one, other)]
    yield from _differ("rates of the testbed’s links", *rates)
    yield from _differ(
        "round-trip time of the testbed [ms]", *((r.site.get("testbed") or {}).get("rtt_ms") for r in (one, other))
    )


def _replicas(one: Results, other: Results) -> Iterator[Difference]:
    """The folder's name holds a digest of how a set was made."""
    mine, theirs = ({r["name"]: r for r in results.plan.get("replicas") or []} for results in (one, other))
    for name in sorted(mine.keys() & theirs.keys()):
        for key, what in {"directory": "folder", "nominal_bytes": "size [B]", "suffix": "suffix"}.items():
            yield from _differ(f"replicas {name}, {what}", mine[name].get(key), theirs[name].get(key))
        yield from _differ(f"replicas {name}, number", mine[name]["count"], theirs[name]["count"], parts=False)


def _clients(one: Results, other: Results) -> Iterator[Difference]:
    mine, theirs = (results.experiment.get("workloads") or {} for results in (one, other))
    for name in sorted(mine.keys() & theirs.keys()):
        for key in ("client", "replicas", "options"):
            yield from _differ(f"workload {name}, {key}", mine[name].get(key), theirs[name].get(key))


def _hosts(one: Results, other: Results) -> Iterator[Difference]:
    mine, theirs = headers(one), headers(other)
    for host in sorted(mine.keys() & theirs.keys()):
        for key in dict.fromkeys([*mine[host], *theirs[host]]):
            values = (_all(mine, host, key), _all(theirs, host, key))
            yield from _differ(f"{key} on {host}", *values, parts=key not in VERSIONS)
    for host in sorted(mine.keys() ^ theirs.keys()):
        yield Difference(f"samples of {host}", ("yes", "no") if host in mine else ("no", "yes"), parts=False)


def _all(found: Headers, host: str, key: str) -> str:
    return " then ".join(found[host].get(key, [])) or NOTHING


def _differ(what: str, mine: Any, theirs: Any, *, parts: bool = True) -> Iterator[Difference]:
    if mine != theirs:
        yield Difference(what, (_word(mine), _word(theirs)), parts)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_word(inner)}" for key, inner in value.items()) or "none"
    return NOTHING if value is None or value == "" else str(value)
