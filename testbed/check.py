"""Prove that a testbed works: real jobs on every worker read a file by each access method."""

import secrets
from dataclasses import dataclass

from tierbench.errors import HostError
from tierbench.site_configs.site import Site, load_site
from tierbench.testbed.host import verbatim
from tierbench.testbed.rootfs import Say
from tierbench.testbed.services.filesystem import DATA, STORAGE
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER, Host, Topology

JOBS_SECONDS = 300
JOBS = """\
executable = read-and-hash
arguments = $(url)
requirements = Machine == "$(worker)"
output = $(Process).out
error = $(Process).err
log = jobs.log
should_transfer_files = yes
request_memory = 64
"""
THESIS_ACCESS = ("lan-xrootd", "wan-xrootd-private", "wan-xrootd-public", "direct")


@dataclass(frozen=True)
class AccessMethod:
    """A path from a worker to the remote file system."""

    name: str
    workers: tuple[Host, ...]
    prefix: str
    caches: tuple[str, ...]  # the hosts whose mounts keep what has been read


@dataclass(frozen=True)
class Reading:
    """How fast one job has read its file, and whether as it was made."""

    worker: str
    seconds: float
    intact: bool


@dataclass(frozen=True)
class Outcome:
    """All readings by one method, of files of one size, and what the storage server's interface sent meanwhile."""

    access: str
    file_bytes: int
    readings: tuple[Reading, ...]
    sent: int

    @property
    def sent_per_byte_read(self) -> float:
        return self.sent / (len(self.readings) * self.file_bytes)


def access_methods(topology: Topology, site: Site) -> list[AccessMethod]:
    """The four access methods of the thesis, as far as the testbed's site file offers them."""
    methods = []
    for name in filter(site.access.__contains__, THESIS_ACCESS):
        access = site.access[name]
        workers = tuple(topology.pool(access.pool))
        mounts = [host.fqdn for host in workers] if access.protocol == "file" else access.path
        methods.append(AccessMethod(name, workers, access.prefix, tuple(fqdn.partition(".")[0] for fqdn in mounts)))
    return methods


class Check:
    """Makes files, flushes caches and runs jobs on one testbed."""

    def __init__(self, testbed: Testbed) -> None:
        self.topology, self._hosts = testbed.topology, testbed.hosts
        self._writer = self._hosts[self.topology.writer.name]
        self._access_point, self._storage = self._hosts[ACCESS_POINT], self._hosts[STORAGE]

    def make_files(self, megabytes: int, count: int) -> dict[str, str]:
        """Make files of random bytes on the remote file system; their paths and digests."""
        directory = f"{DATA}/check-{secrets.token_hex(4)}"
        make = f"for n in $(seq {count}); do head -c {megabytes}M /dev/urandom >$n; done; sha256sum *"
        make = f"mkdir {directory}; cd {directory}; {make}"
        lines = self._writer.run("sh", "-euc", make, user=USER, timeout=600).stdout.splitlines()
        return {f"{directory}/{name}": digest for digest, name in map(str.split, lines)}

    def remove_files(self, paths: dict[str, str]) -> None:
        self._writer.run("rm", "-rf", *{path.rpartition("/")[0] for path in paths}, user=USER)

    def flush(self, method: AccessMethod, paths: dict[str, str]) -> None:
        """Drop the files from the caches of this method's mounts; the servers' own stay warm."""
        for name in method.caches:
            drop = "for f; do dd if=$f iflag=nocache count=0 status=none; done"
            self._hosts[name].run("sh", "-euc", drop, "sh", *paths)

    def sent(self) -> int:
        """The bytes that the storage server's interface has sent so far."""
        return int(self._storage.run("cat", "/sys/class/net/eth0/statistics/tx_bytes").stdout)

    def read(self, method: AccessMethod, paths: dict[str, str], megabytes: int) -> Outcome:
        """Read one of the files in a job on each of the method's workers, all at once."""
        before = self.sent()
        jobs = [(worker, method.prefix + path) for worker, path in zip(method.workers, paths, strict=False)]
        results = self._run_jobs(jobs)
        sent = self.sent() - before
        readings = (
            Reading(worker, int(nanoseconds) / 1e9, digest == expected)
            for (worker, _, nanoseconds, digest), expected in zip(results, paths.values(), strict=False)
        )
        return Outcome(method.name, megabytes << 20, tuple(readings), sent)

    def _run_jobs(self, jobs: list[tuple[Host, str]]) -> list[list[str]]:
        ce = self._access_point
        directory = ce.run("mktemp", "-d", user=USER).stdout.strip()
        ce.put(f"{directory}/read-and-hash", verbatim("read-and-hash"), 0o755, USER)
        lines = "".join(f"  {worker.fqdn}, {url}\n" for worker, url in jobs)
        ce.put(f"{directory}/jobs.sub", f"{JOBS}queue worker, url from (\n{lines})\n", user=USER)
        cluster = ""
        try:
            here = ["env", "-C", directory]
            submitted = ce.run(*here, "condor_submit", "-terse", "jobs.sub", user=USER).stdout
            cluster = submitted.partition(".")[0]
            ce.run(*here, "condor_wait", "-wait", str(JOBS_SECONDS), "jobs.log", user=USER, timeout=JOBS_SECONDS + 60)
            results = [ce.read(f"{directory}/{n}.out", USER).decode().split() for n in range(len(jobs))]
            for number, ((worker, url), result) in enumerate(zip(jobs, results, strict=True)):
                if len(result) != 4:
                    complaint = ce.read(f"{directory}/{number}.err", USER).decode().strip()
                    raise HostError(f"the job on {worker.fqdn} could not read {url}: {complaint or 'no output'}")
            return results
        finally:
            if cluster:
                ce.run("condor_rm", cluster, user=USER, check=False)
            ce.run("rm", "-rf", directory, user=USER)


def check(testbed: Testbed, megabytes: int, say: Say) -> list[Outcome]:
    """Read by every method, cold, from a job on each worker."""
    checking = Check(testbed)
    outcomes = []
    for method in access_methods(testbed.topology, load_site(testbed.site)):
        if not method.workers:
            continue
        say(f"{method.name}: {len(method.workers)} jobs, each reads {megabytes} MiB")
        paths = checking.make_files(megabytes, len(method.workers))
        checking.flush(method, paths)
        outcomes.append(checking.read(method, paths, megabytes))
        checking.remove_files(paths)
    return outcomes
