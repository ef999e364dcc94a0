"""What the links carry between the storage server and each pool of workers, measured by iperf3 in two jobs or more.

The doctor compares it with the site's file; a run measures it at its beginning and leaves it as ceilings.json.
"""

import json
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.plan import Plan
from tierbench.errors import TierbenchError
from tierbench.site_configs.site import Sampler, Site, Submission
from tierbench.submit import probes
from tierbench.submit.console import say
from tierbench.submit.planning import Finding
from tierbench.submit.pool import PoolError
from tierbench.submit.probes import Jobs, Report
from tierbench.submit.questions import Question, Visit, pinned

MEASURED_S = 5  # by the doctor
AT_ONCE = 16
NEAR = 0.85  # of what the site's file says; TCP's and iperf3's own share is a few per cent
FORMAT = 1
ROUND_S = 3  # of each measurement, after its first second
PATIENCE_S = 60.0
SILENT_S = 15.0  # for hosts that have not answered in the round before
HOW = f"iperf3 over TCP for {ROUND_S} s after the first second, four streams to each host of a line, all at once"


@dataclass(frozen=True)
class Line:
    """Hosts that receive from the storage server at the same time."""

    to: str
    role: str
    pool: str | None
    visits: list[Visit]


@dataclass(frozen=True)
class Received:
    """What a host received from the server, and how far away it is where that could be measured."""

    mbps: float
    rtt_ms: float | None


def links(
    site: Site, workers: Mapping[str, Sequence[str]], visits: Mapping[str, Visit], reports: Mapping[str, Report],
    patience: float,
) -> Iterator[Finding]:  # fmt: skip
    """One finding for each pool: its workers receive from the storage server, all of them at once."""
    able = [host for host in visits if _has_iperf3(visits[host], reports.get(host, Report()))]
    lines = []
    for name, machines in workers.items():
        to = f"link to pool {name}"
        if clients := [visits[host] for host in machines if host in able][:AT_ONCE]:
            lines.append(Line(to, "worker", name, clients))
        else:
            yield _unmeasured(to, "no worker of it has iperf3")
    if site.server.host not in able:
        yield from (_unmeasured(line.to, f"no job with iperf3 can serve on {site.server.host}") for line in lines)
        return
    for line, hosts in measured(site, lines, MEASURED_S, patience, say):
        if isinstance(hosts, Exception):
            yield _unmeasured(line.to, str(hosts))
        else:
            yield judged(site, line.to, line.pool, {name: host.mbps for name, host in hosts.items()})


def _has_iperf3(visit: Visit, report: Report) -> bool:
    answers = zip(visit.questions, report.answers, strict=False)
    return any(question.kind == "iperf3" and answer["state"] == "good" for question, answer in answers)


def _unmeasured(thing: str, why: str) -> Finding:
    remedy = "install iperf3 on both, and let them connect; or --quick"
    return Finding("doubtful", thing, f"not measured: {why}", remedy)


def judged(site: Site, thing: str, pool: str | None, rates: Mapping[str, float]) -> Finding:
    """The rates, held against what the site's file says the links carry."""
    total, single = sum(rates.values()), site.links.worker
    wan = site.links.wan if pool is None or site.pools[pool].over_wan else None
    each = f"{min(rates.values()):.0f} to {max(rates.values()):.0f}" if len(rates) > 1 else f"{total:.0f}"
    seen = f"{total:.0f} Mb/s from {site.server.host} to {len(rates)} workers at once, {each} each"
    rates_of = {"wan": wan, "storage": site.links.storage, "worker": single and single * len(rates)}
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


def measured(
    site: Site, lines: Sequence[Line], seconds: float, patience: float, say: Callable[[str], None],
    silent: Container[str] = (),
) -> Iterator[tuple[Line, dict[str, Received] | Exception]]:  # fmt: skip
    """What the hosts of each line received, one line after the other, or why not; `silent` are waited for less long."""
    say(f"measuring the links with iperf3, about {len(lines) * (seconds + 3):.0f} s")
    left = list(lines)
    try:
        if site.server.via != "pool":
            raise TierbenchError(f"{site.server.host} is not in the pool, so no job can serve there")
        count, lasts_s = sum(len(line.visits) for line in lines), len(lines) * (patience + 4 * seconds)
        with serving(site.submission, _visit(site.server), count, lasts_s, patience) as ports:
            for line in lines:
                mine, ports = ports[: len(line.visits)], ports[len(line.visits) :]
                waits_s = SILENT_S if line.to in silent else patience
                hosts: dict[str, Received] | Exception
                try:
                    hosts = received(site.submission, line.visits, site.server.host, mine, seconds, waits_s, say)
                except TierbenchError as error:
                    hosts = error
                left.remove(line)
                yield line, hosts
    except (TierbenchError, OSError) as error:
        yield from ((line, error) for line in left)


@contextmanager
def serving(submission: Submission, server: Visit, count: int, seconds: float, patience: float) -> Iterator[list[int]]:
    """The ports of so many iperf3 servers on a host, each for one measurement."""
    question = Question("serve", "", {"count": count, "seconds": seconds})
    with probes.submitted([replace(server, questions=[question])], submission, seconds + patience) as jobs:
        yield _ports(jobs, patience)


def received(
    submission: Submission, clients: Sequence[Visit], host: str, ports: Sequence[int], seconds: float, patience: float,
    say: Callable[[str], None],
) -> dict[str, Received]:  # fmt: skip
    """What each of these hosts received from the server's ports, all of them at once."""
    about = [Question("link", "", {"host": host, "port": port, "seconds": seconds}) for port in ports]
    visits = [replace(visit, questions=[question]) for visit, question in zip(clients, about, strict=True)]
    with probes.submitted(visits, submission, patience) as receiving:
        reports = receiving.wait(patience, say)
    answers = {name: report.answers[0] for name, report in reports.items() if report.answers}
    able = {name: answer for name, answer in answers.items() if answer.get("mbps")}
    without = [f"{name}: {r.trouble or r.answers[0]['seen']}" for name, r in reports.items() if name not in able]
    if not able:
        raise PoolError(without[0])
    for words in without:
        say(f"  not among them is {words}")
    return together(able)


def together(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Received]:
    """What each host received while all of them did: the rates of hosts that measure in turn do not add up."""
    begin = max(answer["slices"][0][0] for answer in answers.values())
    end = min(answer["slices"][-1][1] for answer in answers.values())
    hosts = {}
    for name, answer in answers.items():
        within = [(s[1] - s[0], s[2]) for s in answer["slices"] if begin < (s[0] + s[1]) / 2 < end]
        if 2 * len(within) < len(answer["slices"]):
            raise PoolError(f"{len(answers)} hosts did not measure at once: is the pool busy?")
        lasted_s = sum(seconds for seconds, _ in within)  # the last one may be short
        hosts[name] = Received(sum(seconds * mbps for seconds, mbps in within) / lasted_s, answer.get("rtt_ms"))
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


def leave_ceilings(site: Site, plan: Plan, run: Path, say: Callable[[str], None]) -> None:
    """Write ceilings.json into the run directory: what was measured, and why the rest was not.

    What was measured there before is not lost: of several rounds the median counts.
    """
    before: dict[str, Any] = json_files.read_or({}, run / names.CEILINGS)
    began, lines = time.time_ns(), list(_lines(site, plan))
    records, missing = [], {}
    for line, hosts in measured(site, lines, ROUND_S, PATIENCE_S, say, before.get("not_measured", {})):
        if isinstance(hosts, Exception):
            missing[line.to] = str(hosts)
            say(f"  to {line.to}: not measured, the site's own [links] count: {hosts}")
            continue
        mbps = sum(host.mbps for host in hosts.values())
        rtt_ms = min((host.rtt_ms for host in hosts.values() if host.rtt_ms is not None), default=None)
        among = f" among {len(hosts)} workers" if len(hosts) > 1 else ""
        say(f"  to {line.to}: {mbps:.0f} Mb/s{among}" + (f", {rtt_ms:.1f} ms away" if rtt_ms is not None else ""))
        each = {name: {"mbps": round(host.mbps, 3), "rtt_ms": host.rtt_ms} for name, host in hosts.items()}
        of_line = {"to": line.to, "role": line.role, "pool": line.pool}
        records.append({**of_line, "mbps": round(mbps, 3), "rtt_ms": rtt_ms, "hosts": each})
    content = {"format": FORMAT, "began_wall_ns": began, "ended_wall_ns": time.time_ns(), "how": HOW}
    content |= {"from": site.server.host, "measured": records, "not_measured": missing}
    files.replace(run / names.CEILINGS, json.dumps(with_rounds_before(content, before), indent=1) + "\n")


def with_rounds_before(content: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A round's content, on top of that of the rounds that the run has had."""
    try:
        lines = {line["to"]: line for line in before.get("measured", [])}
    except (TypeError, KeyError):  # a damaged one
        return content
    for line in content["measured"]:
        earlier = lines.get(line["to"], {})  # without rounds, of an earlier version
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
        if visits := [Visit(host, pinned(host)) for host in workers[:AT_ONCE]]:
            yield Line(f"pool {pool}", "worker", pool, visits)


def _visit(sampler: Sampler) -> Visit:
    return Visit(sampler.host, sampler.requirements or pinned(sampler.host))
