"""Each rule of the verdict: data just within it and just beyond, and what its reason tells."""

import json
import math

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import (
    READ,
    TICKS,
    apart,
    arranged,
    compare_clock,
    does,
    edit_client,
    edit_trial,
    flushed,
    measured,
    sampled,
    send,
    work_done,
    worst,
)
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict.judge import INVALID, RULES, SUSPECT, VALID
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.wrappers.clients.higgs import Higgs
from tierbench.wrappers.clients.root import Root

OFF_GRID = synthetic.ticks(-2.2, 25.8, 2.0)
WORKER = "wn01.private.fiu.test"


def client(folder, index=1, begin_s=0.001, end_s=20.0, **end):
    """Write a client's record anew."""
    synthetic.write_client(
        folder / f"clients/{index}.jsonl", begin_s=begin_s, end_s=end_s, size=end.pop("size", round(READ / 4)), **end
    )


def sent(folder, share):
    """Have the storage send that many times what the clients read."""
    sampled(folder, synthetic.during(400 / 1.02 * share, 20))


def copied(folder, share):
    """Have the clients read their files whole as well."""
    edit_trial(folder, client="dd")
    sent(folder, share)


def moved(folder, share, counted=None):
    """Have clients and storage move only so much of the files, and the clients' processes count so much."""
    edit_trial(folder, client="dd")
    sampled(folder, synthetic.during(400 * share, 20))
    own = round(READ / 4 * (share if counted is None else counted))
    synthetic.edit_clients(folder, "end", bytes_app=round(READ / 4 * share), bytes_client=own)


def measured_in_operations(folder, count):
    does(folder, "metadata")
    synthetic.edit_clients(folder, "end", operations=count)


def one_counted(folder, count):
    """Have one client of four report so many operations."""
    measured_in_operations(folder, 5)
    first = min((folder / "clients").iterdir())
    synthetic.edit_events(first, "end", lambda told: {**told, "operations": count})


def by_door(folder, share):
    """Have the door on the path carry so much of what the storage sends."""
    further_sampler(folder, "gw.uf.test", "door")
    edit_trial(folder, path=["gw.uf.test"], protocol="xrootd")
    sampled(folder, synthetic.during(400 * share, 20), host="gw.uf.test", role="door")


def flushed_with(folder, report):
    flushed(folder, wn01=report)


def left(folder, size):
    flushed(folder, wn01={"resident_after_bytes": size})


def kept(folder, share):
    """Have the storage server, which nobody flushes, read from its disks all but so much of what clients read."""
    from_disks = synthetic.during(400 / 1.02 * (1 - share), 20)
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 20), disk_read_bytes=from_disks)


def second_server(folder, **counters):
    further_sampler(folder, "oss2.uf.test", "storage")
    synthetic.write_host(folder, "oss2.uf.test", head={"boot_id": "other"}, **counters)


def kept_beside_another(folder, share):
    """The same of one of two servers, the other of which reads for somebody else."""
    kept(folder, share)
    second_server(folder, disk_read_bytes=synthetic.during(400, 20))


def sped_up(folder, times):
    """Have client 3 read that many times as fast as the others."""
    for index in range(4):
        client(folder, index, 0.0, 20.0 / times if index == 3 else 20.0)


def busy_disk(folder, percent, until=23):
    """Have a disk of the storage server be busy all the time, as by somebody else."""
    busy_ms = lambda time: round(10 * percent * (time + 2))  # noqa: E731 - a counter is a function of time
    synthetic.write_host(folder, until=until, tx_bytes=synthetic.during(400, 20), disk_busiest_ms=busy_ms)


def busy_cores(folder, percent):
    """Have the storage server be busy so much all the time, as by somebody else."""
    counters = {"cpu_user": lambda time: round(2 * percent * time) + 10**6}
    counters["cpu_idle"] = lambda time: round(2 * (100 - percent) * time) + 10**6
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 20), **counters)


def read_again(folder, share):
    """Have the clients read their files, or so much of them, for a time, each several times."""
    edit_trial(folder, client="dd", work={"files_per_job": 1, "processes": 1, "for_s": 20.0, "order": "listed"})
    done = work_done(fetches=3, bytes_once=round(READ / 4 * share), last_begin_wall_ns=synthetic.GO_NS)
    synthetic.edit_clients(folder, "start", expected_bytes=None)
    synthetic.edit_clients(folder, "end", work=done)


def further_sampler(folder, host, role):
    samplers = json.loads((folder / "trial.json").read_text())["samplers"]
    edit_trial(folder, samplers=[*samplers, {"host": host, "role": role, "via": "pool"}])


def worker_until(folder, end_s):
    further_sampler(folder, WORKER, "worker")
    sampled(folder, times=synthetic.ticks(-1, end_s), host=WORKER, role="worker")


def strayed(folder, host):
    """Have a client run elsewhere; wn09 is in the pool of another trial."""
    other = folder.with_name("other")
    other.mkdir()
    (other / "trial.json").write_text(json.dumps({"pool": "public", "workers": ["wn09.fiu.test"]}))
    edit_client(folder, 1, "start", host=host)


def started(folder, changes):
    edit_client(folder, 1, "start", **changes)


def sizes(folder, of_two):
    """Have two clients say that of their files."""
    for index, size in enumerate(of_two):
        edit_client(folder, index, "start", expected_bytes=size)


def ended(folder, changes):
    edit_client(folder, 1, "end", **changes)


def stepped(folder, milliseconds):
    sampled(folder, wall_step=(10, milliseconds))


def drifted(folder, milliseconds):
    """Have the storage server's clocks, both of them, fall behind the access point's in the trial."""
    sampled(folder, clocks=[synthetic.clock(), synthetic.clock(-milliseconds)])


def worker_drifted(folder, milliseconds):
    """Have a worker's clocks, both of them, fall behind as the client there has compared them before and after."""
    compare_clock(folder)
    with (folder / "clients/0.jsonl").open("a") as record:
        after = {"event": "clock_after", **synthetic.times(21), **synthetic.clock(-milliseconds)}
        record.write(json.dumps(after) + "\n")


def stood_still(folder, until_s):
    """Have the storage server's counters stand still from 10 s on, and then catch up, behind a link of 800 Mb/s."""
    synthetic.edit_json(folder.parents[1] / "site.json", links={"storage": 800})
    sampled(folder, lambda time: send(400)(10 if 10 < time < until_s else time))


def paused(folder, missing):
    sampled(folder, times=[time for time in TICKS if time not in missing])


def columns(folder, column_bytes, **more):
    detail = {"column_bytes": column_bytes, "opening_bytes": 98_039, "gap_bytes": 1_000_000, **more}
    edit_client(folder, 1, "end", detail=detail)


def undone(folder, undoing_s):
    """Have a condition undone at a time, which starts the storage server's counters anew 22 s after the go."""
    sampled(folder, lambda time: send(400)(time) - 10**9 * (time >= 22))
    restored = {"event": "restored", "now": "1", "undoing_mono_ns": synthetic.MONO_NS + round(undoing_s * 1e9)}
    arranged(folder, "processes", "2", {"event": "arranged", "before": "1", "now": "2"}, restored)


def just_before(folder, mbps):
    """Somebody is at work for 3 s before the clients begin, who have waited for ten minutes."""
    others = synthetic.during(mbps, 3)
    synthetic.write_host(folder, begin=-600, tx_bytes=lambda time: send(400)(time) + others(time + 3))


def had_all(folder, by_s):
    """Have the storage send all that the clients of a mount read by then, of 20 s for which they are at work."""
    edit_trial(folder, protocol="file")
    sampled(folder, synthetic.during(8000 / by_s, by_s))


# The rule, what is changed, by how much to be within it (None: not at all) and beyond; the verdict and its words.
CASES = [
    ("missing bytes", sent, 1, 0.99, SUSPECT, "the storage sent 970.59 MB of 980.39 MB"),
    ("missing bytes", sent, 0.985, 0.75, INVALID, "the storage sent 735.29 MB of 980.39 MB"),
    ("excess bytes", sent, 1.11, 1.13, SUSPECT, "the storage sent +13.0% beyond what was read"),
    ("background bytes", copied, 1.07, 1.09, SUSPECT, "the storage sent +9.0% beyond what was read"),
    ("background bytes", copied, 1.25, 1.28, INVALID, "the storage sent +28.0% beyond what was read"),
    ("slow to end", had_all, 18, 17, SUSPECT,
     "nothing moved for 3.0 s from 17.0 s on while clients were active, 15 % of the window (at most 10 %"),
    ("bytes not compared", ended, None, {"bytes_app": None, "bytes_client": None}, SUSPECT,
     "1 clients do not report how many bytes they read"),
    ("no bytes", lambda folder, size: synthetic.write_clients(folder, begin_s=0, end_s=20, size=size),
     1, 0, INVALID, "no client reports that it read anything"),
    ("above the ceiling",
     lambda folder, mbps: synthetic.edit_json(folder.parents[1] / "site.json", links={"storage": mbps}),
     375, 370, SUSPECT, "the jobs received 392.2 Mb/s, over a ceiling of 370.0 (storage server, stated in [links])"),
    ("resident pages", left, 1_900_000, 2_100_000, SUSPECT, "2.10 MB of the replicas were in memory after the flush"),
    ("resident pages", left, 9_000_000, 11_000_000, INVALID, "11.00 MB of the replicas were in memory"),
    ("resident pages", flushed_with, {}, {"status": "refused", "resident_after_bytes": 98_000_000}, INVALID,
     "98.00 MB of the replicas were in memory"),
    ("caches not proven cold", flushed_with, {}, {"status": "refused", "message": "sudo: no"}, SUSPECT,
     "the flush on wn01 emptied nothing: sudo: no"),
    ("caches not proven cold", flushed_with, {"wall_ns": synthetic.GO_NS - 1700 * 10**9},
     {"wall_ns": synthetic.GO_NS - 1900 * 10**9}, SUSPECT,
     "the clients began 32 min after the flush, and others may have read"),
    ("caches not proven cold", flushed_with, {}, {"status": "unmeasured", "resident_after_bytes": None}, SUSPECT,
     "not all of 1 flushed host could measure"),
    ("caches not proven cold", flushed_with, {}, {"files": 0}, SUSPECT, "or saw the files"),
    ("caches not proven cold", lambda folder, flush: edit_trial(folder, flush=flush), None,
     {"strategy": "none", "hosts": []}, SUSPECT, "no cache was flushed"),
    ("sent from memory", kept, 0.1, 0.11, SUSPECT, "oss.uf.test sent 107.84 MB that no disk there had to read"),
    ("sent from memory", kept_beside_another, 0.1, 0.11, SUSPECT, "oss.uf.test sent 107.84 MB that no disk there"),
    ("operations not counted", one_counted, 5, None, SUSPECT, "1 clients report no operations: 0"),
    ("nothing counted", measured_in_operations, 5, 0, INVALID, "no client reports an operation"),
    ("nothing counted", measured_in_operations, 5, None, INVALID, "no client reports an operation"),
    ("nothing counted", lambda folder, count: synthetic.edit_clients(folder, "end", events=count), 5, 0, INVALID,
     "no client reports an event in what it read"),
    ("path not taken", by_door, 0.9, 0.85, SUSPECT, "gw.uf.test carried no more than 850.00 MB of 980.39 MB that"),
    ("path not taken", by_door, 0.6, 0.4, INVALID, "gw.uf.test carried no more than"),
    ("counts apart", lambda folder, counted: moved(folder, 1.0, counted), 0.996, 1 / 1.024, SUSPECT,
     "client 0 read 245.10 MB, its process 239.35 MB (at most 0.5 %"),
    ("uncounted bytes", lambda folder, counted: moved(folder, 1.0, counted), 1.05, 1.06, SUSPECT,
     "client 0 read 245.10 MB, its process 259.80 MB (at most 5 % of its count)"),
    ("counts apart", ended, {"bytes_client": 0, "status": "failed"}, {"bytes_client": 0}, SUSPECT,
     "client 1 read 245.10 MB, its process 0.00 MB"),
    ("uncounted bytes", ended, None, {"bytes_app": 0}, SUSPECT, "client 1 read 0.00 MB, its process 245.10 MB"),
    ("other sizes", lambda folder, share: edit_trial(folder, bytes=round(READ * share)), 1.004, 1.006, SUSPECT,
     "the clients' files hold 980.39 MB, 986.27 MB were planned"),
    ("other sizes", started, None, {"expected_bytes": 0}, INVALID, "the files of 1 clients are empty"),
    ("other sizes", sizes, (None, None), (None, 0), INVALID, "the files of 1 clients are empty"),
    ("shared replica", started, {"url": "root://synthetic/9"}, {"url": "root://synthetic/2"}, INVALID,
     "2 clients read root://synthetic/2 between them"),
    ("shared replica", started, None, {"url": "root://synthetic/0?again"}, INVALID,
     "2 clients read root://synthetic/0 between them"),
    ("other columns", columns, 244_000_000, 242_000_000, SUSPECT, "client 1 read 244.00 MB of columns of 242.00 MB"),
    ("other columns", lambda folder, size: columns(folder, size, local_bytes=101_098_039), 100_000_000, 80_000_000,
     INVALID, "client 1 read 100.00 MB of columns of 80.00 MB"),
    ("other columns", columns, 220_000_000, 12_000_000, INVALID, "client 1 read 244.00 MB of columns of 12.00 MB"),
    ("not whole", read_again, 0.996, 0.985, SUSPECT, "all clients read 965.69 MB of files of 980.39 MB"),
    ("not whole", moved, 0.996, 0.985, SUSPECT, "client 0 read 241.42 MB of a file of 245.10 MB"),
    ("not whole", moved, 0.981, 0.5, INVALID, "client 0 read 122.55 MB of a file of 245.10 MB"),
    ("events unlike the others", ended, {"events": 1400}, {"events": 2000}, SUSPECT,
     "client 1 counts 8.16 events a MB, where 4.08 are usual"),
    ("events unlike the others", ended, {"events": 600}, {"events": 0}, SUSPECT, "client 1 counts 0 events a MB"),
    ("unlike the others", ended, None, {"bytes_app": round(READ / 4 * 0.97)}, SUSPECT,
     "client 1 read 97.0 % of its file, where 100.0 %"),
    ("fast client", sped_up, 4.9, 5.1, SUSPECT, "client 3 read at 500.0 Mb/s, 5.1 times the median of 98.0"),
    ("host not covered", worker_until, 20, 19, SUSPECT, f"samples of {WORKER} end 1.0 s before the window's end"),
    ("host not covered", lambda folder, host: further_sampler(folder, host, "gateway"), None, "gw.uf.test", SUSPECT,
     "no samples from gw.uf.test (gateway)"),
    ("sampler gap", paused, (9, 10), (9, 10, 11), SUSPECT, "had no sample for 4.00 s, 4.0 periods"),
    ("sampler pause", paused, range(6, 10), range(6, 11), INVALID, "gaps over 6.00 s, 30 % of the window"),
    ("late ticks", lambda folder, late: sampled(folder, late=late), 1, 2, SUSPECT, "was late 2 times of 26, 7.7 %"),
    ("few samples", lambda folder, period_s: edit_trial(folder, sample_period_s=period_s), 1.9, 2.1, SUSPECT,
     "a sampling period of 2.1 s is 10.5 % of the window"),
    ("peak above the ceiling", stood_still, 12, 14, SUSPECT,
     "the storage sent 1600 Mb/s in a sample, over a ceiling of 800 (at most 1.5 times)"),
    ("uncertain edges", lambda folder, end: sampled(folder, synthetic.during(400, end), OFF_GRID, period_s=2.0),
     20.4, 22.8, SUSPECT, "near the window's edges may be up to"),
    ("counter began anew", lambda folder, less: sampled(folder, lambda time: send(400)(time) - less * (time >= 22)),
     None, 10**9, SUSPECT, "the counters of oss.uf.test began anew 1 times"),
    ("counter began anew", undone, 21.5, 22.5, SUSPECT, "the counters of oss.uf.test began anew 1 times"),
    ("not all active", lambda folder, late_s: client(folder, 1, late_s), 10.0, 11.0, SUSPECT,
     "all clients read together for 6.0 s, 30 % of the window (at most"),
    ("not all active", lambda folder, late_s: client(folder, 1, late_s), 14.9, 15.1, INVALID,
     "all clients read together for 1.9 s"),
    ("late begin", lambda folder, late_s: client(folder, 1, late_s), 0.99, 1.01, SUSPECT,
     "client 1 began 1010 ms after the go, 5.0 % of the window"),
    ("early begin", lambda folder, late_s: client(folder, 1, late_s), -0.0009, -0.002, INVALID,
     "client 1 read 2.0 ms before the go"),
    ("early begin", ended, None, {"first_byte_wall_ns": synthetic.GO_NS - 5_000_000}, INVALID,
     "client 1 read 5.0 ms before the go"),
    ("wrong worker", strayed, WORKER, "wn09.fiu.test", INVALID, "1 clients ran on wn09.fiu.test, outside the pool"),
    ("new worker", strayed, WORKER, "wn99.fiu.test", SUSPECT,
     "1 clients ran on wn99.fiu.test, which the pool private did not have"),
    ("background traffic", just_before, 4, 60, SUSPECT, "before the trial"),
    ("background traffic", lambda folder, mbps: sampled(folder, send(400, mbps)), 4.4, 4.6, SUSPECT,
     "the storage sent 4.60 Mb/s before the trial, 1.0 % of its rate in it beyond"),
    ("background traffic", lambda folder, mbps: sampled(folder, send(400, mbps, 20)), 39, 50, INVALID,
     "the storage sent 50.00 Mb/s after the trial, 12.4 % of its rate"),
    ("busy disks", busy_disk, 24, 26, SUSPECT,
     "a disk of oss.uf.test was busy for 26 % of the time without clients, too (at most 25 % of the time)"),
    ("busy disks", lambda folder, until: busy_disk(folder, 98, until), 20, 23, SUSPECT,
     "was busy for 98 % of the time"),
    ("busy processors", busy_cores, 24, 26, SUSPECT,
     "oss.uf.test was 26 % busy without clients, too (at most 25 % of all cores' time)"),
    ("background traffic unknown", lambda folder, begin: sampled(folder, times=synthetic.ticks(begin, 20)), -1, 0,
     SUSPECT, "the storage's traffic without clients is not known"),
    ("clock offset", apart, -503, -505, SUSPECT,
     f"{WORKER} is 505.0 ± 4.0 ms ahead of that of oss.uf.test, 0.5 periods"),
    ("clock step", stepped, 9.9, 10.1, SUSPECT, "the clock of oss.uf.test was set by 10.1 ms during the trial"),
    ("clock error", stepped, 99, 101, SUSPECT, "was set by 101.0 ms during the trial, 0.5 % of the window"),
    ("clock error", stepped, -990, -1010, INVALID, "was set by 1010.0 ms during the trial"),
    ("clock error", apart, 103, 105, SUSPECT,
     f"the clock of oss.uf.test is 105.0 ± 4.0 ms ahead of that of {WORKER}, 0.5 %"),
    ("clock drift", drifted, 103, 105, SUSPECT,
     "the clock of oss.uf.test and that of the access point ran 101 ms apart during the trial, 0.5 % of the window"),
    ("clock drift", drifted, 1000, -1010, INVALID, "that of the access point ran 1006 ms apart during the trial"),
    ("clock drift", worker_drifted, 103, 105, SUSPECT, f"the clock of {WORKER} and that of the access point"),
    ("clock not compared", started, None, {"boot_id": "another"}, SUSPECT, f"the clock of {WORKER} was not compared"),
]  # fmt: skip


@pytest.mark.parametrize("client", [Root, Higgs])
def test_as_much_read_ahead_is_usual_for_whatever_reads_by_roots_cache(tmp_path, client):
    """In a model of the CHEP paper a bridge fetched 6.9 % more than Higgs jobs read, though their rates were right."""
    folder = synthetic.write_trial(tmp_path)
    edit_trial(folder, traits=client.traits())
    sent(folder, 1.11)
    assert measured(folder)[0].verdict == VALID


@pytest.mark.parametrize(("rule", "change", "within", "beyond", "verdict", "words"), CASES)
def test_beyond_a_rule_a_trial_is_blamed_with_what_was_measured(tmp_path, rule, change, within, beyond, verdict, words):
    sound, doubtful = (synthetic.write_trial(tmp_path / run) for run in ("within", "beyond"))
    if within is not None:
        change(sound, within)
    order = [VALID, SUSPECT, INVALID]
    assert order.index(worst(measured(sound)[1], rule)) < order.index(verdict)
    change(doubtful, beyond)
    row, evidence = measured(doubtful)
    assert worst(evidence, rule) == verdict
    assert row["verdict"] in (verdict, INVALID)
    assert words in row["verdict_reasons"]


def test_each_rule_has_a_case_here():
    elsewhere = {"incomplete", "other conditions"}
    elsewhere |= {"missing at a worker", "stall", "other direction", "slow beside rest", "clock comparison"}
    elsewhere |= {"still at an edge", "failed fetches", "still at the end"}  # test_work_tables.py
    elsewhere |= {"proxies apart", "origin apart", "hits apart", "proxies not compared"}  # test_server_reports.py
    elsewhere |= {"not alone", "wrong place", "not pinned"}  # test_start.py and test_placement.py
    elsewhere |= {"other servers"}  # test_storage_of_a_way.py
    elsewhere |= {"cold cache not empty", "warm cache fetched"}  # test_server_reports.py
    elsewhere |= {"software from elsewhere", "cache content unknown", "sent past a warm cache", "cache in trouble"}
    elsewhere |= {"other mount", "background on the path"}  # test_mounts.py, test_truth.py
    elsewhere |= {"unlike its repetitions", "split otherwise", "written late"}
    elsewhere |= {"far from its repetition", "beside another trial"}  # test_far_in_time.py
    assert {rule.name for rule in RULES} == {case[0] for case in CASES} | elsewhere


@pytest.mark.parametrize("rule", RULES)
def test_a_reason_is_one_clause_so_that_semicolons_separate_reasons_and_what_is_no_number_is_one(rule):
    evidence = Evidence(rule, math.nan, "measured")
    assert (";" in evidence.reason, evidence.verdict != VALID) == (False, True)


def does_not_count_its_disks(folder):
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 20), disk_read_bytes=lambda _: -1)


def sends_in_vain(folder):
    sent = synthetic.during(400 * 1.4, 20)
    synthetic.write_host(folder, tx_bytes=sent, disk_read_bytes=synthetic.during(400 / 1.02, 20))


def serves_what_is_copied_again(folder):
    read_again(folder, 1 / 3)
    does(folder, "copies")


EXCEPTIONS = [
    # how much of what clients read a server did not read from its disks, and what else is the case
    (1, lambda folder: edit_trial(folder, flush={"strategy": "drop_caches", "hosts": [synthetic.OSS]})),
    (1, lambda folder: sampled(folder, host="gw.uf.test", role="gateway")),  # which shares its machine
    (1, does_not_count_its_disks),
    (0, sends_in_vain),
    (0, lambda folder: second_server(folder, tx_bytes=synthetic.steady(0.4), disk_read_bytes=lambda _: 10**9)),
    (1, lambda folder: read_again(folder, 1)),  # which caches are to serve
    (2 / 3, serves_what_is_copied_again),
]


@pytest.mark.parametrize(("share", "exception"), EXCEPTIONS)
def test_a_server_that_did_not_send_an_earlier_trials_files_from_memory_is_not_told(folder, share, exception):
    kept(folder, share)
    exception(folder)
    assert worst(measured(folder)[1], "sent from memory") == VALID


def test_a_server_that_was_flushed_and_saw_no_files_may_have_sent_them_from_memory(folder):
    kept(folder, 1)
    flushed(folder, "drop_caches", **{synthetic.OSS: {"files": 0}})
    assert worst(measured(folder)[1], "sent from memory") == SUSPECT


def serve_others(folder):
    sent(folder, 2.5)


def leave_a_door_unsampled(folder):
    edit_trial(folder, path=["gw.uf.test", "gw2.uf.test"])


def be_a_door_as_well(folder):
    edit_trial(folder, path=["gw.uf.test", synthetic.OSS])


@pytest.mark.parametrize(
    ("share", "exception"), [(1, serve_others), (0.6, leave_a_door_unsampled), (0.6, be_a_door_as_well)]
)
def test_clients_went_past_no_door_where_others_had_the_rest_or_another_door_may_have(folder, share, exception):
    by_door(folder, share)
    exception(folder)
    assert worst(measured(folder)[1], "path not taken") == VALID


def test_what_two_servers_sent_one_after_the_other_before_the_clients_is_not_added_up(folder):
    first, then = synthetic.during(20, 50), synthetic.during(20, 10)
    synthetic.write_host(folder, begin=-60, tx_bytes=lambda time: send(400)(time) + first(time + 60))
    second_server(folder, begin=-60, tx_bytes=lambda time: then(time + 10))
    assert trial_tables(folder)["idle_before_mbps"] == pytest.approx(20, abs=2)


@pytest.mark.parametrize("count", [None, 5])
@pytest.mark.parametrize(
    ("changes", "words"),
    [({"times": TICKS[:-5]}, "before the window's end"), ({"wall_step": (10, 1010)}, "during the trial, 5")],
)
def test_the_storages_samples_and_clock_have_to_be_good_for_bytes_and_not_for_operations(folder, count, changes, words):
    if count:
        measured_in_operations(folder, count)
    sampled(folder, **changes)
    assert (words in trial_tables(folder)["verdict_reasons"]) is (count is None)


def test_what_makes_it_invalid_comes_first(folder):
    sampled(folder, synthetic.during(400 / 1.02 * 0.75, 20), late=2)
    reasons = trial_tables(folder)["verdict_reasons"].split("; ")
    assert ["the storage sent 735.29 MB" in reasons[0], "was late 2 times" in reasons[1]] == [True, True]


def test_offsets_are_from_the_access_points_own_clock_which_is_in_no_window(folder):
    (folder / "clock.json").write_text(json.dumps(synthetic.clock(300)))
    sampled(folder, ahead_ms=300)
    assert trial_tables(folder)["clock_offset_ms"] == 0
    apart(folder, 0)
    row = trial_tables(folder)
    assert (row["verdict"], row["clock_offset_ms"]) == (VALID, -300)


def test_what_a_clients_process_reads_beside_its_data_is_not_what_it_read(folder):
    traits = {"does": "reads", "reads_whole": False, "usual_excess": 0.1, "taken_in": "bytes_app"}
    edit_trial(folder, client="its_own", traits=traits)
    synthetic.edit_clients(folder, "end", bytes_client=round(READ / 3))
    row, found = measured(folder)
    assert row["closure"] == pytest.approx(0.02, abs=1e-6)
    assert worst(found, "missing bytes") == VALID
