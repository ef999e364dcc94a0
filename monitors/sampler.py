#!/usr/bin/env python3
"""Print this host's network, TCP, CPU, memory and disk counters at a fixed period until told to stop.

Shipped to the hosts of a trial and streamed back through standard output; the format is in docs/samples.md. The header
says what the host runs, has mounted and sends by: what two runs must have alike to be compared.
Needs nothing but Python 3.6 and /proc. Inside an HTCondor job, htchirp.py lies beside it.

Exit codes:
    0  ended in order (stop file, signal, time over, or parent gone); the trailer says which
    2  the command line is wrong
    3  there is no such interface, or no default route to find it by
    4  this host cannot be sampled: no /proc/self/net/dev, .chirp.config without htchirp.py, or a source that is wrong
    5  standard output failed: its reader is gone, or the disk is full
    6  standard output took nothing for --max-blocked-seconds
"""

import argparse
import collections
import contextlib
import json
import os
import platform
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tierbench.host import NETWORK, NICE, AccessPoint, NoChirp, in_job, machine, mono_ns, read_text, wall_ns
from tierbench.monitors.source import Refusal, first_line
from tierbench.monitors.sources import SOURCES

OWN_CPU = Path("/run/tierbench-cpu")  # files of its control group, where a host shares its kernel with other hosts
STOP_POLL_S = 0.5
SLICE_NS = 100000  # the shortest that the kernel grants
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "ppc64le": 355}
ATTRIBUTES = struct.Struct("IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period
FORMAT = 1
# The kernel is asked at each tick, and the records are made of several answers at once: between two ticks of 0.1 s
# a busy host forgets our code, and most of a record's cost would be its being fetched again.
TOGETHER_S = 0.5
TOGETHER = 16
AT_ONCE = 10  # the first records, as a trial begins when they are there
LINK_LOCAL = ("fe80:", "ff00:")
CONGESTION_CONTROL = re.compile(r" congctl (?:lock )?(\w+)")
SETTINGS = (
    *("net.ipv4.tcp_" + name for name in ("rmem", "wmem", "mtu_probing", "no_metrics_save")),
    *("net.ipv4.tcp_" + name for name in ("timestamps", "window_scaling", "sack")),
    *("net.core." + name for name in ("rmem_max", "wmem_max", "netdev_max_backlog")),
)
ASKING_S = 5
SYSTEM = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}  # HTCondor may give a job another one
PACKAGES = (
    *("xrootd-" + name for name in ("server", "client", "server-libs", "client-libs", "fuse", "libs")),
    *("condor", "htcondor", "minicondor", "squid", "nginx", "nginx-light", "curl", "root", "root-core", "cvmfs"),
    *("globus-gridftp-server-progs", "globus-gass-copy-progs", "nfs-ganesha", "nfs-common", "nfs-utils", "krb5-libs"),
    *("libkrb5-3", "lustre-client", "kmod-lustre-client", "ceph-common", "ceph-osd", "moosefs-client"),
    *("moosefs-chunkserver", "moosefs-master"),
)
QUERIES = (
    ("dpkg-query", "-W", "-f", "${Package} ${Version}\\n"),
    ("rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"),
)
OWN = ("fuse.lxcfs", "fuseblk", "fusectl")
FARAWAY = (*NETWORK, "cvmfs2", "glusterfs", "fuse")


def main() -> int:
    options = command_line()
    try:
        output = Output(sys.stdout.fileno(), options.max_blocked_seconds)
        sampling = Sampling(Records(options), output, options.period)
        watch = Watch(options.stop_file, sampling)
        sampling.write_header(options)
        threading.Thread(target=watch.run, daemon=True).start()
        go_first()
        sampling.run(options.max_seconds)
    except Refusal as refusal:
        print(f"sampler: {refusal}", file=sys.stderr)
        return refusal.exit_code
    return 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", required=True, help="id of the trial, for the header")
    parser.add_argument("--role", required=True, help="what this host is to the trial, e.g. storage, gateway, worker")
    which = "eth0, or several: eth0+eth1, or eth%%; auto: the one with the default route"
    parser.add_argument("--interface", required=True, help=which)
    parser.add_argument("--period", type=float, default=1.0, metavar="S", help="between records (default 1.0)")
    parser.add_argument("--stop-file", metavar="NAME", help="end when this exists, beside the job or in this folder")
    parser.add_argument("--max-seconds", type=float, default=8 * 86400, metavar="S", help="end after this (8 days)")
    parser.add_argument(
        "--max-blocked-seconds", type=float, default=60, metavar="S", help="how long the output may stall (default 60)"
    )
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="where procfs is")
    parser.add_argument("--sys", type=Path, default=Path("/sys"), help="where sysfs is")
    parser.add_argument(
        "--own-cpu", type=Path, default=OWN_CPU, metavar="DIR", help=f"the host's own CPU account (default {OWN_CPU})"
    )
    parser.add_argument(
        "--squid", default="127.0.0.1:3128", metavar="HOST:PORT", help="where Squid would listen (default %(default)s)"
    )
    parser.add_argument(
        "--xrootd-reports", default="127.0.0.1:9931", metavar="HOST:PORT",
        help="where XRootD's servers would report to (default %(default)s)",
    )  # fmt: skip
    options = parser.parse_args()
    if not 0.001 <= options.period <= 3600:
        parser.error(f"--period must be in 0.001 to 3600 seconds, not {options.period}")
    if not 0 < options.max_seconds <= 1e9:
        parser.error(f"--max-seconds must be above 0, not {options.max_seconds}")
    if not 0 < options.max_blocked_seconds <= 1e6:
        parser.error(f"--max-blocked-seconds must be above 0, not {options.max_blocked_seconds}")
    return options


class Watch:
    """Says that sampling has begun and looks for the stop file, in a thread, as chirp may be slow."""

    def __init__(self, stop_file: "str | None", sampling: "Sampling") -> None:
        try:
            self.access_point = AccessPoint() if in_job() else None
        except NoChirp as error:
            raise Refusal(4, str(error)) from None
        self.stop_file = stop_file
        self.sampling = sampling
        self.complaints: set[str] = set()

    def run(self) -> None:
        self.sampling.first_written.wait()
        duties = [self._announce, self._stop]
        while duties:
            duties = [duty for duty in duties if not self._done(duty)]
            time.sleep(STOP_POLL_S if duties else 0)

    def _announce(self) -> bool:
        if self.access_point:
            self.access_point.announce(f"TIERBENCH SAMPLING {machine()[0]}")
            self._compare_clocks(self.access_point)
        return True

    def _compare_clocks(self, access_point: AccessPoint) -> None:
        """Once before and once after the reading; a failure is no harm, and is not waited for again."""
        try:
            self.sampling.clocks.append(access_point.clock())
        except (OSError, ValueError, IndexError, AttributeError) as error:
            print(f"sampler: the access point's clock cannot be read: {error}", file=sys.stderr)

    def _stop(self) -> bool:
        access_point, name = self.access_point, self.stop_file
        if name and (access_point.fetch(name) if access_point else Path(name).exists()):
            if access_point and self.sampling.clocks:
                self._compare_clocks(access_point)
            self.sampling.end("stop")
        return not self.stop_file or bool(self.sampling.reason)

    def _done(self, duty: "Callable[[], bool]") -> bool:
        """Whether the duty is over; a failure is reported once, and the duty tried again."""
        try:
            return duty()
        except OSError as error:
            complaint = f"{type(error).__name__}: {error}"
            if complaint not in self.complaints:
                self.complaints.add(complaint)
                print(f"sampler: {complaint}; trying on", file=sys.stderr)
            return False


def go_first() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    number = SCHED_SETATTR.get(platform.machine())
    with contextlib.suppress(ImportError, OSError):
        if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:  # somebody has seen to it already
            return
        import ctypes

        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


class Sampling:
    """Records at fixed deadlines on the monotonic clock, from the header to the trailer."""

    def __init__(self, reader: "Records", output: "Output", period_s: float) -> None:
        self.reader = reader
        self.output = output
        self.period_ns = round(period_s * 1e9)
        self.together = max(1, min(TOGETHER, int(TOGETHER_S / period_s)))
        self.looks: list[list[Any]] = []  # of which no records are made yet
        self.records = self.late = self.missed = 0
        self.first_written = threading.Event()
        self.clocks: list[dict[str, int]] = []
        self.reason = ""
        self.wake_read, self.wake_write = os.pipe()
        # A signal that comes just before we go to sleep, or to another thread, interrupts no sleep; a byte does.
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write)
        signal.signal(signal.SIGTERM, lambda *_: self.end("signal"))
        signal.signal(signal.SIGINT, lambda *_: self.end("signal"))

    def end(self, reason: str) -> None:
        """Ask for the end, from the stop watch's thread or a signal handler."""
        self.reason = self.reason or reason
        os.write(self.wake_write, b".")

    def write_header(self, options: argparse.Namespace) -> None:
        header = {
            "tierbench": "samples", "format": FORMAT, "trial": options.trial, "host": machine()[0],
            "role": options.role, "boot_id": first_line(options.proc / "sys/kernel/random/boot_id"),
            "period_s": options.period, "kernel": os.uname().release, "python": platform.python_version(),
            "packages": packages(), "mounts": mounts(options.proc), **self.reader.header(),
        }  # fmt: skip
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
        self._pass_over(tick, mono_ns())
        self._look()
        self._write()
        trailer = {
            "tierbench": "end", "reason": self.reason, "records": self.records, "late_ticks": self.late,
            "missed_ticks": self.missed, "wall_ns": wall_ns(), "clocks": self.clocks,
        }  # fmt: skip
        self.output.put(json.dumps(trailer).encode() + b"\n")
        self.output.drain()

    def _sleep_until(self, when_ns: int) -> None:
        # Not Event.wait, whose timeout follows the wall clock before Python 3.11 and would hang when that steps back.
        select.select([self.wake_read], [], [], max(0, when_ns - mono_ns()) / 1e9)

    def _tick(self, tick: int, now: int) -> int:
        """Take the record of the tick that is due now, count those passed over; give the next one's number."""
        current = self._pass_over(tick, now)
        lateness = now - self.origin_ns - current * self.period_ns
        self.late += lateness > self.period_ns / 2
        self._look()
        if self.records <= AT_ONCE or len(self.looks) >= self.together:
            self._write()
        return current + 1

    def _pass_over(self, tick: int, now: int) -> int:
        """Count the ticks from this one on that were due before the present one; the present one's number."""
        current = (now - self.origin_ns) // self.period_ns
        over = max(0, current - tick)
        self.missed += over
        self.late += over
        return current

    def _look(self) -> None:
        self.looks.append(self.reader.look())
        self.records += 1

    def _write(self) -> None:
        self.output.put(b"".join(map(self.reader.record, self.looks)))
        self.looks.clear()
        if not self.output.waiting:
            self.first_written.set()


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
        self.waiting.extend([data[i : i + select.PIPE_BUF] for i in range(0, len(data), select.PIPE_BUF)])
        self._write(0)

    def drain(self) -> None:
        while self.waiting:
            self._write(100)

    def _write(self, patience_ms: int) -> None:
        while self.waiting:
            if not self.writable.poll(patience_ms):
                self.blocked_since = self.blocked_since or time.monotonic()
                if time.monotonic() - self.blocked_since > self.max_blocked_s:
                    raise Refusal(6, f"standard output took nothing for {self.max_blocked_s:g} s")
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


class Records:
    """What is read for each record, and said of it in the header."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sources = [source(options) for source in SOURCES]
        self.columns = [column for source in self.sources for column in source.columns]
        names = [column.name for column in self.columns]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise Refusal(4, f"two columns are called {twice[0]}; give that of your source another name")
        self.format = "".join(f" %{column.width}d" for column in self.columns).encode() + b"\n"
        self.bytes = sum(1 + column.width for column in self.columns) + 1

    def header(self) -> "dict[str, Any]":
        """The columns, and what the sources say of themselves."""
        columns = [
            dict(column._asdict(), source=type(source).__name__.lower())
            for source in self.sources
            for column in source.columns
        ]
        content = {"columns": columns, "record_bytes": self.bytes}  # type: dict[str, Any]
        for source in self.sources:
            content.update(source.header())
        content["tuning"] = tuning(self.options.proc, self.options.sys, content["interfaces"][0]["name"])
        return content

    def look(self) -> "list[Any]":
        return [source.look() for source in self.sources]

    def record(self, looks: "list[Any]") -> bytes:
        values = ()  # type: tuple[int, ...]
        for source, look in zip(self.sources, looks):  # noqa: B905 - Python 3.6 cannot be strict
            seen = source.values(look)
            if len(seen) != len(source.columns):
                called, many = type(source).__name__, len(source.columns)
                raise Refusal(4, f"source {called}: gave {len(seen)} values for its {many} columns")
            values += seen
        record = self.format % values
        if len(record) != self.bytes:  # a driver's nonsense must not shift the columns
            fits = [len(str(value)) <= self.columns[i].width for i, value in enumerate(values)]
            record = self.format % tuple(value if fits[i] else -1 for i, value in enumerate(values))
        return record


def tuning(proc: Path, sys_: Path, interface: str) -> "dict[str, str | None]":
    """The settings for all, and those of an interface."""
    settings = {name: first_line(proc / "sys" / name.replace(".", "/")) for name in SETTINGS}
    settings["congestion_control"] = congestion_control(proc, interface)
    settings["mtu"] = first_line(sys_ / "class/net" / interface / "mtu")
    settings["txqueuelen"] = first_line(sys_ / "class/net" / interface / "tx_queue_len")
    return settings


def congestion_control(proc: Path, interface: str) -> "str | None":
    """What TCP sends by through the interface: as each of its routes says, or else as is usual on this machine."""
    usual = first_line(proc / "sys/net/ipv4/tcp_congestion_control")
    listing = lines_of("ip", "-o", "route", "show", "table", "all", "type", "unicast", "dev", interface)
    routes = [route for route in listing if not route.startswith(LINK_LOCAL)]
    matches = map(CONGESTION_CONTROL.search, routes)
    return ", ".join(sorted({match.group(1) if match else str(usual) for match in matches})) or usual


def packages() -> "dict[str, str]":
    """The versions of those that are installed; none where neither dpkg nor rpm is there."""
    for query in QUERIES:
        pairs = [line.split() for line in lines_of(*query, *PACKAGES)]
        versions = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        if versions:
            return versions
    return {}


def lines_of(*command: str) -> "list[str]":
    """What a program says; nothing where there is no such program, or no answer."""
    try:
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASKING_S, env=SYSTEM, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return result.stdout.decode(errors="replace").splitlines()


def mounts(proc: Path) -> "dict[str, str]":
    """File systems that come over a network, or from a program: their type and options, by where they are."""
    lines = [line.split() for line in read_text(str(proc / "self/mounts")).splitlines()]
    faraway = [line for line in lines if len(line) >= 4 and line[2].startswith(FARAWAY) and line[2] not in OWN]
    return {line[1]: line[2] + " " + line[3] for line in faraway}


if __name__ == "__main__":
    sys.exit(main())
