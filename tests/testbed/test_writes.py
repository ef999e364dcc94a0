"""Trials that write, by the mount and by the bridge: what they say is what arrived, and nothing of theirs is left."""

import re
from functools import partial

import pytest

from tests.testbed.runs import SECOND_CLIENT, Ran, all_read, outcome
from tests.testbed.test_conditions import holding
from tierbench import names
from tierbench.testbed.services.filesystem import MOUNT_POINT, WRITABLE

CLIENTS = 2
SIZE_MB = 80
SLOW_MBPS = 60  # of the WAN, so that clients still write when they are removed, however busy this machine is
WRITES = f"""
access = ["direct", "lan-xrootd"]
batches = [{CLIENTS}]
repeats = 2
workloads.write = {{ client = "writer", replicas = "out" }}
replicas.out = {{ kind = "written", size_mb = {SIZE_MB}, check = "adler32" }}
"""


@pytest.fixture(scope="module")
def written(access_point, testbed):
    """A trial by each way; then, while they write, a client of the third is removed and the fourth as a whole."""
    access_point.define("writes", WRITES)
    run = access_point.write("writes")
    trials = Ran(0, run).trials
    with access_point.submitting("writes") as watched:
        access_point.wait_until((trials[1] / names.OUTCOME).exists, "the second trial did not end", "writes")
        with holding(testbed.host("wan"), "wan-rate", SLOW_MBPS):
            access_point.wait_until(partial(all_read, trials[2], CLIENTS), "the third trial did not begin", "writes")
            access_point.remove(trials[2], SECOND_CLIENT)
            access_point.wait_until(partial(all_read, trials[3], CLIENTS), "the fourth trial did not begin", "writes")
            access_point.remove(trials[3], "JobUniverse == 7")
        status = watched.result()
    yield Ran(status, access_point.copy("writes"))


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_written_is_what_the_storage_received(written, number):
    row = written.rows(names.TRIALS_CSV)[number]
    assert (row["state"], row["direction"]) == ("complete", "received")
    assert int(row["bytes_app"]) == CLIENTS * SIZE_MB * 10**6
    assert -0.01 < float(row["closure"]) < 0.12
    assert "clients wrote" not in row["verdict_reasons"]  # less than that, or late
    assert "none of the trial's own hosts" not in row["verdict_reasons"]


@pytest.mark.parametrize("number", [0, 1])
def test_it_was_read_again_and_compared(written, number):
    assert written.rows(names.TRIALS_CSV)[number]["looked_at"] == f"adler32 of {CLIENTS} files"


@pytest.mark.parametrize("number", [0, 1])
def test_the_rate_is_no_more_than_that_of_the_workers_links(written, number):
    rate = float(written.rows(names.TRIALS_CSV)[number]["delivered_mbps"])
    assert 10 < rate < 205


def test_trials_that_were_broken_off_say_why(written):
    killed, removed = written.trials[2:]
    # Its own last word, unless it was still writing back what it had in memory when its time to end was over.
    assert re.match("client 1 (killed|lost: it was removed)", outcome(killed)["reasons"][0]), outcome(killed)["reasons"]
    assert outcome(removed)["reasons"][0] == "the trial was removed"


def test_nothing_that_was_written_is_left(written, testbed):
    assert [outcome(trial)["left"] for trial in written.trials] == [[], [], [], []]
    assert testbed.host("vmuf").run("ls", "-A", f"{MOUNT_POINT}/{WRITABLE}").stdout == ""


def test_the_turn_is_nobodys(written):
    assert not (written.directory / names.LOCK_HOLDER).exists()
