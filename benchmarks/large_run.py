"""Tables and report of a large run: time, peak memory and sizes, all at once and with one trial more.

usage: python benchmarks/large_run.py [--trials 1000] [--samples 10000000] [--folder DIR]

The data is synthetic: 10 hosts a trial, 25 columns a sample, four clients. Each step is a process of its own. With a
gigabyte for every 2.6 million samples in DIR, and twice that for the tables.

exit status: 0 the page is no larger than 10 MB, and a trial more costs less than half of the whole; 1 else
"""

import functools
import json
import os
import sys
import tempfile
from pathlib import Path

from frame import options, step

HERE = Path(__file__).resolve()
HOSTS, END = 10, 20.0
SCATTERED = 7  # repetitions before rates come again
OVERHEAD = 1.02  # of what is sent, over what is read
LARGEST_PAGE = 10_000_000
ACCESSES = ("direct", "lan-xrootd", "wan-xrootd-private", "wan-xrootd-public")
BATCHES = (4, 8, 16, 32, 64)
TABLES = (
    "import sys; from pathlib import Path; from tierbench.postprocess.tables.write import tables;"
    "tables(Path(sys.argv[1]))"
)
REPORT = (
    "import sys; from pathlib import Path; from tierbench.postprocess.report.write import run_report;"
    "run_report(Path(sys.argv[1]), None, lambda words: None)"
)


def main():
    arguments = options(__doc__, trials=1000, samples=10_000_000, folder=Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run = Path(folder) / "run"
        each = arguments.samples // arguments.trials // HOSTS
        print(f"writing {arguments.trials} trials of {HOSTS} hosts, {each} samples each, to {run}", flush=True)
        write_run(run, arguments.trials, each)
        os.sync()
        print(f"{'':36} {'seconds':>8} {'of CPU':>8} {'GB peak':>8}")
        whole = show("tables, all trials", TABLES, run)
        again = show("tables again, nothing new", TABLES, run)
        _trial(run, ACCESSES[0], BATCHES[0], arguments.trials, arguments.trials, each)
        more = show("tables, one trial more", TABLES, run)
        show("report", REPORT, run)
        page = (run / "report.html").stat().st_size
        print(f"report.html {page / 1e6:.1f} MB, samples.csv {(run / 'samples.csv').stat().st_size / 1e9:.2f} GB")
    if page > LARGEST_PAGE or max(again, more) > whole / 2:
        sys.exit("the page is too large, or a trial more costs too much")


def show(name, program, run):
    """Run a step in a process of its own and print how it did; its CPU time."""
    seconds, computed, peak_gb = step(name, sys.executable, "-c", program, run)
    print(f"{name:36} {seconds:8.1f} {computed:8.1f} {peak_gb:8.2f}", flush=True)
    return computed


def write_run(run, trials, each):
    """A run of four ways, five batches and as many repetitions as it takes."""
    sys.path.insert(0, str(HERE.parents[1]))
    points = [(access, jobs) for access in ACCESSES for jobs in BATCHES]
    for number in range(trials):
        access, jobs = points[number % len(points)]
        _trial(run, access, jobs, number // len(points) + 1, number, each)
    factors = [{"name": "access", "levels": ACCESSES}, {"name": "workload", "levels": ["root"]}]
    factors.append({"name": "jobs", "levels": BATCHES})
    plan = {"format": 1, "site": "synthetic", "experiment": "synthetic", "question": "How large?", "factors": factors}
    plan |= {"report": {"lines": "access", "x": "jobs", "panels": ["workload"], "counterpart": "", "baseline": ""}}
    for name, content in {"plan": plan, "site": {"name": "synthetic"}, "experiment": {"name": "synthetic"}}.items():
        (run / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _trial(run, access, jobs, repeat, index, each):
    from tests.unit import synthetic_run

    mbps = _mbps(access, jobs, repeat)
    workers = [f"wn{number:02}.private.fiu.test" for number in range(1, HOSTS)]
    samplers = [{"host": synthetic_run.OSS, "interface": "eth0", "role": "storage", "via": "pool"}]
    samplers += [{"host": worker, "interface": "eth0", "role": "worker", "via": "pool"} for worker in workers]
    folder = synthetic_run.write_trial(
        run, mbps=mbps, access=access, jobs=jobs, repeat=repeat, index=index, samplers=samplers
    )
    size = round(mbps * 1e6 / 8 * END / OVERHEAD / jobs)
    for client in range(jobs):
        begin_s, end_s = client * 1e-4, END - client / jobs
        synthetic_run.write_client(folder / f"clients/{client}.jsonl", begin_s=begin_s, end_s=end_s, size=size)
    for host in (synthetic_run.OSS, *workers):
        role, counter = ("storage", "tx_bytes") if host == synthetic_run.OSS else ("worker", "rx_bytes")
        head = synthetic_run.header(host=host, role=role, period_s=(END + 4) / each)
        records = _records(counter, mbps if host in (synthetic_run.OSS, workers[0]) else 0.0, each)
        (folder / f"samples/{host}.samples").write_bytes(json.dumps(head).encode() + b"\n" + records)


def _mbps(access, jobs, repeat):
    """The rate of a way that is full with some 20 jobs, sooner where it is farther; repetitions are scattered."""
    full = 800.0 - 100.0 * ACCESSES.index(access)
    return full * (1 - 0.5 ** (jobs / 8)) * (1 + repeat % SCATTERED / 100)


@functools.cache
def _records(counter, mbps, each):
    """The samples of a host, one of whose counters rises."""
    from tests.unit import synthetic_run

    moved = synthetic_run.during(mbps, END)
    times = [-2 + (END + 4) * tick / each for tick in range(each)]
    lines = [synthetic_run.record(time, **{counter: moved(time)}) for time in times]
    return b"".join([*lines, synthetic_run.trailer(each)])


if __name__ == "__main__":
    main()
