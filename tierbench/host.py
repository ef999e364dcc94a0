"""What every shipped script asks of its host and of HTCondor: clocks, names, interfaces, mounts, small files, and
the access point by chirp.

Stdlib only, Python 3.6 or newer.
"""

import functools
import importlib
import os
import re
import socket
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MOUNTS = "/proc/self/mounts"
NETWORK = ("9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "panfs", "smb3")  # and of FUSE all
NO_STORAGE = {"cvmfs2", "fuse.cvmfs2", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fuse.snapfuse"}  # but these
CLOCK_SECONDS = 0.03  # three steps of /proc/uptime
CLOCK_READS = 12
CLOCK_PATIENCE_NS = 10**9  # far from the access point fewer reads have to do: others wait for them
NICE = -10  # of the sampler, which goes before all else where it is allowed to
CLOCK_PAUSE_S = 0.003  # another moment between two steps of the access point's uptime


def wall_ns() -> int:
    """The wall clock; Python 3.6 has it as a float only, good to a quarter of a microsecond."""
    return int(time.time() * 1e9)


def mono_ns() -> int:
    """The monotonic clock, good to some nanoseconds."""
    return int(time.monotonic() * 1e9)


def now() -> "tuple[int, int]":
    return wall_ns(), mono_ns()


def clock_bounds() -> "dict[str, Any]":
    """Between which bounds this wall clock is ahead of the uptime, which has steps of 10 ms, and the uptime itself."""
    low, high = [], []  # type: list[int], list[int]
    began = time.monotonic()
    while not low or time.monotonic() < began + CLOCK_SECONDS:  # the more reads, the nearer to a step of the uptime
        before = wall_ns()
        uptime = round(float(Path("/proc/uptime").read_text().split()[0]) * 100) * 10**7
        low.append(before - uptime - 10**7)
        high.append(wall_ns() - uptime)
    return {"low_ns": max(low), "high_ns": min(high), "uptime_ns": uptime, "boot_id": boot_id()}


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def read_text(path: str) -> str:
    """The text of a file, or nothing if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def as_root(*command: str) -> "list[str]":
    """A command that is root's: sudo lets a job's user call a helper without a password."""
    return [*([] if os.geteuid() == 0 else ["sudo", "-n"]), *command]


class Mount(NamedTuple):
    """What is mounted where, and the kind of its file system."""

    device: str
    point: str
    kind: str

    @property
    def by_network(self) -> bool:
        """Whether others see the same files."""
        return self.kind in NETWORK or (self.kind.split(".")[0] == "fuse" and not {self.kind, self.device} & NO_STORAGE)


def mounts(table: str = MOUNTS) -> "list[Mount]":
    """All that is mounted here, each place once, by what lies uppermost there."""
    by_place = {}  # type: dict[str, Mount]
    for line in read_text(table).splitlines():
        device, point, kind = (word.replace("\\040", " ") for word in line.split()[:3])
        by_place[point] = Mount(device, point, kind)
    return list(by_place.values())


def mount_of(path: "str | Path", table: str = MOUNTS) -> Mount:
    real = os.path.realpath(str(path)) + "/"
    above = [mount for mount in mounts(table) if real.startswith(mount.point.rstrip("/") + "/")]
    return max(above, key=lambda mount: len(mount.point), default=Mount("", "/", "?"))


class NoInterface(Exception):
    """There is no such network interface here."""


def find_interfaces(interfaces: str, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> "list[str]":
    """The interfaces to sample, of which each is there and counts once: eth0, eth0+eth1, eth%, or auto."""
    present = re.findall(r"^\s*([^\s:|]+):", read_text(f"{proc}/self/net/dev"), re.M)
    if not present:
        raise OSError(f"{proc}/self/net/dev cannot be read, or lists no interface")
    by_number = sorted(present, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)])
    names = []
    for part in interfaces.split("+"):
        matching = [name for name in by_number if part.endswith("%") and name.startswith(part[:-1])]
        names += matching or [default_interface(proc) if part == "auto" else part]
    for name in names:
        if not name:
            raise NoInterface(f"no default route to choose an interface by; name one of: {', '.join(present)}")
        if name not in present:
            raise NoInterface(f"no interface {name} here; there are: {', '.join(present)}")
    if len(set(names)) < len(names):
        raise NoInterface(f"{interfaces} names an interface twice, which would be counted twice")
    for name in names:
        for other in _below(name, sys / "class/net"):
            if other in names:
                raise NoInterface(f"{name} has bytes of {other}, which would be counted twice; name but one of them")
    return names


def _below(interface: str, net: Path) -> "Iterator[str]":
    """The interfaces that carry what a bond, a bridge or a VLAN does, down to the cards."""
    for link in (net / interface).glob("lower_*"):
        other = link.name[len("lower_") :]
        yield other
        yield from _below(other, net)


def default_interface(proc: Path) -> str:
    """The interface of the default route with the lowest metric, of IPv4 if it has any; empty if there is none."""
    up, reject = 0x1, 0x200
    routes = []
    for line in read_text(f"{proc}/self/net/route").splitlines()[1:]:
        name, destination, _, flags, _, _, metric, mask = line.split()[:8]
        if int(destination, 16) == int(mask, 16) == 0 and int(flags, 16) & (up | reject) == up:
            routes.append((int(metric), name))
    for line in read_text(f"{proc}/self/net/ipv6_route").splitlines() if not routes else ():
        destination, length, _, _, _, metric, _, _, flags, name = line.split()
        if int(destination, 16) == int(length, 16) == 0 and int(flags, 16) & (up | reject) == up and name != "lo":
            routes.append((int(metric, 16), name))
    return min(routes)[1] if routes else ""


@functools.lru_cache(maxsize=1)
def own_name() -> str:
    """This host's in full: where no name server answers it takes a minute to learn that there is none."""
    return socket.getfqdn()


class NoChirp(Exception):
    """HTCondor's chirp client is not there."""


def in_job() -> bool:
    return Path(os.environ.get("_CONDOR_CHIRP_CONFIG", ".chirp.config")).is_file()


def machine() -> "tuple[str, str | None]":
    """This host's name and the slot, as HTCondor knows them, or else the host's own idea of its name."""
    ad = read_text(os.environ.get("_CONDOR_MACHINE_AD", ""))
    names = dict(re.findall(r'^(Machine|Name) = "(.*)"$', ad, re.MULTILINE))
    own = socket.gethostname()
    return names.get("Machine") or (own if "." in own else own_name()), names.get("Name")


def condor_version() -> "str | None":
    """The HTCondor of this host, as its machine ad says."""
    ad = read_text(os.environ.get("_CONDOR_MACHINE_AD", ""))
    version = re.search(r'^CondorVersion = "\$CondorVersion: (\S+)', ad, re.MULTILINE)
    return version.group(1) if version else None


class LivingSocket(socket.socket):
    """A socket whose closed connection is an error; htchirp would read on from it forever, at full speed."""

    def recv(self, *arguments: Any) -> bytes:
        data = super().recv(*arguments)
        if not data:
            raise ConnectionResetError("the chirp connection was closed")
        return data


class AccessPoint:
    """The access point of this job, in a conversation that is begun anew after a trouble, which is an OSError."""

    def __init__(self) -> None:
        try:
            htchirp: Any = importlib.import_module("htchirp")
        except ImportError:
            raise NoChirp("htchirp.py must lie beside this script, since HTCondor offers chirp here") from None
        htchirp.socket = types.SimpleNamespace(socket=LivingSocket, error=OSError, MSG_PEEK=socket.MSG_PEEK)
        self.kind: Any = htchirp.HTChirp
        self.chirp: Any = None

    def announce(self, text: str) -> None:
        self._ask("ulog", text)

    def fetch(self, name: str, copy: str = os.devnull) -> bool:
        """Copy a file of the job's directory on the access point; whether it was there."""
        try:
            self._ask("fetch", name, copy)
        except FileNotFoundError:
            return False
        return True

    def clock(self, reads: int = CLOCK_READS) -> "dict[str, int]":
        """Between which bounds this wall clock is ahead of the access point's uptime, which comes in 10 ms steps."""
        file, low, high = int(self._ask("_open", "/proc/uptime", "r")), [], []
        deadline = mono_ns() + CLOCK_PATIENCE_NS
        for _ in range(reads):
            before = wall_ns()
            uptime = round(float(self._ask("_read", file, 64, 0).split()[0]) * 100) * 10**7
            after = wall_ns()
            low.append(before - uptime - 10**7)
            high.append(after - uptime)
            if mono_ns() > deadline:
                break
            time.sleep(CLOCK_PAUSE_S)
        self._ask("_close", file)
        return {"wall_ns": after, "low_ns": max(low), "high_ns": min(high)}

    def close(self) -> None:
        """End the conversation, for which another one may wait."""
        if self.chirp is not None:
            self.chirp.disconnect()
            self.chirp = None

    def _ask(self, question: str, *arguments: "str | int") -> Any:
        try:
            if self.chirp is None:
                chirp = self.kind()
                chirp.connect()
                self.chirp = chirp
            return getattr(self.chirp, question)(*arguments)
        except self.kind.DoesntExist as error:
            raise FileNotFoundError(str(error)) from None
        except (self.kind.ChirpError, OSError, RuntimeError, ValueError) as error:
            self.close()  # the conversation is out of step: another one next time
            raise ConnectionError(f"chirp {question}: {error}") from None
