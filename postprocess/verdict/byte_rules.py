"""Rules about bytes: what was read has come over the wire, nobody else used the storage, and nothing stood still."""

import math
from collections import Counter
from collections.abc import Iterable

from tierbench.dags.measure import COUNTERS, RECEIVED, SENT
from tierbench.postprocess.measures.closure import (
    BELONGS_TO_THE_OTHER,
    HEADERS,
    LEAST_HEADERS,
    USUAL_MTU,
    at_far_end,
    at_rest,
    both_ends,
    bytes_once,
    bytes_reported,
    mb,
    moved_around,
    sent_again,
    servers_on,
    together,
    usual_excess,
)
from tierbench.postprocess.measures.resources import RESTS, SERVERS, WORKS, shares_machine
from tierbench.postprocess.measures.server_reports import software_caches
from tierbench.postprocess.measures.stalls import longest_at_an_edge, stalled
from tierbench.postprocess.measures.traffic import (
    Counted,
    at_rest_bytes,
    bytes_late,
    counter_curve,
    idle_rates,
    without_clients,
)
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Limits, Measured, bytes_rule, of_window, worst_rule
from tierbench.postprocess.wording import enumerated

ON_THE_PATH = 0.5  # of what the storage moved: a door that carries less is not the trial's
BUSIEST = "disk_busiest_ms"
WHOLE = 0.9  # and who carried this much, all of it


@bytes_rule(
    Limits("% of what was read", suspect=0.2, invalid=2),  # 0.2 % for drivers that count late
    remedy="a cache was warm, or has what was written, or another interface carries the data: see the flush reports,"
    " the client's fsync and the sampler's interface",
)
def missing_bytes(data: TrialData, row: TrialRow) -> Measured:
    """Bytes that clients read and the storage servers did not send, by whole sampling intervals around the window."""
    if data.trial.declared.settles:
        yield from _missing_at_ends(data)
    counts = _from_disks(data)
    fetched = [count for count in counts if count is not None]
    if counts and len(fetched) == len(counts):  # others' reading hides no cache there
        yield from _missing(data, "the kernel fetched", sum(fetched), " from disks")


def _missing_at_ends(data: TrialData) -> Measured:
    """What the clients report and who must have moved it did not."""
    for who, hosts, direction in both_ends(data) if data.storage else ():
        if (moved := together(data, hosts, direction)) is not None:
            yield from _missing(data, f"{who} {direction}", moved.payload(LEAST_HEADERS))


def _missing(data: TrialData, who: str, payload: float, whence: str = "") -> Measured:
    """How much less than what must have been moved: where files are read again, their first reading."""
    again = data.trial.reads_again
    if data.is_warm:  # nothing must
        return
    if once := bytes_once(data) if again else bytes_reported(data):
        words = f"{who} {mb(payload)}{whence} of {mb(once)} that the clients {data.measure.did}"
        yield 100 * (1 - payload / once), words + (", each file counted once" if again else "")


def _from_disks(data: TrialData) -> list[int | None]:
    """What the kernel fetched from disks for each client, where the workers' disks are the storage."""
    if not data.trial.on_disk or not data.storage or not bytes_reported(data):
        return []
    return [job.end.bytes_disk for job in data.jobs if job.end]


@bytes_rule(
    Limits("% of what all read", suspect=0.2),
    remedy="a cache of that worker was warm, or another interface of it carries the data: see the flush reports",
)
def missing_at_a_worker(data: TrialData, row: TrialRow) -> Measured:
    """What the clients of one worker read and its interface did not receive."""
    read = bytes_reported(data)
    if not read or data.measure.far_end != "workers" or moved_around(data) is None or not data.trial.declared.settles:
        return
    cached = data.trial.reads_again and data.trial.protocol == "file"  # by the worker's own mount
    of_clients: Counter[str] = Counter()
    for job in data.jobs:
        of_clients[job.host] += (job.bytes_once if cached else job.bytes_read) or 0
    for worker in by_host(sampled for sampled in data.sampled if sampled.samples.role == "worker"):
        host = worker[0].samples.host
        its = of_clients[host]
        moved = together(data, worker, data.measure.far_direction) if its else None
        if moved is not None:
            payload = moved.payload(LEAST_HEADERS)
            words = f"{host} {data.measure.far_direction} {mb(payload)} of {mb(its)} that its clients"
            yield 100 * (its - payload) / read, f"{words} {data.measure.did}"


@bytes_rule(
    Limits("% of what was read", suspect=2),  # by reading in parts it can be a third without any fault
    remedy="the access method reads ahead what is not used, or data were sent twice after a connection or a server"
    " broke, or another run was at work: see the servers' logs, repeat and compare",
)
def excess_bytes(data: TrialData, row: TrialRow) -> Measured:
    """Bytes sent beyond the usual excess (below) that the trial's own hosts received, or whose receiver is unknown;
    through a cache of the data, beyond what that took in, too."""
    near, far = moved_around(data), at_far_end(data)
    fetched, read = [cache.fetched for cache in data.data_caches], bytes_reported(data)
    for excess, words in _excess(data, row):
        if near and far and fetched:  # caches fetch whole blocks: that is what is measured
            if None not in fetched:
                in_caches = sum(filter(None, fetched))
                beyond = excess - 100 * max(0.0, in_caches / read - 1)
                yield beyond, f"{words}, and its caches hold {mb(in_caches)} more than before"
        elif near and far:
            hosts = f"the trial's own hosts {data.measure.far_direction} {mb(far.bytes)} of {mb(near.bytes)}"
            yield excess, f"{words}, and {hosts}"
        elif not _is_background(data, row):
            yield excess, words


@bytes_rule(
    Limits("% of what was read", suspect=2, invalid=20),
    remedy="somebody else uses the storage, or much was sent again: see tcp_retrans_per_s and repeat when it is quiet",
)
def background_bytes(data: TrialData, row: TrialRow) -> Measured:
    """What the storage servers, a cache of the data or a door that `path` names sent and none of the trial's own hosts
    received; where workers are not sampled, the excess of clients that read files from end to end, or beside background
    traffic."""
    near, far = moved_around(data), at_far_end(data)
    for excess, words in _excess(data, row):
        if near and far:
            resting = at_rest(data, row)
            lost = near.payload(HEADERS) - far.payload(HEADERS) - sent_again(data, near) - resting
            if data.measure.far_end == "storage":  # somebody else may be at either end
                lost = max(lost, far.payload(HEADERS) - near.payload(HEADERS) - resting)
            lost = max(lost, _passed_to_others(data) - resting)
            whence = "reached" if data.measure.direction == SENT else "came from"
            elsewhere = f"{mb(max(lost, 0.0))} of what the storage {data.measure.direction} {whence}"
            yield 100 * lost / bytes_reported(data), f"{elsewhere} none of the trial's own hosts"
        elif _is_background(data, row):
            yield excess, words


def _passed_to_others(data: TrialData) -> float:
    """What caches that clients read through, or doors that the way names, sent beyond what the workers received.

    As far as both are sampled; of doors no more than what the storage sent beyond that: the rest was in their memory.
    What caches behind a door receive, in whole blocks, is the trial's own.
    """
    near, received = moved_around(data), together(data, data.far_end, data.measure.far_direction)
    if data.measure.direction != SENT or data.measure.far_end != "workers" or not near or not received:
        return 0.0
    by_workers = received.payload(HEADERS)
    caches, by_caches, beyond = {cache.host for cache in data.data_caches}, 0.0, [0.0]
    of_caches = [each for stage in servers_on(data) for each in stage if each.samples.host in caches]
    fetched = together(data, of_caches, data.measure.far_direction)
    behind_door = max(by_workers, fetched.payload(HEADERS)) if fetched else by_workers
    for stage in servers_on(data):
        hosts = [nics for nics in by_host(stage) if nics[0].samples.host in (*caches, *data.trial.path)]
        sent = {nics[0].samples.host: _sent_once(data, nics) for nics in hosts}
        by_caches += sum(sent.pop(host, 0.0) for host in caches)  # each client reads through one of them
        # Of several doors it is not known whether they are in series, nor of one what a cache had that is not sampled.
        if len(sent) == 1 and (fetched or not caches):
            beyond.append(min(*sent.values(), near.payload(HEADERS)) - behind_door)
    return max(by_caches - by_workers, *beyond)


def _sent_once(data: TrialData, server: list[Sampled]) -> float:
    """What a server on the way sent by all of its interfaces; nothing where that is not known."""
    sent = together(data, server, SENT)
    return sent.payload(HEADERS) - sent_again(data, sent, server) if sent else 0.0


def _excess(data: TrialData, row: TrialRow) -> Measured:
    """What the storage moved beyond what is explained."""
    read = bytes_reported(data)
    if row.closure is not None and read and data.storage:
        share, explained = usual_excess(data, row, read)
        done = {"wrote": "written"}.get(data.measure.did, data.measure.did)
        beyond = f"{row.closure:+.1%} beyond what was {done}, of which {share:.1%} {explained}"
        yield 100 * (row.closure - share), f"the storage {data.measure.direction} {beyond}"


def _is_background(data: TrialData, row: TrialRow) -> bool:
    """Whether an excess that went nobody knows where is somebody else's: the storage is not quiet, or none is usual."""
    most = max((share for _, _, share in idle_rates(data, row)), default=0.0)
    return most > (background_traffic.limits.suspect or 0.0) or data.trial.declared.reads_whole


@bytes_rule(
    Limits("% of what was read", suspect=2, invalid=20),
    remedy="its files lie elsewhere than the access method says, or somebody else uses those servers: see where its"
    " replicas are",
)
def other_servers(data: TrialData, row: TrialRow) -> Measured:
    """Bytes moved in the window by storage servers that the access method does not lead to (`servers`, `on_disk`), less
    0.5 Mb/s a server."""
    read = bytes_reported(data)
    if data.window_ns is None or not data.other_servers or not data.storage or not read:
        return
    counter, begin = COUNTERS[data.measure.direction], data.window_ns[0]
    moved = sum(counter_curve(interface, counter, begin).rise(0, data.window_s) for interface in data.other_servers)
    hosts = sorted({interface.samples.host for interface in data.other_servers})
    own = at_rest_bytes(len(hosts), data.window_s)
    if data.trial.copied_to in hosts:
        own += BELONGS_TO_THE_OTHER / 100 * read
    words = f"{data.trial.access} does not lead to {', '.join(hosts)}, of which {mb(moved)} were"
    yield 100 * max(0.0, moved - own) / read, f"{words} {data.measure.direction}"


@bytes_rule(Limits("clients", invalid=0), remedy="the clients' own output, in clients/, tells what they did instead")
def no_bytes(data: TrialData, row: TrialRow) -> Measured:
    """All clients of a trial, where none reports that it moved any: that is no rate."""
    if row.mean_mbps is not None and not bytes_reported(data):
        yield len(data.jobs), f"no client reports that it {data.measure.did} anything"


@bytes_rule(Limits("troubles", suspect=0), remedy="nothing shows that the data came over the wire")
def bytes_not_compared(data: TrialData, row: TrialRow) -> Measured:
    """Clients that do not report what they moved, storage whose bytes around the window are not known, and written
    files that were not checked afterwards."""
    if row.mean_mbps is not None:
        measure = data.measure
        silent = sum(job.ok and job.has_work and not job.bytes_read for job in data.jobs) if bytes_reported(data) else 0
        yield silent, f"{silent} clients do not report how many bytes they {measure.did}"
        yield moved_around(data) is None, f"what the storage {measure.direction} around the window is not known"
        yield bool(data.trial.writes) and not data.verified, "what was written was not checked afterwards"
        if measure.far_end == "storage":
            other_end = together(data, data.far_end, measure.far_direction)
            yield other_end is None, "what the other end of the copies had is not known"
    if not data.trial.declared.settles:
        for missing, words in _missing_at_ends(data):
            rest = f"{words}, and the rest was in a cache still when the sampling ended"
            yield float(missing > (missing_bytes.limits.suspect or 0.0)), rest
    unknown = _from_disks(data).count(None)
    yield unknown, f"what the kernel fetched from a disk for {unknown} clients is not known"


@bytes_rule(
    Limits("% of what was written", suspect=2),
    remedy="a server or mount acknowledged writes that it still held in memory, so the rate is in part its memory's, or"
    " the interface's driver counts late: a shorter period tells",
)
def written_late(data: TrialData, row: TrialRow) -> Measured:
    """What reached the storage after the last end, of clients that make sure it is there by then."""
    late, written = bytes_late(data), bytes_reported(data)
    if late is not None and written and data.trial.declared.settles:
        words = f"{mb(late)} of what the clients {data.measure.did} reached the storage after the last end"
        yield 100 * late / written, words


@bytes_rule(
    Limits("% of the window", suspect=5, invalid=25),
    remedy="traffic stopped, which lowers the mean: see the logs of the path's servers and repeat",
)
def stall(data: TrialData, row: TrialRow) -> Measured:
    """Longest time with almost no traffic while clients were at work, between the storage's first and last byte; where
    each reads one file at once, all such times together, less what clients computed."""
    if _served_unseen(data):
        return
    pause = stalled(data, _least_idle_mbps(row))
    if pause and row.window_s:
        share = 100 * pause.seconds / row.window_s
        words = f"the storage {data.measure.direction} nothing for {pause.seconds:.1f} s while clients were at work,"
        words += f" {share:.0f} % of the window, "
        words += f"in {pause.pauses} pauses, the longest " if pause.pauses > 1 else ""
        words += f"from {pause.begin_s:.1f} s on"
        if data.trial.protocol != "file" and not data.far_end:  # a server may have read ahead
            share = min(share, stall.limits.invalid or share)
            words += f", and what their workers {data.measure.far_direction} then is not known"
        yield share, words


@bytes_rule(
    Limits("% of the window", suspect=25),  # 0.1 to 6 % in clean trials
    remedy="the idle time lowers the mean: see in jobs.csv how long opening and closing took, or take larger replicas",
)
def still_at_an_edge(data: TrialData, row: TrialRow) -> Measured:
    """Time before 1 % had moved, or after 99 %, in which nothing did while clients were active and did not compute."""
    for ends in (False,) if _ends_when_read(data) else (False, True):
        yield from _still(data, row, ends)


@bytes_rule(
    Limits("% of the window", suspect=10),  # up to 5 % in clean trials
    remedy="clients had what they read and did not end, which lowers the mean: see in jobs.csv who ended last",
)
def slow_to_end(data: TrialData, row: TrialRow) -> Measured:
    """The same after 99 %, of clients that read by the network, and do not then read a staged copy."""
    if _ends_when_read(data):
        yield from _still(data, row, ends=True)


def _ends_when_read(data: TrialData) -> bool:
    """Whether clients have nothing to wait for when all bytes have moved, as servers' disks or one of their own."""
    by_network = data.measure.did == "read" and data.measure.by == "interfaces"  # a disk's counter runs ahead of it
    return by_network and not any("local_bytes" in job.detail for job in data.jobs)


def _still(data: TrialData, row: TrialRow, ends: bool) -> Measured:
    edge = None if _served_unseen(data) else longest_at_an_edge(data, _least_idle_mbps(row), ends=ends)
    if edge:
        when = f"from {edge.begin_s:.1f} s on" if ends or edge.begin_s else "from the go on"
        words = f"nothing moved for {edge.seconds:.1f} s {when} while clients were active"
        yield from of_window(row, edge.seconds, words, decimals=0)


def _served_unseen(data: TrialData) -> bool:
    """Whether caches are meant to serve the clients, in their workers' memory or where no interface is sampled."""
    return data.cached and (data.trial.protocol == "file" or not data.far_end)


def _least_idle_mbps(row: TrialRow) -> float:
    return min([mbps for mbps in (row.idle_before_mbps, row.idle_after_mbps) if mbps is not None], default=0.0)


@bytes_rule(
    Limits("% of what was read", suspect=10),  # clean trials stay below 5
    remedy="somebody else uses these hosts, software is loaded through them, or an interface is sampled twice:"
    " repeat it when they are quiet",
)
def background_on_the_path(data: TrialData, row: TrialRow) -> Measured:
    """What the clients' workers, a door or a gateway moved one way beyond what the clients read and the storage sent,
    whichever is more, with headers; of workers behind a cache of the data beyond what the clients read."""
    measure, read, near = data.measure, bytes_reported(data), moved_around(data)
    by_interfaces = measure.by == "interfaces" and measure.far_end == "workers"
    if not read or near is None or not by_interfaces or any(cache.fetched != 0 for cache in software_caches(data)):
        return
    of_clients = (1 + HEADERS / USUAL_MTU) * read
    stages = [(data.far_end, (measure.far_direction,)), *((servers, (SENT, RECEIVED)) for servers in servers_on(data))]
    for hosts, directions in stages:
        whole = math.inf if hosts is data.far_end else near.bytes  # workers are never in series
        # What a cache fetches beyond what is read stays there.
        usual = of_clients if hosts is data.far_end and data.data_caches else max(near.bytes, of_clients)
        parts = ((direction, _carried(data, hosts, direction, whole)) for direction in directions)
        moved = {direction: carried for direction, carried in parts if carried is not None}
        if moved and min(moved.values()) >= ON_THE_PATH * min(near.bytes, usual):
            direction, most = max(moved.items(), key=lambda pair: pair[1])
            names = enumerated(sorted({each.samples.host for each in hosts}))
            words = f"{names} {direction} {mb(most)}, where the storage {measure.direction} {mb(near.bytes)}"
            yield 100 * (most - usual) / read, f"{words} and the clients {measure.did} {mb(read)}"


def _carried(data: TrialData, hosts: list[Sampled], direction: str, near: float) -> float | None:
    """What went through servers of a role: of those side by side all together, of those in series the one with most."""
    each = [part.bytes for nics in by_host(hosts) if (part := together(data, nics, direction)) is not None]
    if len(each) < len(by_host(hosts)) or not each:
        return None
    return max(each) if sum(one >= WHOLE * near for one in each) > 1 else sum(each)


@bytes_rule(
    Limits("% of what was read", suspect=10, invalid=100 * (1 - ON_THE_PATH)),
    remedy="clients went another way: does the server send them on to another one, or does a route lead past it?"
    " Correct the access method's path",
)
def path_not_taken(data: TrialData, row: TrialRow) -> Measured:
    """What clients read and neither the doors nor the gateways of the access method's path carried; where some of the
    path are others, or not sampled, only more than half."""
    near, read = moved_around(data), bytes_reported(data)
    named = [[host for host in hosts if host.samples.host in data.trial.path] for hosts in servers_on(data)]
    if near is None or not read or near.bytes < ON_THE_PATH * read or not any(named):
        return  # a cache served most of it
    fetching = {cache.host for cache in data.data_caches}  # from a door of the path, or from the storage that it names
    named.append([host for host in data.sampled if host.samples.host in fetching])
    ways = [(hosts, direction) for hosts in named if hosts for direction in (SENT, RECEIVED)]
    carried = [together(data, hosts, direction) for hosts, direction in ways]
    most = max((part.bytes if part else near.bytes for part in carried), default=0.0)
    whole = min(near.bytes, read)  # what others had of the storage goes its own way
    hosts = sorted({host.samples.host for own in named for host in own})
    if most < ON_THE_PATH * whole or hosts == sorted({*data.trial.path}):
        words = (
            f"{enumerated(hosts)} carried no more than {mb(most)} of {mb(whole)} that the clients {data.measure.did}"
        )
        yield 100 * (1 - most / whole), words


@bytes_rule(
    Limits("% of what they moved", suspect=5, invalid=50),  # clean trials stay below 0
    remedy="somebody else writes to the storage, or reads where the trial writes: repeat when it is quiet, or where its"
    ' host fetches from other servers, say role = "door" of it in the site file',
)
def other_direction(data: TrialData, row: TrialRow) -> Measured:
    """What the storage servers moved the other way in the window, without what belongs to the trial (below)."""
    measure = data.measure
    if data.window_ns is None or not data.storage or measure.far_end == "storage":
        return
    carried = together(data, data.storage, measure.direction)
    back = together(data, data.storage, measure.far_direction)
    if carried is None or back is None or not carried.bytes:
        return
    own = at_rest_bytes(len(by_host(data.storage)), data.window_s)
    share = 100 * (back.bytes - own) / carried.bytes - BELONGS_TO_THE_OTHER
    moved = f"{mb(back.bytes)} while it {measure.direction} {mb(carried.bytes)}"
    yield share, f"the storage {measure.far_direction} {moved}"


@bytes_rule(
    Limits("% of the mean rate", suspect=1, invalid=10),
    remedy="somebody else uses the storage: repeat when it is quiet",
    worst=True,
)
def background_traffic(data: TrialData, row: TrialRow) -> Measured:
    """Storage servers' rate before or after the window, without 0.5 Mb/s a server, but no more than what no client
    had."""
    for mbps, when, beyond in idle_rates(data, row) if row.mean_mbps else ():
        share = min(beyond, _no_client_had(data))
        what = f"the storage {data.measure.direction} {mbps:.2f} Mb/s {when} the trial"
        yield share, f"{what}, {share:.1f} % of its rate in it beyond the usual"


@bytes_rule(
    Limits("% of the mean rate", suspect=2),
    remedy="so much of the storage throughput is background traffic: use delivered throughput",
)
def slow_beside_rest(data: TrialData, row: TrialRow) -> Measured:
    """Storage servers' whole rate before or after the window, whichever is less, but no more than what no client
    had."""
    rates = idle_rates(data, row)
    if rates and row.mean_mbps and not data.cached:  # its caches are meant to leave the storage at rest
        least, when, _ = min(rates)
        share = min(100 * least / row.mean_mbps, _no_client_had(data))
        what = f"the storage {data.measure.direction} {least:.2f} Mb/s {when} the trial"
        yield share, f"{what}, at rest, {share:.1f} % of its rate in it"


@worst_rule(
    Limits("% of the time", suspect=25),
    remedy="somebody else uses them, as a check of a RAID does (/proc/mdstat): repeat when they are quiet",
)
def busy_disks(data: TrialData, row: TrialRow) -> Measured:
    """How long a storage server's busiest disk was busy before and after the window, whichever is less; not of servers
    that share their machine with another host of the trial."""
    for server, *_ in by_host(data.storage):
        if BUSIEST in server.intervals.differences and not shares_machine(server, data):
            before, after = without_clients(data, Counted([server], BUSIEST), 0.1)
            if before is not None and after is not None:
                share, host = min(before, after), server.samples.host
                yield share, f"a disk of {host} was busy for {share:.0f} % of the time without clients, too"


@worst_rule(
    Limits("% of all cores' time", suspect=25),  # up to 5 in clean trials
    remedy="somebody else computes there, so the trial had less of it: repeat when it is quiet",
)
def busy_processors(data: TrialData, row: TrialRow) -> Measured:
    """How busy a storage server, or a host that `path` names, was before and after the window, whichever is less; not
    of hosts that share their machine."""
    for server, *_ in by_host(each for each in data.sampled if each.samples.role in SERVERS):
        if (server in data.storage or server.samples.host in data.trial.path) and not shares_machine(server, data):
            busy, idle = (_ticks_at_rest(data, server, counters) for counters in (WORKS, RESTS))
            shares = [100 * work / (work + rest) for work, rest in zip(busy, idle, strict=True) if work + rest]
            if len(shares) == 2:
                yield min(shares), f"{server.samples.host} was {min(shares):.0f} % busy without clients, too"


def _ticks_at_rest(data: TrialData, server: Sampled, counters: Iterable[str]) -> tuple[float, float]:
    """How fast CPU counters rose before and after the window."""
    rates = [without_clients(data, Counted([server], counter)) for counter in counters]
    before, after = (sum(rate[when] or 0.0 for rate in rates) for when in (0, 1))
    return before, after


def _no_client_had(data: TrialData) -> float:
    """How many % of what the storage moved no client had, at most, by what clients report and their hosts had.

    All where caches serve, or where these hosts' bytes or the packets are not known.
    """
    near, far = moved_around(data), at_far_end(data)
    if near is None or far is None or not near.packets or data.cached or data.trial.reads_again:
        return 100.0
    # The lesser of the two: what a warm cache served would hide as much of what others had.
    beyond = near.payload(HEADERS) - min(bytes_reported(data), far.payload(HEADERS))
    return 100 * beyond / near.bytes if beyond >= 0 else 100.0  # something is missing, which hides what is beyond


@bytes_rule(Limits("troubles", suspect=0), remedy="take a shorter period")
def background_traffic_unknown(data: TrialData, row: TrialRow) -> Measured:
    """Of the times before and after the window, neither is sampled for half a second."""
    if row.mean_mbps is not None and not idle_rates(data, row):
        yield 1, "the storage's traffic without clients is not known"


@bytes_rule(Limits("% of the ceiling", suspect=5), remedy="the ceiling is wrong, or the data came another way")
def above_the_ceiling(data: TrialData, row: TrialRow) -> Measured:
    """Delivered rate above the tightest known ceiling on the path.

    Of what the jobs received: as a measured ceiling it has no headers, nor what never reached them.
    """
    limit, mbps = row.limit, row.delivered_mbps
    if limit.ceiling_mbps and mbps:
        where = f" ({limit.ceiling_from})" if limit.ceiling_from else ""
        words = f"the jobs received {mbps:.1f} Mb/s, over a ceiling of {limit.ceiling_mbps:.1f}{where}"
        yield 100 * (mbps / limit.ceiling_mbps - 1), words
