"""What the links carry between the storage server and each pool of workers, measured by iperf3 in two jobs or more.

The doctor compares it with the site's file; a run measures it at its beginning and leaves it as ceilings.json.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.plan import Plan
from tierbench.errors import TierbenchError
from tierbench.json_files import Damaged
from tierbench.site_configs.site import Sampler, Site, Submission
from tierbench.submit import probes
from tierbench.submit.pool import PoolError
from tierbench.submit.preflight import Finding
from tierbench.submit.probes import Jobs, Report
from tierbench.submit.questions import Visit, pinned

MEASURED_S = 5  # by the doctor
AT_ONCE = 16
NEAR = 0.85  # of what the site's file says; TCP's and iperf3's own share is a few per cent
FORMAT = 1
ROUND_S = 3  # of each measurement, after its first second
PATIENCE_S = 60.0
SILENT_S = 15.0  # for hosts that have not answered in the round before
HOW = (
    f"iperf3 over TCP for {ROUND_S} s after the first second, four streams to each host of a line, all of them at once"
)


def links(
    site: Site,
    workers: Mapping[str, Sequence[str]],
    asked: Mapping[str, Visit],
    reports: Mapping[str, Report],
    patience: float,
    say: Callable[[str], None],
) -> Iterator[Finding]:
    """One finding for each pool: its workers receive from the storage server, all of them at once."""
    server = site.server.host
    for name, machines in workers.items():
        thing = f"link to pool {name}"
        able = [host for host in machines if _has_iperf3(asked, reports, host)][:AT_ONCE]
        if not _has_iperf3(asked, reports, server) or asked[server].via != "pool":
            yield _unmeasured(thing, f"no job with iperf3 can serve on {server}")
        elif not able:
            yield _unmeasured(thing, "no worker of it has iperf3")
        else:
            say(f"{thing}: iperf3 from {server} to {len(able)} workers for {MEASURED_S} s")
            try:
                rates = _measured(site.submission, asked[server], [asked[host] for host in able], patience, say)
            except PoolError as error:
                yield _unmeasured(thing, str(error))
            else:
                yield judged(site, thing, rates)


def _has_iperf3(asked: Mapping[str, Visit], reports: Mapping[str, Report], host: str) -> bool:
    if host not in asked or host not in reports:
        return False
    answers = zip(asked[host].questions, reports[host].answers, strict=False)
    return any(question.kind == "iperf3" and answer["state"] == "good" for question, answer in answers)


def _unmeasured(thing: str, why: str) -> Finding:
    return Finding(
        "doubtful", thing, f"not measured: {why}", "install iperf3 on both, and let them connect; or --quick"
    )


def _measured(
    submission: Submission, server: Visit, clients: Sequence[Visit], patience: float, say: Callable[[str], None]
) -> dict[str, float]:
    """The rate at which each worker received, in Mb/s."""
    with serving(submission, server, len(clients), patience + 4 * MEASURED_S, patience) as ports:
        hosts = received(submission, clients, server.host, ports, MEASURED_S, patience, say)
    return {name: host.mbps for name, host in hosts.items()}


@dataclass(frozen=True)
class Received:
    """What a host received from the server, and how far away it is where that could be measured."""

    mbps: float
    rtt_ms: float | None


@contextmanager
def serving(submission: Submission, server: Visit, count: int, seconds: float, patience: float) -> Iterator[list[int]]:
    """The ports of so many iperf3 servers on a host, each for one measurement."""
    asked = [(server, [{"ask": "serve", "count": count, "seconds": seconds}])]
    with probes.submitted(asked, submission) as jobs:
        yield _ports(jobs, patience)


def received(
    submission: Submission,
    clients: Sequence[Visit],
    host: str,
    ports: Sequence[int],
    seconds: float,
    patience: float,
    say: Callable[[str], None],
) -> dict[str, Received]:
    """What each of these hosts received from the server's ports, all of them at once."""
    questions = [{"ask": "link", "host": host, "port": port, "seconds": seconds} for port in ports]
    asked = [(visit, [question]) for visit, question in zip(clients, questions, strict=True)]
    with probes.submitted(asked, submission) as receiving:
        reports = receiving.wait(patience, say)
    answers = {name: report.answers[0] for name, report in reports.items() if report.answers}
    hosts = {name: Received(float(a["mbps"]), a.get("rtt_ms")) for name, a in answers.items() if a.get("mbps")}
    if not hosts:
        name, report = next(iter(reports.items()))
        raise PoolError(f"{name}: {report.trouble or report.answers[0]['seen']}")
    return hosts


def _ports(serving: Jobs, patience: float) -> list[int]:
    """Where the server listens, as soon as it does."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        line = json_files.parse_as(dict[str, Any], serving.first_line() or "{}", "the server's first line")
        if "ports" in line:
            return [int(port) for port in line["ports"]]
        if serving.all_ended:
            break
        serving.look()
    raise PoolError("the server's iperf3 did not begin to listen")


def judged(site: Site, thing: str, rates: Mapping[str, float]) -> Finding:
    """The rates, held against what the site's file says the links carry."""
    total, single = sum(rates.values()), site.links.worker
    each = f"{min(rates.values()):.0f} to {max(rates.values()):.0f}" if len(rates) > 1 else f"{total:.0f}"
    seen = f"{total:.0f} Mb/s from {site.server.host} to {len(rates)} workers at once, {each} each"
    rates_of = {"wan": site.links.wan, "storage": site.links.storage, "worker": single and single * len(rates)}
    limits = {name: rate for name, rate in rates_of.items() if rate}
    if not limits:
        return Finding("doubtful", thing, f"{seen}; the site's file has no [links]", "enter what is right there")
    tightest = min(limits, key=lambda name: limits[name])
    limit = limits[tightest]
    expected = f"{limit:g} by the site's links.{tightest}"
    if total < NEAR * limit:
        remedy = "is the link in use, or are the TCP buffers too small for it? Else correct [links]"
        return Finding("doubtful", thing, f"{seen}, which is {100 * total / limit:.0f} % of {expected}", remedy)
    if total > 1.05 * limit:
        return Finding("doubtful", thing, f"{seen}, which is more than {expected}", "correct [links]")
    return Finding("good", thing, f"{seen}; {expected}")


@dataclass(frozen=True)
class Line:
    """Hosts that receive from the storage server at the same time."""

    to: str
    role: str
    pool: str | None
    visits: list[Visit]


def leave_ceilings(site: Site, plan: Plan, run: Path, say: Callable[[str], None]) -> None:
    """Write ceilings.json into the run directory: what was measured, and why the rest was not.

    What was measured there before is not lost: of several rounds the median counts.
    """
    began = time.time_ns()
    lines, measured, missing = list(_lines(site, plan)), [], {}
    silent = _before(run).get("not_measured", {})
    try:
        server = _server(site)
        count = sum(len(line.visits) for line in lines)
        say(f"measuring the links with iperf3, about {len(lines) * (ROUND_S + 3)} s; --no-links leaves this out")
        with serving(site.submission, server, count, len(lines) * PATIENCE_S, PATIENCE_S) as ports:
            for line in lines:
                mine, ports = ports[: len(line.visits)], ports[len(line.visits) :]
                patience = SILENT_S if line.to in silent else PATIENCE_S
                try:
                    hosts = received(site.submission, line.visits, server.host, mine, ROUND_S, patience, say)
                except TierbenchError as error:
                    missing[line.to] = str(error)
                    say(f"  to {line.to}: not measured: {error}")
                else:
                    measured.append(_record(line, hosts))
                    say(f"  to {line.to}: {_rates_in_words(hosts)}")
    except (TierbenchError, OSError) as error:
        done = {line["to"] for line in measured}
        missing = {line.to: str(error) for line in lines if line.to not in done} | missing
        say(f"the links are not measured, the site's own [links] count: {error}")
    content = {"format": FORMAT, "began_wall_ns": began, "ended_wall_ns": time.time_ns(), "how": HOW}
    content |= {"from": site.server.host, "measured": measured, "not_measured": missing}
    files.replace(run / names.CEILINGS, json.dumps(with_rounds_before(content, run), indent=1) + "\n")


def _before(run: Path) -> dict[str, Any]:
    try:
        return dict(json_files.read_table(run / names.CEILINGS))
    except (FileNotFoundError, Damaged):
        return {}


def with_rounds_before(content: dict[str, Any], run: Path) -> dict[str, Any]:
    """A round's content, on top of that of the rounds that the run has had."""
    before = _before(run)
    try:
        lines = {str(line["to"]): line for line in before.get("measured", [])}
    except (TypeError, KeyError):
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
    """The servers between storage and workers, and the workers of each pool."""
    accesses = {configuration.access for configuration in plan.configurations}
    for sampler in site.samplers.values():
        if sampler.role in ("door", "gateway") and sampler.via == "pool" and sampler.is_of(accesses):
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


def _rates_in_words(hosts: dict[str, Received]) -> str:
    total = sum(host.mbps for host in hosts.values())
    rtts = [host.rtt_ms for host in hosts.values() if host.rtt_ms is not None]
    among = f" among {len(hosts)} workers" if len(hosts) > 1 else ""
    return f"{total:.0f} Mb/s{among}" + (f", {min(rtts):.1f} ms away" if rtts else "")
