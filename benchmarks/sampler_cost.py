"""What the sampler costs: CPU time per record, its share of a core at 10 Hz, and the highest rate that it keeps.

    python benchmarks/sampler_cost.py [--python /usr/bin/python3.6] [--interface eth0] [--seconds 10]

A rate is kept when no more than one tick in a hundred was late. Start-up is measured apart and subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tierbench.joined import joined

RATES_HZ = (10, 20, 50, 100, 200, 500, 1000)


@dataclass
class Run:
    """One run of the sampler, from start to trailer."""

    cpu_s: float
    records: int
    late: int
    missed: int

    @property
    def kept(self) -> bool:
        return self.late <= 0.01 * (self.records + self.missed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run the sampler with")
    parser.add_argument("--interface", default="auto")
    parser.add_argument("--seconds", type=float, default=10, help="length of each run (default 10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.sampler = Path(folder, "sampler.py")
        options.sampler.write_text(joined("tierbench.monitors.sampler"), encoding="utf-8")
        measure(options)


def measure(options: argparse.Namespace) -> None:

    start_up = sample(options, 10, 0.001)
    print(f"start-up            {start_up.cpu_s * 1000:8.1f} ms CPU")
    highest = 0
    for rate in RATES_HZ:
        run = sample(options, rate, options.seconds)
        per_record = max(0.0, run.cpu_s - start_up.cpu_s) / (run.records - start_up.records)
        print(
            f"{rate:5d} Hz            {per_record * 1e6:8.0f} µs CPU per record, {per_record * rate:7.2%} of a core, "
            f"{run.late} of {run.records + run.missed} ticks late, {run.missed} of them missed"
        )
        highest = rate if run.kept else highest
        if not run.kept:
            break
    print(f"highest rate kept   {highest:8d} Hz")


def sample(options: argparse.Namespace, rate_hz: int, seconds: float) -> Run:
    arguments = ["--trial", "cost", "--role", "benchmark", "--interface", options.interface]
    arguments += ["--period", str(1 / rate_hz), "--max-seconds", str(seconds)]
    with tempfile.TemporaryFile() as out:
        sampler = subprocess.Popen([options.python, str(options.sampler), *arguments], stdout=out)
        _, status, usage = os.wait4(sampler.pid, 0)
        sampler.returncode = os.waitstatus_to_exitcode(status)
        if sampler.returncode:
            sys.exit(f"the sampler ended with exit code {sampler.returncode}")
        out.seek(0)
        trailer = json.loads(out.readlines()[-1])
    cpu_s = usage.ru_utime + usage.ru_stime
    return Run(cpu_s, trailer["records"], trailer["late_ticks"], trailer["missed_ticks"])


if __name__ == "__main__":
    main()
