"""What the links carry between the storage server and each pool of workers, measured by iperf3 in two jobs or more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tierbench import json_files
from tierbench.site_configs.site import Site, Submission
from tierbench.submit import probes
from tierbench.submit.pool import PoolError
from tierbench.submit.preflight import Finding
from tierbench.submit.probes import Jobs, Report
from tierbench.submit.questions import Visit

MEASURED_S = 5
AT_ONCE = 16
NEAR = 0.85  # of what the site's file says; TCP's and iperf3's own share is a few per cent


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
        told = json_files.parse_as(dict[str, Any], serving.first_line() or "{}", "the server's first line")
        if "ports" in told:
            return [int(port) for port in told["ports"]]
        if serving.all_ended:
            break
        serving.look()
    raise PoolError("the server's iperf3 did not begin to listen")


def judged(site: Site, thing: str, rates: Mapping[str, float]) -> Finding:
    """The rates, held against what the site's file says the links carry."""
    total, single = sum(rates.values()), site.links.worker
    each = f"{min(rates.values()):.0f} to {max(rates.values()):.0f}" if len(rates) > 1 else f"{total:.0f}"
    seen = f"{total:.0f} Mb/s from {site.server.host} to {len(rates)} workers at once, {each} each"
    limits = {"wan": site.links.wan, "storage": site.links.storage, "worker": single and single * len(rates)}
    known = {name: limit for name, limit in limits.items() if limit}
    if not known:
        return Finding("doubtful", thing, f"{seen}; the site's file has no [links]", "enter what is right there")
    tightest = min(known, key=lambda name: known[name])
    limit = known[tightest]
    expected = f"{limit:g} by the site's links.{tightest}"
    if total < NEAR * limit:
        remedy = "is the link in use, or are the TCP buffers too small for it? Else correct [links]"
        return Finding("doubtful", thing, f"{seen}, which is {100 * total / limit:.0f} % of {expected}", remedy)
    if total > 1.05 * limit:
        return Finding("doubtful", thing, f"{seen}, which is more than {expected}", "correct [links]")
    return Finding("good", thing, f"{seen}; {expected}")
