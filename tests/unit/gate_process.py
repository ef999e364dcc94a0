"""Start gate and stop, run as HTCondor runs them: in a trial's directory, beside lock.py, without any environment.

What they do only after a while is seen in this process, where time passes when they rest, however busy the machine is.
"""

import json
import subprocess
from pathlib import Path

from tests.unit.shipped import PYTHON, ship, wait_until
from tierbench import names
from tierbench.dags.graphs import CALLED_OFF
from tierbench.starts import Go
from tierbench.submit.trial import joblog, stop, trial_monitor
from tierbench.submit.trial.trial_monitor import TrialMonitor
from tierbench.trials import read_trial

CLOSED_S = 0.4
TOGETHER = {"kind": "together", "every_s": 0.0}
WHEN = "2026-01-01 12:00:00"
LIMITS = {"ready_s": 60, "end_s": 60, "read_s": 50, "stall_s": 60, "away_s": 60, "samplers_s": 60, "stop_s": 1}


class Gate:
    """Gate and stop at work on a trial of two clients, a flushed host and a sampler."""

    def __init__(self, run, *, at_work=True, definition=None, **limits):
        self.scripts = ship(run / names.SCRIPTS)
        self.trial = run / names.TRIALS / "one"
        self.trial.mkdir(parents=True)
        for folder in names.FILLED:
            (self.trial / folder).mkdir()
        sampler = {"host": "oss", "role": "storage", "via": "pool"}
        self.definition = {
            "jobs": 2, "flush": {"hosts": ["wn01"]}, "samplers": [sampler], "start": TOGETHER, "sample_period_s": 0.2,
            "conditions": [], "limits": {**LIMITS, **limits}, **(definition or {}),
        }  # fmt: skip
        (self.trial / names.REPLICAS).write_text("file:///data/1\t1\nfile:///data/2\t1\n")
        (self.trial / names.TRIAL).write_text(json.dumps(self.definition))
        (run / names.LOCK_HOLDER).write_text("one")
        self.processes = []
        if at_work:
            self.start()

    def start(self):
        # As HTCondor's local universe does it: no environment at all.
        self.processes = [
            subprocess.Popen([PYTHON, self.scripts / name], cwd=self.trial, env={}) for name in ("gate.py", "stop.py")
        ]
        self.gate, self.stop = self.processes

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def log(self, name, *lines):
        with (self.trial / name).open("a") as file:
            file.writelines(f"{line}\n...\n" for line in lines)

    @property
    def waits_for(self):
        """What it tells of waiting for."""
        try:
            return str(json.loads((self.trial / names.WAITING_FOR).read_text())["what"])
        except FileNotFoundError:
            return ""

    def flushed(self):
        (self.trial / names.flush_report("wn01")).write_text('{"status": "ok"}')

    def sampling(self, *bytes_sent):
        """A header and the records so far."""
        columns = [{"name": name} for name in ("mono_ns", "rx_bytes", "tx_bytes")]
        header = json.dumps({"tierbench": "samples", "columns": columns, "record_bytes": 40})
        records = [f"{n:10d} {0:10d} {sent:10d}".ljust(39) for n, sent in enumerate(bytes_sent or (0, 0))]
        (self.trial / names.sample_file("oss")).write_text("\n".join([header, *records]) + "\n")

    @property
    def why(self):
        """Why the trial was called off; DAGMan then removes its jobs."""
        wait_until((self.trial / names.CALLED_OFF).exists)
        assert sorted((self.gate.wait(120), self.stop.wait(120))) == [0, CALLED_OFF]  # one of them has
        return str(json.loads((self.trial / names.CALLED_OFF).read_text())["reason"])

    def tells(self, client, **record):
        with (self.trial / names.client_output(client)).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def begun(self, *clients):
        for n in clients:
            self.log(names.CLIENTS_LOG, f"000 (7.00{n}.000) {WHEN} Job submitted from host: <198.18.2.11:9618>")
            self.log(
                names.CLIENTS_LOG, f"001 (7.00{n}.000) {WHEN} Job executing on host: <>\n\tSlotName: slot1_{n}@wn0{n}"
            )

    def says_end(self, *clients):
        for n in clients:
            self.tells(n, event="end")

    def terminated(self, *clients):
        how = "Job terminated.\n\t(1) Normal termination (return value 0)"
        self.log(names.CLIENTS_LOG, *(f"005 (7.00{n}.000) {WHEN} {how}" for n in clients))

    def ready(self, *clients):
        self.begun(*clients)
        self.log(names.CLIENTS_LOG, *(f"008 (7.00{n}.000) {WHEN} TIERBENCH READY {n}" for n in clients))

    def said(self):
        wait_until((self.trial / names.GO).exists)
        return json.loads((self.trial / names.GO).read_text())

    def open(self, *ready, wait=True):
        """All that the gate waits for is there; of the clients, these."""
        self.flushed()
        self.sampling()
        self.ready(*(ready or (0, 1)))
        if wait:
            self.said()

    def go(self, **step):
        """A go that was given in this process' time."""
        (self.trial / names.GO).write_text(Go(0, **step).text())

    def has(self, name):
        return (self.trial / name).exists()

    def has_soon(self, name):
        wait_until((self.trial / name).exists)


class Over(Exception):
    """So much time has passed."""


class Passing:
    """Time that passes when somebody rests; what happens meanwhile is done before."""

    def __init__(self, seconds, meanwhile=lambda _: None, work_s=0.0):
        self.passed, self.seconds, self.meanwhile, self.work_s = 0.0, seconds, meanwhile, work_s
        self.worked, self.rests = 0.0, []

    def time(self):
        return self.passed

    monotonic = time

    def process_time(self):
        """A look takes so much of a core."""
        self.worked += self.work_s
        return self.worked

    def sleep(self, seconds):
        if self.passed > self.seconds:
            raise Over
        self.meanwhile(len(self.rests))
        self.rests.append(seconds)
        self.passed += seconds


def monitor_of(trial, monkeypatch, passing):
    """Who watches the trial, in this process and in this time."""
    monkeypatch.chdir(trial.trial)
    for module in (trial_monitor, joblog, stop):
        monkeypatch.setattr(module, "time", passing)
    return TrialMonitor(read_trial(Path()))
