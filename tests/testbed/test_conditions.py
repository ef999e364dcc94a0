"""What an experiment asks of the site is changed, proven and undone: the WAN's length on real traffic."""

import contextlib
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.testbed.runs import all_read, outcome
from tests.testbed.test_network import iperf_mbps, round_trip_ms
from tierbench import names
from tierbench.testbed.cgroups import ACCOUNT, PERIOD_US, means
from tierbench.testbed.services import web
from tierbench.testbed.services.conditions import WORDS, words

CARD_MBPS = 100
EXPERIMENT = """
access = ["direct"]
workloads.dd = {{ client = "dd", replicas = "plain" }}
replicas.plain = {{ kind = "random", count = 2, size_mb = {size_mb} }}
axes.rtt_ms = {{ values = {levels}, arranges = "wan-rtt" }}
"""


FURTHER = """
access = ["wan-xrootd-public"]
conditions = { server-processes = 2, worker-rate = 20 }
workloads.xrdcp = { client = "xrdcp", replicas = "plain" }
replicas.plain = { kind = "random", count = 1, size_mb = 1 }
"""


@contextlib.contextmanager
def holding(host, word, value):
    """While a host's helper holds a value."""
    command = host.command(["tierbench-arrange", "hold", word, str(value)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
        assert helper.stdout is not None
        assert json.loads(helper.stdout.readline())["now"] == str(value)
        yield
        helper.communicate()


def arranged(host, word):
    return host.run("tierbench-arrange", "get", word).stdout.strip()


def rtt_ms(testbed):
    return arranged(testbed.host("wan"), "rtt")


@pytest.fixture(scope="module", autouse=True)
def usual_rtt_ms(testbed):
    """As it is before anything is arranged, and for whoever comes after us."""
    usual = rtt_ms(testbed)
    yield usual
    testbed.host("wan").run("tierbench-arrange", "hold", "rtt", usual)  # which restores what a dead holder has left


@pytest.fixture(scope="module")
def run(access_point):
    """One reader near the storage, and one far from it."""
    return access_point.measured("distance", EXPERIMENT.format(size_mb=16, levels=[4, 80]))


def test_both_trials_are_complete(run):
    assert [outcome(trial)["reasons"] for trial in run.trials] == [[], []]


def test_who_is_far_away_reads_slower(run):
    """Than its card carries, which it fills from near; a busy machine only takes from it."""
    rates = {row["rtt_ms"]: float(row["delivered_mbps"]) for row in run.rows("trials.csv")}
    print(rates)
    assert rates["80"] < 0.7 * CARD_MBPS


def test_what_was_arranged_is_read_back_into_the_tables(run):
    read_back = {row["rtt_ms"]: row["arranged"] for row in run.rows("trials.csv")}
    assert read_back == {level: f"wan-rtt on wan.fiu.test: {level} ms" for level in ("4", "80")}


def test_a_round_trip_takes_what_was_arranged(run):
    """Of which dd's first byte takes twenty; a busy machine only adds to them."""
    first_byte_s = {row["rtt_ms"]: float(row["first_byte_s"]) for row in run.rows("jobs.csv")}
    print(first_byte_s)
    assert first_byte_s["80"] > 10 * 0.080


@pytest.mark.usefixtures("run")
def test_the_wan_is_as_long_as_before(testbed, usual_rtt_ms):
    assert rtt_ms(testbed) == usual_rtt_ms


def test_the_doctor_tries_each_value_and_restores_it(run, access_point, testbed, usual_rtt_ms):
    text = access_point.doctor(run.directory.name)
    assert f"condition wan-rtt (wan.fiu.test): rtt can be 4, 80; it is {usual_rtt_ms} again" in text
    assert rtt_ms(testbed) == usual_rtt_ms


@pytest.mark.usefixtures("run")
def test_a_trial_whose_condition_is_undone_is_called_off_and_leaves_nothing(access_point, testbed, usual_rtt_ms):
    """Somebody kills the job that holds it, on the WAN's host, while a client reads: HTCondor kills the rest of it."""
    # Large enough to be read for longer than HTCondor takes to tell of a job's end.
    access_point.define("cut-short", EXPERIMENT.format(size_mb=160, levels=[300]))
    access_point.make_replicas("cut-short")
    trial = access_point.there("cut-short") / names.trial_directory("direct.dd.rtt_ms=300.x001.r1")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(access_point.run, "cut-short")
        access_point.wait_until(partial(all_read, trial, 1), "the client did not begin", "cut-short")
        testbed.host("wan").run("pkill", "-KILL", "-f", "arrange.py --condition")  # among that host's own processes
    end = outcome(running.result().trials[0])
    assert "the job that arranges wan-rtt on wan.fiu.test failed" in " ".join(end["reasons"])
    assert end["state"] == "incomplete"
    assert rtt_ms(testbed) == usual_rtt_ms


def test_each_server_process_gets_its_share_of_the_connections(testbed):
    vmuf, worker = testbed.host("vmuf"), testbed.host("wn03")
    with holding(vmuf, "xrootd-processes", 3):
        for _ in range(3):
            worker.run("xrdfs", "vmuf.uf.test:1094", "stat", "/extenci")
        logins = [vmuf.log(f"xrootd-{number}.log").read_text().count("IPv4 login") for number in (2, 3)]
    assert logins == [1, 1]
    assert arranged(vmuf, "xrootd-processes") == "1"
    worker.run("xrdfs", "vmuf.uf.test:1094", "stat", "/extenci")


def test_what_hosts_can_change_is_what_they_say_of_themselves(testbed):
    for host in (testbed.host("wan"), testbed.host("oss"), testbed.host("wn03")):
        for word in words(host.host, rtt_ms=1):
            value = arranged(host, word)
            held, restored = host.run("tierbench-arrange", "hold", word, value).stdout.splitlines()  # there is no input
            assert (json.loads(held)["now"], json.loads(restored)["restored"]) == (value, value), word


def test_a_worker_receives_no_faster_than_is_arranged(testbed):
    wan = testbed.host("wan")
    with holding(wan, "worker-rate", 20):
        assert iperf_mbps(testbed.host("wn03"), testbed.host("vmuf"), 1) < 21
    assert arranged(wan, "worker-rate") == "100"


def test_public_workers_can_be_at_distances_of_their_own(testbed, usual_rtt_ms):
    wan, workers = testbed.host("wan"), (testbed.host("wn03"), testbed.host("wn04"))
    with holding(wan, "worker-rtts", "5-14-47-60"):
        apart = [round_trip_ms(worker, "oss.uf.test") for worker in workers]
        distances = wan.run(f"{WORDS}/worker-rtts", "get").stdout
    assert apart == [pytest.approx(5, abs=2), pytest.approx(14, abs=2)]
    assert "each wn03.fiu.test=5 wn04.fiu.test=14" in distances
    alike = [round_trip_ms(worker, "oss.uf.test") for worker in workers]
    assert alike == [pytest.approx(float(usual_rtt_ms), abs=2)] * 2


@pytest.mark.long
def test_the_doctor_tries_processes_and_rates(access_point):
    access_point.define("further", FURTHER)
    text = access_point.doctor("further")
    assert "condition server-processes (dgt.fiu.test, vmuf.uf.test): xrootd-processes can be 2; it is 1 again" in text
    assert "condition worker-rate (wan.fiu.test): worker-rate can be 20; it is 100 again" in text


@pytest.mark.skipif(not means().limits, reason=means().missing or "can be limited")
def test_a_proxy_has_a_core_for_each_of_squids_processes(testbed):
    host = testbed.host("dgt")
    limits = partial(host.run, "sh", "-c", f"cat {ACCOUNT}/cpu.max 2>/dev/null || cat {ACCOUNT}/cpu.cfs_quota_us")
    core = round(0.5 * PERIOD_US)
    web.limit_cores(host, 0.5, 1)
    try:
        with holding(host, "squid-processes", 3):
            assert int(limits().stdout.split()[0]) == 3 * core
        assert int(limits().stdout.split()[0]) == core
    finally:
        host.run("rm", web.SQUID_CORE)
        host.namespaces.cgroup.limit(None)
