"""Byte closure: what the storage sent against what the clients read, and what of the rest the trial's own hosts had.

Headers are the measured packets' own, not the MTU's: packets are as large as the path lets them be, and a virtual
interface counts a large one with one header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tierbench.postprocess.measures.course import LEAST_S, course
from tierbench.postprocess.measures.idle import MOST_AT_REST_MBPS, idle_rates
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.verdict.rules import BY_NAME, USUAL_BYTES_PER_CLIENT, Finding

Row = dict[str, Any]

HEADERS = 66  # bytes of Ethernet, IP and TCP with time stamps
LEAST_HEADERS = 54  # without them
IP_AND_TCP = 52
USUAL_MTU = 1500
IDLE = BY_NAME["idle traffic"]


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


def findings(data: TrialData, row: Row) -> Iterator[Finding]:
    """What the rules about bytes look at."""
    read, sent = bytes_read(data), sent_around(data)
    if row["mean_mbps"] is not None:
        silent = sum(job.ok and not job.bytes_read for job in data.jobs)
        yield Finding("bytes not compared", silent, f"{silent} clients do not tell how many bytes they read")
        words = "what the storage sent around the window is not known"
        yield Finding("bytes not compared", sent is None, words)
    if not read or not data.storage:
        return
    if sent is not None:
        payload = sent.payload(LEAST_HEADERS)
        words = f"the storage sent {mb(payload)} of {mb(read)} that the clients read"
        yield Finding("missing bytes", 100 * (1 - payload / read), words)
        yield from _missing_at_workers(data, read)
    if row["closure"] is not None:
        yield from _excess(data, row, read, sent)


def bytes_read(data: TrialData) -> int:
    """What all clients together read, as far as they tell."""
    return sum(job.bytes_read or 0 for job in data.jobs)


def sent_around(data: TrialData) -> Moved | None:
    """What all the storage servers sent around the window."""
    return together(data, data.storage, "tx")


def together(data: TrialData, hosts: list[Sampled], direction: str) -> Moved | None:
    """What went through several hosts' interfaces; None unless each is known."""
    parts = [moved(host, direction, data) for host in hosts]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return Moved(sum(part.bytes for part in known), sum(part.packets for part in known))


def moved(sampled: Sampled, direction: str, data: TrialData) -> Moved | None:
    """What a host's interface sent (tx) or received (rx) around the window, if all of it is known."""
    if data.window_ns is None:
        return None
    begin, end = data.window_ns
    window_s = (end - begin) / 1e9
    amount = course(sampled, f"{direction}_bytes", begin)
    first, last = amount.before(0), amount.after(window_s)
    if first < 0 or last >= len(amount):
        return None
    times = amount.times[[first, min(last + 1, len(amount) - 1)]]
    if times[1] - times[0] - amount.known_s(times)[0] > LEAST_S:
        return None
    packets = f"{direction}_packets" in sampled.samples.columns
    return Moved(amount.rise(*times), course(sampled, f"{direction}_packets", begin).rise(*times) if packets else 0.0)


def usual_excess(data: TrialData, row: Row, read: float) -> tuple[float, str]:
    """Which excess over what was read is explained, as a share of it, and by what."""
    own = data.traits["usual_excess"]
    own += (USUAL_BYTES_PER_CLIENT * row["jobs"] + _at_rest(data, row)) / read
    sent = sent_around(data)
    again = _sent_again(data, sent) / read
    if sent is not None and sent.packets:
        headers, whose = HEADERS * sent.packets / read, "headers of the packets counted"
    else:
        headers, whose = HEADERS / (_mtu(data) - IP_AND_TCP), "headers by the MTU"
    return own + headers + again, f"are usual, {headers:.1%} of them {whose}, {again:.1%} sent again"


def _excess(data: TrialData, row: Row, read: int, sent: Moved | None) -> Iterator[Finding]:
    share, explained = usual_excess(data, row, read)
    words = f"the storage sent {row['closure']:+.1%} beyond what was read, of which {share:.1%} {explained}"
    received = _received(data)
    if received is not None and sent is not None:
        lost = sent.payload(HEADERS) - received.payload(HEADERS) - _sent_again(data, sent) - _at_rest(data, row)
        told = f"{words}, and the trial's own hosts received {mb(received.bytes)} of {mb(sent.bytes)}"
        yield Finding("excess bytes", 100 * (row["closure"] - share), told)
        elsewhere = f"{mb(max(lost, 0.0))} of what the storage sent reached none of the trial's own hosts"
        yield Finding("foreign bytes", 100 * lost / read, elsewhere)
        return
    quiet = max((share for _, _, share in idle_rates(data, row)), default=0.0) <= (IDLE.suspect or 0.0)
    rule = "excess bytes" if quiet and not data.traits["reads_whole"] else "foreign bytes"
    yield Finding(rule, 100 * (row["closure"] - share), words)


def _received(data: TrialData) -> Moved | None:
    """What the trial's own hosts had of what was sent, by whichever stage of its way had most; None if not known.

    A server on the way may have more than the workers, by what it read ahead; others that read through it are not told
    apart from it. Workers are a stage if all of those with clients are sampled.
    """
    workers = data.reading_workers
    if not workers:
        return None
    stages = [workers]
    if data.trial["protocol"] != "file":
        stages += [[s for s in data.sampled if s.samples.role == role] for role in ("xrootd", "gateway")]
    had = [together(data, stage, "rx") for stage in stages]
    if had[0] is None:
        return None
    return max((each for each in had if each is not None), key=lambda each: each.payload(HEADERS))


def _missing_at_workers(data: TrialData, read: int) -> Iterator[Finding]:
    """Workers that received less than their clients read: there, no other client's excess hides a warm cache."""
    for worker in by_host(sampled for sampled in data.sampled if sampled.samples.role == "worker"):
        host = worker[0].samples.host
        its = sum(job.bytes_read or 0 for job in data.jobs if job.start.get("host") == host)
        received = together(data, worker, "rx") if its else None
        if received is not None:
            payload = received.payload(LEAST_HEADERS)
            words = f"{host} received {mb(payload)} of {mb(its)} that its clients read"
            yield Finding("missing at a worker", 100 * (its - payload) / read, words)


def _sent_again(data: TrialData, sent: Moved | None) -> float:
    """Bytes in TCP segments that the storage servers sent again in the window."""
    segments = 0.0
    for server, *_ in by_host(data.storage):
        if "tcp_retrans" in server.samples.columns and data.window_ns is not None:
            begin, end = data.window_ns
            segments += course(server, "tcp_retrans", begin, (begin, end)).rise(0, (end - begin) / 1e9)
    mean = sent.bytes / sent.packets if sent is not None and sent.packets else float("inf")
    return segments * min(mean, _mtu(data))


def _at_rest(data: TrialData, row: Row) -> float:
    """Bytes that the storage servers send in the window without clients: as measured, but not much."""
    known = [mbps for mbps in (row["idle_before_mbps"], row["idle_after_mbps"]) if mbps is not None]
    most = MOST_AT_REST_MBPS * len(by_host(data.storage))
    mbps: float = min([most, *known])
    return mbps * 1e6 / 8 * (row["window_s"] or 0.0)


def _mtu(data: TrialData) -> int:
    """The smallest of the storage servers' interfaces."""
    stated = [(server.samples.header.get("tuning") or {}).get("mtu") for server in data.storage]
    return min((int(mtu) if mtu and int(mtu) > IP_AND_TCP else USUAL_MTU for mtu in stated), default=USUAL_MTU)


def mb(amount: float) -> str:
    return f"{amount / 1e6:.2f} MB"
