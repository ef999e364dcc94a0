"""XCache, cold and warm with the trial's own files: the storage's interface proves either, and a lie is seen."""

import pytest

from tests.testbed.runs import fed, outcome
from tierbench import names
from tierbench.testbed.services.conditions import WORDS
from tierbench.testbed.services.xrootd import CACHE, CACHE_MB, CACHE_STATE

pytestmark = pytest.mark.long

EXPERIMENT = """
access = ["xcache"]
batches = [2]
workloads.root = {{ client = "root", replicas = "tree", options = {{ branches = 0.5 }} }}
replicas.tree = {{ kind = "tree", count = 2, size_mb = 16, branches = 40 }}
conditions = {{ xcache-block = {block}, xcache-prefetch = 0 }}
axes.cache = {{ values = {states}, arranges = "xcache-state" }}
"""
# Says what it was asked to set, and has set nothing.
LIAR = """#!/bin/sh
# takes: cold warm
case $1 in
get) cat /run/liar 2>/dev/null || echo cold; echo "0 root://dgt.fiu.test:1101/" ;;
set) echo "$2" >/run/liar ;;
esac
"""


def measured(access_point, name, *states, block=256):
    return access_point.measured(name, EXPERIMENT.format(states=[*states], block=block))


@pytest.fixture(scope="module")
def cache(testbed):
    return testbed.host("dgt")


@pytest.fixture(scope="module")
def run(access_point):
    return measured(access_point, "xcache", "cold", "warm")


@pytest.fixture(scope="module")
def trials(run):
    return {row["cache"]: row for row in run.rows(names.TRIALS_CSV)}


def test_the_storage_sends_more_than_is_asked_for_on_a_miss_and_nothing_on_a_hit(trials):
    requested = {state: int(row["bytes_app"]) for state, row in trials.items()}
    sent = {state: int(row["bytes_server"]) for state, row in trials.items()}
    assert requested["cold"] == requested["warm"] < 0.6 * int(trials["cold"]["bytes_expected"])
    assert sent["cold"] > 1.2 * requested["cold"]
    assert sent["warm"] < 0.01 * requested["warm"]


@pytest.mark.quiet
def test_neither_is_invalid(run, machine):
    rows = fed(run.rows(names.TRIALS_CSV), machine)
    assert not [row["verdict_reasons"] for row in rows if row["verdict"] == "INVALID"]


def test_both_are_complete_and_nobody_doubts_the_cache(run, trials):
    assert [outcome(trial)["reasons"] for trial in run.trials] == [[], []]
    assert not [row["verdict_reasons"] for row in trials.values() if "cache of" in row["verdict_reasons"]]


@pytest.mark.usefixtures("run")
def test_what_was_set_is_restored(cache):
    assert not cache.run("find", CACHE, "-name", "*.root").stdout
    assert "pfc.blocksize 128k" in cache.run("cat", "/etc/xrootd/xcache.cfg").stdout


@pytest.fixture
def lying(cache):
    program = f"{WORDS}/{CACHE_STATE}"
    honest = cache.run("cat", program).stdout
    cache.put(program, LIAR, 0o755)
    yield
    cache.put(program, honest, 0o755)


@pytest.mark.usefixtures("run", "lying")
def test_a_state_that_is_none_is_seen_by_what_the_storage_sent(access_point):
    """A cache is called warm that has nothing; its trial fills it, and then it is called cold."""
    for state, words in (("warm", "from a warm cache"), ("cold", "the storage sent 0.0")):
        [row] = measured(access_point, f"not-{state}", state).rows(names.TRIALS_CSV)
        assert row["verdict"] == "INVALID"
        assert words in row["verdict_reasons"]


@pytest.mark.usefixtures("run")
def test_a_cache_that_cannot_write_makes_the_trial_invalid(access_point, cache):
    """It has the usual block size: another one would take a new start, for which it wants room."""
    cache.run("find", CACHE, "-name", "*.root*", "-delete")  # of the lies
    cache.run("mount", "-o", "remount,size=3m", CACHE)
    try:
        [row] = measured(access_point, "no-room", "cold", block=128).rows(names.TRIALS_CSV)
    finally:
        cache.run("mount", "-o", f"remount,size={CACHE_MB}m", CACHE)
    assert row["verdict"] == "INVALID"
    assert "write error" in row["verdict_reasons"]
