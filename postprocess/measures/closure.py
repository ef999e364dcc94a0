"""Byte closure: what the storage moved against what the clients did, and what of the rest the trial's own hosts had.

What a trial reads the storage sends, and what it writes the storage receives; the other end are the workers, or in
copies from storage to storage the storage itself (dags/measure.py).

Headers are the measured packets' own, not the MTU's: packets are as large as the path lets them be, and a virtual
interface counts a large one with one header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tierbench.dags.measure import COUNTERS, SENT
from tierbench.postprocess.measures.course import LEAST_S, course
from tierbench.postprocess.measures.idle import MOST_AT_REST_MBPS, idle_rates
from tierbench.postprocess.measures.late import bytes_late, settles
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import BY_NAME, USUAL_BYTES_PER_CLIENT, Evidence

HEADERS = 66  # bytes of Ethernet, IP and TCP with time stamps
LEAST_HEADERS = 54  # without them
IP_AND_TCP = 52
USUAL_MTU = 1500
BELONGS_TO_THE_OTHER = 5.0  # % of what moves one way: acknowledgements and requests
IDLE, MISSING = BY_NAME["idle traffic"], BY_NAME["missing bytes"]


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


def findings(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """What the rules about bytes look at; whose rate is of something else has told no bytes to compare."""
    if data.measure.of != "bytes":
        return
    told, carried = bytes_told(data), moved_around(data)
    if row.mean_mbps is not None:
        yield from _not_compared(data, carried)
    if not told or not data.storage:
        return
    yield from _missing(data, told)
    if data.trial.on_disk:
        yield from _missing_on_disks(data, bytes_once(data) if data.trial.reads_again else told)
    yield from _by_others(data, told)
    if data.measure.far_end == "workers" and carried is not None and settles(data):
        yield from _missing_at_workers(data, told)
    if row.closure is not None:
        yield from _excess(data, row, row.closure, told, carried)


def _not_compared(data: TrialData, carried: Moved | None) -> Iterator[Evidence]:
    """What would have to be known for bytes to be compared."""
    measure = data.measure
    silent = sum(job.ok and job.has_work and not job.bytes_read for job in data.jobs)
    words = f"what the storage {measure.direction} around the window is not known"
    unknown = {f"{silent} clients do not tell how many bytes they {measure.did}": silent, words: carried is None}
    unknown[f"the clients tell that they {measure.did} nothing"] = not (silent or bytes_told(data))
    if data.writes:
        unknown["nobody has looked at what was written"] = not data.looked_at
    if measure.far_end == "storage":
        other_end = together(data, data.far_end, measure.far_direction)
        unknown["what the other end of the copies had is not known"] = other_end is None
    yield from (Evidence("bytes not compared", count, words) for words, count in unknown.items())


def _missing(data: TrialData, told: int) -> Iterator[Evidence]:
    """What the clients tell and the storage did not move; of what was written, also what came late."""
    once = bytes_once(data) if data.trial.reads_again else told
    for who, hosts, direction in _both_ends(data):
        moved_there = together(data, hosts, direction)
        if moved_there is None or not once:
            continue
        payload = moved_there.payload(LEAST_HEADERS)
        words = f"{who} {direction} {mb(payload)} of {mb(once)} that the clients {data.measure.did}"
        words += ", each file counted once" if data.trial.reads_again else ""
        missing = 100 * (1 - payload / once)
        if settles(data):
            yield Evidence("missing bytes", missing, words)
        else:
            words += ", and the rest was in a cache still when the sampling ended"
            yield Evidence("bytes not compared", missing > (MISSING.suspect or 0.0), words)
    late = bytes_late(data)
    if late is not None and settles(data):
        words = f"{mb(late)} of what the clients wrote reached the storage after the last end"
        yield Evidence("written late", 100 * late / told, words)


def _missing_on_disks(data: TrialData, told: int) -> Iterator[Evidence]:
    """What the clients tell and the kernel has fetched from no disk for them: others' reading hides no cache there."""
    counts = [job.end.bytes_disk for job in data.jobs if job.end]
    known = [count for count in counts if count is not None]
    unknown = len(counts) - len(known)
    words = f"what the kernel fetched from a disk for {unknown} clients is not known"
    yield Evidence("bytes not compared", unknown, words)
    if not unknown:
        words = f"the kernel fetched {mb(sum(known))} from disks of {mb(told)} that the clients {data.measure.did}"
        words += ", each file counted once" if data.trial.reads_again else ""
        yield Evidence("missing bytes", 100 * (1 - sum(known) / told), words)


def _by_others(data: TrialData, told: int) -> Iterator[Evidence]:
    """What storage servers moved that have nothing to do with the way."""
    if data.window_ns is None or not data.other_servers:
        return
    begin, end = data.window_ns
    counter, seconds = COUNTERS[data.measure.direction], (end - begin) / 1e9
    moved_there = sum(course(one, counter, begin).rise(0, seconds) for one in data.other_servers)
    hosts = sorted({one.samples.host for one in data.other_servers})
    own = MOST_AT_REST_MBPS * 1e6 / 8 * len(hosts) * seconds
    if data.trial.copied_to in hosts:
        own += BELONGS_TO_THE_OTHER / 100 * told
    beyond = max(0.0, moved_there - own)
    words = f"{data.trial.access} does not lead to {', '.join(hosts)}, of which {mb(moved_there)} were"
    words += f" {data.measure.direction}"
    yield Evidence("other servers", 100 * beyond / told, words)


def bytes_told(data: TrialData) -> int:
    """What all clients together read, wrote or copied, as far as they tell."""
    return sum(job.bytes_read or 0 for job in data.jobs)


def bytes_once(data: TrialData) -> int:
    """The same of each file's first reading: later ones may be served by a cache, where files are read again."""
    return sum(job.bytes_once or 0 for job in data.jobs)


def moved_around(data: TrialData) -> Moved | None:
    """What all the storage servers moved around the window, in the trial's direction."""
    return together(data, data.storage, data.measure.direction)


def _both_ends(data: TrialData) -> Iterator[tuple[str, list[Sampled], str]]:
    """Who must have moved what was told, which way: of copies it is the servers at both ends."""
    measure = data.measure
    yield "the storage" if measure.by == "interfaces" else "the workers' disks", data.storage, measure.direction
    if measure.far_end == "storage":
        who = data.trial.copied_to or "the storage"
        yield who, data.far_end, measure.far_direction


def together(data: TrialData, hosts: list[Sampled], direction: str) -> Moved | None:
    """What went through several hosts' interfaces; None unless each is known."""
    parts = [moved(host, direction, data) for host in hosts]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Moved(sum(part.bytes for part in known), sum(part.packets for part in known))


def moved(sampled: Sampled, direction: str, data: TrialData) -> Moved | None:
    """What a host's interface sent or received around the window, if all of it is known."""
    if data.window_ns is None:
        return None
    begin, end = data.window_ns
    window_s = (end - begin) / 1e9
    counter = data.measure.counters[direction]
    amount = course(sampled, counter, begin)
    first, last = amount.before(0), amount.after(window_s)
    if first < 0 or last >= len(amount):
        return None
    last = min(last + 1, len(amount) - 1) if settles(data) else len(amount) - 1
    times = amount.times[[first, last]]
    if times[1] - times[0] - amount.known_s(times)[0] > LEAST_S:
        return None
    counted = counter.replace("bytes", "packets")
    known = counted != counter and counted in sampled.samples.columns
    return Moved(amount.rise(*times), course(sampled, counted, begin).rise(*times) if known else 0.0)


def usual_excess(data: TrialData, row: TrialRow, told: float) -> tuple[float, str]:
    """Which excess over what was told is explained, as a share of it, and by what."""
    own = data.traits.usual_excess
    own += (USUAL_BYTES_PER_CLIENT * row.jobs + _at_rest(data, row)) / told
    carried = moved_around(data)
    again = _sent_again(data, carried) / told
    if data.measure.by != "interfaces":
        return own, "are usual"
    if carried is not None and carried.packets:
        headers, whose = HEADERS * carried.packets / told, "headers of the packets counted"
    else:
        headers, whose = HEADERS / (_mtu(data) - IP_AND_TCP), "headers by the MTU"
    return own + headers + again, f"are usual, {headers:.1%} of them {whose}, {again:.1%} sent again"


def _excess(data: TrialData, row: TrialRow, closure: float, told: int, carried: Moved | None) -> Iterator[Evidence]:
    share, explained = usual_excess(data, row, told)
    direction, far_direction, did = data.measure.direction, data.measure.far_direction, data.measure.did
    beyond = f"{closure:+.1%} beyond what was {_done(did)}"
    words = f"the storage {direction} {beyond}, of which {share:.1%} {explained}"
    far = _at_far_end(data)
    if far is not None and carried is not None:
        lost = carried.payload(HEADERS) - far.payload(HEADERS) - _sent_again(data, carried) - _at_rest(data, row)
        compared = f"{words}, and the trial's own hosts {far_direction} {mb(far.bytes)} of {mb(carried.bytes)}"
        yield Evidence("excess bytes", 100 * (closure - share), compared)
        if data.measure.far_end == "storage":  # somebody else may be at either end
            lost = max(lost, far.payload(HEADERS) - carried.payload(HEADERS) - _at_rest(data, row))
        whence = "reached" if direction == SENT else "came from"
        elsewhere = f"{mb(max(lost, 0.0))} of what the storage {direction} {whence} none of the trial's own hosts"
        yield Evidence("foreign bytes", 100 * lost / told, elsewhere)
        return
    quiet = max((share for _, _, share in idle_rates(data, row)), default=0.0) <= (IDLE.suspect or 0.0)
    rule = "excess bytes" if quiet and not data.traits.reads_whole else "foreign bytes"
    yield Evidence(rule, 100 * (closure - share), words)


def _done(did: str) -> str:
    return {"wrote": "written"}.get(did, did)


def _at_far_end(data: TrialData) -> Moved | None:
    """What the trial's own hosts had of what the storage moved, at whichever stage of its way that is most.

    A server on the way may have more than the workers, by what it read ahead; others that use it are not told
    apart from it. Workers are a stage if all of those with clients are sampled.
    """
    if not data.far_end:
        return None
    stages = [data.far_end]
    if data.trial.protocol != "file":
        stages += [[s for s in data.sampled if s.samples.role == role] for role in ("door", "gateway")]
    had = [together(data, stage, data.measure.far_direction) for stage in stages]
    if had[0] is None:
        return None
    return max((each for each in had if each is not None), key=lambda each: each.payload(HEADERS))


def _missing_at_workers(data: TrialData, told: int) -> Iterator[Evidence]:
    """Workers that had less on the wire than their clients tell: no other client's excess hides a cache there."""
    for worker in by_host(sampled for sampled in data.sampled if sampled.samples.role == "worker"):
        host = worker[0].samples.host
        cached = data.trial.reads_again and data.trial.protocol == "file"  # by the worker's own mount
        its = sum((job.bytes_once if cached else job.bytes_read) or 0 for job in data.jobs if job.host == host)
        had = together(data, worker, data.measure.far_direction) if its else None
        if had is not None:
            payload = had.payload(LEAST_HEADERS)
            moved_there = f"{data.measure.far_direction} {mb(payload)}"
            words = f"{host} {moved_there} of {mb(its)} that its clients {data.measure.did}"
            yield Evidence("missing at a worker", 100 * (its - payload) / told, words)


def _sent_again(data: TrialData, carried: Moved | None) -> float:
    """Bytes in TCP segments that the storage servers sent again in the window; what they receive comes once."""
    segments = 0.0
    if data.measure.direction != SENT or data.measure.by != "interfaces":
        return segments
    for server, *_ in by_host(data.storage):
        if "tcp_retrans" in server.samples.columns and data.window_ns is not None:
            begin, end = data.window_ns
            segments += course(server, "tcp_retrans", begin, (begin, end)).rise(0, (end - begin) / 1e9)
    mean = carried.bytes / carried.packets if carried is not None and carried.packets else float("inf")
    return segments * min(mean, _mtu(data))


def _at_rest(data: TrialData, row: TrialRow) -> float:
    """Bytes that the storage servers move in the window without clients: as measured, but not much."""
    known = [mbps for mbps in (row.idle_before_mbps, row.idle_after_mbps) if mbps is not None]
    most = MOST_AT_REST_MBPS * len(by_host(data.storage))
    mbps: float = min([most, *known])
    return mbps * 1e6 / 8 * (row.window_s or 0.0)


def _mtu(data: TrialData) -> int:
    """The smallest of the storage servers' interfaces."""
    stated = [(server.samples.header.get("tuning") or {}).get("mtu") for server in data.storage]
    return min((int(mtu) if mtu and int(mtu) > IP_AND_TCP else USUAL_MTU for mtu in stated), default=USUAL_MTU)


def mb(amount: float) -> str:
    return f"{amount / 1e6:.2f} MB"
