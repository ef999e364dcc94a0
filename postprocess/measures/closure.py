"""Byte closure: what the storage moved against what the clients did, and what of the rest the trial's own hosts had.

What a trial reads the storage sends, and what it writes the storage receives; the other end are the workers, or in
copies from storage to storage the storage itself (dags/measure.py).

Headers are the measured packets' own, not the MTU's: packets are as large as the path lets them be, and a virtual
interface counts a large one with one header.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tierbench.dags.measure import SENT
from tierbench.postprocess.measures.traffic import MOST_AT_REST_MBPS, counter_curve
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow

HEADERS = 66  # bytes of Ethernet, IP and TCP with time stamps
LEAST_HEADERS = 54  # without them
IP_AND_TCP = 52
USUAL_MTU = 1500
BELONGS_TO_THE_OTHER = 5.0  # % of what moves one way: acknowledgements and requests
USUAL_BYTES_PER_CLIENT = 65_536  # connecting and opening, however small the file


@dataclass(frozen=True)
class Moved:
    """What went through an interface one way, from the last sample before the window to the second one after it.

    A sampling interval at an edge counts whole, so nothing that was moved for the clients is left out; one more,
    because a driver may count late.
    """

    bytes: float
    packets: float  # 0 where they are not counted

    def payload(self, headers: int) -> float:
        return self.bytes - headers * self.packets


def bytes_reported(data: TrialData) -> int:
    """What all clients together read, wrote or copied, as far as they report."""
    return sum(job.bytes_read or 0 for job in data.jobs)


def bytes_once(data: TrialData) -> int:
    """The same of each file's first reading: later ones may be served by a cache, where files are read again."""
    return sum(job.bytes_once or 0 for job in data.jobs)


def moved_around(data: TrialData) -> Moved | None:
    """What all the storage servers moved around the window, in the trial's direction."""
    return together(data, data.storage, data.measure.direction)


def both_ends(data: TrialData) -> Iterator[tuple[str, list[Sampled], str]]:
    """Who must have moved what was reported, which way: of copies it is the servers at both ends."""
    measure = data.measure
    yield "the storage" if measure.by == "interfaces" else "the workers' disks", data.storage, measure.direction
    if measure.far_end == "storage":
        who = data.trial.copied_to or "the storage"
        yield who, data.far_end, measure.far_direction


def together(data: TrialData, hosts: list[Sampled], direction: str) -> Moved | None:
    """What went through several hosts' interfaces; None unless each is known."""
    parts = [part for host in hosts if (part := moved_through(host, direction, data)) is not None]
    if not parts or len(parts) < len(hosts):
        return None
    return Moved(sum(part.bytes for part in parts), sum(part.packets for part in parts))


def moved_through(sampled: Sampled, direction: str, data: TrialData) -> Moved | None:
    """What a host's interface sent or received around the window, if all of it is known."""
    if data.window_ns is None:
        return None
    begin, counter = data.window_ns[0], data.measure.counters[direction]
    amount = counter_curve(sampled, counter, begin)
    first, last = amount.before(0), amount.after(data.window_s)
    if first < 0 or last >= len(amount):
        return None
    last = min(last + 1, len(amount) - 1) if data.trial.declared.settles else len(amount) - 1
    rise, packets = amount.known_rise(first, last), counter_curve(sampled, counter.replace("bytes", "packets"), begin)
    return None if rise is None else Moved(rise, packets.rise(*amount.times[[first, last]]))


def usual_excess(data: TrialData, row: TrialRow, reported: float) -> tuple[float, str]:
    """Which excess over what was reported is explained, as a share of it, and by what."""
    own = data.trial.declared.usual_excess
    own += (USUAL_BYTES_PER_CLIENT * row.jobs + at_rest(data, row)) / reported
    carried = moved_around(data)
    again = sent_again(data, carried) / reported
    if data.measure.by != "interfaces":
        return own, "are usual"
    if carried is not None and carried.packets:
        headers, whose = HEADERS * carried.packets / reported, "headers of the packets counted"
    else:
        headers, whose = HEADERS / (_mtu(data) - IP_AND_TCP), "headers by the MTU"
    return own + headers + again, f"are usual, {headers:.1%} of them {whose}, {again:.1%} sent again"


def at_far_end(data: TrialData) -> Moved | None:
    """What the trial's own hosts had of what the storage moved, at whichever stage of its way that is most.

    A server on the way may have more than the workers: what it read ahead, and what it sent to others.
    Workers are a stage if all of those with clients are sampled, and caches did not serve them.
    """
    workers, *servers = (
        together(data, stage, data.measure.far_direction) for stage in (data.far_end, *servers_on(data))
    )
    if workers is None:
        return None
    near, stages = moved_around(data), [server for server in servers if server is not None]
    if not (stages and data.cached and near and workers.payload(HEADERS) > near.payload(HEADERS)):
        stages.append(workers)
    return max(stages, key=lambda stage: stage.payload(HEADERS))


def servers_on(data: TrialData) -> list[list[Sampled]]:
    """The doors, and the gateways, that the bytes of a trial may go through; a mount needs none but those of `path`."""
    may = [host for host in data.sampled if data.trial.protocol != "file" or host.samples.host in data.trial.path]
    return [[host for host in may if host.samples.role == role] for role in ("door", "gateway")]


def sent_again(data: TrialData, carried: Moved | None, servers: list[Sampled] | None = None) -> float:
    """Bytes in TCP segments that the storage, or others, sent again in the window; what they receive comes once."""
    if data.measure.direction != SENT or data.measure.by != "interfaces" or data.window_ns is None:
        return 0.0
    curves = [
        counter_curve(server, "tcp_retrans", data.window_ns[0])
        for server, *_ in by_host(data.storage if servers is None else servers)
    ]
    segments = sum(curve.rise(0, data.window_s) for curve in curves)
    mean = carried.bytes / carried.packets if carried is not None and carried.packets else float("inf")
    return segments * min(mean, _mtu(data))


def at_rest(data: TrialData, row: TrialRow) -> float:
    """Bytes that the storage servers move in the window without clients: as measured, but not much."""
    measured = [mbps for mbps in (row.idle_before_mbps, row.idle_after_mbps) if mbps is not None]
    mbps: float = min([MOST_AT_REST_MBPS * len(by_host(data.storage)), *measured])
    return mbps * 1e6 / 8 * (row.window_s or 0.0)


def _mtu(data: TrialData) -> int:
    """The smallest of the storage servers' interfaces."""
    stated = [(server.samples.header.tuning or {}).get("mtu") or "" for server in data.storage]
    known = [int(mtu[:9]) if mtu.isdecimal() else 0 for mtu in stated]
    return min((mtu if mtu > IP_AND_TCP else USUAL_MTU for mtu in known), default=USUAL_MTU)


def mb(amount: float) -> str:
    return f"{amount / 1e6:.2f} MB"
