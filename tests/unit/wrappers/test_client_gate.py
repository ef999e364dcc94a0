"""How a client waits at the gate and keeps to a core, and what it tells the access point and asks of it."""

import json
import os
import re
import signal
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from tests.unit.client_process import PATIENCE_S, SIZE, events, until
from tierbench import files
from tierbench.starts import LOOKS_PER_S, Go, lead, pause_between_looks, settling
from tierbench.wrappers import child
from tierbench.wrappers.child import CLAIM

MOST_LATE_NS = 60e9  # of a busy machine; how late a quiet one is the testbed's tests tell


def open_gate(path, seconds_ahead, step_ns=0, turns_ns=None):
    go = time.time_ns() + round(seconds_ahead * 1e9)
    turns = None if turns_ns is None else [go + turn for turn in turns_ns]
    files.replace(path, Go(go, step_ns=step_ns, turns_wall_ns=turns).text())
    return go


def at_the_gate(process):
    """Its word that it is ready, once it has said so."""
    process.stdout.readline()
    record = json.loads(process.stdout.readline())
    assert record["event"] == "ready"
    return record


def test_a_client_is_ready_with_its_process_held_and_begins_when_it_is_let_go_which_is_after_the_go_time(job):
    job.script("bin/dd", f"date +%s%N > {job.folder}/began")
    process = job.start("dd", "--gate", "go.json", "--clients", "500")
    ready = at_the_gate(process)
    go = open_gate(job.folder / "go.json", 1.5)
    begin = events(process)["go"]
    assert ready["wall_ns"] < go
    assert begin["go_wall_ns"] == go
    assert go + 1e9 * settling(500) <= begin["wall_ns"] < go + MOST_LATE_NS
    assert int((job.folder / "began").read_text()) >= go


@pytest.mark.parametrize(
    ("ahead_s", "patience_s", "words"),
    [(None, "0.5", "no start time"), (7200, "60", "ahead of this host's clock")],
)
def test_a_go_that_does_not_come_or_is_far_ahead_is_not_waited_for(job, ahead_s, patience_s, words):
    if ahead_s:
        open_gate(job.folder / "go.json", ahead_s)
    end = job.end("dd", "--gate", "go.json", "--gate-timeout", patience_s)
    assert (end["status"], words in end["message"]) == ("no-gate", True)


def test_a_client_killed_at_the_gate_says_so(job):
    process = job.start("dd", "--gate", "go.json")
    at_the_gate(process)
    process.send_signal(signal.SIGTERM)
    assert events(process)["end"]["status"] == "killed"


@pytest.mark.parametrize("go", [{"step_ns": 10**9}, {"turns_ns": [0, 10**9]}], ids=["every second", "in turn"])
def test_a_client_begins_at_its_own_time(job, go):
    (job.folder / "replicas.txt").write_text(f"nothing\t0\n{job.replica}\t{SIZE}\n")
    process = job.start("dd", "--gate", "go.json", "--index", "1")
    at_the_gate(process)
    common = open_gate(job.folder / "go.json", 1, **go)
    begun = events(process)["go"]
    assert begun["go_wall_ns"] == common + 10**9
    assert 0 <= begun["wall_ns"] - begun["go_wall_ns"] < MOST_LATE_NS


def test_a_client_whose_turn_has_not_come_waits_for_it(job):
    (job.folder / "replicas.txt").write_text(f"nothing\t0\n{job.replica}\t{SIZE}\n")
    open_gate(job.folder / "go.json", 0, turns_ns=[0])
    end = job.end("dd", "--gate", "go.json", "--gate-timeout", "1", "--index", "1")
    assert end["status"] == "no-gate"


def test_a_second_thread_of_a_core_is_taken_when_all_cores_have_a_client(monkeypatch):
    taken = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})  # of which 0 and 2, and 1 and 3, are one core
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: taken.extend(cores))
    monkeypatch.setattr(child, "read_text", lambda path: ["0,2\n", "1,3\n"][int(re.search(r"cpu(\d)/", path)[1]) % 2])
    monkeypatch.setattr(child, "CLAIM", "\0tierbench-test-core-{}")
    claims = [child.take_core(index) for index in (0, 2, 4, 6)]
    assert (taken[:2], sorted(taken)) == ([0, 1], [0, 1, 2, 3])
    for claim in claims:
        claim.close()


def test_a_pinned_client_and_its_process_keep_to_one_core(job):
    cores = job.folder / "cores"
    job.script("bin/dd", f"sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status > {cores}")
    deadline = time.monotonic() + PATIENCE_S
    while "go" not in (record := job.run("dd", "--pin")):  # another test's client may have the cores
        assert time.monotonic() < deadline, record
    assert cores.read_text().strip() == str(record["go"]["core"])


def test_where_each_core_is_taken_the_client_says_so(job):
    with ExitStack() as claims:
        for core in os.sched_getaffinity(0):
            claim = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            with suppress(OSError):  # somebody has it already
                claim.bind(CLAIM.format(core))
        end = job.end("dd", "--pin")
    assert (end["status"], "has a client already" in end["message"]) == ("not-pinned", True)


HTCHIRP = """
import os, shutil, time
class HTChirp:  # a stand-in for HTCondor's module: the access point is the folder ap/
    class ChirpError(Exception): pass
    class DoesntExist(ChirpError): pass
    class Busy(ChirpError): pass
    def __init__(self): open("ap/connected", "a").write("x")
    def connect(self): pass
    def ulog(self, text): open("ap/log", "a").write(text + "\\n")
    def fetch(self, name, copy):
        open("ap/looks", "a").write("%f\\n" % time.monotonic())
        if os.path.exists("ap/trouble"):
            os.remove("ap/trouble")
            raise self.Busy("busy")
        if not os.path.exists("ap/" + name): raise self.DoesntExist("no " + name)
        shutil.copyfile("ap/" + name, copy)
    def _open(self, name, flags):
        if not os.path.exists("ap/uptime"): raise self.DoesntExist("no " + name)
        return 3
    def _read(self, file, length, offset): return b"%.2f 0.00\\n" % (time.monotonic() + 1000)
    def _close(self, file): pass
"""


@pytest.fixture
def access_point(job):
    """The job runs in HTCondor, with an access point to talk to."""
    (job.folder / "htchirp.py").write_text(HTCHIRP)
    (job.folder / ".chirp.config").touch()
    (job.folder / "ap").mkdir()
    return job.folder / "ap"


def test_in_a_job_the_access_point_is_told_and_asked(job, access_point):
    process = job.start("dd", "--gate", "go.json")
    until((access_point / "log").exists)
    open_gate(access_point / "go.json", 0.5)
    assert events(process)["end"]["status"] == "ok"
    assert (access_point / "log").read_text() == "TIERBENCH READY 0\n"
    assert "clock" not in job.run("dd")  # of an access point without uptime, which is no harm


def test_a_conversation_that_breaks_off_is_taken_up_again(job, access_point):
    (access_point / "trouble").touch()
    open_gate(access_point / "go.json", 0.5)
    assert job.end("dd", "--gate", "go.json")["status"] == "ok"
    assert (access_point / "connected").read_text() == "xxx"  # one of them to compare the clocks


def test_of_many_clients_each_looks_the_less_often(job, access_point):
    """All together they keep to a rate that the access point can answer."""
    clients, looks = 160, access_point / "looks"
    process = job.start("dd", "--gate", "go.json", "--clients", str(clients))
    until(lambda: looks.exists() and len(looks.read_text().splitlines()) >= 3)
    open_gate(access_point / "go.json", 1.5)
    assert events(process)["end"]["status"] == "ok"
    first, second, third = map(float, looks.read_text().splitlines()[:3])
    assert min(second - first, third - second) > 0.5 * clients / LOOKS_PER_S


@pytest.mark.parametrize("clients", [1, 50, 192, 1000, 10_000])
def test_a_go_is_given_as_far_ahead_as_its_clients_look_apart(clients):
    assert pause_between_looks(clients) < lead(clients) < 2 * pause_between_looks(clients) + 1
    assert clients / pause_between_looks(clients) <= LOOKS_PER_S


def test_in_a_job_the_clock_is_compared_with_the_access_points_uptime(job, access_point):
    (access_point / "uptime").touch()
    for _ in range(10):  # a busy machine makes the bounds wide, and never wrong
        clock = job.run("dd")["clock"]
        true_ns = clock["wall_ns"] - clock["mono_ns"] - 1000e9
        assert clock["low_ns"] - 6e6 <= true_ns <= clock["high_ns"] + 6e6  # the stand-in rounds, a kernel cuts off
        if clock["high_ns"] - clock["low_ns"] < 50e6:
            break
    assert clock["high_ns"] - clock["low_ns"] < 50e6


def test_a_job_without_chirp_says_so_at_once(job):
    job.environment["_CONDOR_SLOT"] = "slot1_1"
    end = job.end("dd", "--gate", "go.json")
    assert (end["status"], "ENABLE_CHIRP" in end["message"]) == ("no-gate", True)


def test_in_a_job_the_gate_takes_htchirp(job):
    (job.folder / ".chirp.config").touch()
    end = job.end("dd", "--gate", "go.json")
    assert (end["status"], "htchirp.py" in end["message"]) == ("no-gate", True)
