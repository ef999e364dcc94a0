"""Rules about clients: where they ran, whether each had files of its own, what they counted, how they began."""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator

from tierbench.postprocess.measures.closure import mb
from tierbench.postprocess.measures.delivered import LIKE_OTHERS
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Limits, Measured, of_window, rule, worst_rule
from tierbench.postprocess.wording import enumerated

OWN_BYTES = 1_000_000  # that a process may take in beside its file's


@rule(Limits("clients", invalid=0), remedy="the pool's requirements let them in: correct them in the site file")
def wrong_worker(data: TrialData, row: TrialRow) -> Measured:
    """Clients on workers of another pool of the run."""
    yield _strangers(data, f"outside the pool {row.pool}", of_other_pools=True)


@rule(
    Limits("clients", suspect=0), remedy="they were not in the pool when planned, so were not flushed: write a new run"
)
def new_worker(data: TrialData, row: TrialRow) -> Measured:
    """Clients on workers that were in no pool of the run when it was planned."""
    yield _strangers(data, f"which the pool {row.pool} did not have", of_other_pools=False)


def _strangers(data: TrialData, where: str, *, of_other_pools: bool) -> tuple[float, str]:
    """The clients on workers that are not in the trial's pool, but in another one of the run, or in none."""
    workers = data.trial.workers
    hosts = [job.host for job in data.jobs if job.start and workers and job.host not in workers]
    these = [host for host in hosts if (host in data.other_pools) == of_other_pools]
    return len(these), f"{len(these)} clients ran on {enumerated(sorted(set(these)))}, {where}"


@rule(Limits("clients", invalid=0), remedy="give each client a replica of its own: caches served the second one")
def shared_replica(data: TrialData, row: TrialRow) -> Measured:
    """Clients that read a replica which another client of the trial read as well."""
    readers = Counter(_file(job.start.url) for job in data.jobs if job.start and data.measure.did != "wrote")
    shared = [url for url, clients in readers.items() if clients > 1]
    count = sum(readers[url] for url in shared)
    yield count, f"{count} clients read {', '.join(shared[:3])} between them"


def _file(url: str) -> str:
    """What a URL names; behind ? XRootD has what is no part of it."""
    return url.partition("?")[0] if url.startswith(("root:", "roots:", "xroot")) else url


@rule(
    Limits("% of what was planned", suspect=0.5, invalid=10),
    remedy="the files were changed since the plan was made: make the replicas and the run anew",
)
def other_sizes(data: TrialData, row: TrialRow) -> Measured:
    """Difference between the file sizes that clients found and those in the catalogue."""
    sizes = [job.expected_bytes for job in data.jobs]
    if data.measure.did != "read" or data.trial.streamed:
        return
    in_all, planned = sum(size or 0 for size in sizes), data.trial.bytes
    if planned and None not in sizes:
        yield 100 * abs(in_all / planned - 1), f"the clients' files hold {mb(in_all)}, {mb(planned)} were planned"
    if empty := sizes.count(0):
        yield 100, f"the files of {empty} clients are empty"


@rule(
    Limits("% of all", suspect=0, invalid=1),  # a few among many thousands leave the rate as it is
    remedy="see the clients' records for the first messages: a server that is asked by so many may refuse some",
)
def failed_fetches(data: TrialData, row: TrialRow) -> Measured:
    """Readings or copies of a file that failed, of jobs at work for a given time."""
    if data.trial.work.for_s is None:
        return  # any that failed has made its job fail
    done = [job.work for job in data.jobs if job.work]
    failed = sum(work.failed for work in done)
    if failed:
        count = failed + sum(work.fetches for work in done)
        messages = sum((Counter(work.failures) for work in done), Counter[str]())
        often = ", ".join(f"{times} times {message}" for message, times in messages.most_common(2))
        yield 100 * failed / count, f"{failed} of {count} fetches failed: {often}"


@rule(
    Limits("% of the window", suspect=5, invalid=25),
    remedy="the storage or the way to it stood still at the end: see the logs of the path's servers and repeat",
)
def still_at_the_end(data: TrialData, row: TrialRow) -> Measured:
    """Time for which all that was under way when time was over had been, beyond 1.1 times what any file has taken."""
    done = [job.work for job in data.jobs if job.work]
    longest_s = max((work.latency_s["max"] or 0.0 for work in done), default=0.0)
    waited = [min(work.counted(work.cut_classes), default=0.0) for work in done]
    if longest_s and waited and data.trial.work.fetch_every_s is None:
        still_s = min(waited) - LIKE_OTHERS * longest_s
        words = f"no file ended in the last {min(waited):.1f} s, of which none had taken more than {longest_s:.1f} s"
        yield from of_window(row, still_s, words)


@rule(Limits("clients", suspect=0), remedy="their rate is not known, or none: see operations and message in jobs.csv")
def operations_not_counted(data: TrialData, row: TrialRow) -> Measured:
    """Clients that report no operations, where these are what is measured; or bytes, and no event in them."""
    counted = data.measure.of == "operations"
    of_files = [job for job in data.jobs if counted and job.end and not job.end.operations]
    of_events = [job for job in data.jobs if job.end and job.end.events == 0 and job.bytes_read]
    for idle, what in ((of_files, "operations"), (of_events, "events")):
        which = enumerated([str(job.index) for job in idle])
        yield len(idle), f"{len(idle)} clients report no {what}: {which}"


@rule(Limits("clients", invalid=0), remedy="the clients' own output, in clients/, tells what they did instead")
def nothing_counted(data: TrialData, row: TrialRow) -> Measured:
    """All clients of a trial, where none reports an operation and these are what is measured, or all an event."""
    ended = [job.end for job in data.jobs if job.end and job.ok]
    if data.measure.of == "operations":
        yield len(ended) * (not any(end.operations for end in ended)), "no client reports an operation"
    yield len(ended) * all(end.events == 0 for end in ended), "no client reports an event in what it read"


# -- counts: two of the same bytes, of files that are alike, and their sizes; a wrong one would be in the rate


@worst_rule(
    Limits("% of its process's", suspect=0.5),
    remedy="one of the counts is wrong: see bytes_app and bytes_client in jobs.csv, and leave bytes_client empty"
    " where the kernel does not count what a client reads",
)
def counts_apart(data: TrialData, row: TrialRow) -> Measured:
    """A client's count of what it moved, above that of its process."""
    for app, process, _, words in _two_counts(data):
        yield 100 * (app - process) / max(process, 1), words


@worst_rule(
    Limits("% of its count", suspect=5),  # headers of small reads are in it, and ROOT's own files
    remedy="one of the counts is wrong: see bytes_app and bytes_client in jobs.csv",
)
def uncounted_bytes(data: TrialData, row: TrialRow) -> Measured:
    """What a client's process moved beyond the client's own count and 1 MB, where both are of its file alone."""
    for app, process, fetches, words in _two_counts(data) if data.trial.declared.taken_in == "bytes_client" else ():
        yield 100 * (process - app - OWN_BYTES * fetches) / max(app, 1), words


def _two_counts(data: TrialData) -> Iterator[tuple[int, int, int, str]]:
    """What each client and its process counted, and how many fetches that was for."""
    for job in data.jobs:
        if job.ok and job.bytes_app is not None and job.bytes_client is not None:
            words = f"client {job.index} {data.measure.did} {mb(job.bytes_app)}, its process {mb(job.bytes_client)}"
            yield job.bytes_app, job.bytes_client, job.work.fetches if job.work else 1, words


@worst_rule(
    Limits("% of its file", suspect=2),  # alike clients differ by less than 1 %
    remedy="the count is wrong, or the replicas are not alike: see bytes_app and bytes_expected in jobs.csv",
)
def unlike_the_others(data: TrialData, row: TrialRow) -> Measured:
    """A client's count of what it moved, as a share of its file, away from the other clients' median."""
    shares = {
        job.index: 100 * job.bytes_app / job.expected_bytes
        for job in data.jobs
        if job.ok and job.bytes_app is not None and job.expected_bytes and data.trial.work.for_s is None
    }
    usual = statistics.median_low(shares.values()) if shares else 0.0
    for client, share in shares.items():
        words = f"client {client} {data.measure.did} {share:.1f} % of its file, where {usual:.1f} % is usual"
        yield abs(share - usual), words


@worst_rule(
    Limits("% of the median", suspect=50),  # files of a set differ by less, a count that is wrong by a factor does not
    remedy="events are counted twice or not at all, or the files are not alike: see events and bytes_app in jobs.csv",
)
def events_unlike_the_others(data: TrialData, row: TrialRow) -> Measured:
    """A client's events for each byte that it moved, away from the other clients' median."""
    rates = {
        job.index: job.end.events / job.bytes_app
        for job in data.jobs
        if job.ok and job.end and job.end.events is not None and job.bytes_app
    }
    usual = statistics.median(rates.values()) if len(rates) > 2 else 0.0
    for client, rate in rates.items() if usual else ():
        words = f"client {client} counts {1e6 * rate:.4g} events a MB, where {1e6 * usual:.4g} are usual"
        yield 100 * abs(rate / usual - 1), words


@rule(
    Limits("% of its columns", suspect=0.5, invalid=20),  # of TTree and RNTuple alike the two were equal to the byte
    remedy="it counts wrongly, or read other columns than it says: see column_bytes in its record's detail",
)
def other_columns(data: TrialData, row: TrialRow) -> Measured:
    """How far what a client read, without what opening its file and gaps between columns took, is from what its columns
    take in the file."""
    for job in data.jobs:
        columns = job.detail.get("column_bytes")
        if job.ok and job.bytes_app is not None and columns and data.trial.work.for_s is None:
            read = job.detail.get("local_bytes", job.bytes_app)  # of a staged copy, which is read here
            read -= sum(job.detail.get(key) or 0 for key in ("opening_bytes", "gap_bytes"))
            words = f"client {job.index} {data.measure.did} {mb(read)} of columns of {mb(columns)}"
            yield 100 * abs(read - columns) / columns, words


@worst_rule(
    Limits("% of its file", suspect=0.5, invalid=2),
    remedy="the client ends too early, counts wrongly, or has another file: see its record",
)
def not_whole(data: TrialData, row: TrialRow) -> Measured:
    """What a client that moves files from end to end did not move of its file, or beyond it and 1 MB."""
    ended = [job for job in data.jobs if job.ok]
    if not data.trial.declared.reads_whole or not ended:
        return
    if data.trial.work.for_s is None:
        sizes = [(f"client {job.index}", job.bytes_taken or 0, job.expected_bytes) for job in ended]
    else:  # of files that are read again and again, each once, if clients had them all
        once = [job.bytes_once or 0 for job in ended if job.work and job.work.files >= data.trial.work.files_per_job]
        sizes = [("all clients", sum(once), data.trial.bytes)] if len(once) == data.trial.jobs else []
    for who, taken, size in sizes:
        if size:
            of = f"{'files' if data.trial.work.for_s else 'a file'} of {mb(size)}"
            apart = max(size - taken, taken - OWN_BYTES - size)
            yield 100 * apart / size, f"{who} {data.measure.did} {mb(taken)} of {of}"


@rule(
    Limits("% of the window", suspect=67, invalid=90),  # a third is left if one client gets four times the others' rate
    remedy="some clients began late, were served far better than others, or have far smaller files: see jobs.csv",
)
def not_all_active(data: TrialData, row: TrialRow) -> Measured:
    """Share of the window in which not all clients with work were active (starts `together` and `natural`)."""
    share = row.slices.all_active_share
    if data.trial.start.overlapping and row.jobs > 1 and share is not None:
        active = f"all clients {data.measure.did} together for {row.slices.all_active_s:.1f} s"
        sizes = [job.expected_bytes for job in data.jobs if job.expected_bytes]
        unequal = (
            f", with files of {mb(min(sizes))} to {mb(max(sizes))}" if sizes and max(sizes) > 1.5 * min(sizes) else ""
        )
        yield 100 * (1 - share), f"{active}, {100 * share:.0f} % of the window{unequal}"


@worst_rule(
    Limits("% of the window", suspect=5),  # of 192 clients on two cores the last begins 0.3 s late
    remedy="the worker was busy, or its clock or the access point's is wrong",
)
def late_begin(data: TrialData, row: TrialRow) -> Measured:
    """Latest begin after the go time, or after the client's own."""
    for job in _gated(data):
        if job.last_late_ns is not None:
            late_ms = job.last_late_ns / 1e6
            yield from of_window(row, late_ms / 1e3, f"client {job.index} began {late_ms:.0f} ms after the go")


@worst_rule(Limits("ms", invalid=1), remedy="a client did not wait for the gate, or its clock was set back")
def early_begin(data: TrialData, row: TrialRow) -> Measured:
    """Earliest begin or first byte before the go time."""
    for job in _gated(data):
        for begun_ns in (job.begin_wall_ns, job.end and job.end.first_byte_wall_ns):
            if begun_ns and job.go_wall_ns:
                before_ms = (job.go_wall_ns - begun_ns) / 1e6
                yield before_ms, f"client {job.index} {data.measure.did} {before_ms:.1f} ms before the go"


def _gated(data: TrialData) -> list[Job]:
    """The clients with work, where they get a start time."""
    return data.working if data.trial.start.gated else []


@worst_rule(
    Limits("times", suspect=5),  # TCP shares unfairly, by two or three to one between flows of one kind
    remedy="its replica was in some cache, or others were starved",
)
def fast_client(data: TrialData, row: TrialRow) -> Measured:
    """The fastest client's rate over the median, where all began at one instant."""
    rates = {job.index: job.bytes_app * 8e-6 / job.run_s for job in data.jobs if job.ok and job.run_s and job.bytes_app}
    usual = statistics.median_low(rates.values()) if rates else 0.0
    for client, rate in rates.items() if data.trial.start.at_one_instant and len(rates) > 1 else ():
        times = f"{rate / usual:.1f} times the median of {usual:.1f}"
        yield rate / usual, f"client {client} {data.measure.did} at {rate:.1f} Mb/s, {times}"


@rule(
    Limits("% of the window", suspect=1, invalid=5),  # two workers' clocks may be some ms apart
    remedy="a client did not wait for its turn: see begin and end in jobs.csv",
)
def not_alone(data: TrialData, row: TrialRow) -> Measured:
    """Time in which more than one client read, where they take turns."""
    ends = [(job.go.wall_ns, job.ended_wall_ns) for job in data.working if job.go and job.ended_wall_ns is not None]
    changes = sorted([(begin, 1) for begin, _ in ends] + [(end or 0, -1) for _, end in ends])
    active, shared_ns = 0, 0
    for (when, change), (then, _) in itertools.pairwise(changes):
        active += change
        shared_ns += then - when if active > 1 else 0
    if data.trial.start.in_turn:
        yield from of_window(row, shared_ns / 1e9, f"more than one client read for {shared_ns / 1e9:.2f} s")


@rule(
    Limits("clients", invalid=0), remedy="see lists/ and clients.log, and whether two workers of the pool have one name"
)
def wrong_place(data: TrialData, row: TrialRow) -> Measured:
    """Clients on other workers than those that the experiment places them on."""
    meant = dict(enumerate(data.trial.placement.hosts))
    astray = [job for job in data.jobs if job.start and meant.get(job.index, job.host) != job.host]
    where = enumerated([f"client {job.index} on {job.host}, not {meant[job.index]}" for job in astray])
    yield len(astray), f"{len(astray)} clients did not run where they were placed: {where}"


@rule(Limits("clients", invalid=0), remedy="place no more clients on a worker than it has cores that jobs may use")
def not_pinned(data: TrialData, row: TrialRow) -> Measured:
    """Clients without a core of their own, where each was to be pinned to one."""
    if data.trial.placement.pinned:
        cores = {job.index: (job.host, job.go.core) for job in data.jobs if job.go and job.start}
        clients_of = Counter(cores.values())
        free = [str(client) for client, core in cores.items() if core[1] is None or clients_of[core] > 1]
        yield len(free), f"{len(free)} clients had no core of their own: {enumerated(free)}"
