#!/usr/bin/env python3
"""Print this host's network, TCP, CPU, memory and disk counters at a fixed period until told to stop.

Shipped to the hosts of a trial and streamed back through standard output; the format is in docs/samples.md.
Needs nothing but Python 3.6 and /proc. Inside an HTCondor job, htchirp.py lies beside it.

Exit codes:
    0  ended in order (stop file, signal, time over, or parent gone); the trailer says which
    2  the command line is wrong
    3  there is no such interface, or no default route to find it by
    4  this host cannot be sampled: no /proc/self/net/dev, or .chirp.config without htchirp.py
    5  standard output failed: its reader is gone, or the disk is full
    6  standard output took nothing for --max-blocked-seconds
"""

import argparse
import collections
import contextlib
import importlib
import json
import os
import platform
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 1
STOP_POLL_S = 0.5
CLOCK_READS = 12
CLOCK_PATIENCE_NS = 10**9  # far from the access point fewer reads have to do: the trial's end waits for them
CLOCK_PAUSE_S = 0.003  # another moment between two steps of the access point's uptime
ROUTES_S = 5
LINK_LOCAL = ("fe80:", "ff00:")
SYSTEM = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}  # HTCondor may give a job another one
CONGESTION_CONTROL = re.compile(r" congctl (?:lock )?(\w+)")
OWN_CPU = Path("/run/tierbench-cpu")  # files of its control group, where a host shares its kernel with other hosts
REAL_KINDS = ("bond", "vlan", "team")  # their drivers state the speed of the cards below them


class Column(NamedTuple):
    """One number of a record: how wide it is written, and what it counts for whom."""

    name: str
    width: int
    unit: str
    kind: str
    scope: str


COLUMNS = (
    Column("mono_ns", 18, "ns", "clock", "machine"),
    Column("wall_ns", 19, "ns", "clock", "machine"),
    Column("rx_bytes", 19, "B", "counter", "interface"),
    Column("tx_bytes", 19, "B", "counter", "interface"),
    Column("rx_packets", 16, "1", "counter", "interface"),
    Column("tx_packets", 16, "1", "counter", "interface"),
    Column("rx_dropped", 14, "1", "counter", "interface"),
    Column("tx_dropped", 14, "1", "counter", "interface"),
    Column("tcp_retrans", 14, "1", "counter", "namespace"),
    Column("tcp_in_segs", 16, "1", "counter", "namespace"),
    Column("tcp_out_segs", 16, "1", "counter", "namespace"),
    Column("cpu_user", 14, "jiffies", "counter", "machine"),
    Column("cpu_nice", 14, "jiffies", "counter", "machine"),
    Column("cpu_system", 14, "jiffies", "counter", "machine"),
    Column("cpu_idle", 14, "jiffies", "counter", "machine"),
    Column("cpu_iowait", 14, "jiffies", "counter", "machine"),
    Column("cpu_irq", 14, "jiffies", "counter", "machine"),
    Column("cpu_softirq", 14, "jiffies", "counter", "machine"),
    Column("cpu_steal", 14, "jiffies", "counter", "machine"),
    Column("cpu_busiest", 5, "core", "gauge", "machine"),
    Column("cpu_busiest_busy_pct", 4, "%", "gauge", "machine"),
    Column("softirq_busiest_pct", 4, "%", "gauge", "machine"),
    Column("mem_cached_kb", 12, "KiB", "gauge", "machine"),
    Column("disk_read_bytes", 19, "B", "counter", "machine"),
    Column("disk_written_bytes", 19, "B", "counter", "machine"),
    Column("disk_busy_ms", 16, "ms", "counter", "machine"),
    Column("cpu_own_ns", 19, "ns", "counter", "host"),
    Column("cpu_own_throttled_ns", 19, "ns", "counter", "host"),
)
RECORD = "".join(f" %{column.width}d" for column in COLUMNS) + "\n"
RECORD_BYTES = sum(1 + column.width for column in COLUMNS) + 1

TUNING = (
    *("net.ipv4.tcp_" + name for name in ("rmem", "wmem", "mtu_probing", "no_metrics_save")),
    *("net.ipv4.tcp_" + name for name in ("timestamps", "window_scaling", "sack")),
    *("net.core." + name for name in ("rmem_max", "wmem_max", "netdev_max_backlog")),
)


class Refusal(Exception):
    """The sampler cannot begin or go on; carries the exit code."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main() -> int:
    options = command_line()
    try:
        network = ProcFile(options.proc / "self/net/dev")
        interface = find_interface(options.interface, network.read(), options.proc)
        counters = Counters(network, interface, options)
        sampling = Sampling(counters, Output(sys.stdout.fileno(), options.max_blocked_seconds), options.period)
        channel = job_channel()
        sampling.write_header(options, interface)
        watch = Watch(channel, options.stop_file, sampling)
        threading.Thread(target=watch.run, daemon=True).start()
        sampling.run(options.max_seconds)
    except Refusal as refusal:
        print(f"sampler: {refusal}", file=sys.stderr)
        return refusal.exit_code
    return 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", required=True, help="id of the trial, for the header")
    parser.add_argument("--role", required=True, help="what this host is to the trial, e.g. storage, gateway, worker")
    parser.add_argument("--interface", required=True, help="e.g. eth0; auto: the one with the default route")
    parser.add_argument("--period", type=float, default=1.0, metavar="S", help="between records (default 1.0)")
    parser.add_argument("--stop-file", metavar="NAME", help="end when this exists, beside the job or in this folder")
    parser.add_argument("--max-seconds", type=float, default=86400, metavar="S", help="end after this (default a day)")
    parser.add_argument(
        "--max-blocked-seconds", type=float, default=60, metavar="S", help="how long the output may stall (default 60)"
    )
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="where procfs is")
    parser.add_argument("--sys", type=Path, default=Path("/sys"), help="where sysfs is")
    parser.add_argument(
        "--own-cpu", type=Path, default=OWN_CPU, metavar="DIR", help=f"the host's own CPU account (default {OWN_CPU})"
    )
    options = parser.parse_args()
    if not 0.001 <= options.period <= 3600:
        parser.error(f"--period must be in 0.001 to 3600 seconds, not {options.period}")
    if not 0 < options.max_seconds <= 1e9:
        parser.error(f"--max-seconds must be above 0, not {options.max_seconds}")
    if not 0 < options.max_blocked_seconds <= 1e6:
        parser.error(f"--max-blocked-seconds must be above 0, not {options.max_blocked_seconds}")
    return options


def find_interface(wanted: str, network: bytes, proc: Path) -> str:
    """The interface to sample, once it is known to be there."""
    present = [name.decode() for name in re.findall(rb"^\s*([^\s:|]+):", network, re.M)]
    if not present:
        raise Refusal(4, f"{proc}/self/net/dev cannot be read, or lists no interface")
    if wanted == "auto":
        wanted = default_interface(proc)
        if not wanted:
            raise Refusal(3, f"no default route to choose an interface by; name one of: {', '.join(present)}")
    if wanted not in present:
        raise Refusal(3, f"no interface {wanted} here; there are: {', '.join(present)}")
    return wanted


def default_interface(proc: Path) -> str:
    """The interface of the IPv4 default route with the lowest metric; empty if there is none."""
    up, reject = 0x1, 0x200
    routes = []
    for line in ProcFile(proc / "self/net/route").read().splitlines()[1:]:
        name, destination, _, flags, _, _, metric, mask = line.split()[:8]
        if int(destination, 16) == int(mask, 16) == 0 and int(flags, 16) & (up | reject) == up:
            routes.append((int(metric), name.decode()))
    return min(routes)[1] if routes else ""


class ProcFile:
    """A file under /proc, kept open; each read gives its present content, or nothing where it cannot."""

    def __init__(self, path: Path) -> None:
        try:
            self.fd = os.open(str(path), os.O_RDONLY)
        except OSError:
            self.fd = -1

    def read(self) -> bytes:
        text = b""
        # The kernel hands out about a page a time, so a host with many interfaces or disks takes several reads.
        with contextlib.suppress(OSError):
            while True:
                piece = os.pread(self.fd, 1 << 16, len(text))
                if not piece:
                    return text
                text += piece
        return b""


def mono_ns() -> int:
    """The monotonic clock; Python 3.6 has it as a float only, good to some nanoseconds."""
    return int(time.monotonic() * 1e9)


def wall_ns() -> int:
    """The wall clock, good to a quarter of a microsecond."""
    return int(time.time() * 1e9)


class Counters:
    """What one record holds, read afresh from the kernel."""

    def __init__(self, network: ProcFile, interface: str, options: argparse.Namespace) -> None:
        proc, sys_ = options.proc, options.sys
        self.network = network
        self.own_cpu = OwnCpu(options.own_cpu)
        self.snmp = ProcFile(proc / "self/net/snmp")
        self.stat = ProcFile(proc / "stat")
        self.meminfo = ProcFile(proc / "meminfo")
        self.diskstats = ProcFile(proc / "diskstats")
        self.interface_line = re.compile(rb"^\s*" + re.escape(interface.encode()) + rb":(.*)$", re.M)
        self.disks = physical_disks(sys_)
        self.cores = Cores()
        self.ncpu = len(re.findall(rb"^cpu\d", self.stat.read(), re.M))

    def record(self) -> bytes:
        mono, wall, network = self._network_with_clocks()
        host = (*self._tcp(), *self._cpu(), self._cached_kb(), *self._disks(), *self.own_cpu.read())
        values = (mono, wall, *self._interface(network), *host)
        record = RECORD % values
        if len(record) != RECORD_BYTES:  # a driver's nonsense must not shift the columns
            fits = [len(str(value)) <= COLUMNS[i].width for i, value in enumerate(values)]
            record = RECORD % tuple(value if fits[i] else -1 for i, value in enumerate(values))
        return record.encode()

    def _network_with_clocks(self) -> "tuple[int, int, bytes]":
        """The interfaces' counters with the clocks they belong to; anew if we were preempted in between."""
        for _ in range(3):
            mono, wall = mono_ns(), wall_ns()
            network = self.network.read()
            if mono_ns() - mono < 1000000:
                break
        return mono, wall, network

    def _interface(self, network: bytes) -> "tuple[int, ...]":
        line = self.interface_line.search(network)
        if not line:
            return (-1,) * 6
        n = line.group(1).split()
        return int(n[0]), int(n[8]), int(n[1]), int(n[9]), int(n[3]), int(n[11])

    def _tcp(self) -> "tuple[int, ...]":
        lines = [line.split() for line in self.snmp.read().splitlines() if line.startswith(b"Tcp:")]
        if len(lines) != 2:
            return -1, -1, -1
        names, values = lines
        return tuple(int(values[names.index(name)]) for name in (b"RetransSegs", b"InSegs", b"OutSegs"))

    def _cpu(self) -> "tuple[int, ...]":
        text = self.stat.read()
        lines = [line.split() for line in text[: text.find(b"\nintr")].splitlines() if line.startswith(b"cpu")]
        jiffies = {line[0]: [int(n) for n in line[1:9]] for line in lines}
        together = jiffies.pop(b"cpu", [])
        return tuple(together + [-1] * (8 - len(together))) + self.cores.busiest(jiffies)

    def _cached_kb(self) -> int:
        cached = re.search(rb"^Cached:\s+(\d+)", self.meminfo.read(), re.M)
        return int(cached.group(1)) if cached else -1

    def _disks(self) -> "tuple[int, ...]":
        lines = [line.split() for line in self.diskstats.read().splitlines()]
        disks = [(512 * int(line[5]), 512 * int(line[9]), int(line[12])) for line in lines if line[2] in self.disks]
        if not disks or len(disks) < len(self.disks):  # a sum without one of them would look like a reset
            return -1, -1, -1
        return tuple(sum(disk[i] for disk in disks) for i in range(3))


class OwnCpu:
    """What a host that shares its kernel has used of the CPU itself, by its control group's files, v1 or v2."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stat, self.usage = ProcFile(directory / "cpu.stat"), ProcFile(directory / "cpuacct.usage")

    def read(self) -> "tuple[int, int]":
        """Nanoseconds used, and nanoseconds in which it was held back; -1 where that is not known."""
        stat = dict(line.split() for line in self.stat.read().splitlines())
        if b"usage_usec" in stat:
            return 1000 * int(stat[b"usage_usec"]), 1000 * int(stat.get(b"throttled_usec", b"0"))
        usage = self.usage.read()
        return int(usage) if usage else -1, int(stat.get(b"throttled_time", b"-1"))

    def limit_cores(self) -> "float | None":
        """How many cores it may use at most; None where nothing limits it."""
        quota = (first_line(self.directory / "cpu.max") or "").split() or [
            first_line(self.directory / "cpu.cfs_quota_us") or "-1",
            first_line(self.directory / "cpu.cfs_period_us") or "1",
        ]
        return None if quota[0] in ("max", "-1") else int(quota[0]) / int(quota[1])


class Cores:
    """Finds the core that was busiest since the previous record."""

    def __init__(self) -> None:
        self.before: dict[bytes, list[int]] = {}

    def busiest(self, now: "dict[bytes, list[int]]") -> "tuple[int, int, int]":
        """Index and busy percentage of the busiest core, and the share of softirq where that is highest."""
        before, self.before = self.before, now
        shares = []
        for core, jiffies in now.items():
            if len(jiffies) == 8 and core in before:
                # Idle and iowait may step back by a jiffy; such a step is no time at all.
                passed = [max(0, jiffies[i] - before[core][i]) for i in range(8)]
                _, _, _, idle, iowait, _, softirq, _ = passed
                shares.append((sum(passed) - idle - iowait, softirq, sum(passed), int(core[3:])))
        if not shares:
            return -1, -1, -1
        busy, _, elapsed, index = max(shares)
        _, softirq, softirq_elapsed, _ = max(shares, key=lambda share: share[1])
        return index, round(100 * busy / max(1, elapsed)), round(100 * softirq / max(1, softirq_elapsed))


def physical_disks(sys_: Path) -> "list[bytes]":
    """Disks with a device behind them: neither partitions nor the loop, RAID and LVM devices stacked upon them."""
    return [os.fsencode(disk.name) for disk in sorted(sys_.glob("block/*")) if (disk / "device").exists()]


class Output:
    """A stream that never holds up a tick: what the pipe does not take at once waits here, in order."""

    def __init__(self, fd: int, max_blocked_s: float) -> None:
        self.fd = fd
        self.max_blocked_s = max_blocked_s
        self.waiting: collections.deque[bytes] = collections.deque()
        self.blocked_since: float | None = None
        self.writable = select.poll()
        self.writable.register(fd, select.POLLOUT)

    def put(self, data: bytes) -> None:
        # A pipe that polls writable takes this much without blocking.
        self.waiting.extend(data[i : i + select.PIPE_BUF] for i in range(0, len(data), select.PIPE_BUF))
        self._write(0)

    def drain(self) -> None:
        while self.waiting:
            self._write(100)

    def _write(self, patience_ms: int) -> None:
        while self.waiting:
            if not self.writable.poll(patience_ms):
                self._blocked()
                return
            try:
                written = os.write(self.fd, self.waiting[0])
            except OSError as error:
                raise Refusal(5, f"standard output failed: {error.strerror}") from None
            self.blocked_since = None
            if written < len(self.waiting[0]):
                self.waiting[0] = self.waiting[0][written:]
            else:
                self.waiting.popleft()

    def _blocked(self) -> None:
        if self.blocked_since is None:
            self.blocked_since = time.monotonic()
        elif time.monotonic() - self.blocked_since > self.max_blocked_s:
            raise Refusal(6, f"standard output took nothing for {self.max_blocked_s:g} s")


class Sampling:
    """Records at fixed deadlines on the monotonic clock, from the header to the trailer."""

    def __init__(self, counters: Counters, output: Output, period_s: float) -> None:
        self.counters = counters
        self.output = output
        self.period_ns = round(period_s * 1e9)
        self.records = self.late = self.missed = 0
        self.first_written = threading.Event()
        self.clocks: list[dict[str, int]] = []
        self.reason = ""
        self.wake_read, self.wake_write = os.pipe()
        signal.signal(signal.SIGTERM, lambda *_: self.end("signal"))
        signal.signal(signal.SIGINT, lambda *_: self.end("signal"))

    def end(self, reason: str) -> None:
        """Ask for the end, from the stop watch's thread or a signal handler."""
        self.reason = self.reason or reason
        os.write(self.wake_write, b".")

    def write_header(self, options: argparse.Namespace, interface: str) -> None:
        header = {
            "tierbench": "samples",
            "format": FORMAT,
            "trial": options.trial,
            "host": host_name(),
            "role": options.role,
            "boot_id": first_line(options.proc / "sys/kernel/random/boot_id"),
            "interface": interface,
            "link_speed_mbps": link_speed_mbps(options.sys, interface),
            "link_speed_real": link_speed_real(options.sys, interface),
            "period_s": options.period,
            "columns": [column._asdict() for column in COLUMNS],
            "record_bytes": RECORD_BYTES,
            "jiffies_per_s": os.sysconf("SC_CLK_TCK"),
            "ncpu": self.counters.ncpu,
            "own_cpu_limit_cores": self.counters.own_cpu.limit_cores(),
            "disks": [os.fsdecode(disk) for disk in self.counters.disks],
            "kernel": os.uname().release,
            "python": platform.python_version(),
            "tuning": tuning(options.proc, options.sys, interface),
        }
        self.origin_ns = header["clock_mono_ns"] = mono_ns()
        header["clock_wall_ns"] = wall_ns()
        self.output.put(json.dumps(header).encode() + b"\n")

    def run(self, max_seconds: float) -> None:
        parent = os.getppid()
        end_ns = self.origin_ns + round(max_seconds * 1e9)
        tick = 0
        while not self.reason:
            due_ns = self.origin_ns + tick * self.period_ns
            self._sleep_until(min(due_ns, end_ns))
            now = mono_ns()
            if os.getppid() != parent:
                self.reason = self.reason or "parent"
            elif now >= end_ns:
                self.reason = self.reason or "time"
            elif now >= due_ns:
                tick = self._tick(tick, now)
        self._record()
        trailer = {"tierbench": "end", "reason": self.reason, "records": self.records}
        trailer.update(late_ticks=self.late, missed_ticks=self.missed, wall_ns=wall_ns())
        trailer["clocks"] = self.clocks
        self.output.put(json.dumps(trailer).encode() + b"\n")
        self.output.drain()

    def _sleep_until(self, when_ns: int) -> None:
        # Not Event.wait, whose timeout follows the wall clock before Python 3.11 and would hang when that steps back.
        select.select([self.wake_read], [], [], max(0, when_ns - mono_ns()) / 1e9)

    def _tick(self, tick: int, now: int) -> int:
        """Take the record of the tick that is due now, count those passed over; give the next one's number."""
        current = (now - self.origin_ns) // self.period_ns
        self.missed += current - tick
        lateness = now - self.origin_ns - current * self.period_ns
        self.late += current - tick + (lateness > self.period_ns / 2)
        self._record()
        return current + 1

    def _record(self) -> None:
        self.output.put(self.counters.record())
        self.records += 1
        if not self.output.waiting:
            self.first_written.set()


def host_name() -> str:
    name = socket.gethostname()
    return name if "." in name else socket.getfqdn()


def first_line(path: Path) -> "str | None":
    """A kernel setting as text, or None where this kernel, or this namespace, does not show it."""
    try:
        return " ".join(path.read_text().split())
    except OSError:
        return None


def link_speed_mbps(sys_: Path, interface: str) -> "int | None":
    speed = first_line(sys_ / "class/net" / interface / "speed")
    return int(speed) if speed and int(speed) > 0 else None


def link_speed_real(sys_: Path, interface: str) -> bool:
    """Whether the speed is one of hardware; a virtual interface states one that says nothing."""
    link = sys_ / "class/net" / interface
    kind = re.search(r"DEVTYPE=(\w+)", first_line(link / "uevent") or "")
    return (link / "device").exists() or bool(kind and kind.group(1) in REAL_KINDS)


def tuning(proc: Path, sys_: Path, interface: str) -> "dict[str, str | None]":
    settings = {name: first_line(proc / "sys" / name.replace(".", "/")) for name in TUNING}
    settings["congestion_control"] = congestion_control(proc, interface)
    settings["mtu"] = first_line(sys_ / "class/net" / interface / "mtu")
    settings["txqueuelen"] = first_line(sys_ / "class/net" / interface / "tx_queue_len")
    return settings


def congestion_control(proc: Path, interface: str) -> "str | None":
    """What TCP sends by through the interface: as each of its routes says, or else as is usual on this machine."""
    usual = first_line(proc / "sys/net/ipv4/tcp_congestion_control")
    listing = ["ip", "-o", "route", "show", "table", "all", "type", "unicast", "dev", interface]
    try:
        asked = subprocess.run(listing, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ROUTES_S, env=SYSTEM)
    except (OSError, subprocess.TimeoutExpired):  # no iproute2: nobody has set any by it
        return usual
    routes = [route for route in asked.stdout.decode().splitlines() if not route.startswith(LINK_LOCAL)]
    said = [CONGESTION_CONTROL.search(route) for route in routes]
    return ", ".join(sorted({found.group(1) if found else str(usual) for found in said})) or usual


class Folder:
    """Where there is no HTCondor: the stop file is a local one, and nobody waits to hear of us."""

    troubles = (OSError,)

    def announce(self, text: str) -> None:
        pass

    def clock(self) -> "dict[str, int] | None":
        return None

    def has(self, name: str) -> bool:
        return Path(name).exists()


class LivingSocket(socket.socket):
    """A socket whose closed connection is an error; htchirp would read on from it forever, at full speed."""

    def recv(self, *arguments: Any) -> bytes:
        data = super().recv(*arguments)
        if not data:
            raise ConnectionResetError("the chirp connection was closed")
        return data


class Chirp:
    """The job's channel to its access point."""

    def __init__(self) -> None:
        try:
            htchirp: Any = importlib.import_module("htchirp")
        except ImportError:
            raise Refusal(4, f"htchirp.py must lie beside {__file__}, since HTCondor offers chirp here") from None
        htchirp.socket = types.SimpleNamespace(socket=LivingSocket, error=OSError, MSG_PEEK=socket.MSG_PEEK)
        self.connection = htchirp.HTChirp
        self.troubles = (OSError, RuntimeError, ValueError, htchirp.HTChirp.ChirpError)

    def announce(self, text: str) -> None:
        with self.connection() as chirp:
            chirp.ulog(text)

    def clock(self) -> "dict[str, int] | None":
        """Between which bounds this wall clock is ahead of the access point's uptime, which comes in 10 ms steps."""
        low, high = [], []
        deadline = mono_ns() + CLOCK_PATIENCE_NS
        with self.connection() as chirp:
            file = chirp._open("/proc/uptime", "r")
            for _ in range(CLOCK_READS):
                before = wall_ns()
                uptime = round(float(chirp._read(file, 64, 0).split()[0]) * 100) * 10**7
                after = wall_ns()
                low.append(before - uptime - 10**7)
                high.append(after - uptime)
                if mono_ns() > deadline:
                    break
                time.sleep(CLOCK_PAUSE_S)
        return {"wall_ns": after, "low_ns": max(low), "high_ns": min(high)}

    def has(self, name: str) -> bool:
        try:
            with self.connection() as chirp:
                chirp.fetch(name, os.devnull)
        except self.connection.DoesntExist:
            return False
        return True


def job_channel() -> "Folder | Chirp":
    return Chirp() if Path(os.environ.get("_CONDOR_CHIRP_CONFIG", ".chirp.config")).exists() else Folder()


class Watch:
    """Says that sampling has begun and looks for the stop file, in a thread, as chirp may be slow."""

    def __init__(self, channel: "Folder | Chirp", stop_file: "str | None", sampling: Sampling) -> None:
        self.channel = channel
        self.stop_file = stop_file
        self.sampling = sampling
        self.complaints: set[str] = set()

    def run(self) -> None:
        self.sampling.first_written.wait()
        duties = [self._announce, self._stop]
        while True:
            duties = [duty for duty in duties if not self._done(duty)]
            if not duties:
                return
            time.sleep(STOP_POLL_S)

    def _announce(self) -> bool:
        self.channel.announce(f"TIERBENCH SAMPLING {host_name()}")
        self._compare_clocks()
        return True

    def _compare_clocks(self) -> None:
        """Once before and once after the reading; a failure is no harm, and is not waited for again."""
        try:
            measured = self.channel.clock()
        except (*self.channel.troubles, IndexError) as error:
            print(f"sampler: the access point's clock cannot be read: {error}", file=sys.stderr)
        else:
            self.sampling.clocks += [measured] if measured else []

    def _stop(self) -> bool:
        if self.stop_file and self.channel.has(self.stop_file):
            if self.sampling.clocks:
                self._compare_clocks()
            self.sampling.end("stop")
        return not self.stop_file or bool(self.sampling.reason)

    def _done(self, duty: "Callable[[], bool]") -> bool:
        """Whether the duty is over; a trouble is told once, and the duty tried again next time."""
        try:
            return duty()
        except self.channel.troubles as error:
            complaint = f"{type(error).__name__}: {error}"
            if complaint not in self.complaints:
                self.complaints.add(complaint)
                print(f"sampler: {complaint}; trying on", file=sys.stderr)
            return False


if __name__ == "__main__":
    sys.exit(main())
