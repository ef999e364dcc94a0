"""What the sampler costs: CPU time per record and its share of a core, how late its ticks are, what rate it keeps.

    python benchmarks/sampler_cost.py [--python /usr/bin/python3.6] [--interface eth0] [--seconds 10] [--against OLD]

The CPU time is the kernel's, to the nanosecond, of all its threads between a record and a later one: starting up and
ending are not in it. A rate is kept when no more than one tick in a hundred was late. OLD is the sampler.py of an
earlier run directory, which is measured by turns with this one.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tierbench.single_file_script import single_file

RATES_HZ = (10, 20, 50, 100, 200, 500, 1000)
SETTLED_RECORDS = 15  # the first ones are written one by one
TURNS = 3


@dataclass
class Run:
    """One run of the sampler."""

    us_per_record: float
    lateness_ms: list[float]
    late: int
    ticks: int

    @property
    def kept(self):
        return self.late <= 0.01 * self.ticks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run the sampler with")
    parser.add_argument("--interface", default="auto")
    parser.add_argument("--seconds", type=float, default=10, help="length of each run (default 10)")
    parser.add_argument("--against", type=Path, metavar="OLD", help="an earlier sampler.py, to compare with")
    parser.add_argument("--rates", type=int, nargs="+", default=RATES_HZ, metavar="HZ")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        present = Path(folder, "sampler.py")
        present.write_text(single_file("tierbench.monitors.sampler"), encoding="utf-8")
        samplers = {"this": present, **({"OLD": options.against} if options.against else {})}
        highest = 0
        for rate in options.rates:
            runs = {name: [] for name in samplers}
            for _ in range(TURNS if options.against else 1):
                for name, sampler in samplers.items():
                    runs[name].append(sample(sampler, rate, options))
            for name, its_runs in runs.items():
                print(line(rate, name, its_runs), flush=True)
            if not all(run.kept for run in runs["this"]):
                break
            highest = rate
    print(f"highest rate kept {highest} Hz")


def line(rate, name, runs):
    cost = statistics.median(run.us_per_record for run in runs)
    lateness = sorted(ms for run in runs for ms in run.lateness_ms)
    return (
        f"{rate:5d} Hz {name:<4} {cost:6.0f} µs CPU per record, {cost * rate / 1e6:6.2%} of a core; ticks late by"
        f" {statistics.median(lateness):.2f} ms (median), {lateness[int(0.99 * len(lateness))]:.2f} ms (99 %);"
        f" {sum(run.late for run in runs)} of {sum(run.ticks for run in runs)} by more than half a period"
    )


def sample(sampler, rate_hz, options):
    arguments = ["--trial", "cost", "--role", "benchmark", "--interface", options.interface, "--period", 1 / rate_hz]
    with tempfile.NamedTemporaryFile() as out:
        process = subprocess.Popen([options.python, str(sampler), *map(str, arguments)], stdout=out)
        while records(out.name) < SETTLED_RECORDS:
            if process.poll() is not None:
                sys.exit(f"the sampler ended with exit code {process.returncode}")
            time.sleep(0.1)
        before, cpu_before_ns = records(out.name), cpu_ns(process.pid)
        time.sleep(options.seconds)
        after, cpu_after_ns = records(out.name), cpu_ns(process.pid)
        process.terminate()
        process.wait()
        first, *lines, last = Path(out.name).read_bytes().splitlines()
    header, trailer = json.loads(first), json.loads(last)
    period_ns = round(header["period_s"] * 1e9)
    since = [int(record.split()[0]) - header["clock_mono_ns"] for record in lines[:-1]]  # the last one is off the grid
    return Run(
        (cpu_after_ns - cpu_before_ns) / 1e3 / (after - before),
        [ns % period_ns / 1e6 for ns in since],
        trailer["late_ticks"],
        trailer["records"] + trailer["missed_ticks"],
    )


def records(path):
    """How many lines there are below the header."""
    return Path(path).read_bytes().count(b"\n") - 1


def cpu_ns(pid):
    """What a process has had of the CPU so far, in all its threads."""
    return sum(int(task.read_text().split()[0]) for task in Path("/proc", str(pid), "task").glob("*/schedstat"))


if __name__ == "__main__":
    main()
