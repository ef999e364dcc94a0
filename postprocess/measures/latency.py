"""Whether a trial's clients wait for nothing but latency, the round trips to the storage; see docs/bottlenecks.md.

Where each client has a distance of its own, each is held against its own, and the one label is for all or for none.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tierbench.postprocess.measures.resources import Part, Resource
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.trial import TrialData

IDLE = 0.75  # for latency to be named, nothing may be used more than this
WAITING = 0.5  # nor the clients' own CPU more than this
LEAST_RTT_MS = 1.0  # a shorter round trip is no longer than a server's own answering time
LEAST_IN_FLIGHT = 512  # a client that waits for each answer has as much on the way as it asks for at a time:
MOST_IN_FLIGHT = 16 << 20  # between a small basket and the largest read-ahead or TCP window that is usual
A_ROUND_TRIP = (0.7, 2.0)  # round trips that a client waits for each of its reads, where it tells how many these were
ALIKE = 1.5  # clients that wait for nothing but their distances differ by no more in what they have on the way


@dataclass(frozen=True)
class Client:
    """A client, or the mean of all, and how far it is from the storage."""

    rtt_ms: float | None
    mbps: float | None  # of each of its processes
    computing: float | None  # its CPU time over its run time
    link_use: float = 0.0  # of its worker's interface
    wait_per_read_ms: float | None = None

    @property
    def in_flight(self) -> float:
        """By Little's law, the bytes on the way at a time."""
        return (self.mbps or 0.0) * 1e6 / 8 * (self.rtt_ms or 0.0) / 1e3

    @property
    def may_wait(self) -> bool:
        """Whether all of it is known, it is far, and it neither computes nor fills its link."""
        if self.rtt_ms is None or not self.mbps or self.computing is None:
            return False
        return self.rtt_ms >= LEAST_RTT_MS and self.computing <= WAITING and self.link_use <= IDLE


@dataclass(frozen=True)
class Clients:
    """A trial's clients: each where each has a distance of its own, else one for all."""

    each: Sequence[Client]
    cpu_efficiency: float | None
    rtt_source: str = ""
    processes: int = 1  # of each

    @property
    def away(self) -> str:
        who = "clients" if self.processes == 1 else f"clients' processes ({self.processes} each)"
        return f"{who} {_range([client.rtt_ms or 0.0 for client in self.each], 1, 'ms')} away"

    @property
    def on_the_way(self) -> str:
        return _range([client.in_flight / 1024 for client in self.each], 0, "KiB")


def clients_of(data: TrialData, part: Part, used: Sequence[Resource], storage_mbps: float) -> Clients:
    """The clients of a trial whose storage had this rate in that part; all, if each has a distance of its own."""
    computing = next((r.utilisation for r in used if r.role == "client"), None)
    links, processes = data.ceilings, data.trial.work.processes
    if links.rtts_ms is None:
        each_mbps = storage_mbps / processes / part.at_work if part.at_work else None
        client = Client(links.rtt_ms, each_mbps, computing or 0.0, wait_per_read_ms=_wait_per_read_ms(part.clients))
        return Clients([client], computing, links.rtt_source, processes)
    each = [
        Client(
            links.rtts_ms.get(job.host) if job.host in data.taking_hosts else None,
            job.mbps / processes if job.mbps else None,
            job.computing_s / job.run_s / data.trial.cores_each if job.computing_s is not None and job.run_s else None,
            _link_use(job, data, used),
            _wait_per_read_ms([job]),
        )
        for job in data.working
    ]
    return Clients(each, computing, links.rtt_source, processes)


def why_latency(uses: Iterable[float], clients: Clients) -> str:
    """Why it is latency, if it is: all waits, nothing works, and what is on its way is as much as is asked for.

    Of none there is clearly less on the way than of another.
    """
    each = clients.each
    if any(use > IDLE for use in uses) or (clients.cpu_efficiency or 0.0) > WAITING:
        return ""
    if not each or not all(client.may_wait for client in each):
        return ""
    who, rates = f"{clients.away} ({clients.rtt_source})", _range([client.mbps or 0.0 for client in each], 1, "Mb/s")
    trips = [(client.wait_per_read_ms or 0.0) / client.rtt_ms if client.rtt_ms else 0.0 for client in each]
    if min(trips) >= A_ROUND_TRIP[0] and max(trips) <= A_ROUND_TRIP[1]:
        waits = _range(trips, 1, "round trips")
        return f"nothing is busy and {who} wait {waits} for each of their reads, which so brings each {rates}"
    if all(trips):  # they count their reads, which wait for something else, or for less
        return ""
    in_flight = [client.in_flight for client in each]
    if min(in_flight) < LEAST_IN_FLIGHT or max(in_flight) > min(MOST_IN_FLIGHT, ALIKE * min(in_flight)):
        return ""
    return (
        f"nothing is busy and {who} wait: each receives {rates}, so {clients.on_the_way} are on the way at a time,"
        " as when each answer is awaited before more is asked for"
    )


def why_not_latency(clients: Clients) -> Iterator[str]:
    """What speaks against, or is missing for, latency."""
    unknown, number = sum(client.rtt_ms is None for client in clients.each), len(clients.each)
    if unknown and number > 1:
        yield f"the round-trip time is not one for all, and that of {unknown} of {number} clients not known"
    elif unknown:
        yield "the round-trip time is not known (links.rtt_ms, or iperf3 at the run's beginning)"
    elif any(client.mbps for client in clients.each):
        alike = " (alike where distance alone holds)" if number > 1 else ""
        yield f"{clients.away} have {clients.on_the_way} each on the way{alike}"


def _wait_per_read_ms(jobs: Iterable[Job]) -> float | None:
    """What a client waits for each of its reads in the median, where clients report how many these were."""
    waits = [
        1e3 * (job.run_s - (job.computing_s or 0.0)) / job.reads for job in jobs if job.run_s is not None and job.reads
    ]
    return statistics.median(waits) if waits else None


def _link_use(job: Job, data: TrialData, used: Sequence[Resource]) -> float:
    """How much of its worker's interface was used, as it was sampled or by what the client itself took through it.

    Workers' links are added up to be called full, which hides a full one among idle ones.
    """
    ceiling = data.ceilings.nic(job.host, "worker")
    own = (job.mbps or 0.0) / ceiling.mbps if ceiling else 0.0
    sampled = (r.utilisation or 0.0 for r in used if r.host == job.host and r.resource.startswith("NIC "))
    return max(own, *sampled, 0.0)


def _range(values: Sequence[float], decimals: int, unit: str) -> str:
    """From the least to the most of them, or the one that all are."""
    least, most = f"{min(values):.{decimals}f}", f"{max(values):.{decimals}f}"
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"
