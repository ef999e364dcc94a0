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
import contextlib
import os
import platform
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tierbench.host import AccessPoint, NoChirp, in_job
from tierbench.monitors.sampling import Output, Records, Sampling, host_name
from tierbench.monitors.source import NICE, Refusal

OWN_CPU = Path("/run/tierbench-cpu")  # files of its control group, where a host shares its kernel with other hosts
STOP_POLL_S = 0.5
SLICE_NS = 100000  # the shortest that the kernel grants
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "ppc64le": 355}
ATTRIBUTES = struct.Struct("IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period


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
    parser.add_argument("--max-seconds", type=float, default=86400, metavar="S", help="end after this (default a day)")
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

    def __init__(self, stop_file: "str | None", sampling: Sampling) -> None:
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
            self.access_point.announce(f"TIERBENCH SAMPLING {host_name()}")
            self._compare_clocks()
        return True

    def _compare_clocks(self) -> None:
        """Once before and once after the reading; a failure is no harm, and is not waited for again."""
        if not self.access_point:
            return
        try:
            self.sampling.clocks.append(self.access_point.clock())
        except (OSError, ValueError, IndexError) as error:
            print(f"sampler: the access point's clock cannot be read: {error}", file=sys.stderr)

    def _stop(self) -> bool:
        access_point, name = self.access_point, self.stop_file
        if name and (access_point.fetch(name) if access_point else Path(name).exists()):
            if self.sampling.clocks:
                self._compare_clocks()
            self.sampling.end("stop")
        return not self.stop_file or bool(self.sampling.reason)

    def _done(self, duty: "Callable[[], bool]") -> bool:
        """Whether the duty is over; a trouble is told once, and the duty tried again next time."""
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
        asked = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, asked, 0)


if __name__ == "__main__":
    sys.exit(main())
