"""How much of each resource along a trial's path was used while all its clients were at work."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tierbench.postprocess.measures.traffic import MEGABITS, Counted, counter_curve
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.samples import Samples
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host

HEAD = 0.1  # of the time in which all are active: opening the files, and TCP's slow start
LEAST_SHARE = 0.25  # of the window; where all are active for less than this, the window's middle is looked at
ALL_AT_WORK = "while all clients were at work"
EDGES = 0.1  # of the window, at each end, that its middle leaves out
NEARLY_FULL = 0.9  # a sample whose rate is above this of the ceiling counts as one at the ceiling
LEAST_COVERED = 0.5  # of the part, for a mean over it
CARRIES = 0.5  # of what the storage server moved: who carried this much is on the data's way
TAKES_PART, ALL, ONCE = 0.05, 0.9, 1.5  # hosts that each carry between two of these, and together no more: side by side
MOST_CARRIED = 1.25  # and by a mount no more, or it carried others' data
MOUNT = "file"  # the protocol of its clients
MOST_OF_WORK = 0.5  # of all cores' busy time; whose share is less was the busiest by chance
WORKS = ("cpu_user", "cpu_nice", "cpu_system", "cpu_irq", "cpu_softirq", "cpu_steal")
RESTS = ("cpu_idle", "cpu_iowait")
SERVERS = ("storage", "gateway", "door")
WINDOWS = "TCP flows that fill their window"
OF_FLOWS = {  # that send, as the sampler has it: the column, the unit and by what it is multiplied
    "TCP flows sent": ("tcp_flows_bytes_per_s", "Mb/s", 8e-6),
    "TCP congestion window": ("tcp_flow_cwnd_bytes", "KiB", 1 / 1024),
    "TCP receiver's window": ("tcp_flow_peer_window_bytes", "KiB", 1 / 1024),
    "TCP round trip": ("tcp_flow_rtt_us", "ms", 1e-3),
    "TCP round trip, the least": ("tcp_flow_min_rtt_us", "ms", 1e-3),
}
QUOTA, SHARED = "its CPU quota", "the machine's cores"

Rates = dict[str, list[float | None]]  # of each interface of a host, by the direction


@dataclass(frozen=True)
class Part:
    """The part of a trial that is looked at, by the wall clock."""

    begin_ns: int
    end_ns: int
    words: str
    clients: Sequence[Job]  # who was at work then: of a trial in turn one

    @cached_property
    def hosts(self) -> set[str]:
        return {job.host for job in self.clients if job.start}

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def at_work(self) -> float:
        """How many clients were at work in the mean; those whose begin or end is not known, all the time."""
        spans_ns = (
            min(job.ended_wall_ns or self.end_ns, self.end_ns) - max(job.begin_wall_ns or 0, self.begin_ns)
            for job in self.clients
        )
        return sum(max(0, span_ns) for span_ns in spans_ns) / 1e9 / self.seconds


@dataclass(frozen=True)
class Resource:
    """Something that was used on a host, how much of it, and how much there is of it if that is known."""

    host: str
    role: str
    resource: str
    value: float
    unit: str
    ceiling: float | None = None
    source: str = ""
    at_ceiling: float = 0.0  # share of the samples that are near the ceiling
    on_the_way: bool = True
    interface: str = ""

    @property
    def utilisation(self) -> float | None:
        return self.value / self.ceiling if self.ceiling else None


@dataclass(frozen=True)
class Here:
    """A host, or a machine, whose resources are listed, by its samples of the part."""

    sampled: Sampled
    part: Part
    host: str
    role: str
    on_the_way: bool

    def used(self, name: str, value: float | None, unit: str, most: float | None = None, **more: Any) -> list[Resource]:
        """A resource of it, if its use is known."""
        if value is None:
            return []
        return [Resource(self.host, self.role, name, value, unit, most, on_the_way=self.on_the_way, **more)]

    def counted(
        self, name: str, counter: str, unit: str, factor: float = 1.0, most: float | None = None, **more: Any
    ) -> list[Resource]:
        """One whose use is how fast a counter rose."""
        return self.used(name, per_second(self.sampled, counter, self.part, factor), unit, most, **more)

    def read(self, name: str, column: str, unit: str, factor: float = 1.0, most: float | None = None) -> list[Resource]:
        """One whose use was read at each sample."""
        value = gauge(self.sampled, column, self.part)
        return self.used(name, None if value is None else factor * value, unit, most)


def part_of(data: TrialData) -> Part | None:
    """The time in which all clients were at work, but for its head; the window's middle if that is too short.

    Of clients in turn it is the time in which that client was at work which took longest.
    """
    if data.window_ns is None:
        return None
    begin, end = data.window_ns
    turns = [
        (last - first, first, job)
        for job in data.working
        if data.trial.start.in_turn and (first := job.begin_wall_ns) and (last := job.ended_wall_ns)
    ]
    if turns:
        length, begin, job = max(turns, key=lambda turn: turn[0])
        return Part(round(begin + HEAD * length), begin + length, f"while client {job.index} was at work alone", [job])
    first, last = data.all_active_ns or (begin, begin)
    if last - first >= LEAST_SHARE * (end - begin):
        return Part(round(first + HEAD * (last - first)), last, ALL_AT_WORK, data.working)
    margin = round(EDGES * (end - begin))
    return Part(begin + margin, end - margin, "in the middle of the window", data.working)


def resources(data: TrialData, part: Part) -> list[Resource]:
    """All resources of a trial's sampled hosts, its links and its clients."""
    storage_mbps = _storage_mbps(data, part)
    used = [resource for _, of_host in _of_hosts(data, part, storage_mbps) for resource in of_host]
    used += _of_workers_not_sampled(data, part)
    return [*used, *_of_links(data, part, used, storage_mbps), *_of_machine(data, part), *_of_clients(data, part)]


def server_cpu_s(data: TrialData) -> float | None:
    """CPU time of all servers that the data passed, over the window; None where it is not known of each."""
    if data.window_ns is None:
        return None
    window, cores = Part(*data.window_ns, "", data.working), []
    for here, of_host in _of_hosts(data, window, _storage_mbps(data, window)):
        if here.role in SERVERS and here.on_the_way:
            shares = 100 / (here.sampled.samples.header.ncpu or math.nan)
            cpu = {r.resource: r.value / (shares if r.unit == "%" else 1) for r in of_host}
            # What is stolen counts as busy, and others have had it.
            cores += [cpu.get("CPU", math.nan) - cpu.get("CPU stolen", 0.0)] if cpu else []
    total = window.seconds * sum(cores)
    return total if cores and math.isfinite(total) else None


def _storage_mbps(data: TrialData, part: Part) -> float:
    """What all storage servers carried, in Mb/s."""
    return sum(per_second(server, data.measure.counter, part, MEGABITS) or 0.0 for server in data.storage)


def _of_hosts(data: TrialData, part: Part, storage_mbps: float) -> Iterator[tuple[Here, Iterator[Resource]]]:
    """Each sampled host, and its resources, which are worked out as somebody asks for them."""
    hosts = [(interfaces, _rates(interfaces, part)) for interfaces in by_host(data.sampled)]
    least = _least_carried(hosts, storage_mbps)
    for interfaces, rates in hosts:
        sampled, samples = interfaces[0], interfaces[0].samples
        on_the_way = _is_on_the_way(
            samples, data, part, _carried(rates), least[samples.role], MOST_CARRIED * storage_mbps
        )
        here = Here(sampled, part, samples.host, samples.role, on_the_way)
        yield here, _of_host(here, interfaces, rates, data)


def _rates(interfaces: list[Sampled], part: Part) -> Rates:
    """What each interface of a host sent and received, in Mb/s."""
    return {
        direction: [per_second(nic, f"{direction}_bytes", part, MEGABITS) for nic in interfaces]
        for direction in ("tx", "rx")
    }


def _carried(rates: Rates) -> list[float]:
    return [sum(rate or 0.0 for rate in direction) for direction in rates.values()]


def _least_carried(hosts: Iterable[tuple[list[Sampled], Rates]], storage_mbps: float) -> dict[str, float]:
    """By role, what a host on the data's way carries at least: half of it, or of its share where several divide it."""
    by_role: dict[str, list[float]] = {}
    for interfaces, rates in hosts:
        most = max(_carried(rates))
        by_role.setdefault(interfaces[0].samples.role, []).append(most if most >= TAKES_PART * storage_mbps else 0.0)
    return {
        role: CARRIES * storage_mbps / (int(np.count_nonzero(carried)) if _divide(carried, storage_mbps) else 1)
        for role, carried in by_role.items()
    }


def _divide(carried: list[float], storage_mbps: float) -> bool:
    """Whether hosts that carried so much are side by side: together it is all, and none carried all."""
    return CARRIES * storage_mbps <= sum(carried) <= ONCE * storage_mbps and 0 < max(carried) < ALL * storage_mbps


def _is_on_the_way(
    samples: Samples, data: TrialData, part: Part, carried: list[float], least: float, most: float
) -> bool:
    """Whether the data pass a host that carried so much each way, of what such a host carries at least and at most."""
    if samples.role == "worker":
        return samples.host in part.hosts & (data.client_hosts if data.trial.on_disk else data.taking_hosts)
    if samples.role == "storage":
        return samples.host in {server.samples.host for server in data.both_ends}
    if data.trial.protocol == MOUNT:  # which leads through none, or what one is sent it sends on, and no more
        return min(carried) >= least and max(carried) <= most
    if data.is_warm and samples.role in SERVERS:  # the storage sends next to nothing, which anybody carries
        return samples.host in {cache.host for cache in data.data_caches}
    return max(carried) >= least


def _of_host(here: Here, interfaces: list[Sampled], rates: Rates, data: TrialData) -> Iterator[Resource]:
    sampled, samples, part = here.sampled, here.sampled.samples, here.part
    for number, nic in enumerate(interfaces):
        ceiling = data.ceilings.nic(here.host, here.role, nic.samples.card)
        most, source = (ceiling.mbps, ceiling.source) if ceiling else (None, "")
        for direction, words in (("tx", "NIC sent"), ("rx", "NIC received")):
            near = at_ceiling(nic, f"{direction}_bytes", part, most)
            more = {"source": source, "at_ceiling": near, "interface": nic.samples.interface}
            yield from here.used(words, rates[direction][number], "Mb/s", most, **more)
    if samples.reports("cpu_own_ns"):
        # What a host that shares its machine with others has used of it itself.
        limit = samples.header.own_cpu_limit_cores
        most, source = limit or samples.header.ncpu, QUOTA if limit else SHARED
        yield from here.counted("CPU", "cpu_own_ns", "cores", 1e-9, most, source=source)
        yield from here.counted("CPU throttled", "cpu_own_throttled_ns", "s/s", 1e-9)
    elif not shares_machine(sampled, data):
        yield from _of_processors(here)
    again, out = per_second(sampled, "tcp_retrans", part), per_second(sampled, "tcp_out_segs", part)
    yield from here.used("TCP retransmits", again, "1/s")
    yield from here.used("TCP segments sent again", 100 * again / out if again is not None and out else None, "%")
    # How many TCP flows sent, how many of them all that their windows allow, and what these are in the median.
    yield from here.read(WINDOWS, "tcp_flows_window_full", "flows", most=gauge(sampled, "tcp_flows", part))
    for name, (column, unit, factor) in OF_FLOWS.items():
        yield from here.read(name, column, unit, factor)


def _of_processors(here: Here) -> Iterator[Resource]:
    """The processors and disks of a host that has its machine to itself."""
    sampled, part = here.sampled, here.part
    cpu = _cpu(sampled, part)
    yield from here.used("CPU", cpu.get("busy"), "%", 100)
    yield from here.used("CPU in softirq", cpu.get("softirq"), "%", 100)
    yield from here.used("CPU stolen", cpu.get("steal"), "%", 100)
    yield from here.used("busiest core", _single_core(sampled, part, "cpu_busiest_busy_pct", cpu.get("busy")), "%", 100)
    softirq = _single_core(sampled, part, "softirq_busiest_pct", cpu.get("softirq"))
    yield from here.used("busiest core's softirq", softirq, "%", 100)
    yield from _of_disks(here)


def _of_disks(here: Here) -> Iterator[Resource]:
    """The disks of a machine, all together and the one that has been busy for longest."""
    yield from here.counted("busiest disk", "disk_busiest_ms", "%", 0.1, 100)
    if disks := len(here.sampled.samples.header.disks or ()):
        yield from here.counted("disks busy", "disk_busy_ms", "%", 0.1 / disks, 100)
    yield from here.counted("disk read", "disk_read_bytes", "Mb/s", MEGABITS)


def shares_machine(sampled: Sampled, data: TrialData) -> bool:
    """Whether another sampled host has booted with it: then they share a kernel, and /proc/stat is of both."""
    boots: list[str | None] = [other.samples.header.boot_id for other, *_ in by_host(data.sampled)]
    boot = sampled.samples.header.boot_id
    return boot is not None and boots.count(boot) > 1


def _of_workers_not_sampled(data: TrialData, part: Part) -> Iterator[Resource]:
    """What the clients of a worker report to have moved, where nobody has read its interface."""
    mbps: dict[str, float] = defaultdict(float)
    for job in part.clients:
        if job.mbps and job.host in data.taking_hosts:
            mbps[job.host] += job.mbps * replace(part, clients=[job]).at_work
    for host in sorted(mbps.keys() - {sampled.samples.host for sampled in data.sampled}):
        if ceiling := data.ceilings.nic(host, "worker"):
            source = f"{ceiling.source}; not sampled, the rate is by its clients"
            resource = f"NIC {data.measure.far_direction}"
            yield Resource(host, "worker", resource, mbps[host], "Mb/s", ceiling.mbps, source)


def _of_links(data: TrialData, part: Part, used: list[Resource], storage_mbps: float) -> Iterator[Resource]:
    """The WAN, which is no host's: it carries what leaves the storage's site, or comes to it."""
    if data.storage and (wan := data.ceilings.links.get("wan")):  # to a disk there is none
        resource = f"NIC {data.measure.direction}"
        doors_used = [r for r in used if r.role == "door" and r.on_the_way and data.trial.protocol != MOUNT]
        caches = {cache.host for cache in data.data_caches}  # which may be beside the workers
        crossing = [r for r in doors_used if r.resource == resource and r.value and r.host not in caches]
        together = sum(r.value for r in crossing)
        if len({r.host for r in crossing}) > 1 and together > ONCE * storage_mbps:  # in series
            crossing, together = [], 0.0
        rate = together or storage_mbps
        doors = {r.host for r in crossing}
        across = [nic for nic in data.sampled if nic.samples.host in doors] or data.storage
        _, rates = Counted(across, data.measure.counter).rates(part.begin_ns, part.end_ns)
        finite = rates[np.isfinite(rates)]
        near = float(np.mean(finite >= NEARLY_FULL * wan.mbps)) if len(finite) else 0.0
        yield Resource("", "wan", "link", rate, "Mb/s", wan.mbps, wan.source, near)


def _of_machine(data: TrialData, part: Part) -> Iterator[Resource]:
    """Where hosts share a machine, as on the testbed: how busy that is with all of them."""
    sharing = [sampled for sampled in data.sampled if shares_machine(sampled, data)]
    if sharing and "busy" in (cpu := _cpu(sharing[0], part)):
        yield Resource("", "machine", "CPU", cpu["busy"], "%", 100.0, on_the_way=False)
    if sharing and data.trial.on_disk:
        yield from _of_disks(Here(sharing[0], part, "", "machine", on_the_way=False))


def _of_clients(data: TrialData, part: Part) -> Iterator[Resource]:
    times = [(job.computing_s, job.run_s) for job in part.clients if job.computing_s is not None and job.run_s]
    run_s = sum(run for _, run in times if run)
    if run_s:
        share = 100 * sum(cpu for cpu, _ in times if cpu) / run_s
        cores = data.trial.cores_each
        whose = "one core each" if cores == 1 else "one core for each of its processes"
        yield Resource("", "client", "CPU of a client", share, "%", 100.0 * cores, whose)


# -- means over the part ----------------------------------------------------------------------------------


def per_second(sampled: Sampled, counter: str, part: Part, factor: float = 1.0) -> float | None:
    """How fast a counter rose; None unless known for most of the part."""
    risen = counter_curve(sampled, counter, part.begin_ns)
    rate = risen.rate(0, part.seconds)
    return None if rate is None or risen.covered_s(0, part.seconds) < LEAST_COVERED * part.seconds else factor * rate


def at_ceiling(sampled: Sampled, counter: str, part: Part, ceiling_mbps: float | None) -> float:
    """The share of the part's samples whose rate is near the ceiling."""
    if ceiling_mbps is None:
        return 0.0
    risen = counter_curve(sampled, counter, part.begin_ns)
    rates = risen.rates(risen.times[(risen.times >= 0) & (risen.times <= part.seconds)])  # of whole intervals
    return float(np.mean(rates >= NEARLY_FULL * ceiling_mbps * 1e6 / 8)) if len(rates) else 0.0


def gauge(sampled: Sampled, column: str, part: Part) -> float | None:
    """The mean of what was read at the samples of the part."""
    if column not in sampled.samples.columns:
        return None
    values = sampled.samples.columns[column][_inside(sampled, part)]
    readings = values[values >= 0]
    return float(readings.mean()) if len(readings) else None


def _inside(sampled: Sampled, part: Part) -> NDArray[np.bool_]:
    """Which samples are of the part."""
    times = sampled.samples.time_ns
    return (times >= part.begin_ns) & (times < part.end_ns)


def _single_core(sampled: Sampled, part: Part, column: str, all_pct: float | None) -> float | None:
    """How busy one core was in the mean, at least; its index is sampled only where it is the busiest.

    The mean of whichever core was busiest at each sample is that of one core, or of a thread that moves between cores,
    only where no others did as much: of many that are half busy one is always full by chance.
    """
    most = gauge(sampled, column, part)
    if most is None or all_pct is None:
        return most
    cores = sampled.samples.header.ncpu or 1
    if most >= MOST_OF_WORK * all_pct * cores or "cpu_busiest" not in sampled.samples.columns:
        return most
    if column != "cpu_busiest_busy_pct":
        return all_pct
    core, busy = (sampled.samples.columns[name][_inside(sampled, part)] for name in ("cpu_busiest", column))
    sound = busy >= 0
    own = np.bincount(core[sound], busy[sound]) / max(1, int(sound.sum())) if sound.any() else np.zeros(1)
    return max(all_pct, float(own.max()))


def _cpu(sampled: Sampled, part: Part) -> dict[str, float]:
    """Per cent of all cores' time that were busy, and what of it was softirq's or taken by the hypervisor."""
    rates = {name: per_second(sampled, name, part) or 0.0 for name in (*WORKS, *RESTS)}
    total = sum(rates.values())
    if not total:
        return {}
    return {
        "busy": 100 * sum(rates[name] for name in WORKS) / total,
        "softirq": 100 * rates["cpu_softirq"] / total,
        "steal": 100 * rates["cpu_steal"] / total,
    }
