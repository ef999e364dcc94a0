"""Measures, at the beginning of a run, what the way of its data can carry, and leaves that in the run directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.plan import Plan
from tierbench.errors import TierbenchError
from tierbench.json_files import Damaged
from tierbench.site_configs.site import Sampler, Site
from tierbench.submit.links import AT_ONCE, Received, received, serving
from tierbench.submit.questions import Visit, pinned

FORMAT = 1
SECONDS = 3  # of each measurement, after its first second
PATIENCE_S = 60.0
HOW = (
    f"iperf3 over TCP for {SECONDS} s after the first second, four streams to each host of a line, all of them at once"
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Line:
    """Hosts that receive from the storage server at the same time."""

    to: str
    role: str
    pool: str | None
    visits: list[Visit]


def leave_ceilings(site: Site, plan: Plan, run: Path, say: Say) -> None:
    """Write ceilings.json into the run directory: what was measured, and why the rest was not.

    What was measured there before is not lost: of several rounds the median counts.
    """
    began = time.time_ns()
    lines, measured, missing = list(_lines(site, plan)), [], {}
    try:
        server = _server(site)
        count = sum(len(line.visits) for line in lines)
        say(f"measuring the links with iperf3, about {len(lines) * (SECONDS + 3)} s; --no-links leaves this out")
        with serving(site.submission, server, count, len(lines) * PATIENCE_S, PATIENCE_S) as ports:
            for line in lines:
                mine, ports = ports[: len(line.visits)], ports[len(line.visits) :]
                try:
                    hosts = received(site.submission, line.visits, server.host, mine, SECONDS, PATIENCE_S, say)
                except TierbenchError as error:
                    missing[line.to] = str(error)
                    say(f"  to {line.to}: not measured: {error}")
                else:
                    measured.append(_record(line, hosts))
                    say(f"  to {line.to}: {_words(hosts)}")
    except (TierbenchError, OSError) as error:
        done = {line["to"] for line in measured}
        missing = {line.to: str(error) for line in lines if line.to not in done} | missing
        say(f"the links are not measured, the site's own [links] count: {error}")
    content = {"format": FORMAT, "began_wall_ns": began, "ended_wall_ns": time.time_ns(), "how": HOW}
    content |= {"from": site.server.host, "measured": measured, "not_measured": missing}
    files.replace(run / names.CEILINGS, json.dumps(with_rounds_before(content, run), indent=1) + "\n")


def with_rounds_before(content: dict[str, Any], run: Path) -> dict[str, Any]:
    """A round's content, on top of that of the rounds that the run has had."""
    try:
        before = json_files.read_table(run / names.CEILINGS)
        lines = {str(line["to"]): line for line in before.get("measured", [])}
    except (FileNotFoundError, Damaged, TypeError, KeyError):
        return content
    for line in content["measured"]:
        earlier = lines.get(line["to"], {})
        rounds = [*earlier.get("rounds", [earlier["mbps"]] if earlier else []), line["mbps"]]
        lines[line["to"]] = {**line, "mbps": median(rounds), "rounds": rounds}
    missing = {**before.get("not_measured", {}), **content["not_measured"]}
    unmeasured = {to: why for to, why in missing.items() if to not in lines}
    began = before.get("began_wall_ns", content["began_wall_ns"])
    return {**content, "began_wall_ns": began, "measured": list(lines.values()), "not_measured": unmeasured}


def _lines(site: Site, plan: Plan) -> Iterator[Line]:
    """The servers on the way, which say what comes before the workers, and the workers of each pool."""
    ways = {configuration.access for configuration in plan.configurations}
    for sampler in site.samplers.values():
        if sampler.role in ("door", "gateway") and sampler.via == "pool" and sampler.is_of(ways):
            yield Line(sampler.host, sampler.role, None, [_visit(sampler)])
    for pool, workers in plan.pools.items():
        visits = [Visit(host, pinned(host)) for host in workers[:AT_ONCE]]
        if visits:
            yield Line(f"pool {pool}", "worker", pool, visits)


def _server(site: Site) -> Visit:
    sampler = site.server
    if sampler.via != "pool":
        raise TierbenchError(f"{sampler.host} is not in the pool, so no job can serve there")
    return _visit(sampler)


def _visit(sampler: Sampler) -> Visit:
    return Visit(sampler.host, sampler.requirements or pinned(sampler.host))


def _record(line: Line, hosts: dict[str, Received]) -> dict[str, Any]:
    rtts = [host.rtt_ms for host in hosts.values() if host.rtt_ms is not None]
    return {
        "to": line.to,
        "role": line.role,
        "pool": line.pool,
        "mbps": round(sum(host.mbps for host in hosts.values()), 3),
        "rtt_ms": min(rtts, default=None),
        "hosts": {name: {"mbps": round(host.mbps, 3), "rtt_ms": host.rtt_ms} for name, host in hosts.items()},
    }


def _words(hosts: dict[str, Received]) -> str:
    total = sum(host.mbps for host in hosts.values())
    rtts = [host.rtt_ms for host in hosts.values() if host.rtt_ms is not None]
    among = f" among {len(hosts)} workers" if len(hosts) > 1 else ""
    return f"{total:.0f} Mb/s{among}" + (f", {min(rtts):.1f} ms away" if rtts else "")
