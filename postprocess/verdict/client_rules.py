"""Rules about clients: where they ran, that each had files of its own, and that their counts can be right."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

from tierbench.postprocess.measures.closure import mb
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict.rules import Measured, rule
from tierbench.postprocess.wording import abridged

OWN_BYTES = 1_000_000  # that a process may take in beside its file's
STARTING_S = 1.0  # a job takes to be started: its shadow, starter and files before HTCondor tells of it, Python after


@rule(
    "wrong worker",
    "clients on workers of another pool of the run",
    unit="clients",
    invalid=0,
    because="it is another way than was asked",
    remedy="the pool's requirements let them in: correct them in the site file",
)
def wrong_worker(data: TrialData, row: TrialRow) -> Measured:
    yield _strangers(data, f"outside the pool {row.pool}", of_other_pools=True)


@rule(
    "new worker",
    "clients on workers that were in no pool of the run when it was planned",
    unit="clients",
    suspect=0,
    because="HTCondor may add one at any time, and its caches can be warm or cold",
    remedy="they were not in the pool when planned, so were not flushed: write the run anew",
)
def new_worker(data: TrialData, row: TrialRow) -> Measured:
    yield _strangers(data, f"which the pool {row.pool} did not have", of_other_pools=False)


def _strangers(data: TrialData, where: str, *, of_other_pools: bool) -> tuple[float, str]:
    """The clients on workers that are not in the trial's pool, but in another one of the run, or in none."""
    workers = data.trial.workers
    hosts = [job.host for job in data.jobs if job.start and workers and job.host not in workers]
    these = [host for host in hosts if (host in data.other_pools) == of_other_pools]
    return len(these), f"{len(these)} clients ran on {', '.join(abridged(sorted(set(these))))}, {where}"


@rule(
    "shared replica",
    "clients that read a replica which another client of the trial read as well",
    unit="clients",
    invalid=0,
    because="caches served the second one",
    remedy="give each client a replica of its own: caches served the second one",
)
def shared_replica(data: TrialData, row: TrialRow) -> Measured:
    readers = Counter(_file(job.start.url) for job in data.jobs if job.start and data.measure.did != "wrote")
    shared = [url for url, clients in readers.items() if clients > 1]
    count = sum(readers[url] for url in shared)
    yield count, f"{count} clients read {', '.join(shared[:3])} between them"


def _file(url: str) -> str:
    """What a URL names; behind ? XRootD has what is no part of it."""
    return url.partition("?")[0] if url.startswith(("root:", "roots:", "xroot")) else url


@rule(
    "other sizes",
    "sizes of the files that clients read, by what they met, away from those that the plan has from the catalogue",
    unit="% of what was planned",
    suspect=0.5,
    invalid=10,
    because="a file that was cut off or replaced is another measurement, and a client without data is none",
    remedy="the files were changed since the plan was made: make the replicas and the run anew",
)
def other_sizes(data: TrialData, row: TrialRow) -> Measured:
    sizes = [job.expected_bytes for job in data.jobs]
    if data.measure.did != "read" or data.trial.streamed or any(size is None for size in sizes):
        return
    met, planned = sum(size or 0 for size in sizes), data.trial.bytes
    if planned:
        yield 100 * abs(met / planned - 1), f"the clients' files hold {mb(met)}, {mb(planned)} were planned"
    if empty := sizes.count(0):
        yield 100, f"the files of {empty} clients are empty"


@rule(
    "failed fetches",
    "readings or copies of a file that failed, of jobs at work for a given time",
    unit="% of all",
    suspect=0,
    invalid=1,
    because="a few among many thousands leave the rate as it is; where each file is read once, any failure makes its"
    " client fail",
    remedy="see the clients' records for the first messages: a server that is asked by so many may refuse some",
)
def failed_fetches(data: TrialData, row: TrialRow) -> Measured:
    if data.trial.work.for_s is None:
        return  # any that failed has made its job fail
    done = [job.work for job in data.jobs if job.work]
    failed = sum(one.failed for one in done)
    messages = sum((Counter(one.failures) for one in done), Counter[str]())
    if failed:
        count = failed + sum(one.fetches for one in done)
        often = ", ".join(f"{times} times {message}" for message, times in messages.most_common(2))
        yield 100 * failed / count, f"{failed} of {count} fetches failed: {often}"


# -- counts: two of the same bytes, of files that are alike, and their sizes; a wrong one would be in the rate


@rule(
    "counts apart",
    "a client's count of what it took in, above that of its process",
    unit="% of its process's",
    suspect=0.5,
    because="the rate is made of the first, and the second has all of it",
    remedy="one of the counts is wrong: see bytes_app and bytes_client in jobs.csv, and leave bytes_client"
    " empty where the kernel does not count what a client reads",
)
def counts_apart(data: TrialData, row: TrialRow) -> Measured:
    counts = _two_counts(data)
    yield from _worst((100 * (app - process) / max(process, 1), words) for app, process, _, words in counts)


@rule(
    "uncounted bytes",
    "what a client's process took in beyond the client's own count and 1 MB, where both are of its file alone",
    unit="% of its count",
    suspect=5,
    because="headers of small reads are in it, and ROOT's own files",
    remedy="one of the counts is wrong: see bytes_app and bytes_client in jobs.csv",
)
def uncounted_bytes(data: TrialData, row: TrialRow) -> Measured:
    if data.traits.taken_in == "bytes_client":
        counts = _two_counts(data)
        yield from _worst((100 * (process - app - own) / max(app, 1), words) for app, process, own, words in counts)


def _two_counts(data: TrialData) -> list[tuple[int, int, int, str]]:
    """What each client and its process counted, and what the process may have taken in beside that."""
    return [
        (
            job.bytes_app,
            job.bytes_client,
            OWN_BYTES * (job.work.fetches if job.work else 1),
            f"client {job.index} {data.measure.did} {mb(job.bytes_app)}, its process {mb(job.bytes_client)}",
        )
        for job in data.jobs
        if job.ok and job.bytes_app is not None and job.bytes_client is not None
    ]


@rule(
    "unlike the others",
    "a client's count of what it took in, as a share of its file, away from the other clients' median",
    unit="% of its file",
    suspect=2,
    because="between alike clients they differ by less than 1 %",
    remedy="the count is wrong, or the replicas are not alike: see bytes_app and bytes_expected in jobs.csv",
)
def unlike_the_others(data: TrialData, row: TrialRow) -> Measured:
    shares = {
        job.index: 100 * job.bytes_app / job.expected_bytes
        for job in data.jobs
        if job.ok and job.bytes_app is not None and job.expected_bytes and data.trial.work.for_s is None
    }
    if shares:
        usual = statistics.median_low(shares.values())
        odd = max(shares, key=lambda index: abs(shares[index] - usual))
        words = f"client {odd} {data.measure.did} {shares[odd]:.1f} % of its file, where {usual:.1f} % is usual"
        yield abs(shares[odd] - usual), words


@rule(
    "not whole",
    "what a client that moves files from end to end did not move of its file, or beyond it and 1 MB",
    unit="% of its file",
    suspect=0.5,
    invalid=2,
    because="half a file is another measurement",
    remedy="the client ends too early, counts wrongly, or has another file: see its record",
)
def not_whole(data: TrialData, row: TrialRow) -> Measured:
    ended = [job for job in data.jobs if job.ok]
    if not data.traits.reads_whole or not ended:
        return
    if data.trial.work.for_s is None:
        sizes = [(f"client {job.index}", job.bytes_taken or 0, job.expected_bytes) for job in ended]
    else:  # of files that are read again and again, each once, if clients had them all
        once = [job.bytes_once or 0 for job in ended if job.work and job.work.files >= data.trial.work.files_per_job]
        sizes = [("all clients", sum(once), data.trial.bytes)] if len(once) == data.trial.jobs else []
    yield from _worst(
        (
            100 * max(size - taken, taken - OWN_BYTES - size) / size,
            f"{who} {data.measure.did} {mb(taken)} of {'files' if data.trial.work.for_s else 'a file'} of {mb(size)}",
        )
        for who, taken, size in sizes
        if size
    )


def _worst(of_clients: Iterable[tuple[float, str]]) -> Measured:
    """The worst client stands for all."""
    worst = max(of_clients, key=lambda measured: measured[0], default=None)
    if worst:
        yield worst


@rule(
    "started beside",
    "time in which jobs of the next trial, which are started ahead and wait for their turn, were being started",
    unit="% of the window",
    suspect=10,
    because="where it was 20 to 30 % the rates were 2 % lower, which may be chance"
    " ([runs.md](runs.md#jobs-started-ahead))",
    remedy="their start may have taken time from this trial: let trials last longer, or leave `ahead` out",
)
def started_beside(data: TrialData, row: TrialRow) -> Measured:
    """A job that waits does nothing; one is being started when HTCondor tells of it, and for some time around that."""
    if data.beside is not None and row.window_s:
        lasted_s = data.beside.last_wall_s - data.beside.first_wall_s + STARTING_S
        share = 100 * min(1.0, lasted_s / row.window_s)
        words = f"{data.beside.jobs} jobs of the next trial were started within {lasted_s:.1f} s"
        yield share, f"{words}, {share:.1f} % of the window"
