"""A trial as its hosts and clients have recorded it: its definition, clients, samples, clocks and conditions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tierbench.condition_state import WARM
from tierbench.dags.measure import OF_OWN_DISKS, SENT, Measure
from tierbench.postprocess.arrays import Booleans
from tierbench.postprocess.records.ceilings import Ceilings
from tierbench.postprocess.records.definition import Definition
from tierbench.postprocess.records.increments import Intervals
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.samples import Samples
from tierbench.trials import Clock

LONGEST_S = 8 * 86_400  # a trial may last a week


@dataclass(frozen=True, eq=False)  # arrays are not equal as a whole
class Sampled:
    """The samples of one interface and of its host, and the differences between them."""

    samples: Samples
    intervals: Intervals

    def touching(self, begin_ns: int, end_ns: int) -> Booleans:
        """Which of the intervals between two samples have a part in this time."""
        times = self.samples.time_ns
        return (times[1:] > begin_ns) & (times[:-1] < end_ns)


@dataclass(frozen=True)
class Cache:
    """A host's cache, that was to be cold or warm; None where nothing was reported."""

    host: str
    value: str
    folder: str  # what is read through it: of software a folder, of data a server's URL
    bytes_before: int | None
    bytes_after: int | None
    trouble: str = ""  # what went wrong in it, in its own words

    @property
    def fetched(self) -> int | None:
        """What it took in meanwhile."""
        if self.bytes_before is None or self.bytes_after is None:
            return None
        return self.bytes_after - self.bytes_before

    @property
    def of_data(self) -> bool:
        return "://" in self.folder


@dataclass(frozen=True)
class TrialData:
    """A trial's definition and what it left behind."""

    trial: Definition
    jobs: list[Job]
    sampled: list[Sampled]
    go_wall_ns: int | None
    submit_wall_ns: int | None
    resident_bytes: int | None
    outcome: list[str]  # what the trial itself said went wrong
    troubles: list[str]  # what is missing or broken in its folder
    saw_nothing: frozenset[str] = frozenset()  # hosts that were flushed and saw none of the files
    flush_doubt: str = ""  # why what the flushes have measured does not hold
    at_work: bool = False  # its DAGMan has not ended, and its last step has not said how it went
    missing_optional: list[str] = field(default_factory=list)  # the same, of samples that enter no mean
    other_pools: dict[str, str] = field(default_factory=dict)  # of workers that are not in its own: theirs
    clock: Clock | None = None  # at the trial's end
    begin_clock: Clock | None = None  # when it had the measurement lock; None in trials of earlier versions
    submit_error_s: float | None = None  # by how much the time of submission may be wrong
    ceilings: Ceilings = field(default_factory=Ceilings)  # what the links on its way can carry
    left: list[str] = field(default_factory=list)  # of what it wrote, what could not be removed
    verified: str = ""  # what of the written files was compared afterwards
    arranged: list[str] = field(default_factory=list)  # what the site has changed for it, as it was read back
    arranged_on: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what it was asked to change, by host
    caches: list[Cache] = field(default_factory=list)  # those of them that are about one
    mounts: dict[str, dict[str, str]] = field(default_factory=dict)  # of each host that was flushed, when it was

    @cached_property
    def working(self) -> list[Job]:
        """The clients that have something to move, which make the window; all where none has."""
        return [job for job in self.jobs if job.has_work] or self.jobs

    @cached_property
    def all_active_ns(self) -> tuple[int, int] | None:
        """From the last client's begin to the first one's end; not known unless all of them reported both."""
        begins = [job.go.wall_ns for job in self.working if job.go]
        ends = [job.ended_wall_ns for job in self.working if job.ended_wall_ns is not None]
        if not ends or not len(begins) == len(ends) == len(self.working):
            return None
        return max(begins), min(ends)

    @cached_property
    def measure(self) -> Measure:
        """What its rates are of, and which way its bytes go."""
        if not self.trial.on_disk:
            return self.trial.measure
        own = [worker.samples.columns.get(OF_OWN_DISKS[SENT]) for worker in self.workers_at_work]
        counted = all(column is not None and len(column) and column.min() >= 0 for column in own)
        return self.trial.measure.on_own_disks if own and counted else self.trial.measure

    @cached_property
    def data_caches(self) -> list[Cache]:
        """The caches that its clients read their files through, if the site has set what they have of them."""
        urls = [job.start.url for job in self.jobs if job.start]
        return [cache for cache in self.caches if cache.of_data and any(url.startswith(cache.folder) for url in urls)]

    @property
    def is_warm(self) -> bool:
        """Whether these were to have all of them."""
        return bool(self.data_caches) and all(cache.value == WARM for cache in self.data_caches)

    @property
    def cached(self) -> bool:
        """Whether caches are meant to serve what its clients read."""
        return self.trial.reads_again or self.is_warm

    @cached_property
    def storage(self) -> list[Sampled]:
        """All interfaces of the storage servers that its way names; what these moved is the sum over them.

        One that is copied to is the other end, unless it is copied within itself. Where the workers' disks are the
        storage, it is those workers that clients ran on; of several that share a machine and tell what all of it has
        read, one.
        """
        if not self.trial.on_disk:
            servers, end = self.trial.servers, self.trial.copied_to
            named = [interface for interface in self._servers if not servers or interface.samples.host in servers]
            return [interface for interface in named if interface.samples.host != end] or named
        same = "host" if self.measure.by == "own disks" else "boot_id"
        return list({getattr(interface.samples.header, same): interface for interface in self.workers_at_work}.values())

    @property
    def other_servers(self) -> list[Sampled]:
        """All interfaces of those storage servers that have nothing to do with its way."""
        own = {interface.samples.host for interface in self.storage}
        return [interface for interface in self._servers if interface.samples.host not in own]

    @cached_property
    def _servers(self) -> list[Sampled]:
        return [sampled for sampled in self.sampled if sampled.samples.role == "storage"]

    @cached_property
    def far_end(self) -> list[Sampled]:
        """Who has the trial's bytes at the end that is not the measured one; none unless all of it was sampled."""
        if self.measure.far_end == "none":
            return []
        if self.measure.far_end == "workers":
            return self.workers_at_work
        host = self.trial.copied_to
        return [s for s in self.sampled if s.samples.host == host] if host else self.storage

    @property
    def both_ends(self) -> list[Sampled]:
        """The storage, at both ends of copies from server to server."""
        return [*self.storage, *(self.far_end if self.measure.far_end == "storage" else [])]

    @cached_property
    def client_hosts(self) -> set[str]:
        return {job.host for job in self.jobs if job.start}

    @cached_property
    def taking_hosts(self) -> set[str]:
        """The same as far as the data go through them: what servers copy among themselves does not."""
        return self.client_hosts if self.measure.far_end == "workers" else set()

    @cached_property
    def workers_at_work(self) -> list[Sampled]:
        """The workers that clients ran on; none unless each of them was sampled."""
        hosts = self.client_hosts
        workers = [s for s in self.sampled if s.samples.role == "worker" and s.samples.host in hosts]
        return workers if {worker.samples.host for worker in workers} == hosts else []

    @cached_property
    def begin_ns(self) -> int | None:
        """The window begins with the first client, as the rate is of the time in which clients were at work."""
        return min((job.go.wall_ns for job in self.working if job.go), default=self.go_wall_ns)

    @cached_property
    def end_ns(self) -> int | None:
        """The window ends with the last client that reported its end; one that ends before it began is no window."""
        ends = [job.ended_wall_ns for job in self.working if job.ended_wall_ns is not None]
        last, begin = max(ends, default=None), self.begin_ns
        if last is None or begin is None:
            return last
        return last if begin < last <= begin + LONGEST_S * 10**9 else None

    @cached_property
    def window_ns(self) -> tuple[int, int] | None:
        begin, end = self.begin_ns, self.end_ns
        return None if begin is None or end is None else (begin, end)

    @property
    def window_s(self) -> float:
        """How long it is; 0 where there is none."""
        return (self.window_ns[1] - self.window_ns[0]) / 1e9 if self.window_ns else 0.0


def by_host(sampled: Iterable[Sampled]) -> list[list[Sampled]]:
    """The interfaces of each host: what is the host's own, all of them have."""
    hosts: dict[str, list[Sampled]] = {}
    for interface in sampled:
        hosts.setdefault(interface.samples.host, []).append(interface)
    return list(hosts.values())
