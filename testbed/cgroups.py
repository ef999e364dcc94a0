"""A control group for each host, so that its own CPU time is counted apart, and can be limited.

All hosts share one kernel, whose /proc/stat tells the whole machine's. What there is of control groups differs: v1 has
a hierarchy for counting (cpuacct) and one for limits (cpu), which may be one; v2 counts always, and limits where the
machine lets its root group hand the cpu controller down.
"""

import contextlib
import functools
import os
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tierbench.errors import HostError

MOUNTS = Path("/proc/self/mounts")
ACCOUNT = "/run/tierbench-cpu"  # where a host finds its own account; monitors/sampler.py looks there too
PERIOD_US = 20_000  # short beside a sampling period, so that a limited host is slow and not stuttering
MACHINES = 16  # a testbed's weight: to the kernel its group would be one process among all of this machine's
EMPTYING_SECONDS = 60.0
DISK_RATE = "blkio.throttle.read_bps_device"
NO_LIMIT_MBPS = 1_000_000
BLOCK_DEVICES = Path("/sys/dev/block")
ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups of this machine, and which of its groups' files tell a host what it used."""

    root: Path
    files: tuple[str, ...]
    unified: bool = False
    limits: bool = False  # of CPU time
    disks: bool = False  # counts what is read from disks, and can limit it


@dataclass(frozen=True)
class Means:
    """What this machine has to count and to limit a host's CPU time by; empty where it has nothing."""

    hierarchies: tuple[Hierarchy, ...] = ()
    missing: str = ""

    @property
    def limits(self) -> bool:
        return any(hierarchy.limits for hierarchy in self.hierarchies)


@functools.cache
def means() -> Means:
    """The means of this machine, found by trying them once."""
    return means_in(MOUNTS.read_text())


def means_in(mounts: str) -> Means:
    """The means among these mounts: v1 where both its hierarchies can be written to, else v2."""
    groups = [line.split()[1:4] for line in mounts.splitlines() if line.split()[2] in ("cgroup", "cgroup2")]
    with contextlib.suppress(OSError):
        counting = _version_1(groups, "cpuacct", ("cpuacct.usage",))
        limiting = _version_1(groups, "cpu", ("cpu.stat", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
        if counting and limiting:
            blkio: tuple[Hierarchy, ...] = ()  # where they cannot be counted by hosts, all else still can
            with contextlib.suppress(OSError):
                disks = _version_1(groups, "blkio", ("blkio.throttle.io_service_bytes", DISK_RATE))
                blkio = (replace(disks, files=disks.files[:1], disks=True),) if disks else ()
            return Means((counting, replace(limiting, limits=True), *blkio))
    for root in (Path(point) for point, kind, _ in groups if kind == "cgroup2"):
        with contextlib.suppress(OSError), _trial_group(root) as group:
            if "usage_usec" in (group / "cpu.stat").read_text():
                limits, reads = (_hands_down(root, group, *of) for of in (("cpu", "cpu.max"), ("io", "io.max")))
                missing = "" if limits else f"{root} does not hand the cpu controller down, so no CPU can be limited"
                files = ("cpu.stat", *(["cpu.max"] if limits else []), *(["io.stat"] if reads else []))
                return Means((Hierarchy(root, files, unified=True, limits=limits, disks=reads),), missing)
    return Means((), "no control group can be made here, so a host's CPU time cannot be told from the machine's")


def _version_1(groups: list[list[str]], controller: str, files: tuple[str, ...]) -> Hierarchy | None:
    for point, kind, options in groups:
        if kind == "cgroup" and controller in options.split(","):
            with _trial_group(Path(point)) as group:
                if all((group / file).exists() for file in files):
                    return Hierarchy(Path(point), files)
    return None


def _hands_down(root: Path, group: Path, controller: str, file: str) -> bool:
    with contextlib.suppress(OSError):
        (root / "cgroup.subtree_control").write_text(f"+{controller}")
    return (group / file).exists()


@contextlib.contextmanager
def _trial_group(root: Path) -> Iterator[Path]:
    group = root / f"tierbench-trial-{os.getpid()}-{threading.get_ident()}"
    group.mkdir()
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


class Cgroup:
    """A host's control group, by the directory of the host; the directory alone tells its name, also after a crash."""

    def __init__(self, host_directory: Path) -> None:
        bed = host_directory.parent.parent
        self._bed = f"tierbench-{bed.name}-{zlib.crc32(str(bed).encode()):08x}"
        self._name = host_directory.name
        self._disk = _disk_below(host_directory)

    def _groups(self) -> Iterator[tuple[Hierarchy, Path]]:
        for hierarchy in means().hierarchies:
            yield hierarchy, hierarchy.root / self._bed / self._name

    def make(self) -> None:
        for hierarchy, group in self._groups():
            group.parent.mkdir(exist_ok=True)
            for file, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
                if hierarchy.limits and (group.parent / file).exists():
                    (group.parent / file).write_text(str(MACHINES * usual))
            for controller, wanted in (("cpu", hierarchy.limits), ("io", hierarchy.disks)):
                if hierarchy.unified and wanted:
                    (group.parent / "cgroup.subtree_control").write_text(f"+{controller}")
            group.mkdir(exist_ok=True)
        self.limit_disk(None)  # only where there is a limit, version 1 counts

    @property
    def entrances(self) -> list[Path]:
        """The files to which a process writes its number to belong to the host."""
        return [group / "cgroup.procs" for _, group in self._groups() if group.exists()]

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command line by which a command, and all that it starts, belongs to the host."""
        entrances = list(map(str, self.entrances))
        return ["sh", "-c", ENTER, "sh", *entrances, "--", *command] if entrances else list(command)

    @property
    def account(self) -> list[Path]:
        """The files that tell what the host has used, and what it may use."""
        return [group / file for hierarchy, group in self._groups() for file in hierarchy.files if group.exists()]

    @property
    def limited(self) -> bool:
        """Whether its CPU could be limited."""
        return any(hierarchy.limits and group.exists() for hierarchy, group in self._groups())

    def limit(self, cores: float | None) -> None:
        """Let the host use so many cores at most; None lifts the limit."""
        for hierarchy, group in self._groups():
            quota = round(cores * PERIOD_US) if cores is not None else "max" if hierarchy.unified else -1
            if hierarchy.unified and hierarchy.limits:
                (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            elif hierarchy.limits:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))

    def limit_disk(self, mbps: float | None) -> bool:
        """Let the host read so much a second from this machine's disk at most; whether that could be done.

        None is more than any disk has.
        """
        done = False
        for hierarchy, group in self._groups():
            if hierarchy.disks and self._disk:
                rate = round((mbps or NO_LIMIT_MBPS) * 1e6 / 8)
                with contextlib.suppress(OSError):  # a kind of disk that has no such limits: then none is counted
                    if hierarchy.unified:
                        (group / "io.max").write_text(f"{self._disk} rbps={rate}")
                    else:
                        (group / DISK_RATE).write_text(f"{self._disk} {rate}")
                    done = True
        return done

    def remove(self) -> None:
        """Have it gone once its processes are; the last host's takes the testbed's group with it."""
        for _, group in self._groups():
            deadline = time.monotonic() + EMPTYING_SECONDS
            while group.exists():
                try:
                    group.rmdir()
                except OSError:  # the kernel takes the last processes out in its own time
                    if time.monotonic() > deadline:
                        raise HostError(f"{group} still has processes; `tierbench testbed down` tries again") from None
                    time.sleep(0.02)
            with contextlib.suppress(OSError):  # others are still in it, or it is gone
                group.parent.rmdir()


def _disk_below(directory: Path) -> str:
    """The number of the disk, not of its partition, that a directory is or will be on; none if it is on no disk."""
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    number = nearest.stat().st_dev
    device = (BLOCK_DEVICES / f"{os.major(number)}:{os.minor(number)}").resolve()
    whole = device.parent if (device / "partition").exists() else device
    return (whole / "dev").read_text().strip() if (whole / "dev").exists() else ""
