"""What tests on the testbed share: runs of experiments, this machine's idleness, a sampler by hand, a capture."""

import csv
import functools
import json
import operator
import shutil
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tierbench import names
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.samples import read_samples
from tierbench.postprocess.records.trial import Sampled
from tierbench.postprocess.schema.rows import TRIAL_FILES
from tierbench.single_file_script import single_file
from tierbench.testbed.host import wait_until
from tierbench.testbed.topology import USER

# Reasons of the verdict that say the machine was at fault, which is that of all hosts, and perhaps of others.
STARVED = ("the host was starved", "the host is too busy")
SECOND_CLIENT = 'regexp("client.py$", Cmd) && ProcId == 1'  # among the jobs of a trial
HOME = f"/home/{USER}/experiments"  # DAGMan does not want its logs below /tmp
RUN_SECONDS = 1200  # of a busy machine's patience; nothing waits so long where all is well
FULL_SEGMENT = 1514  # bytes on the wire
CAPTURE = "/run/capture"
STEP_S = 0.01
PERIOD_S = 0.1  # of a sampler that a test starts itself
LATE_S = 0.04  # a few per cent of the shortest windows
BESIDE_S = 0.5  # what comes just before a window or after it is in its edges
USUAL = {  # of an experiment: one trial that is not tried again, unless it says otherwise
    "question": '"Does it come out as it should?"', "batches": "[1]", "repeats": "1", "retries": "0",
    "sample_period_s": "0.2",
}  # fmt: skip


class Machine:
    """A thread that wants to run each hundredth of a second, and keeps when it could not."""

    def __init__(self):
        self._kept_waiting = []
        self._over = threading.Event()

    @contextmanager
    def watched(self):
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _watch(self):
        before = time.time()
        while not self._over.wait(STEP_S):
            now = time.time()
            if now - before - STEP_S > LATE_S:
                self._kept_waiting.append((before, now))
            before = now

    def was_at_rest(self, begin_s, end_s):
        """Whether nobody was kept waiting in a time, by the wall clock."""
        return not any(
            since < end_s + BESIDE_S and until > begin_s - BESIDE_S for since, until in list(self._kept_waiting)
        )


@dataclass(frozen=True)
class Ran:
    """A run's end: the exit status of the command that watched it, and the run directory as it was then."""

    status: int
    directory: Path

    def trial(self, trial):
        return self.directory / names.trial_directory(trial)

    @property
    def trials(self):
        """The trials' folders, in the plan's order."""
        return [self.trial(trial["id"]) for trial in content(self.directory / names.PLAN)["trials"]]

    @property
    def ended_well(self):
        """Whether its exit status is that of complete trials: 0, or 1 where a busy machine left none usable."""
        return self.status == int(all(row["verdict"] == "INVALID" for row in self.rows(names.TRIALS_CSV)))

    def rows(self, table):
        """A table's lines; those of trials with what stands in the tables beside trials.csv."""
        parts = TRIAL_FILES if table == names.TRIALS_CSV else [table]
        lines = (csv.DictReader((self.directory / part).read_text(encoding="utf-8").splitlines()) for part in parts)
        return [functools.reduce(operator.or_, line) for line in zip(*lines, strict=True)]


def starved(row):
    """Whether a trial's own samplers had to wait for a core."""
    return any(words in row["verdict_reasons"] for words in STARVED)


def fed(rows, machine):
    """The trials in which nobody had to wait for a core: where one had, nothing is asserted of the figures."""
    rows = [row for row in rows if not starved(row) and machine.was_at_rest(*window(row))]
    if not rows:
        pytest.skip("this machine was too busy: somebody was starved in each of the trials")
    return rows


def window(row):
    """By the wall clock; empty where a trial had none."""
    return int(row["go_wall_ns"] or 0) / 1e9, int(row["end_wall_ns"] or 0) / 1e9


def sent_again(run, trial):
    """The share of what the clients took in that the storage's TCP sent again."""
    mine = [row for row in run.rows(names.SAMPLES_CSV) if row["trial"] == trial["trial"] and row["role"] == "storage"]
    segments = sum(float(row["tcp_retrans_per_s"] or 0) * float(row["interval_s"] or 0) for row in mine)
    return segments * FULL_SEGMENT / int(trial["bytes_app"])


def content(path):
    return json.loads(path.read_text(encoding="utf-8"))


def outcome(trial):
    """What a trial's last step said of it."""
    return content(trial / names.OUTCOME)


def all_read(trial, clients):
    """Whether all clients of a trial have told that they went on from the gate."""
    records = [trial / names.client_output(index) for index in range(clients)]
    return all(path.exists() and '"event": "go"' in path.read_text() for path in records)


class AccessPoint:
    """The testbed's access point and its user, who runs experiments there."""

    def __init__(self, testbed, copies):
        self._ce = testbed.host("ce")
        self._writer = testbed.host("vmuf")
        self._copies = copies

    def define(self, name, text):
        for host in (self._ce, self._writer):
            host.put(f"{HOME}/{name}.toml", whole(name, text), user=USER)

    def put(self, name, text):
        self._ce.put(f"{HOME}/{name}", text, user=USER)

    def make_replicas(self, name):
        self._writer.run("tierbench", "replicas", *_definition(name), user=USER, timeout=RUN_SECONDS)

    def write(self, name):
        """A run directory of an experiment, as this machine sees it."""
        self.tierbench("write", *_definition(name), "--into", f"{HOME}/{name}")
        return self.there(name)

    def measured(self, name, text):
        """A run of an experiment with replicas of its own."""
        self.define(name, text)
        self.make_replicas(name)
        return self.run(name)

    def run(self, name, site="testbed", into="", links=False):
        into = into or name
        options = ["--site", site, "--anyway", *([] if links else ["--no-links"]), "--into", f"{HOME}/{into}"]
        return self._ran("run", f"{HOME}/{name}.toml", *options, run=into)

    def more(self, name, repetitions):
        added = ["--more", str(repetitions), "--no-links"]
        return self._ran("run", *added, f"{HOME}/{name}", run=name, copy=f"{name}-more")

    def submit(self, name, copy=""):
        return self._ran("submit", f"{HOME}/{name}", run=name, copy=copy)

    @contextmanager
    def submitting(self, name):
        """While a run that was written is submitted and watched; in the end its exit status."""
        with ThreadPoolExecutor(1) as threads:
            yield threads.submit(self.tierbench, "submit", f"{HOME}/{name}", check=False)

    def wait_until(self, holds, complaint, name):
        """As long as a run may take, and then with the last words of its DAGMan."""
        wait_until(holds, RUN_SECONDS, complaint, self.there(name) / f"{names.EXPERIMENT_DAG}.dagman.out")

    def doctor(self, name):
        """What the doctor says of an experiment."""
        return self.command("tierbench", "doctor", "--quick", "--experiment", *_definition(name), check=False)[1]

    def tierbench(self, *arguments, check=True):
        return self.command("tierbench", *arguments, check=check)[0]

    def command(self, *command, check=True):
        result = self._ce.run(*command, user=USER, check=check, timeout=RUN_SECONDS)
        return result.returncode, result.stdout

    def remove(self, trial, which):
        """Take jobs of a trial out of the queue by hand."""
        self.command("condor_rm", "-constraint", f'regexp("{trial.name}$", Iwd) && {which}')

    def there(self, name):
        """Where this machine finds a file of the user's; only for tests, which know what they put there."""
        return Path(f"/proc/{self._ce.pid}/root{HOME}/{name}")

    def copy(self, name, copy=""):
        """A run directory as it is now; it may go on to change."""
        return Path(shutil.copytree(self.there(name), self._copies / (copy or name)))

    def _ran(self, *arguments, run, copy=""):
        return Ran(self.tierbench(*arguments, check=False), self.copy(run, copy))


def whole(name, text):
    """An experiment with what it has in common with those of other tests, where it extends none."""
    table = tomllib.loads(text)
    usual = {"name": f'"{name}"', **({} if "extends" in table else USUAL)}
    return "".join(f"{key} = {value}\n" for key, value in usual.items() if key not in table) + text


def _definition(name):
    return [f"{HOME}/{name}.toml", "--site", "testbed"]


@contextmanager
def sampling(host, name, role):
    """While a sampler is at work on a host; its file, which is whole in the end."""
    log, stop = host.log(f"{name}.log"), f"/root/{name}.stop"
    host.run("rm", "-f", stop, f"/var/log/{name}.log")
    host.put("/root/sampler.py", single_file("tierbench.monitors.sampler"))
    of_trial = ["--trial", name, "--role", role, "--interface", "auto", "--period", str(PERIOD_S)]
    host.daemon(name, "python3", "/root/sampler.py", *of_trial, "--stop-file", stop, "--max-seconds", "600")
    host.wait_until(lambda: log.read_bytes().count(b"\n") > 3, "the sampler did not begin", log.name)
    yield log
    host.put(stop, "stop")
    host.wait_until(lambda: b'"reason"' in log.read_bytes(), "the sampler did not end", log.name)


def sampled(file):
    """What a sampler has written until now."""
    return Sampled(samples := read_samples(file), intervals(samples))


def marks_on_the_wire(server, of, mark, whole, read):
    """How often a mark was in what went by, which was at least so many bytes; `of` is tcpdump's filter."""
    into = ("-B", "65536", "-U", "--immediate-mode", "-s", "0", "-w", CAPTURE)
    server.daemon("tcpdump", "tcpdump", "-i", "eth0", *into, *of.split())
    server.wait_until(lambda: b"listening" in server.read("/var/log/tcpdump.log"), "no capture", "tcpdump.log")
    read()
    size = partial(server.run, "stat", "-c", "%s", CAPTURE)
    server.wait_until(lambda: int(size().stdout) > whole, "the capture lacks what was read", "tcpdump.log")
    server.script(["kill -INT $(cat /run/tcpdump.pid)", "while kill -0 $(cat /run/tcpdump.pid); do sleep 0.05; done"])
    marks = server.run("sh", "-c", f"grep -aoF '{mark}' {CAPTURE} | wc -l").stdout
    server.run("rm", CAPTURE, "/var/log/tcpdump.log")
    return int(marks)
