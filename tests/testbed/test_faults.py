"""Faults that meet a run's trials one after the other: each trial ends, says why, and the next one is measured."""

import re
from functools import partial

import pytest

from tests.testbed.runs import HOME, SECOND_CLIENT, Ran, all_read, outcome
from tierbench import names

FAULTS = """
access = ["wan-xrootd-private"]
batches = [2]
repeats = 4
stall_limit_s = 10
workloads.copy = { client = "xrdcp", replicas = "long" }
replicas.long = { kind = "random", count = 4, size_mb = 96 }
"""
CLIENT = "[c]lient.py.*--index"  # a pattern that does not find the shell in which it stands


@pytest.fixture(scope="module")
def faulty(access_point, testbed):
    """In turn: a trial's wrappers are stopped, one's gate and stop die, one of another's clients is removed.

    Meanwhile somebody releases the clients of the fourth, which wait for its turn.
    """
    access_point.define("faults", FAULTS)
    access_point.make_replicas("faults")
    run = access_point.write("faults")
    trials = Ran(0, run).trials
    with access_point.submitting("faults") as watched:
        access_point.wait_until(partial(all_read, trials[0], 2), "the clients did not begin", "faults")
        for worker in ("wn01", "wn02"):
            testbed.host(worker).run("sh", "-c", f"pkill -STOP -f '{CLIENT}'", check=False)
        # A copy is not the run: to stop it does nothing to the run.
        access_point.command("cp", "-r", f"{HOME}/faults", f"{HOME}/faults-copied")
        assert access_point.tierbench("stop", f"{HOME}/faults-copied", check=False) == 2
        access_point.wait_until((trials[1] / names.CLIENTS).exists, "the second trial did not begin", "faults")
        for step in ("gate", "stop"):
            access_point.wait_until((trials[1] / f"{step}.out").exists, f"the second trial has no {step}", "faults")
            testbed.host("ce").run("sh", "-c", f"pkill -KILL -f '[s]cripts/{step}.py'", check=False)
        access_point.wait_until(partial(all_read, trials[2], 2), "the third trial did not begin", "faults")
        log = trials[3] / names.CLIENTS_LOG
        access_point.wait_until(log.exists, "the fourth trial has no clients in the queue", "faults")
        access_point.command("condor_release", re.match(r"000 \(0*(\d+)", log.read_text())[1])
        access_point.wait_until(lambda: "\n013 (" in log.read_text(), "its clients were not released", "faults")
        access_point.remove(trials[2], SECOND_CLIENT)
        status = watched.result()
    yield Ran(status, access_point.copy("faults"))


def reasons(trial):
    return outcome(trial)["reasons"]


def test_wrappers_that_are_stopped_do_not_hold_up_the_run(faulty):
    assert outcome(faulty.trials[0])["state"] == "incomplete"
    assert reasons(faulty.trials[0])[0].startswith("the storage has moved nothing for ")


def test_what_is_known_of_the_server_is_told(faulty):
    assert "vmuf.uf.test:1094 takes connections from here" in reasons(faulty.trials[0])[0]


def test_a_gate_and_a_stop_that_are_killed_are_started_again(faulty):
    assert outcome(faulty.trials[1])["state"] == "complete"


def test_the_client_that_was_removed_is_told_of_first(faulty):
    assert reasons(faulty.trials[2])[0].startswith("client 1 ")
    assert "via condor_rm (by user bench)" in reasons(faulty.trials[2])[0]


def test_a_trial_whose_jobs_are_released_before_its_turn_is_called_off(faulty):
    assert reasons(faulty.trials[3])[0].startswith("jobs that were on hold were released before its turn")


def test_nothing_is_left_in_the_queue(faulty, access_point):
    assert faulty.status == 1
    inside = f'regexp("^{HOME}/faults", Iwd)'
    assert access_point.command("condor_q", "-constraint", inside, "-af", "ClusterId", "Cmd")[1] == ""
