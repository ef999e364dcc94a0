"""From sample files to tables, against pandas reading the same data from CSV, differencing and grouping.

Twice: all counters, and the sent bytes only, which pandas reads from a CSV that holds nothing else.

usage: python benchmarks/read_samples.py [--samples 10000000] [--pandas PYTHON] [--folder DIR]

Each contender is a process of its own; its time and its peak memory are printed, and the ratios to
pandas. The data is synthetic: 10 hosts, 10,000 samples a file, 25 columns each. PYTHON is one that has
pandas, such as of a scratch venv; in DIR is room for 12 GB. All is read from the page cache where that is large enough.

exit status: 0 tierbench took no longer than pandas; 1 it took longer somewhere
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from frame import options, step

HERE = Path(__file__).resolve()
HOSTS = 10
RECORDS = 10_000

PANDAS = """
import sys, pandas
table = pandas.read_csv(sys.argv[1], dtype={"trial": "category", "host": "category"})
stream = ["trial", "host"]
counters = [name for name in sys.argv[2].split(",") if name in table]
steps = table.groupby(stream, observed=True)[["mono_ns", *counters]].diff()
rates = steps[counters].div(steps["mono_ns"] / 1e9, axis=0)
rates[stream] = table[stream]
print(rates.groupby(stream, observed=True).agg(["mean", "std", "max"]).shape, file=sys.stderr)
"""

GROUPED = """
import sys
from pathlib import Path
import numpy as np
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.samples import read_samples
counters = sys.argv[2].split(",")
groups = 0
for path in sorted(Path(sys.argv[1]).glob("trials/*/samples/*")):
    found = intervals(read_samples(path, only=counters))
    for name in counters:
        rate = (found.differences[name] / found.seconds)[1:]
        rate.mean(), np.std(rate, ddof=1), rate.max()
    groups += 1
print(groups, file=sys.stderr)
"""

TABLES = """
import sys
from pathlib import Path
from tierbench.postprocess.tables.write import tables
print(len(tables(Path(sys.argv[1])).trials), file=sys.stderr)
"""


def main():
    asked = options(__doc__, samples=10_000_000, pandas=sys.executable, folder=Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        run, wide, narrow = Path(folder, "run"), Path(folder, "wide.csv"), Path(folder, "narrow.csv")
        print(f"writing {asked.samples:,} synthetic samples", flush=True)
        counters = write_data(run, wide, narrow, max(1, asked.samples // HOSTS // RECORDS))
        os.sync()  # or writing the data back would slow down whoever comes first
        print(f"{'':44} {'seconds':>8} {'GB peak':>8} {'of pandas':>10}")
        pandas = report("all counters: pandas", asked.pandas, PANDAS, wide, counters)
        grouped = report("all counters: tierbench", sys.executable, GROUPED, run, counters, pandas)
        written = report("to all tables, samples.csv too: tierbench", sys.executable, TABLES, run, counters, pandas)
        narrow_pandas = report("sent bytes only: pandas", asked.pandas, PANDAS, narrow, "tx_bytes")
        sent = report("sent bytes only: tierbench", sys.executable, GROUPED, run, "tx_bytes", narrow_pandas)
    if max(grouped, written) > pandas or sent > narrow_pandas:
        sys.exit("tierbench took longer than pandas")


def report(name, python, program, data, counters, pandas=None):
    """Run a contender, print how it did, return its seconds."""
    seconds, _, peak_gb = step(name, python, "-c", program, data, counters)
    print(f"{name:44} {seconds:8.1f} {peak_gb:8.2f} {seconds / (pandas or seconds):10.2f}", flush=True)
    return seconds


def write_data(run, wide, narrow, trials):
    """The run directory and the CSVs of the same numbers; return the counters' names."""
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.unit import synthetic_run

    busy = ("rx_bytes", "rx_packets", "tx_packets", "tcp_retrans", "tcp_in_segs", "tcp_out_segs", "cpu_system")
    records = [
        synthetic_run.record(
            tick - 5,
            tx_bytes=10**10 + tick * 119_843_751 + tick * tick % 70_001,
            disk_read_bytes=0,
            disk_written_bytes=0,
            **{name: tick * (1013 + 7 * number) for number, name in enumerate(busy)},
        )
        for tick in range(RECORDS)
    ]
    names = list(synthetic_run.WIDTHS)
    values = [record.decode().split() for record in records]
    columns = {name: names.index(name) for name in ("mono_ns", "tx_bytes")}
    with wide.open("w") as wide_file, narrow.open("w") as narrow_file:
        print("trial", "host", *names, sep=",", file=wide_file)
        print("trial", "host", *columns, sep=",", file=narrow_file)
        for trial in range(trials):
            folder = synthetic_run.write_trial(run, jobs=1, repeat=trial, index=trial)
            for path in folder.glob("samples/*"):
                path.unlink()
            for number in range(HOSTS):
                host = f"host{number}"
                head = synthetic_run.header(host=host, role="storage" if number == 0 else "worker")
                path = folder / f"samples/{host}.samples"
                path.write_bytes(b"".join([json.dumps(head).encode(), b"\n", *records, synthetic_run.trailer(RECORDS)]))
                lead = f"{folder.name},{host},"
                wide_file.writelines(f"{lead}{','.join(line)}\n" for line in values)
                narrow_file.writelines(
                    f"{lead}{line[columns['mono_ns']]},{line[columns['tx_bytes']]}\n" for line in values
                )
    gauges = {"mono_ns", "wall_ns", "cpu_busiest", "cpu_busiest_busy_pct", "softirq_busiest_pct", "mem_cached_kb"}
    return ",".join(name for name in names if name not in gauges)


if __name__ == "__main__":
    main()
