"""A trial that comes to nothing is called off, by gate or stop: nobody is waited for without end, and all hear why."""

import errno
from unittest.mock import Mock

import pytest

from tests.unit.gate_process import WHEN, Over, Passing, monitor_of
from tests.unit.shipped import wait_until
from tierbench import names
from tierbench.dags.graphs import CALLED_OFF
from tierbench.submit.trial import stop, trial_monitor
from tierbench.submit.trial.disk_reserve import hold_reserve
from tierbench.submit.trial.stop import see_end
from tierbench.submit.trial.trial_monitor import CalledOff

SUBMITTED = f"000 (9.000.000) {WHEN} Job submitted from host: <>"
AWAY = f"022 (7.001.000) {WHEN} Job disconnected, attempting to reconnect\n    Socket closed"
EVICTED = f"004 (7.001.000) {WHEN} Job was evicted."
SUSPENDED = f"010 (7.001.000) {WHEN} Job was suspended.\n\tNumber of processes: 3"
HELD = f"012 (7.001.000) {WHEN} Job was held.\n\tno such file\n\tCode 13 Subcode 2"


@pytest.mark.parametrize(
    ("ready", "sampled", "why"), [((0,), True, "client 1 without a slot"), ((0, 1), False, "samples of oss")]
)
def test_what_does_not_come_is_not_waited_for_without_end(gate, ready, sampled, why):
    trial = gate(at_work=False, ready_s=1)
    trial.flushed()
    if sampled:
        trial.sampling()
    trial.ready(*ready)
    trial.start()
    assert why in trial.why
    assert trial.said()["called_off"] == trial.why  # which clients that wait for the go are told


def test_the_sampler_of_a_storage_server_that_was_held_calls_the_trial_off(trial):
    held = f"012 (9.000.000) {WHEN} Job was held.\n\tno such interface\n\tCode 1 Subcode 0"
    trial.log(names.SAMPLERS_LOG, SUBMITTED, held)
    assert "the sampler on oss failed: it was held: no such interface" in trial.why


REFUSED = """11/25/26 07:36:13 Submitting node clients from file ../../submit/clients.sub using direct job submission
11/25/26 07:36:13 ERROR: on Line 32 of submit file: Failed to produce job credentials (1): no secret

11/25/26 07:36:13 Job submit failed after 6 tries.
11/25/26 07:36:13 Shortcutting node clients retries because of submit failure(s)
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("Failed to submit job clients: SCHEDD:3:jobs here need a project", "SCHEDD:3:jobs here need a project"),
        (
            "ERROR: on Line 26 of submit file: failed to create job classad\n"
            "11/25/26 07:36:13 submit error: Submit:-1:ERROR: request_memory=64 must contain a units suffix",
            "Submit:-1:ERROR: request_memory=64 must contain a units suffix",
        ),
    ],
)
def test_what_the_schedd_itself_or_the_pools_rules_refuse_has_its_words_too(tmp_path, log, words):
    """SUBMIT_REQUIREMENTS are looked at when all is sent; what submitting finds wrong stands in a line more."""
    dagman_log = tmp_path / "trial.dag.dagman.out"
    first, _, last = REFUSED.split("\n", 2)
    dagman_log.write_text(f"** PID = 7 **\n{first}\n11/25/26 07:36:13 {log}\n{last}")
    assert trial_monitor.refusal(dagman_log) == f"clients: {words}"


@pytest.mark.parametrize("node", ["clients", "flush", "sampling"])
def test_jobs_that_htcondor_does_not_take_call_the_trial_off_with_its_words(trial, node):
    if node != "clients":  # which have been submitted
        trial.begun(0, 1)
    words = REFUSED.replace("node clients", f"node {node}")
    (trial.trial / "trial.dag.dagman.out").write_text(f"** PID = 7 **\n{words}")
    why = "on Line 32 of submit file: Failed to produce job credentials (1): no secret"
    assert trial.why == f"HTCondor did not take the jobs of {node}: {why}"


@pytest.mark.parametrize(
    ("event", "killed", "why"),
    [
        (EVICTED, True, "was evicted from slot1_1@wn01"),  # and not ended: HTCondor will start it again
        (SUSPENDED, False, "was suspended by its worker while it ran"),
        (HELD, False, "was held: no such file"),
        (HELD, True, "was held: no such file"),
    ],
)
def test_a_client_that_is_kept_from_reading_calls_the_trial_off_soon(gate, monkeypatch, event, killed, why):
    trial = gate(at_work=False, away_s=3600)
    trial.open(wait=False)
    trial.go()
    if killed:
        trial.tells(1, event="end", status="killed")
    trial.log(names.CLIENTS_LOG, event)
    with pytest.raises(CalledOff, match=f"client 1 {why}"):
        see_end(monitor_of(trial, monkeypatch, Passing(20)), {})


def test_a_client_that_is_held_does_so_before_the_go_too(trial):
    trial.begun(0, 1)
    trial.log(names.CLIENTS_LOG, HELD)
    assert trial.why == "client 1 was held: no such file"


def test_a_client_that_is_suspended_is_not_ready(gate):
    trial = gate(at_work=False, ready_s=1)
    trial.open(wait=False)
    trial.log(names.CLIENTS_LOG, SUSPENDED)
    trial.start()
    assert trial.why == "not ready after 1 s: client 1"


def test_what_was_refused_before_dagman_was_started_again_is_no_matter(tmp_path):
    log = tmp_path / "trial.dag.dagman.out"
    log.write_text(f"** PID = 7 **\n{REFUSED}** PID = 8 **\n")
    assert trial_monitor.refusal(log) == ""


def test_another_hosts_sampler_is_waited_for_a_while_and_then_done_without(gate):
    hosts = (("oss", "storage"), ("wn01", "worker"))
    samplers = [{"host": host, "role": role, "via": "pool"} for host, role in hosts]
    trial = gate(samplers_s=0.5, definition={"samplers": samplers})
    trial.open(wait=False)
    assert "go_wall_ns" in trial.said()


def test_who_does_not_end_is_not_waited_for_without_end(gate):
    """Whatever the client does: stopped, or in a read that cannot be killed."""
    trial = gate(at_work=False, end_s=1, read_s=0)
    trial.open(wait=False)
    trial.terminated(0)
    trial.start()
    assert trial.why.startswith("client 1 had not ended 1 s after the go")


def test_a_worker_that_does_not_answer_ends_the_trial(gate):
    trial = gate(away_s=1)
    trial.open()
    trial.log(names.CLIENTS_LOG, AWAY)
    wait_until(lambda: "client 1" in trial.waits_for)
    assert trial.why == "client 1 was lost: its slot slot1_1@wn01 does not answer (Socket closed)"


def goes_on(gate, monkeypatch, while_it_does, seconds=10, **limits):
    """A trial whose limits are over that long ago, as it does so ten times a second; who watches it goes on."""
    trial = gate(at_work=False, **limits)
    trial.open(wait=False)
    trial.go()
    monitor = monitor_of(trial, monkeypatch, Passing(seconds, lambda number: while_it_does(trial, number)))
    with pytest.raises(Over):  # and not CalledOff
        see_end(monitor, {})
    return trial


@pytest.mark.parametrize("event", [HELD, EVICTED])
def test_what_befalls_a_client_when_it_has_read_all_is_no_matter(gate, monkeypatch, event):
    def end(trial, number):
        if number == 1:
            trial.tells(1, event="end", status="ok")
            trial.log(names.CLIENTS_LOG, event)

    goes_on(gate, monkeypatch, end)


def test_a_worker_that_answers_again_in_time_is_no_matter(gate, monkeypatch):
    def is_away_for_a_second(trial, number):
        if number in (1, 11):
            back = f"023 (7.001.000) {WHEN} Job reconnected to slot1_1@wn01"
            trial.log(names.CLIENTS_LOG, AWAY if number == 1 else back)

    goes_on(gate, monkeypatch, is_away_for_a_second, away_s=1.5)


def test_one_that_did_so_before_its_end_was_watched_for_too(gate, monkeypatch):
    trial = gate(at_work=False)
    trial.open(wait=False)
    trial.begun(1)
    trial.go(starts={0: 1, 1: 1})
    monitor = monitor_of(trial, monkeypatch, Passing(10))
    monitor.read_on()
    with pytest.raises(CalledOff, match="client 1 began anew"):
        stop.stop(monitor)


@pytest.mark.parametrize("ended", [(), (1,)])  # as by a schedd that was killed before it had noted the end
def test_a_client_that_begins_anew_ends_the_trial(trial, ended):
    trial.open()
    trial.terminated(*ended)
    trial.begun(1)
    assert trial.why == "client 1 began anew, on slot1_1@wn01"


@pytest.mark.parametrize(
    ("log", "who"),
    [("flush.log", "the flush on wn01"), (names.CLIENTS_LOG, "client 0"), ("samplers.log", "the sampler on oss")],
)
def test_a_job_that_falls_out_of_each_slot_ends_the_trial(trial, log, who):
    lost = f"024 (9.000.000) {WHEN} Job reconnection failed\n    Job not found at execution machine"
    evicted, failed = f"004 (9.000.000) {WHEN} Job was evicted.", f"007 (9.000.000) {WHEN} Shadow exception!"
    trial.log(log, SUBMITTED, lost, evicted, lost, failed)
    assert trial.why.startswith(f"{who} was lost: its slot does not answer (Job not found at execution machine)")


def test_what_a_slot_says_of_a_flush_is_told_at_once_and_ends_the_trial_the_third_time(trial):
    error = f"021 (9.000.000) {WHEN} Error from starter on slot1_1@wn01:\n\tCould not initiate file transfer"
    said = "the flush on wn01, which fell out of its slot: Error from starter on slot1_1@wn01: Could not initiate"
    trial.log("flush.log", SUBMITTED, error, f"004 (9.000.000) {WHEN} Job was evicted.")
    wait_until(lambda: said in trial.waits_for)
    trial.log("flush.log", error, error)
    assert "Could not initiate file transfer, 3 times" in trial.why


def test_a_worker_lost_before_the_storage_stood_still_is_told_first(gate):
    trial = gate(at_work=False, stall_s=1)
    trial.open(wait=False)
    trial.log(names.CLIENTS_LOG, AWAY)
    trial.start()
    lost = "client 1, which was lost: its slot slot1_1@wn01 does not answer (Socket closed)"
    assert trial.why.startswith(f"{lost}; since then the storage has moved nothing for")


def test_where_the_storage_stood_still_it_is_told_which_servers_take_connections(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    urls = ("root://a.test//x", "roots://[::1]:1095//x", "https://c.test:443/x", "file:///x", "root://a.test//y")
    (tmp_path / names.REPLICAS).write_text("".join(f"{url}\t1\n" for url in urls))
    answers = [TimeoutError(), Mock(), ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")]
    monkeypatch.setattr(stop.socket, "create_connection", Mock(side_effect=answers))
    states = ("::1:1095 does not answer", "a.test:1094 takes connections", "c.test:443 takes no connection")
    assert stop.state_of_servers() == "".join(f"; {state} from here" for state in states) + " (Connection refused)"


def test_storage_that_moves_something_does_not(gate, monkeypatch):
    goes_on(gate, monkeypatch, lambda trial, number: trial.sampling(0, 10**6 * number), stall_s=4)


@pytest.mark.parametrize("on_disk", [False, True])
def test_clients_that_come_on_without_it_are_not_called_off(gate, monkeypatch, on_disk):
    """Metadata's few bytes go to another server, and what is done on a worker's own disk goes nowhere."""
    role = "worker" if on_disk else "storage"
    definition = {"on_disk": on_disk, "samplers": [{"host": "oss", "role": role, "via": "pool"}]}

    def come_on(trial, number):
        trial.tells(1, event="progress", done=number)

    trial = goes_on(gate, monkeypatch, come_on, stall_s=4, definition=definition)
    with pytest.raises(CalledOff, match="the storage has moved nothing for"):
        see_end(monitor_of(trial, monkeypatch, Passing(10)), {})


def test_without_a_gate_the_stop_watches_how_the_clients_begin(gate):
    trial = gate(definition={"start": {"kind": "natural"}}, ready_s=1)
    trial.gate.kill()
    trial.flushed()
    assert trial.stop.wait(120) == CALLED_OFF
    assert "clients 0, 1 without a slot" in (trial.trial / names.CALLED_OFF).read_text()


def test_a_disk_on_which_the_gate_or_the_stop_finds_no_room_calls_the_trial_off(gate, monkeypatch):
    trial = gate(at_work=False)
    monkeypatch.chdir(trial.trial)
    hold_reserve(trial.trial)
    assert trial_monitor.watch(Mock(side_effect=OSError(errno.ENOSPC, "full"))) == CALLED_OFF
    assert "disk is full, or a quota is used up" in (trial.trial / names.CALLED_OFF).read_text()
    assert not (trial.trial / names.RESERVE).exists()


def test_a_gate_that_fails_leaves_no_clients_waiting(gate, monkeypatch):
    trial = gate(at_work=False)
    monkeypatch.chdir(trial.trial)
    assert trial_monitor.watch(lambda _: [][0]) == CALLED_OFF
    assert "IndexError" in (trial.trial / names.CALLED_OFF).read_text()
