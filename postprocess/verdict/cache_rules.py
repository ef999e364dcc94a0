"""Rules about caches: cold or warm as asked, and proxies and mounts that are those meant."""

from collections.abc import Mapping
from pathlib import PurePath

from tierbench.condition_state import COLD
from tierbench.dags.measure import OF_DISKS, SENT
from tierbench.postprocess.measures.closure import bytes_once, bytes_reported, mb, moved_around, together
from tierbench.postprocess.measures.resources import shares_machine
from tierbench.postprocess.measures.server_reports import MOST_HEADERS, Proxied, caches, proxied, software_caches
from tierbench.postprocess.measures.traffic import at_rest_bytes, counter_curve
from tierbench.postprocess.records.trial import TrialData, by_host
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.counting import STREAM
from tierbench.postprocess.verdict.rules import Limits, Measured, bytes_rule, rule
from tierbench.postprocess.wording import counted, enumerated
from tierbench.wrappers.mounts import Place, point_of

AROUND_S = 5.0  # that samples may count beside the window
LOADED = "root_library"  # in a client's detail: the file that ROOT was loaded from


@rule(
    Limits("% of what was read", suspect=2, invalid=10),
    remedy="clients went past the proxy, or others use it: see its log and the access's proxy",
)
def proxies_apart(data: TrialData, row: TrialRow) -> Measured:
    """Difference between what the proxies report as sent and what clients read, less aborted fetches and headers."""
    if isinstance(by := proxied(data), Proxied):
        apart = max(by.read - by.sent, by.sent - by.read - by.usual)
        yield 100 * apart / by.read, f"the proxy says that it sent {mb(by.sent)} of {mb(by.read)} that the clients read"


@rule(
    Limits("% of what was read", suspect=2, invalid=10),
    remedy="clients, or others, fetched from the origin past the proxy: see the server's log",
)
def origin_apart(data: TrialData, row: TrialRow) -> Measured:
    """What the origin sent, away from what the proxies say they fetched."""
    if isinstance(by := proxied(data), Proxied) and by.origin is not None:
        past = max(by.fetched - by.origin, by.origin - MOST_HEADERS * by.fetched - by.origin_at_rest)
        words = f"the origin sent {mb(by.origin)} while the proxy says that it fetched {mb(by.fetched)}"
        yield 100 * past / by.read, words


@rule(
    Limits("% of all", suspect=5, invalid=20),
    remedy="the proxies' own counters contradict each other: see their version's notes, and repeat",
)
def hits_apart(data: TrialData, row: TrialRow) -> Measured:
    """The share of hits by the proxies' counts of requests, above the one by their bytes."""
    by = proxied(data)
    if isinstance(by, Proxied) and by.requests > 0 and by.sent > 0:
        # A request that was joined to another one's fetch is no hit, and costs the origin nothing.
        by_counts, by_bytes = by.hits / by.requests, 1 - by.fetched / by.sent
        words = f"by its counts {by_counts:.0%} of the requests were hits, by its bytes {by_bytes:.0%}"
        yield 100 * (by_counts - by_bytes), words


@rule(Limits("troubles", suspect=0), remedy="sample the host of the proxy, whose Squid listens on port 3128")
def proxies_not_compared(data: TrialData, row: TrialRow) -> Measured:
    """Whether the access method leads through a proxy whose counters are not known."""
    if isinstance(why := proxied(data), str):
        yield 1, why


@rule(
    Limits("hosts", suspect=0),
    remedy="have the condition's program print it (docs/sites.md), and see why the condition was not restored",
)
def cache_content_unknown(data: TrialData, row: TrialRow) -> Measured:
    """Hosts whose cache, of software or of the trial's files, has unknown content before or after the trial."""
    silent = [cache.host for cache in caches(data) if cache.fetched is None]
    yield len(silent), f"what the cache held of {enumerated(silent)}"


@rule(
    Limits("% of what it held after it", suspect=10, invalid=50),  # CVMFS keeps some catalogs
    remedy="it was not emptied, or what the clients read does not come through it: see the condition's program and"
    " `setup`",
)
def cold_cache_not_empty(data: TrialData, row: TrialRow) -> Measured:
    """What a cache of software, or of the trial's files, held before the trial for which it was to be empty."""
    for before, after, words in _contents(data, cold=True):
        yield 100 * min(1.0, before / after) if after else 100, words


@rule(
    Limits("% of what it held after it", suspect=0.5, invalid=5),
    remedy="not all that the clients open was in it: see what the condition's program reads, and the cache's quota",
)
def warm_cache_fetched(data: TrialData, row: TrialRow) -> Measured:
    """What a cache of software, or of the trial's files, fetched, or lost, in the trial for which it was to be full."""
    for before, after, words in _contents(data, cold=False):
        yield 100 * abs(after - before) / after if after else 100, words


def _contents(data: TrialData, *, cold: bool) -> list[tuple[int, int, str]]:
    """What each cache that was to be cold, or warm, held before and after the trial."""
    return [
        (
            cache.bytes_before,
            cache.bytes_after,
            f"the cache of {cache.folder} on {cache.host} held {cache.bytes_before / 1e6:.1f} MB before the trial and"
            f" {cache.bytes_after / 1e6:.1f} MB after it",
        )
        for cache in caches(data)
        if (cache.value == COLD) == cold and cache.bytes_before is not None and cache.bytes_after is not None
    ]


@bytes_rule(
    Limits("% of what was read", suspect=1, invalid=5),
    remedy="not all that the clients read was in the cache, it threw some away, or somebody else uses the storage:"
    " see the cache's log and room",
)
def sent_past_a_warm_cache(data: TrialData, row: TrialRow) -> Measured:
    """What the storage sent although a warm cache was to serve all, without what it sends at rest."""
    moved, read = moved_around(data), bytes_reported(data)
    if data.is_warm and moved is not None and read:
        at_rest = at_rest_bytes(len(by_host(data.storage)), (row.window_s or 0.0) + AROUND_S)
        words = f"the storage sent {mb(moved.bytes)} while the clients read {mb(read)} from a warm cache"
        yield 100 * (moved.bytes - at_rest) / read, words


@rule(
    Limits("caches", invalid=0),  # one that cannot write goes on serving, and keeps next to nothing
    remedy="see its log, and whether its disk has room",
)
def cache_in_trouble(data: TrialData, row: TrialRow) -> Measured:
    """Caches that report errors."""
    for cache in caches(data):
        yield bool(cache.trouble), f"the cache of {cache.folder} on {cache.host} says: {cache.trouble}"


@rule(
    Limits("clients", invalid=0),
    remedy="correct `setup` of the workload: it has to lead to the folder that the condition's program names",
)
def software_from_elsewhere(data: TrialData, row: TrialRow) -> Measured:
    """Clients whose ROOT is not from the cached folder."""
    folders = {cache.host: cache.folder for cache in software_caches(data) if cache.folder}
    loaded = [(job, str(job.detail[LOADED])) for job in data.jobs if job.detail.get(LOADED) and job.host in folders]
    others = [path for job, path in loaded if not PurePath(path).is_relative_to(folders[job.host])]
    named = ", ".join(sorted(set(others))[:2])
    yield len(others), f"{len(others)} clients loaded {named}, which the cache has nothing to do with"


@rule(
    Limits("clients", invalid=0),
    remedy="they did not use the mount that was set up or flushed: their jobs began before it was mounted, or it was"
    " mounted anew meanwhile",
)
def other_mount(data: TrialData, row: TrialRow) -> Measured:
    """Clients whose files were on another mount than the one that was there when the caches were emptied.

    A flush begins when all is arranged, and has the mounts of then; a client has those of its own begin.
    """
    others = [
        (job, place)
        for job in data.jobs
        for place in (job.end.mounts if job.end else ())
        if is_other_mount(place, data.mounts.get(job.host, {}))
    ]
    clients, points = {job.index for job, _ in others}, sorted({place.point for _, place in others})
    words = f"{len(clients)} clients had their files on another mount at {', '.join(points)} than the one that was"
    hosts = enumerated(sorted({job.host for job, _ in others}))
    yield len(clients), f"{words} there when the caches of {hosts} were emptied"


def is_other_mount(place: Place, points: Mapping[str, str]) -> bool:
    """Whether a file's mount is not that of the flush; what is mounted but on demand, the flush need not have seen.

    What a job's root is says nothing: it may be its own, and no condition makes it anew.
    """
    point = point_of(place.path, points)
    return point > "/" and len(point) >= len(place.point) and points[point] != place.device


@rule(
    Limits("% of the replicas", suspect=0.2, invalid=1),  # 1 % is what the flush calls warm
    remedy="see the flush reports for what kept them there",
)
def resident_pages(data: TrialData, row: TrialRow) -> Measured:
    """Bytes of the replicas in the hosts' memory after the flush."""
    left, whole = row.resident_bytes, row.bytes_expected
    if _are_cached(data) and left is not None and whole:
        yield 100 * left / whole, f"{mb(left)} of the replicas were in memory after the flush"


@rule(
    Limits("hosts", suspect=0),
    remedy="let the experiment flush, by a strategy that may look (docs/clients.md), and name the servers that hold the"
    " files in the access method's path",
)
def caches_not_proven_cold(data: TrialData, row: TrialRow) -> Measured:
    """Hosts whose caches were not flushed, or whose flush could not measure what is left."""
    flush = data.trial.flush
    if not _are_cached(data):
        return
    if flush.strategy == "none":
        yield 1, "no cache was flushed"
    elif flush.hosts and (data.flush_doubt or row.resident_bytes is None):
        hosts = counted(len(flush.hosts), "flushed host")
        unmeasured = f"not all of {hosts} could measure what was left in memory, or saw the files"
        yield len(flush.hosts), data.flush_doubt or unmeasured


@bytes_rule(
    Limits("% of what was read", suspect=10),
    remedy="name them in `path`, so that they are flushed: it was in their memory, is compressed on disk, or comes"
    " from other servers, of whose memory nothing is known",
)
def sent_from_memory(data: TrialData, row: TrialRow) -> Measured:
    """What clients read from storage servers that were not flushed, or saw no files then, and no disk of these read;
    not of servers that share their machine, or whose disks are not counted."""
    near, read, from_memory = moved_around(data), bytes_once(data), dict[str, float]()
    if near is None or data.window_ns is None or not read or data.cached or not _are_cached(data):
        return
    share = min(1.0, read / max(near.bytes, 1))  # what is sent in vain, or again, no disk has to read again
    proven = set(data.trial.flush.hosts) - data.saw_nothing
    for nics in by_host(data.storage):
        server, sent = nics[0], together(data, nics, SENT)
        sees_disks = OF_DISKS[SENT] in server.intervals.differences and not shares_machine(server, data)
        if sent is not None and sees_disks and server.samples.host not in proven:
            disks = counter_curve(server, OF_DISKS[SENT], data.window_ns[0])
            fetched = disks.known_rise(max(0, disks.before(0)), -1)
            from_memory[server.samples.host] = 0.0 if fetched is None else max(0.0, share * sent.bytes - fetched)
    whose = enumerated(sorted(host for host, amount in from_memory.items() if amount))
    in_all = sum(from_memory.values())
    yield 100 * in_all / read, f"{whose} sent {mb(in_all)} that no disk there had to read"


def _are_cached(data: TrialData) -> bool:
    """Whether anything of what the trial moves can have been in a cache before."""
    never_kept = data.trial.streamed and data.trial.protocol == STREAM
    return data.measure.did != "wrote" and not never_kept and not data.trial.writes
