"""Many clients at once, with the start gate and without: how soon all run, how closely they begin, what each costs.

usage: gate_scale.py [CLIENTS ...] [--minutes M]     (as root; default 200; some minutes each)

Brings up a testbed of its own with slots for all of them on two workers, and takes it down again. For each number of
clients one run has two trials, in which each reads half a megabyte through its worker's mount with dd: one without a
gate, one with it. Figures are of this machine's cores, which hold both sites; compare within a run. Of three numbers
of clients or more some figures are extrapolated to 10,000, as powers of it, with the 95 % interval of one more trial.
docs/runs.md has reference figures.
"""

import argparse
import collections
import itertools
import json
import math
import os
import subprocess
import time
from pathlib import Path

import numpy as np
from frame import HOME, offer, own_testbed
from scipy import stats

from tierbench import names
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.starts import lead
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import USER

WORKERS = 2
OTHER_JOBS = 8  # slots for a worker's flush and sampler
EXPERIMENT = """
name = "gate-scale-{clients}"
question = "What does the start gate cost so many clients?"
access = ["direct"]
batches = [{clients}]
repeats = 1
retries = 0
stall_limit_s = 300
workloads.dd = {{ client = "dd", replicas = "small" }}
replicas.small = {{ kind = "random", count = {clients}, size_mb = 0.5 }}
axes.begin = {{ values = ["natural", "together"], sets = "start" }}
"""
# What runs for each client, by what its command line holds.
KINDS = {
    "shadow": "condor_shadow", "starter": "condor_starter", "wrapper": "--replicas", "held process": "echo ready",
    "schedd": "condor_schedd", "startd": "condor_startd", "DAGMan": "condor_dagman", "gate": "scripts/gate.py",
    "stop": "scripts/stop.py", "mount": "mfsmount",
}  # fmt: skip
OF_ACCESS_POINT = ("shadow", "schedd", "DAGMan", "gate", "stop")
OF_A_CLIENT = ("shadow", "starter", "wrapper", "held process")
LOOKED_AT = 30  # of the processes of a kind, for their memory
FAR, EXTRAPOLATED = 10_000, ("all started, s after submission", "CPU of a client: access point, ms")
LOOK_S, POLL_S = 4.0, 0.25  # between two looks at the processes, which cost some time; at the files


class Processes:
    """What the testbed's processes take, by their kinds."""

    def __init__(self, hosts):
        self.nets = {namespace(host.pid) for host in hosts}
        self.kinds = {}
        self.cpu_s = {}

    def look(self):
        for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
            try:
                if self.kinds.setdefault(pid, "other") == "other":  # a shell becomes something else
                    self.kinds[pid] = self._kind(pid)
                if self.kinds[pid]:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self.cpu_s[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except OSError:
                pass

    def _kind(self, pid):
        if namespace(pid) not in self.nets:
            return None
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return next((kind for kind, words in KINDS.items() if words in line), "other")

    def used(self):
        """CPU seconds by kind, since each process began."""
        sums = collections.Counter()
        for pid, seconds in self.cpu_s.items():
            sums[self.kinds[pid] or ""] += seconds
        return sums

    def memory_mb(self, kind):
        """The proportional set size of one process of a kind, the mean of some."""
        sizes_mb = []
        for pid in [pid for pid, of in self.kinds.items() if of == kind][-LOOKED_AT:]:
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                sizes_mb.append(int(rollup.partition("\nPss:")[2].split()[0]) / 1024)
            except (OSError, IndexError):
                pass
        return sum(sizes_mb) / len(sizes_mb) if sizes_mb else None


def namespace(pid):
    return str(Path(f"/proc/{pid}/ns/net").readlink())


class Course:
    """What the processes of a trial took: CPU from its turn to its last end, memory while they wait."""

    def __init__(self, start):
        self.start = start
        self.cpu_before_s = None
        self.cpu_s = collections.Counter()
        self.memory_mb = {}

    def look(self, trial, processes, weighs):
        if self.cpu_before_s is None and (trial / "clients").exists():
            processes.look()
            self.cpu_before_s = processes.used()
        if self.cpu_before_s and weighs and not (trial / names.GO).exists():  # the latest before the go counts
            self.memory_mb = {kind: processes.memory_mb(kind) for kind in OF_A_CLIENT}
        if self.cpu_before_s and not self.cpu_s and (trial / names.SERVED).exists():
            processes.look()
            self.cpu_s = processes.used() - self.cpu_before_s


def watch(run, ended, processes, deadline):
    """Look at the run's trials and processes until it has ended or its time is over."""
    courses = {}
    last_look_s = 0.0
    while ended.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
        looks = time.monotonic() - last_look_s > LOOK_S
        if looks:
            processes.look()
            last_look_s = time.monotonic()
        for trial in (run / names.TRIALS).glob("*"):
            if trial.name not in courses:
                courses[trial.name] = Course(json.loads((trial / names.TRIAL).read_text())["start"]["kind"])
            courses[trial.name].look(trial, processes, looks)
    return courses


def figures(data, course, clients):
    submitted = data.submit_wall_ns or 0

    def since(times):
        moments = [each for each in times if each]
        return (max(moments) - submitted) / 1e9 if moments else None

    starts = [job.start.wall_ns if job.start else None for job in data.jobs]
    begins = [job.begin_wall_ns for job in data.jobs]
    late = [job.late_ns / 1e6 for job in data.jobs if job.late_ns is not None]
    yield "clients started", sum(each is not None for each in starts)
    yield "all started, s after submission", since(starts)
    yield "all ready, and the go given", since([data.go_wall_ns and data.go_wall_ns - int(lead(clients) * 1e9)])
    yield "the go", since([data.go_wall_ns])
    yield "all begun", since(begins)
    yield "all ended", since([job.ended_wall_ns for job in data.jobs])
    yield "begun within, ms", max(late) - min(late) if late else None
    for kind in (*KINDS, "other") if course.cpu_s else ():
        yield f"CPU of a client: {kind}, ms", 1000 * course.cpu_s[kind] / clients
    if course.cpu_s:
        yield "CPU of a client: access point, ms", 1000 * sum(course.cpu_s[kind] for kind in OF_ACCESS_POINT) / clients
        yield "CPU of a client: all, ms", 1000 * sum(course.cpu_s.values()) / clients
    for kind, megabytes in course.memory_mb.items():
        yield f"memory of a {kind} (PSS), MB", megabytes


def measure(bed, clients, minutes):
    """Run both trials; their figures by how they start, and whether both came to their ends."""
    ce, run = bed.host("ce"), f"{HOME}/runs/gate-scale-{clients}"
    definition = offer(bed, f"gate-scale-{clients}", EXPERIMENT.format(clients=clients))
    ce.run("mkdir", "-p", f"{HOME}/runs", user=USER)
    here = Path(f"/proc/{ce.pid}/root{run}")
    command = ["tierbench", "run", *definition, "--no-links", "--into", run]
    processes, deadline = Processes(list(bed.hosts.values())), time.monotonic() + 60 * minutes
    watcher = subprocess.Popen(
        ce.command(command, USER), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    courses = watch(here, watcher, processes, deadline)
    in_time = watcher.poll() is not None
    if not in_time:
        ce.run("tierbench", "stop", run, user=USER, check=False, timeout=120)
        watcher.kill()
    tables = {}
    for name, course in courses.items():
        tables[course.start] = dict(figures(read_trial(here / names.TRIALS / name), course, clients))
    show(clients, tables)
    if not in_time:
        print(f"ended by hand after {minutes:g} minutes")
    return tables, in_time


def extrapolate(measured):
    """Print what 10,000 clients would take, by a straight line through the logarithms of what fewer took."""
    for start, row in itertools.product(("natural", "together"), EXTRAPOLATED):
        points = [(clients, tables.get(start, {}).get(row)) for clients, tables in measured.items()]
        points = [point for point in points if point[1]]
        if len(points) < 3:
            continue
        xs, ys = (np.log(values) for values in zip(*points, strict=True))
        line, df = stats.linregress(xs, ys), len(xs) - 2
        far = math.log(FAR) - xs.mean()
        spread = math.sqrt(((ys - line.intercept - line.slope * xs) ** 2).sum() / df)
        reach = stats.t.ppf(0.975, df) * spread * math.sqrt(1 + 1 / len(xs) + far**2 / ((xs - xs.mean()) ** 2).sum())
        ends = [math.exp(ys.mean() + line.slope * far + side * reach) for side in (0, -1, 1)]
        values = "{:.0f} ({:.0f} to {:.0f})".format(*ends)
        print(f"{start}, {row}: of {FAR} clients {values}, power {line.slope:.2f}")


def show(clients, tables):
    columns = [start for start in ("natural", "together") if start in tables]
    print(f"\n| {clients} clients | " + " | ".join({"natural": "no gate"}.get(each, "gate") for each in columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for row in dict.fromkeys(row for table in tables.values() for row in table):
        cells = [tables[start].get(row) for start in columns]
        print(f"| {row} | " + " | ".join("" if cell is None else f"{cell:.1f}" for cell in cells) + " |")
    ready = [tables[start].get("all started, s after submission") for start in columns]
    if len(ready) == 2 and all(ready):
        print(f"| the gate's, of the same without | | {ready[1] / ready[0]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", type=int, default=[200])
    parser.add_argument("--minutes", type=float, default=6, help="for both trials of a number (%(default)s)")
    arguments = parser.parse_args()
    slots = -(-max(arguments.clients) // WORKERS) + OTHER_JOBS
    with own_testbed("gate", Settings(private_workers=0, public_workers=WORKERS, slots_per_worker=slots)) as bed:
        measured = {}
        for clients in arguments.clients:
            measured[clients], in_time = measure(bed, clients, arguments.minutes)
            if not in_time:
                break
        extrapolate(measured)


if __name__ == "__main__":
    main()
