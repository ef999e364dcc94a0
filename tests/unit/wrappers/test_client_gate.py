"""How a client waits at the gate and keeps to a core, and what it tells the access point and asks of it."""

import json
import os
import re
import signal
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from tests.unit.access_point import AHEAD_S, access_point_of
from tests.unit.client_process import PATIENCE_S, SIZE, events, until
from tests.unit.shipped import ship
from tierbench import files
from tierbench.host import LivingSocket
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
    claims = [child.take_core(index) for index in (1, 3, 4, 6)]
    assert (taken[:2], sorted(taken)) == ([1, 0], [0, 1, 2, 3])
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


@pytest.fixture
def access_point(job):
    ship(job.folder, "htchirp.py")
    with access_point_of(job.folder) as access_point:
        yield access_point


def test_in_a_job_the_access_point_is_told_and_asked(job, access_point):
    process = job.start("dd", "--gate", "go.json")
    until(lambda: access_point.logged)
    open_gate(access_point.folder / "go.json", 0.5)
    assert events(process)["end"]["status"] == "ok"
    assert access_point.logged == ["TIERBENCH READY 0"]
    access_point.has_uptime = False  # which is no harm
    record = job.run("dd")
    assert (record["end"]["status"], {"clock", "clock_after"} & record.keys()) == ("ok", set())


def test_a_conversation_that_breaks_off_is_taken_up_again(job, access_point):
    access_point.is_busy = access_point.one_at_a_time = True
    open_gate(access_point.folder / "go.json", 0.5)
    assert job.end("dd", "--gate", "go.json")["status"] == "ok"
    # htchirp has two each: to compare the clocks, for a look, and again, and to compare them once more
    assert len(access_point.connections) == 2 * 4


def test_a_conversation_that_was_closed_is_no_silence():
    here, there = socket.socketpair()
    there.close()
    with LivingSocket(fileno=here.detach()) as living, pytest.raises(ConnectionResetError):
        living.recv(1)


def test_of_many_clients_each_looks_the_less_often(job, access_point):
    """All together they keep to a rate that the access point can answer."""
    clients = 160
    process = job.start("dd", "--gate", "go.json", "--clients", str(clients))
    until(lambda: len(access_point.looks_s) >= 3)
    open_gate(access_point.folder / "go.json", 1.5)
    assert events(process)["end"]["status"] == "ok"
    first_s, second_s, third_s = access_point.looks_s[:3]
    assert min(second_s - first_s, third_s - second_s) > 0.5 * clients / LOOKS_PER_S


@pytest.mark.parametrize("clients", [1, 50, 192, 1000, 10_000])
def test_a_go_is_given_as_far_ahead_as_its_clients_look_apart(clients):
    assert pause_between_looks(clients) < lead(clients) < 2 * pause_between_looks(clients) + 1
    assert clients / pause_between_looks(clients) <= LOOKS_PER_S


@pytest.mark.usefixtures("access_point")
def test_in_a_job_the_clock_is_compared_with_the_access_points_uptime(job):
    for _ in range(10):  # a busy machine makes the bounds wide, and never wrong
        record = job.run("dd")
        true_ns = record["clock"]["wall_ns"] - record["clock"]["mono_ns"] - AHEAD_S * 1e9
        clocks = [record["clock"], record["clock_after"]]  # before its begin, and after its end
        for clock in clocks:
            assert clock["low_ns"] - 6e6 <= true_ns <= clock["high_ns"] + 6e6  # the stand-in rounds, a kernel cuts off
        width = max(clock["high_ns"] - clock["low_ns"] for clock in clocks)
        if width < 50e6:
            break
    assert width < 50e6


def test_a_job_without_chirp_says_so_at_once_and_in_a_job_the_gate_takes_htchirp(job):
    job.environment["_CONDOR_SLOT"] = "slot1_1"
    end = job.end("dd", "--gate", "go.json")
    assert (end["status"], "ENABLE_CHIRP" in end["message"]) == ("no-gate", True)
    (job.folder / ".chirp.config").touch()
    end = job.end("dd", "--gate", "go.json")
    assert (end["status"], "htchirp.py" in end["message"]) == ("no-gate", True)
