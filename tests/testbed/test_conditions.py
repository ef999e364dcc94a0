"""What an experiment asks of the site is changed, proven and undone: the WAN's length on real traffic."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.testbed.runs import HOME, AccessPoint, Ran, all_read, content, outcome
from tierbench.dags import names
from tierbench.testbed.testbed import Testbed

NEAR, FAR = "direct.dd.rtt_ms=4.x001.r1", "direct.dd.rtt_ms=80.x001.r1"
EXPERIMENT = """
name = "{name}"
question = "What does distance cost a single reader?"
access = ["direct"]
batches = [1]
repeats = 1
sample_period_s = 0.2
retries = 0

[workloads.dd]
client = "dd"
replicas = "plain"

[replicas.plain]
kind = "random"
count = 2
size_mb = {size_mb}

[axes.rtt_ms]
values = {levels}
arranges = "wan-rtt"
"""


def rtt_ms(testbed: Testbed) -> str:
    return testbed.host("wan").run("tierbench-arrange", "get", "rtt").stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def usual_rtt_ms(testbed: Testbed) -> Iterator[str]:
    """As it is before anything is arranged, and for whoever comes after us."""
    usual = rtt_ms(testbed)
    yield usual
    testbed.host("wan").run("tierbench-arrange", "hold", "rtt", usual)  # which restores what a dead holder has left


@pytest.fixture(scope="module")
def run(access_point: AccessPoint) -> Ran:
    """One reader near the storage, and one far from it."""
    access_point.define("distance", EXPERIMENT.format(name="distance", size_mb=16, levels=[4, 80]))
    access_point.make_replicas("distance")
    return access_point.run("distance")


def test_both_trials_are_complete(run: Ran) -> None:
    assert [outcome(trial)["reasons"] for trial in run.trials] == [[], []]


def test_who_is_far_away_reads_slower(run: Ran) -> None:
    rates = {row["rtt_ms"]: float(row["delivered_mbps"]) for row in run.rows("trials.csv")}
    assert rates["80"] < 0.7 * rates["4"]


def test_what_was_arranged_is_read_back_into_the_tables(run: Ran) -> None:
    arranged = {row["rtt_ms"]: row["arranged"] for row in run.rows("trials.csv")}
    assert arranged == {level: f"wan-rtt on wan.fiu.test: {level} ms" for level in ("4", "80")}


def test_a_round_trip_takes_what_was_arranged(run: Ran) -> None:
    """By TCP's own handshake, as dd's first byte takes several of them."""
    first_byte_s = {row["rtt_ms"]: float(row["first_byte_s"]) for row in run.rows("jobs.csv")}
    assert first_byte_s["80"] > first_byte_s["4"] + 0.07


@pytest.mark.usefixtures("run")
def test_the_wan_is_as_long_as_before(testbed: Testbed, usual_rtt_ms: str) -> None:
    assert rtt_ms(testbed) == usual_rtt_ms


def test_the_doctor_tries_each_value_and_restores_it(
    run: Ran, access_point: AccessPoint, testbed: Testbed, usual_rtt_ms: str
) -> None:
    experiment = f"{HOME}/{run.directory.name}.toml"
    _, text = access_point.command(
        "tierbench", "doctor", "--quick", "--site", "testbed", "--experiment", experiment, check=False
    )
    assert f"condition wan-rtt (wan.fiu.test): rtt can be 4, 80; it is {usual_rtt_ms} again" in text
    assert rtt_ms(testbed) == usual_rtt_ms


@pytest.mark.usefixtures("run")
def test_a_trial_whose_condition_is_undone_is_called_off_and_leaves_nothing(
    access_point: AccessPoint, testbed: Testbed, usual_rtt_ms: str
) -> None:
    """Somebody kills the job that holds it, on the WAN's host, while a client reads: HTCondor kills the rest of it."""
    # Large enough to be read for longer than HTCondor takes to tell of a job's end.
    access_point.define("cut-short", EXPERIMENT.format(name="cut-short", size_mb=160, levels=[300]))
    access_point.make_replicas("cut-short")
    trial = access_point.there("cut-short") / names.trial_directory("direct.dd.rtt_ms=300.x001.r1")
    ran: list[Ran] = []
    running = threading.Thread(target=lambda: ran.append(access_point.run("cut-short")))
    running.start()
    try:
        deadline = time.monotonic() + 120
        while not all_read(trial, 1):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        testbed.host("wan").run("pkill", "-KILL", "-f", "arrange.py --condition")  # among that host's own processes
    finally:
        running.join()
    reasons = " ".join(outcome(ran[0].trials[0])["reasons"])
    assert "wan-rtt on wan.fiu.test was let go before the trial was over" in reasons
    assert content(ran[0].trials[0] / names.OUTCOME)["state"] == "incomplete"
    assert rtt_ms(testbed) == usual_rtt_ms
