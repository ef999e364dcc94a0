"""Tells clients that wait for round trips from those of which nobody knows what they wait for; docs/bottlenecks.md.

Where each client has a distance of its own, each is held against its own, and the one label is for all or for none.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tierbench.postprocess.measures.resources import Resource
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
class Apart:
    """A client at a distance of its own."""

    rtt_ms: float | None
    mbps: float | None  # of each of its processes
    computing: float | None  # its CPU time over its run time
    link_use: float  # of its worker's interface
    wait_per_read_ms: float | None = None

    @property
    def in_flight(self) -> float:
        return on_the_way(self.mbps or 0.0, self.rtt_ms or 0.0)

    @property
    def trips_per_read(self) -> float:
        return (self.wait_per_read_ms or 0.0) / self.rtt_ms if self.rtt_ms else 0.0

    @property
    def may_wait(self) -> bool:
        """Whether all of it is known, it is far, and it neither computes nor fills its link."""
        if self.rtt_ms is None or not self.mbps or self.computing is None:
            return False
        return self.rtt_ms >= LEAST_RTT_MS and self.computing <= WAITING and self.link_use <= IDLE


@dataclass(frozen=True)
class Clients:
    """What is known of a trial's clients as a whole."""

    at_work: int  # at a time: jobs, or the processes of all of them
    cpu_efficiency: float | None
    mbps: float | None  # of the storage server, for all of them
    rtt_ms: float | None = None
    rtt_source: str = ""
    wait_per_read_ms: float | None = None
    apart: Sequence[Apart] | None = None  # each of them, where each has a distance of its own

    @property
    def in_flight(self) -> float | None:
        """What each of them has on the way at a time."""
        if self.rtt_ms is None or self.mbps is None:
            return None
        return on_the_way(self.mbps / self.at_work, self.rtt_ms)


def on_the_way(mbps: float, rtt_ms: float) -> float:
    """By Little's law, the bytes on the way at a time."""
    return mbps * 1e6 / 8 * rtt_ms / 1e3


def why_latency(uses: Iterable[float], clients: Clients) -> str:
    """Why it is latency, if it is: all waits, nothing works, and what is on its way is as much as is asked for."""
    if any(use > IDLE for use in uses) or (clients.cpu_efficiency or 0.0) > WAITING:
        return ""
    if clients.apart is not None:
        return _each_by_its_own(clients.apart, clients.rtt_source)
    in_flight = clients.in_flight
    if in_flight is None or clients.rtt_ms is None or clients.rtt_ms < LEAST_RTT_MS:
        return ""
    mbps = (clients.mbps or 0.0) / clients.at_work
    trips = (clients.wait_per_read_ms or 0.0) / clients.rtt_ms
    if A_ROUND_TRIP[0] <= trips <= A_ROUND_TRIP[1]:
        return (
            f"nothing is busy and the clients wait {trips:.1f} round trips of {clients.rtt_ms:.1f} ms"
            f" ({clients.rtt_source}) for each of their reads, which so brings each {mbps:.1f} Mb/s"
        )
    if not LEAST_IN_FLIGHT <= in_flight <= MOST_IN_FLIGHT:
        return ""
    return (
        f"nothing is busy and the clients wait: each receives {mbps:.1f} Mb/s over a round trip of"
        f" {clients.rtt_ms:.1f} ms ({clients.rtt_source}), so {in_flight / 1024:.0f} KiB are on the way at a time,"
        " as when each answer is awaited before more is asked for"
    )


def _each_by_its_own(clients: Sequence[Apart], source: str) -> str:
    """Why it is latency for all of them, if it is: of none there is clearly less on the way than of another."""
    if not clients or not all(client.may_wait for client in clients):
        return ""
    rates = _range([client.mbps or 0.0 for client in clients], 1, "Mb/s")
    trips = [client.trips_per_read for client in clients]
    if min(trips) >= A_ROUND_TRIP[0] and max(trips) <= A_ROUND_TRIP[1]:
        return (
            f"nothing is busy and {_away(clients)} ({source}) wait {_range(trips, 1, 'round trips')}"
            f" of their own for each of their reads, which so brings each {rates}"
        )
    in_flight = [client.in_flight for client in clients]
    if min(in_flight) < LEAST_IN_FLIGHT or max(in_flight) > min(MOST_IN_FLIGHT, ALIKE * min(in_flight)):
        return ""
    return (
        f"nothing is busy and {_away(clients)} ({source}) wait: each receives {rates}, the less the farther it is,"
        f" so {_on_the_way(clients)} are on the way at a time, about as much over any distance"
    )


def why_not_latency(clients: Clients) -> Iterator[str]:
    """What speaks against, or is missing for, latency."""
    if clients.apart is not None:
        unknown, all_of_them = sum(client.rtt_ms is None for client in clients.apart), len(clients.apart)
        if unknown:
            yield f"the round-trip time is not one for all, and that of {unknown} of {all_of_them} clients not known"
        elif clients.apart:
            amounts = f"{_on_the_way(clients.apart)} on the way (alike where distance alone holds)"
            yield f"{_away(clients.apart)} have {amounts}"
    elif clients.rtt_ms is None:
        yield "the round-trip time is not known (links.rtt_ms, or iperf3 at the run's beginning)"
    elif (in_flight := clients.in_flight) is not None:
        yield f"{in_flight / 1024:.0f} KiB a client on the way over {clients.rtt_ms:.1f} ms"


def clients_apart(data: TrialData, used: Sequence[Resource], rtts_ms: Mapping[str, float]) -> list[Apart]:
    """Each client that had something to do; of those in turn all too, since each one's records are of it alone."""
    taking = data.taking_hosts
    return [
        Apart(
            rtts_ms.get(job.host) if job.host in taking else None,
            mbps / data.trial.work.processes if (mbps := _mbps(job)) else None,
            job.computing_s / job.run_s / data.trial.cores_each if job.computing_s is not None and job.run_s else None,
            _link_use(job, data, used),
            wait_per_read_ms([job]),
        )
        for job in data.jobs
        if job.has_work
    ]


def wait_per_read_ms(jobs: Iterable[Job]) -> float | None:
    """What a client waits for each of its reads in the median, where clients tell how many these were."""
    waits = [
        1e3 * (job.run_s - (job.computing_s or 0.0)) / job.reads for job in jobs if job.run_s is not None and job.reads
    ]
    return statistics.median(waits) if waits else None


def _mbps(job: Job) -> float | None:
    return 8e-6 * job.bytes_read / job.run_s if job.bytes_read and job.run_s else None


def _link_use(job: Job, data: TrialData, used: Sequence[Resource]) -> float:
    """How much of its worker's interface was used, as it was sampled or by what the client itself took through it.

    Workers' links are added up to be called full, which hides a full one among idle ones.
    """
    ceiling = data.ceilings.nic(job.host, "worker", {})
    own = (_mbps(job) or 0.0) / ceiling.mbps if ceiling else 0.0
    sampled = (r.utilisation or 0.0 for r in used if r.host == job.host and r.resource.startswith("NIC "))
    return max(own, *sampled, 0.0)


def _away(clients: Sequence[Apart]) -> str:
    return f"clients {_range([client.rtt_ms or 0.0 for client in clients], 1, 'ms')} away"


def _on_the_way(clients: Sequence[Apart]) -> str:
    return _range([client.in_flight / 1024 for client in clients], 0, "KiB")


def _range(values: Sequence[float], decimals: int, unit: str) -> str:
    """From the least to the most of them, or the one that all are."""
    least, most = f"{min(values):.{decimals}f}", f"{max(values):.{decimals}f}"
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"
