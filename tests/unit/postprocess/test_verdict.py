"""Each rule of the verdict: data just within it and just beyond, and what its reason tells."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import READ, TICKS, apart, edit_client, edit_trial, measured, sampled, send, worst
from tierbench.postprocess.verdict.judge import INVALID, RULES, SUSPECT, VALID
from tierbench.postprocess.verdict.rules import Evidence

OFF_GRID = synthetic.ticks(-2.2, 25.8, 2.0)


@pytest.fixture
def folder(tmp_path):
    return synthetic.write_trial(tmp_path)


def client(folder, index=1, begin_s=0.001, end_s=20.0, **end):
    """Write a client's record anew."""
    synthetic.write_client(
        folder / f"clients/{index}.jsonl", begin_s=begin_s, end_s=end_s, size=end.pop("size", round(READ / 4)), **end
    )


def flushed(folder, resident):
    edit_trial(folder, flush={"strategy": "fadvise", "hosts": ["wn01"]})
    (folder / "flush").mkdir(exist_ok=True)
    (folder / "flush/wn01.json").write_text(json.dumps(resident))


def speed_up(folder, times):
    """Have client 3 read that many times as fast as the others."""
    for index in range(4):
        client(folder, index, 0.0, 20.0 / times if index == 3 else 20.0)


def set_late(folder, late_s):
    client(folder, 1, late_s)


def set_all_late(folder, late_s):
    for index in range(4):
        client(folder, index, late_s)


def copy(folder, share):
    """Have the clients read their files whole, and the storage send that many times what they read."""
    edit_trial(folder, client="dd")
    sampled(folder, synthetic.during(400 / 1.02 * share, 20))


def moved(folder, share, counted=1.0):
    """Have clients and storage move only so much of the files, and the clients' processes count so much."""
    edit_trial(folder, client="dd")
    sampled(folder, synthetic.during(400 * share, 20))
    for index in range(4):
        edit_client(folder, index, "end", bytes_app=round(READ / 4 * share), bytes_client=round(READ / 4 * counted))


def read_again(folder, share):
    """Have the clients read their files, or so much of them, for a time, each several times."""
    edit_trial(folder, client="dd", work={"files_per_job": 1, "processes": 1, "for_s": 20.0, "order": "listed"})
    done = {
        "processes": 1, "files": 1, "fetches": 3, "failed": 0, "cut": 0, "failures": {}, "latency_classes": {},
        "bytes_once": round(READ / 4 * share), "latency_s": dict.fromkeys(("p50", "p95", "p99", "max")),
        "last_begin_wall_ns": synthetic.GO_NS,
    }  # fmt: skip
    for index in range(4):
        edit_client(folder, index, "start", expected_bytes=None)
        edit_client(folder, index, "end", work=done)


def start_beside(folder, seconds):
    """Have jobs of the next trial been started for so long."""
    told = {"format": 1, "jobs": 5, "first_wall_s": 1.8e9 + 1, "last_wall_s": 1.8e9 + 1 + seconds}
    (folder / "beside.json").write_text(json.dumps(told))


def add_worker(folder, times):
    host = "wn01.private.fiu.test"
    edit_trial(folder, samplers=[*synthetic_samplers(folder), {"host": host, "role": "worker", "via": "pool"}])
    sampled(folder, times=times, host=host, role="worker")


def synthetic_samplers(folder):
    return json.loads((folder / "trial.json").read_text())["samplers"]


def stray(folder, host):
    """Have a client run elsewhere; wn09 is in the pool of another trial."""
    other = folder.with_name("other")
    other.mkdir()
    (other / "trial.json").write_text(json.dumps({"pool": "public", "workers": ["wn09.fiu.test"]}))
    edit_client(folder, 1, "start", host=host)


def leave(folder):
    """The trial is clean as it is."""


# The rule, how to bring a trial just within it, and just beyond; the verdict then, and what the reason tells.
CASES = [
    ("missing bytes", lambda f: sampled(f, synthetic.during(400 / 1.02, 20)), lambda f: sampled(
        f, synthetic.during(400 / 1.02 * 0.99, 20)), "SUSPECT", "the storage sent 970.59 MB of 980.39 MB"),
    ("missing bytes", lambda f: sampled(f, synthetic.during(400 / 1.02 * 0.985, 20)), lambda f: sampled(
        f, synthetic.during(400 / 1.02 * 0.75, 20)), "INVALID", "the storage sent 735.29 MB of 980.39 MB"),
    ("excess bytes", lambda f: sampled(f, synthetic.during(400 / 1.02 * 1.11, 20)), lambda f: sampled(
        f, synthetic.during(400 / 1.02 * 1.13, 20)), "SUSPECT", "the storage sent +13.0% beyond what was read"),
    ("foreign bytes", lambda f: copy(f, 1.07), lambda f: copy(
        f, 1.09), "SUSPECT", "the storage sent +9.0% beyond what was read"),
    ("foreign bytes", lambda f: copy(f, 1.25), lambda f: copy(
        f, 1.28), "INVALID", "the storage sent +28.0% beyond what was read"),
    ("bytes not compared", leave, lambda f: client(
        f, 1, bytes_app=None, bytes_client=None), "SUSPECT", "1 clients do not tell how many bytes they read"),
    ("resident pages", lambda f: flushed(f, {"resident_after_bytes": 1_900_000}), lambda f: flushed(
        f, {"resident_after_bytes": 2_100_000}), "SUSPECT", "2.10 MB of the replicas were in memory after the flush"),
    ("resident pages", lambda f: flushed(f, {"resident_after_bytes": 9_000_000}), lambda f: flushed(
        f, {"resident_after_bytes": 11_000_000}), "INVALID", "11.00 MB of the replicas were in memory"),
    ("caches not proven cold", lambda f: flushed(f, {"resident_after_bytes": 0}), lambda f: flushed(
        f, {"status": "unmeasured"}), "SUSPECT", "not all of 1 flushes could tell"),
    ("caches not proven cold", leave, lambda f: edit_trial(
        f, flush={"strategy": "none", "hosts": []}), "SUSPECT", "no cache was flushed"),
    ("counts apart", lambda f: moved(f, 1.0, 0.996), lambda f: moved(
        f, 1.0, 1 / 1.024), "SUSPECT", "client 0 read 245.10 MB, its process 239.35 MB (at most 0.5 %"),
    ("counts apart", leave, lambda f: moved(f, 1.0, 0), "SUSPECT", "client 0 read 245.10 MB, its process 0.00 MB"),
    ("uncounted bytes", leave, lambda f: edit_client(
        f, 0, "end", bytes_app=0), "SUSPECT", "client 0 read 0.00 MB, its process 245.10 MB"),
    ("other sizes", lambda f: edit_trial(f, bytes=round(READ * 1.004)), lambda f: edit_trial(
        f, bytes=round(READ * 1.006)), "SUSPECT", "the clients' files hold 980.39 MB, 986.27 MB were planned"),
    ("other sizes", leave, lambda f: edit_client(
        f, 1, "start", expected_bytes=0), "INVALID", "the files of 1 clients are empty"),
    ("shared replica", leave, lambda f: edit_client(
        f, 1, "start", url="root://synthetic/0?again"), "INVALID", "2 clients read root://synthetic/0 between them"),
    ("not whole", lambda f: read_again(f, 0.996), lambda f: read_again(
        f, 0.985), "SUSPECT", "all clients read 965.69 MB of files of 980.39 MB"),
    ("uncounted bytes", lambda f: moved(f, 1.0, 1.05), lambda f: moved(
        f, 1.0, 1.06), "SUSPECT", "client 0 read 245.10 MB, its process 259.80 MB (at most 5 % of its count)"),
    ("unlike the others", leave, lambda f: edit_client(
        f, 1, "end", bytes_app=round(READ / 4 * 0.97)), "SUSPECT", "client 1 read 97.0 % of its file, where 100.0 %"),
    ("not whole", lambda f: moved(f, 0.996, 0.996), lambda f: moved(
        f, 0.985, 0.985), "SUSPECT", "client 0 read 241.42 MB of a file of 245.10 MB"),
    ("not whole", lambda f: moved(f, 0.981, 0.981), lambda f: moved(
        f, 0.5, 0.5), "INVALID", "client 0 read 122.55 MB of a file of 245.10 MB"),
    ("fast client", lambda f: speed_up(f, 4.9), lambda f: speed_up(
        f, 5.1), "SUSPECT", "client 3 read at 500.0 Mb/s, 5.1 times the median of 98.0"),
    ("host not covered", lambda f: add_worker(f, synthetic.ticks(-1, 20)), lambda f: add_worker(
        f, synthetic.ticks(-1, 19)), "SUSPECT", "samples of wn01.private.fiu.test end 1.0 s before the window's end"),
    ("host not covered", leave, lambda f: edit_trial(f, samplers=[
        *synthetic_samplers(f), {"host": "gw.uf.test", "role": "gateway", "via": "pool"}
    ]), "SUSPECT", "no samples from gw.uf.test (gateway)"),
    ("sampler gap", lambda f: sampled(f, times=[t for t in TICKS if t not in (9, 10)]), lambda f: sampled(
        f, times=[t for t in TICKS if t not in (9, 10, 11)]), "SUSPECT", "had no sample for 4.00 s, 4.0 periods"),
    ("sampler pause", lambda f: sampled(f, times=[t for t in TICKS if not 5 < t < 10]), lambda f: sampled(
        f, times=[t for t in TICKS if not 5 < t < 11]), "INVALID", "gaps over 6.00 s, 30 % of the window"),
    ("late ticks", lambda f: sampled(f, late=1), lambda f: sampled(
        f, late=2), "SUSPECT", "was late 2 times of 26, 7.7 %"),
    ("few samples", lambda f: edit_trial(f, sample_period_s=1.9), lambda f: edit_trial(
        f, sample_period_s=2.1), "SUSPECT", "a sampling period of 2.1 s is 10.5 % of the window"),
    ("uncertain edges", lambda f: sampled(f, synthetic.during(400, 20.4), OFF_GRID, period_s=2.0), lambda f: sampled(
        f, synthetic.during(400, 22.8), OFF_GRID, period_s=2.0), "SUSPECT", "near the window's edges may be up to"),
    ("counter began anew", leave, lambda f: sampled(
        f, lambda time: synthetic.during(400, 20)(time) - (0 if time < 22 else 10**9)
    ), "SUSPECT", "the counters of oss.uf.test began anew 1 times"),
    ("not all active", lambda f: set_late(f, 10.0), lambda f: set_late(
        f, 11.0), "SUSPECT", "all clients read together for 6.0 s, 30% of the window"),
    ("not all active", lambda f: set_late(f, 14.9), lambda f: set_late(
        f, 15.1), "INVALID", "all clients read together for 1.9 s"),
    ("late begin", lambda f: set_late(f, 0.99), lambda f: set_late(
        f, 1.01), "SUSPECT", "client 1 began 1010 ms after the go, 5.0 % of the window"),
    ("empty begin", lambda f: set_all_late(f, 0.9), lambda f: set_all_late(
        f, 1.1), "SUSPECT", "no client was at work before 1100 ms after the go, 5.5 % of the window"),
    ("empty begin", lambda f: set_all_late(f, 3.9), lambda f: set_all_late(
        f, 4.1), "INVALID", "no client was at work before 4100 ms after the go, 20.5 % of the window"),
    ("early begin", lambda f: set_late(f, -0.0009), lambda f: set_late(
        f, -0.002), "INVALID", "client 1 read 2.0 ms before the go"),
    ("early begin", leave, lambda f: edit_client(
        f, 1, "end", first_byte_wall_ns=synthetic.GO_NS - 5_000_000), "INVALID", "client 1 read 5.0 ms before the go"),
    ("wrong worker", lambda f: stray(f, "wn01.private.fiu.test"), lambda f: stray(
        f, "wn09.fiu.test"), "INVALID", "1 clients ran on wn09.fiu.test, outside the pool private"),
    ("new worker", lambda f: stray(f, "wn01.private.fiu.test"), lambda f: stray(
        f, "wn99.fiu.test"), "SUSPECT", "1 clients ran on wn99.fiu.test, which the pool private did not have"),
    ("shared replica", lambda f: edit_client(f, 1, "start", url="root://synthetic/9"), lambda f: edit_client(
        f, 1, "start", url="root://synthetic/2"), "INVALID", "2 clients read root://synthetic/2 between them"),
    ("idle traffic", lambda f: sampled(f, send(400, 4.4)), lambda f: sampled(
        f, send(400, 4.6)), "SUSPECT", "the storage sent 4.60 Mb/s before the trial, 1.0 % of its rate in it beyond"),
    ("idle traffic", lambda f: sampled(f, send(400, 39, 20)), lambda f: sampled(
        f, send(400, 50, 20)), "INVALID", "the storage sent 50.00 Mb/s after the trial, 12.4 % of its rate in it"),
    ("idle traffic unknown", lambda f: sampled(f, times=synthetic.ticks(-1, 20)), lambda f: sampled(
        f, times=synthetic.ticks(0, 20)), "SUSPECT", "the storage's traffic without clients is not known"),
    ("clock offset", lambda f: apart(f, -503), lambda f: apart(
        f, -505), "SUSPECT", "wn01.private.fiu.test is 505.0 ± 4.0 ms ahead of that of oss.uf.test, 0.5 periods"),
    ("clock step", lambda f: sampled(f, wall_step=(10, 9.9)), lambda f: sampled(
        f, wall_step=(10, 10.1)), "SUSPECT", "the clock of oss.uf.test was set by 10.1 ms during the trial"),
    ("clock error", lambda f: sampled(f, wall_step=(10, 99)), lambda f: sampled(
        f, wall_step=(10, 101)), "SUSPECT", "was set by 101.0 ms during the trial, 0.5 % of the window"),
    ("clock error", lambda f: sampled(f, wall_step=(10, -990)), lambda f: sampled(
        f, wall_step=(10, -1010)), "INVALID", "was set by 1010.0 ms during the trial"),
    ("clock error", lambda f: apart(f, 103), lambda f: apart(
        f, 105), "SUSPECT", "the clock of oss.uf.test is 105.0 ± 4.0 ms ahead of that of wn01.private.fiu.test, 0.5 %"),
    ("started beside", lambda f: start_beside(f, 0.9), lambda f: start_beside(
        f, 1.1), "SUSPECT", "5 jobs of the next trial were started within 2.1 s, 10.5 % of the window"),
    ("clock not compared", leave, lambda f: edit_client(
        f, 1, "start", boot_id="another"), "SUSPECT", "the clock of wn01.private.fiu.test was not compared"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "within", "beyond", "verdict", "words"), CASES)
def test_within_a_rule_the_trial_is_not_blamed(folder, rule, within, beyond, verdict, words):
    assert beyond
    assert words
    within(folder)
    order = [VALID, SUSPECT, INVALID]
    assert order.index(worst(measured(folder)[1], rule)) < order.index(verdict)


@pytest.mark.parametrize(("rule", "within", "beyond", "verdict", "words"), CASES)
def test_beyond_a_rule_the_trial_is_blamed_with_what_was_measured(folder, rule, within, beyond, verdict, words):
    assert within
    beyond(folder)
    row, found = measured(folder)
    assert worst(found, rule) == verdict
    assert row["verdict"] in (verdict, INVALID)
    assert words in row["verdict_reasons"]


def test_each_rule_has_a_case_here():
    elsewhere = {"incomplete", "above the ceiling", "other conditions"}
    elsewhere |= {"missing at a worker", "stall", "other direction", "slow beside rest", "clock comparison"}
    elsewhere |= {"still at an edge", "failed fetches"}
    elsewhere |= {"proxies apart", "origin apart", "hits apart", "proxies not compared"}  # test_proxies.py
    elsewhere |= {"not alone", "wrong place", "not pinned"}  # test_start.py and test_placement.py
    elsewhere |= {"other servers"}  # test_storage_of_a_way.py
    elsewhere |= {"cold cache held", "warm cache fetched"}  # test_software_cache.py
    elsewhere |= {"software from elsewhere", "cache not told", "sent past a warm cache", "cache in trouble"}
    elsewhere |= {"other mount", "background on the path"}  # test_mounts.py, test_truth.py
    elsewhere |= {"unlike its repetitions", "split otherwise", "written late"}
    assert {rule.name for rule in RULES} == {case[0] for case in CASES} | elsewhere


@pytest.mark.parametrize("rule", RULES)
def test_a_reason_is_one_clause_so_that_semicolons_separate_reasons(rule):
    assert ";" not in Evidence(rule, 1e9, "measured").reason
