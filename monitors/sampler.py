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
import sys
import threading
from pathlib import Path

from tierbench.monitors.output import Output
from tierbench.monitors.record import Records
from tierbench.monitors.refusal import Refusal
from tierbench.monitors.sampling import Sampling
from tierbench.monitors.slice import go_first
from tierbench.monitors.watch import Watch

OWN_CPU = Path("/run/tierbench-cpu")  # files of its control group, where a host shares its kernel with other hosts


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
    parser.add_argument(
        "--interface", required=True, help="eth0, or several: eth0+eth1, or eth%%; auto: the one with the default route"
    )
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


if __name__ == "__main__":
    sys.exit(main())
