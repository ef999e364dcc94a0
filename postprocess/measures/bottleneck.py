"""Names what limited a trial, from the use of each resource on its path; docs/bottlenecks.md argues the rules.

Something is full when its use is at its ceiling. Of several full ones the fullest is named first, then the others.
Where nothing is full, it may be TCP's windows, or latency (latency.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tierbench.postprocess.measures.latency import Clients, clients_of, why_latency, why_not_latency
from tierbench.postprocess.measures.resources import CARRIES, ONCE, SHARED, WINDOWS, Part, Resource, part_of, resources
from tierbench.postprocess.records.ceilings import Ceiling
from tierbench.postprocess.records.trial import TrialData, by_host
from tierbench.postprocess.schema.rows import Limit, ResourceRow
from tierbench.postprocess.wording import listed

# The thresholds: shares of a ceiling.
LINK_FULL = 0.90  # mean rate: headers, and the gaps between requests, take the rest
LINK_OFTEN_FULL = (0.75, 0.5)  # or so much in the mean, with so many of the samples near the ceiling
CPU_FULL = 0.90
CPU_THROTTLED = (0.60, 0.25)  # or so much of a quota, held back by it for so many seconds in a second
CORE_FULL = 0.95  # the busiest core: a server's one thread, or the core that takes a card's interrupts
SOFTIRQ_FULL = 0.80  # of one core
DISK_FULL = 0.90
STOLEN_SHOWN = 5.0  # % of all cores' time
SHORT_PART = (0.5, 0.75)  # of a window, and the efficiency over it, below which a full link of the part explains little
WINDOWS_FULL = 0.75  # of the flows by which a server sends
QUEUED, QUEUED_MS = 1.5, 1.0  # so many times the round trip at rest, and more, is a queue that flows stand in
CLIENT_FULL = 0.80  # CPU time over run time: such a job is called CPU-bound
MACHINE_FULL = 0.95  # of a machine that several hosts share
MOST_OF_MACHINE = 0.5
SENDS = 0.2  # of what a host moves one way: an interface that moves less is not one of those by which data go

STORAGE, WAN, LATENCY, CLIENT, UNEXPLAINED = "storage", "WAN link", "latency", "client's own CPU", "unexplained"
WINDOW = "TCP window"
NIC = {"storage": STORAGE, "gateway": "gateway NIC", "door": "door NIC", "worker": "worker NIC"}
CPU = {"storage": STORAGE, "gateway": "gateway CPU", "door": "door CPU", "worker": "worker CPU"}
LABELS = tuple(dict.fromkeys((*NIC.values(), *CPU.values(), WAN, WINDOW, LATENCY, CLIENT, UNEXPLAINED)))
DISKS, LEAST_TRIP = ("busiest disk", "disks busy"), "TCP round trip, the least"
WHO = {"storage": "storage server", "gateway": "gateway", "door": "door", "worker": "workers"}


@dataclass(frozen=True)
class Candidate:
    """A resource with its label, how full it is, and that in words; full if it is at its ceiling.

    A weak one is named first only where no other is full: busy disks may do more at a time, and a busy worker's
    processors may be others' work.
    """

    label: str
    use: float
    words: str
    full: bool
    weak: bool = False


def limit_of(data: TrialData, delivered_mbps: float | None) -> Limit:
    part = part_of(data)
    used = resources(data, part) if part else []
    lowest = min(_ceilings(data, used), key=lambda pair: pair[1].mbps, default=None)
    limit = Limit(bottleneck=UNEXPLAINED, bottleneck_evidence="there are no samples of its window")
    if lowest:
        whose, ceiling = lowest
        alone = data.trial.start.in_turn  # what all take in turn is no rate that a ceiling limits
        efficiency = None if delivered_mbps is None or alone else delivered_mbps / ceiling.mbps
        source = f"{whose}, {ceiling.source}"
        limit = replace(limit, ceiling_mbps=ceiling.mbps, ceiling_from=source, efficiency=efficiency)
    if part is None or not data.storage:
        return limit
    clients = clients_of(data, part, used, _storage_mbps(data, used))
    label, words = explain(used, clients, not_known(data, part, used), without_ceiling(data, used))
    window_s = data.window_s or part.seconds
    where = f"{part.words}, {part.seconds:.1f} s"
    share, least = SHORT_PART
    if label in (*NIC.values(), WAN) and part.seconds < share * window_s and (limit.efficiency or 1.0) < least:
        label, where = UNEXPLAINED, f"no limit is that of the whole window of {window_s:.1f} s; {where} of it"
    return replace(limit, bottleneck=label, bottleneck_evidence=f"{where}: {words}")


def resource_rows(data: TrialData, leading: Mapping[str, Any]) -> Iterator[ResourceRow]:
    part = part_of(data)
    for r in resources(data, part) if part else ():
        own = {name: value for name, value in vars(r).items() if name not in ("source", "at_ceiling", "on_the_way")}
        on_the_way = "yes" if r.on_the_way else "no"
        yield ResourceRow(**leading, **own, utilisation=r.utilisation, ceiling_from=r.source, on_the_way=on_the_way)


def not_known(data: TrialData, part: Part, used: Sequence[Resource]) -> list[str]:
    """The hosts that may be on the way, were to be sampled, and of which nothing is known."""
    measured = {r.host for r in used if r.resource.startswith("NIC ")}
    roles = {host: role for host, role in data.trial.roles.items() if role in ("gateway", "door") or host in part.hosts}
    return [f"{role} {host}" for host, role in roles.items() if host not in measured]


def without_ceiling(data: TrialData, used: Sequence[Resource]) -> list[str]:
    """What all bytes go through, and may be full, as nobody knows what it can carry."""
    nics = [r for r in used if (r.role, r.resource) == ("storage", f"NIC {data.measure.direction}") and r.on_the_way]
    has_wan = "wan" in data.ceilings.links or not data.ceilings.over_wan or data.cached
    return [*sorted({f"storage {r.host}" for r in nics if not r.ceiling}), *([] if has_wan else ["the WAN link"])]


def explain(
    used: Sequence[Resource], clients: Clients, unknown: Sequence[str] = (), no_ceiling: Sequence[str] = ()
) -> tuple[str, str]:
    candidates = sorted(_candidates(used, clients), key=lambda candidate: candidate.use, reverse=True)
    full = sorted((candidate for candidate in candidates if candidate.full), key=lambda candidate: candidate.weak)
    sent_again = list(_sent_again(used))
    if full:
        words = [full[0].words, *(f"also full: {other.words}" for other in full[1:])]
        others = [candidate for candidate in candidates if not candidate.full][:2]
        words += [f"next: {other.words}" for other in others]
        return full[0].label, "; ".join([*words, *sent_again])
    busiest = "; ".join(candidate.words for candidate in candidates[:3]) or "no ceiling is known"
    windows, queue = _windows(used), _queue(used, clients)
    if windows and windows.full and not queue:
        return WINDOW, "; ".join([windows.words, f"busiest: {busiest}", *sent_again])
    sent_again = [*([windows.words] if windows else []), *sent_again]
    # A full machine that hosts share, where none of them is to blame more than the others.
    cores = [r.value for r in used if r.resource == "CPU" and r.unit == "cores"]
    shared = [
        f"the machine that all hosts share is {r.value:.0f} % busy, {sum(cores):.2f} cores of it by sampled hosts"
        for r in used
        if (r.role, r.resource) == ("machine", "CPU") and (r.utilisation or 0) >= MACHINE_FULL
    ]
    disks = [
        f"a disk of the machine that all hosts share is {r.value:.0f} % busy"
        for r in used
        if r.role == "machine" and r.resource in DISKS and (r.utilisation or 0) >= DISK_FULL
    ][:1]
    waiting = why_latency((candidate.use for candidate in candidates), clients)
    # Or one of those may be what is full, and a machine without its hosts' own CPU may be full of any of them.
    if waiting and not (unknown or no_ceiling or queue or (shared and not cores)):
        return LATENCY, "; ".join([waiting, f"busiest: {busiest}", *sent_again])
    missing = [f"the samples of {listed(unknown)} are missing or not whole"] if unknown else []
    missing += [f"no ceiling is known of {listed(no_ceiling)} ([links] of the site's file)"] if no_ceiling else []
    reasons = ["nothing that is known of is full", *missing, *queue, busiest]
    reasons += [*shared, *disks, *why_not_latency(clients), *sent_again]
    return UNEXPLAINED, "; ".join(reasons)


def _candidates(used: Sequence[Resource], clients: Clients) -> Iterator[Candidate]:
    used = [r for r in used if r.on_the_way or r.role == "machine"]
    cpu_bound = clients.cpu_efficiency is not None and clients.cpu_efficiency >= CLIENT_FULL
    for role in ("storage", "gateway", "door", "worker"):
        of_role = [r for r in used if r.role == role]
        yield from _nic(role, of_role)
        # Where the clients themselves keep a core busy each, a worker full of them is no cause of its own.
        if not (role == "worker" and cpu_bound):
            yield from _cpu(role, of_role)
    for r in used:
        if r.role == "wan" and r.utilisation is not None:
            words = (
                f"the WAN link carried {r.value:.1f} of {r.ceiling:.1f} Mb/s ({_percent(r.utilisation)}), {r.source}"
            )
            yield _link(WAN, r.utilisation, r.at_ceiling, words)
        if r.role == "client" and r.utilisation is not None:
            cores = "a core" if r.ceiling == 100 else f"{(r.ceiling or 0) / 100:g} cores"
            words = f"the clients used {_percent(r.utilisation)} of {cores} each"
            yield Candidate(CLIENT, r.utilisation, words, r.utilisation >= CLIENT_FULL)
    yield from _machine(used, cpu_bound)


def _nic(role: str, used: Iterable[Resource]) -> Iterator[Candidate]:
    uses = {}
    for direction in ("NIC sent", "NIC received"):
        of_role = [r for r in used if r.resource == direction]
        busy = _busy(of_role) if role == "worker" else of_role
        fullest = _fullest(role, [r for r in busy if r.ceiling])
        if fullest:
            rate, most = sum(r.value for r in fullest), sum(r.ceiling or 0 for r in fullest)
            often = sum(r.at_ceiling for r in fullest) / len(fullest)
            uses[direction] = (rate / most, rate, most, often, fullest)
    if not uses:
        return
    direction, (use, rate, most, often, fullest) = max(uses.items(), key=lambda each: each[1][0])
    moved = f"{direction.removeprefix('NIC ')} {rate:.1f} of {most:.1f} Mb/s ({_percent(use)})"
    beside = sum(r.resource == direction for r in used) - len(fullest)
    which = f" {fullest[0].interface}" if beside and len(fullest) == 1 and fullest[0].interface else ""
    among = f", one of {beside + 1} interfaces" if beside else ""
    yield _link(NIC[role], use, often, f"{_hosts(role, fullest)}{which} {moved}, {fullest[0].source}{among}")


def _busy(nics: Sequence[Resource]) -> Sequence[Resource]:
    """Without those by which next to nothing of what their host moves goes: idle ones would hide a full one."""
    of_host: dict[str, float] = defaultdict(float)
    for nic in nics:
        of_host[nic.host] += nic.value
    return [nic for nic in nics if nic.value >= SENDS * of_host[nic.host]]


def _link(label: str, use: float, often: float, words: str) -> Candidate:
    """A link, which is full in the mean or in bursts."""
    share, samples = LINK_OFTEN_FULL
    in_bursts = share <= use < LINK_FULL and often >= samples
    words += f", in {_percent(often)} of the samples at the ceiling" if in_bursts else ""
    return Candidate(label, use, words, use >= LINK_FULL or in_bursts)


def _fullest(role: str, used: Sequence[Resource]) -> Sequence[Resource]:
    """Those of a role that count.

    Of workers it is all, since one slow one among many does not limit the batch; of servers and their interfaces the
    fullest: who waits for it waits, whatever the others could still do.
    """
    return used if role == "worker" else sorted(used, key=lambda r: r.utilisation or 0.0)[-1:]


def _cpu(role: str, used: Iterable[Resource]) -> Iterator[Candidate]:
    """A role's processors and disks; the fullest kind of use is named."""
    thresholds = {
        "CPU": CPU_FULL,
        "busiest core": CORE_FULL if role != "worker" else None,  # a worker's busiest core is a client's
        "busiest core's softirq": SOFTIRQ_FULL,
        **dict.fromkeys(DISKS, DISK_FULL if role == "storage" else None),
    }
    candidates = []
    for name, threshold in thresholds.items():
        fullest = _fullest(role, [r for r in used if r.resource == name and r.ceiling])
        if fullest and threshold:
            own = [r for r in used if role == "worker" or r.host == fullest[0].host]
            value, most = sum(r.value for r in fullest), sum(r.ceiling or 0 for r in fullest)
            use, is_full = value / most, value / most >= threshold
            if fullest[0].unit == "cores":
                throttled_s = sum(r.value for r in own if r.resource == "CPU throttled") / len(fullest)
                is_full = is_full or (use >= CPU_THROTTLED[0] and throttled_s >= CPU_THROTTLED[1])
                seconds = f", held back for {throttled_s:.2f} s a second" if throttled_s >= 0.01 else ""
                amount = f"{name} {value:.2f} of {most:g} cores, {fullest[0].source} ({_percent(use)}{seconds})"
            else:
                amount = f"{name}{', all cores' if name == 'CPU' else ''} {_percent(use)}"
            stolen = max((r.value for r in own if r.resource == "CPU stolen"), default=0.0)
            words = f"{_hosts(role, fullest)}: {amount}"
            words += f", {stolen:.0f} % stolen by the hypervisor" if stolen >= STOLEN_SHOWN else ""
            weak = name in DISKS or (role == "worker" and fullest[0].unit == "%")
            candidates.append((use / threshold, Candidate(CPU[role], use, words, is_full, weak)))
    if candidates:
        yield max(candidates, key=lambda pair: (pair[1].full, not (pair[1].full and pair[1].weak), pair[0]))[1]


def _machine(used: Sequence[Resource], cpu_bound: bool) -> Iterator[Candidate]:
    """Where hosts share a machine and it is full: the role that uses most of it, if one does."""
    machine = next((r for r in used if (r.role, r.resource) == ("machine", "CPU")), None)
    if machine is None or (machine.utilisation or 0) < MACHINE_FULL:
        return
    by_role = {  # a virtual machine has processors of its own, of which it says a share
        role: sum(r.value for r in used if (r.role, r.resource, r.unit) == (role, "CPU", "cores")) for role in CPU
    }
    role, cores = max(by_role.items(), key=lambda pair: pair[1])
    most = next((r.ceiling or 0.0 for r in used if r.resource == "CPU" and r.source == SHARED), 0.0)
    if most and cores >= MOST_OF_MACHINE * most:
        use = machine.utilisation or 0.0
        words = (
            f"the machine that all hosts share is {_percent(use)} busy, {cores:.2f} cores of it with the {WHO[role]}"
        )
        yield Candidate(CLIENT if role == "worker" and cpu_bound else CPU[role], use, words, True)


def _queue(used: Sequence[Resource], clients: Clients) -> list[str]:
    """In words, whose flows have stood in a queue since they began: somewhere a link is full."""
    rest_ms = clients.each[0].rtt_ms if len(clients.each) == 1 else None
    return [
        f"flows of {r.host} stand in a queue: their least round trip is {r.value:.1f} ms, {rest_ms:.1f} ms at rest"
        for r in used
        if r.resource == LEAST_TRIP and r.on_the_way and rest_ms and r.value > QUEUED * rest_ms + QUEUED_MS
    ]


def _windows(used: Sequence[Resource]) -> Candidate | None:
    """The flows of who sends most of what it does by TCP, and how many fill their windows; of workers the least."""
    candidates: dict[str, list[Candidate]] = {}
    for windows in (r for r in used if r.resource == WINDOWS and r.on_the_way and r.role in WHO and r.ceiling):
        of_host = {r.resource: r.value for r in used if r.host == windows.host}
        sent = sum(r.value for r in used if (r.host, r.resource) == (windows.host, "NIC sent"))
        flows_mbps = of_host["TCP flows sent"]
        if flows_mbps < CARRIES * sent:  # connections that end within a second are not seen
            continue
        size, kind = min(
            (of_host[kind], kind) for kind in ("TCP congestion window", "TCP receiver's window") if kind in of_host
        )
        words = (
            f"{windows.value:.1f} of {windows.ceiling:.1f} TCP flows by which {_hosts(windows.role, [windows])} sends"
            f" fill their window ({flows_mbps / (windows.ceiling or 1):.1f} Mb/s each; in the median the"
            f" {kind.removeprefix('TCP ')} is {size:.0f} KiB, the least round trip"
            f" {of_host[LEAST_TRIP]:.1f} ms)"
        )
        use = windows.utilisation or 0.0
        candidates.setdefault(windows.role, []).append(Candidate(WINDOW, use, words, use >= WINDOWS_FULL))
    of_roles = [
        (min if role == "worker" else max)(of, key=lambda candidate: candidate.use) for role, of in candidates.items()
    ]
    return max(of_roles, key=lambda candidate: candidate.use, default=None)


def _ceilings(data: TrialData, used: Sequence[Resource]) -> Iterator[tuple[str, Ceiling]]:
    """Each known ceiling on the trial's path, in words whose it is."""
    cards = {nics[0].samples.host: [nic.samples.card for nic in nics] for nics in by_host(data.sampled)}

    def nics(host: str, role: str, busy: Iterable[Resource] = ()) -> list[Ceiling | None]:
        """The ceilings of a host's interfaces, or of these; of one that is not sampled, as of one interface."""
        interfaces = {r.interface for r in busy if r.host == host} - {""}
        of_host = [card for card in cards.get(host, [None]) if not interfaces or (card and card.name in interfaces)]
        return [data.ceilings.nic(host, role, card) for card in of_host]

    if "wan" in data.ceilings.links and not data.cached:
        yield "WAN link", data.ceilings.links["wan"]
    for role in () if data.cached else ("storage", "gateway", "door"):  # somewhere there is a cache
        hosts = {r.host for r in used if r.role == role and r.on_the_way}
        if not hosts and role == "storage" and role in data.ceilings.links:
            yield WHO[role], data.ceilings.links[role]
        sent = [r for r in used if r.host in hosts and r.resource == "NIC sent"]
        busy = _busy(sent) if role != "storage" else ()  # the other side of a gateway sends acknowledgements
        to = {data.trial.copied_to} & hosts if role == "storage" else set()  # by which all goes that the others send
        each = [nics(host, role, busy) for host in sorted(hosts - to)]
        are_beside = sum(r.value for r in sent) <= ONCE * _storage_mbps(data, used)
        if role == "storage" or are_beside:  # what one does not carry another can
            each = [[nic for server in each for nic in server]]
        each += [nics(str(host), role) for host in to]
        if limits := [_side_by_side(host) for host in each if host and all(host)]:
            yield WHO[role], min(limits, key=lambda ceiling: ceiling.mbps)
    workers, direction = data.taking_hosts, f"NIC {data.measure.far_direction}"
    busy = _busy([r for r in used if r.resource == direction and r.host in workers])
    each = [nics(host, "worker", busy) for host in sorted(workers)]
    if each and all(all(host) for host in each):
        yield f"{len(each)} workers' interfaces", _side_by_side([nic for host in each for nic in host])


def _storage_mbps(data: TrialData, used: Sequence[Resource]) -> float:
    """What the storage servers sent, or received, in Mb/s."""
    return sum(r.value for r in used if (r.role, r.resource) == ("storage", f"NIC {data.measure.direction}"))


def _side_by_side(nics: Sequence[Ceiling | None]) -> Ceiling:
    ceilings = [nic for nic in nics if nic]
    return Ceiling(sum(nic.mbps for nic in ceilings), ceilings[0].source)


def _sent_again(used: Iterable[Resource]) -> Iterator[str]:
    servers = [r for r in used if r.role == "storage" and r.resource == "TCP segments sent again"]
    for r in servers:
        if r.value >= 0.1:
            whose = f"{r.host}'s" if len(servers) > 1 else "the storage server's"
            yield f"{r.value:.1f} % of {whose} TCP segments were sent again"


def _hosts(role: str, used: Sequence[Resource]) -> str:
    return f"{WHO[role]} {used[0].host}" if len(used) == 1 else f"{len(used)} {WHO[role]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
