"""The verdict on trials: each rule with data just inside and just beyond, and reasons that tell what was measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit import synthetic_run as synthetic
from tierbench.dags import names
from tierbench.postprocess.records.trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.rows import Limit
from tierbench.postprocess.tables.terminal import as_text
from tierbench.postprocess.tables.write import tables, trial_tables
from tierbench.postprocess.verdict.evidence import findings
from tierbench.postprocess.verdict.judge import INVALID, SUSPECT, VALID, judge, of_finding, of_reason
from tierbench.postprocess.verdict.rules import RULES, Evidence

DOCUMENT = Path(__file__).parents[2] / "docs/verdicts.md"
OSS = synthetic.OSS
READ = 1e9 / 1.02  # bytes that a synthetic trial's clients read
TICKS = synthetic.ticks(-2, 23)
OFF_GRID = synthetic.ticks(-2.2, 25.8, 2.0)


@pytest.fixture
def folder(tmp_path):
    return synthetic.write_trial(tmp_path)


def sampled(folder, tx_bytes=None, times=TICKS, *, ahead_ms=0.0, late=0, missed=0, wall_step=None, **changes):
    """Write the storage server's samples anew, with something about them changed."""
    tx_bytes = tx_bytes or synthetic.during(400, 20)
    records = []
    for time in times:
        step_ns = round(wall_step[1] * 1e6) if wall_step and time > wall_step[0] else 0
        wall_ns = synthetic.GO_NS + round(time * 1e9) + step_ns
        records.append(synthetic.record(time, tx_bytes=tx_bytes(time), wall_ns=wall_ns))
    end = {**json.loads(synthetic.trailer(len(times), late, ahead_ms)), "missed_ticks": missed}
    head = json.dumps(synthetic.header(**changes)).encode() + b"\n"
    path = folder / f"samples/{changes.get('host', OSS)}.samples"
    path.write_bytes(head + b"".join(records) + json.dumps(end).encode() + b"\n")


def client(folder, index=1, begin_s=0.001, end_s=20.0, **end):
    """Write a client's record anew."""
    synthetic.write_client(
        folder / f"clients/{index}.jsonl", begin_s=begin_s, end_s=end_s, size=end.pop("size", round(READ / 4)), **end
    )


def edit_client(folder, index, event, **changes):
    path = folder / f"clients/{index}.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**e, **(changes if e["event"] == event else {})}) + "\n" for e in events))


def edit_trial(folder, **changes):
    path = folder / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def send(mbps, background=0.0, from_s=-100.0, to_s=100.0):
    """The clients' traffic, and a background at another rate over some time."""
    clients = synthetic.during(mbps, 20)
    return lambda time: clients(time) + round((min(max(time, from_s), to_s) - from_s) * background * 1e6 / 8)


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


def start_beside(folder, seconds):
    """Have jobs of the next trial been started for so long."""
    told = {"format": 1, "jobs": 5, "first_wall_s": 1.8e9 + 1, "last_wall_s": 1.8e9 + 1 + seconds}
    (folder / "beside.json").write_text(json.dumps(told))


def compare_clock(folder, ahead_ms=0.0):
    """Have the worker's clients compare a clock of its own."""
    for path in sorted(folder.glob("clients/*.jsonl")):
        first, *rest = path.read_text().splitlines()
        clock = {"event": "clock", **synthetic.times(-1), **synthetic.clock(ahead_ms)}
        path.write_text("\n".join([first, json.dumps(clock), *rest]) + "\n")
        edit_client(folder, int(path.stem), "start", boot_id="worker")


def apart(folder, storage_ahead_ms):
    compare_clock(folder)
    sampled(folder, ahead_ms=storage_ahead_ms)


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
    ("late begin", lambda f: set_late(f, 0.049), lambda f: set_late(
        f, 0.051), "SUSPECT", "client 1 began 51.0 ms after the go"),
    ("empty begin", lambda f: set_all_late(f, 0.9), lambda f: set_all_late(
        f, 1.09), "SUSPECT", "no client was at work before 1100 ms after the go, 5.5 % of the window"),
    ("empty begin", lambda f: set_all_late(f, 3.9), lambda f: set_all_late(
        f, 4.09), "INVALID", "no client was at work before 4100 ms after the go, 20.5 % of the window"),
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


def measured(folder, **more):
    data = read_trial(folder)
    row = replace(judge(data, trial_row(data)), **more)
    return row, list(findings(data, row))


def worst(found, rule):
    verdicts = [of_finding(finding) for finding in found if finding.rule == rule]
    return max([VALID, *verdicts], key=[VALID, SUSPECT, INVALID].index)


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


@pytest.mark.parametrize(("mbps", "verdict"), [(400, VALID), (375, VALID), (370, SUSPECT), (40, SUSPECT)])
def test_a_rate_above_the_ceiling_is_doubted(folder, mbps, verdict):
    _, found = measured(folder, limit=Limit(ceiling_mbps=mbps, ceiling_from="worker NICs, stated"))
    [finding] = [finding for finding in found if finding.rule == "above the ceiling"]
    assert of_finding(finding) == verdict
    assert f"the jobs took in 392.2 Mb/s, over a ceiling of {mbps}.0 (worker NICs, stated)" in of_reason(finding)


@pytest.mark.parametrize(("undoing_s", "verdict"), [(21.5, VALID), (22.5, SUSPECT)])
def test_what_undoing_a_condition_starts_anew_is_no_restart(folder, undoing_s, verdict):
    total = synthetic.during(400, 20)
    sampled(folder, lambda time: total(time) - (0 if time < 22 else 10**9))
    condition = {
        "name": f"processes.{OSS}", "condition": "processes", "host": OSS, "word": "processes", "value": "2",
        "unit": "", "tolerance_pct": 1.0, "helper": "/usr/local/sbin/tierbench-arrange",
    }  # fmt: skip
    edit_trial(folder, conditions=[condition])
    since = synthetic.MONO_NS + round(undoing_s * 1e9)
    restored = {"event": "restored", "now": "1", "undoing_mono_ns": since}
    said = [{"event": "arranged", "before": "1", "now": "2"}, restored]
    (folder / "arranged").mkdir()
    (folder / f"arranged/processes.{OSS}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    row = trial_tables(folder)
    assert row["verdict"] == verdict, row["verdict_reasons"]
    assert ("began anew" in row["verdict_reasons"]) == (verdict == SUSPECT)


def test_a_clean_trial_is_valid(folder):
    row = trial_tables(folder)
    assert (row["verdict"], row["verdict_reasons"]) == (VALID, "")
    assert (row["idle_before_mbps"], row["idle_after_mbps"], row["clock_offset_ms"]) == (0, 0, 0)


def test_an_incomplete_trial_is_invalid_for_the_same_reasons(folder):
    (folder / "clients/2.jsonl").unlink()
    row = trial_tables(folder)
    assert row["verdict"] == INVALID
    assert row["verdict_reasons"].startswith(row["reasons"])


def test_a_trial_that_has_not_run_says_no_more_than_that(folder):
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "trial.json":
            path.unlink()
    row = trial_tables(folder)
    assert (row["verdict"], row["verdict_reasons"]) == (INVALID, "has not run")


def test_what_makes_it_invalid_comes_first(folder):
    sampled(folder, synthetic.during(400 / 1.02 * 0.75, 20), late=2)
    reasons = trial_tables(folder)["verdict_reasons"].split("; ")
    assert ["the storage sent 735.29 MB" in reasons[0], "was late 2 times" in reasons[1]] == [True, True]


def test_a_single_slow_reading_of_two_clocks_is_no_step(folder):
    path = folder / f"samples/{OSS}.samples"
    lines = path.read_bytes().splitlines(keepends=True)
    wall_ns = synthetic.GO_NS + 5 * 10**9 + 80_000_000
    lines[8] = synthetic.record(5, tx_bytes=synthetic.during(400, 20)(5), wall_ns=wall_ns)
    path.write_bytes(b"".join(lines))
    assert worst(measured(folder)[1], "clock step") == VALID


def test_a_workers_stepped_clock_shows_in_its_clients(folder):
    for index in range(4):
        path = folder / f"clients/{index}.jsonl"
        end = json.loads(path.read_text().splitlines()[-1])
        edit_client(folder, index, "end", wall_ns=end["wall_ns"] + 2 * 10**9)
    row, found = measured(folder)
    assert worst(found, "clock error") == INVALID
    assert "the clock of wn01.private.fiu.test was set by 2000.0 ms" in row["verdict_reasons"]


def test_offsets_are_from_the_access_points_own_clock(folder):
    (folder / "clock.json").write_text(json.dumps(synthetic.clock(300)))
    sampled(folder, ahead_ms=300)
    assert measured(folder)[0]["clock_offset_ms"] == 0


def test_what_tcp_sent_again_is_no_excess(folder):
    excess = 400 / 1.02 * 1.2
    sampled(folder, synthetic.during(excess, 20))
    assert worst(measured(folder)[1], "excess bytes") == SUSPECT
    path = folder / f"samples/{OSS}.samples"
    head, *_, end = path.read_bytes().splitlines(keepends=True)
    tx_bytes, again = synthetic.during(excess, 20), 0.1 * READ / 1500 / 20
    records = [
        synthetic.record(t, tx_bytes=tx_bytes(t), tcp_retrans=round(min(max(t, 0), 20) * again), tcp_out_segs=10)
        for t in TICKS
    ]
    path.write_bytes(head + b"".join(records) + end)
    assert worst(measured(folder)[1], "excess bytes") == VALID


def test_an_excess_beside_idle_traffic_is_foreign(folder):
    excess = synthetic.during(400 / 1.02 * 1.6, 20)
    sampled(folder, excess)
    assert trial_tables(folder)["verdict"] == SUSPECT
    sampled(folder, lambda time: excess(time) + send(0, 20, 20)(time))
    assert worst(measured(folder)[1], "foreign bytes") == INVALID


def test_what_a_quiet_storage_server_sends_does_not_doubt_a_trial(tmp_path):
    folder = synthetic.write_trial(tmp_path, mbps=25)
    sampled(folder, send(25, 0.4))
    row = trial_tables(folder)
    assert (row["verdict"], row["verdict_reasons"]) == (VALID, "")


def test_the_access_points_own_clock_is_in_no_window(folder):
    apart(folder, 0)
    (folder / "clock.json").write_text(json.dumps(synthetic.clock(1000)))
    row = trial_tables(folder)
    assert (row["verdict"], row["clock_offset_ms"]) == (VALID, -1000)


def test_a_gateways_clock_enters_no_mean(folder):
    apart(folder, 0)
    sampled(folder, host="gw.uf.test", role="gateway", boot_id="gateway", ahead_ms=1500)
    row, found = measured(folder)
    assert (row["verdict"], worst(found, "clock offset"), worst(found, "clock error")) == (SUSPECT, SUSPECT, VALID)


def test_a_sampler_cut_off_after_the_window_is_as_good_as_any(folder):
    path = folder / f"samples/{OSS}.samples"
    synthetic.write_samples(path, TICKS, synthetic.during(400, 20), cut=True)
    row = trial_tables(folder)
    assert (row["verdict"], row["verdict_reasons"]) == (VALID, "")


def test_late_ticks_are_counted_without_a_trailer(folder):
    path = folder / f"samples/{OSS}.samples"
    times = [time + (0.6 if time in (5, 9) else 0) for time in TICKS if time != 12]
    synthetic.write_samples(path, times, synthetic.during(400, 20), cut=True)
    row, found = measured(folder)
    assert worst(found, "late ticks") == SUSPECT
    assert "was late 3 times of 25" in row["verdict_reasons"]


def test_what_a_clients_process_reads_beside_its_data_is_not_what_it_read(folder):
    traits = {"does": "reads", "reads_whole": False, "usual_excess": 0.1, "taken_in": "bytes_app"}
    edit_trial(folder, client="its_own", traits=traits)
    for index in range(4):
        edit_client(folder, index, "end", bytes_client=round(READ / 3))
    row, found = measured(folder)
    assert row["closure"] == pytest.approx(0.02, abs=1e-6)
    assert worst(found, "missing bytes") == VALID


# -- conditions ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    for repeat in (1, 2, 3):
        synthetic.write_trial(tmp_path / "run", repeat=repeat, index=repeat)
    return tmp_path / "run"


def tuned(run, repeat, **changes):
    sampled(run / f"trials/lan-xrootd.root.x004.r{repeat}", **changes)


def test_trials_under_the_same_conditions_are_all_valid(run):
    rows = tables(run).trials
    assert [row["verdict"] for row in rows] == [VALID] * 3
    assert len({row["conditions"] for row in rows}) == 1


def test_a_trial_under_other_conditions_is_suspect_and_says_which(run):
    tuned(run, 2, kernel="6.1-other", tuning={"net.ipv4.tcp_congestion_control": "reno"})
    for repeat in (1, 3):
        tuned(run, repeat, tuning={"net.ipv4.tcp_congestion_control": "cubic"})
    rows = tables(run).trials
    assert [row["verdict"] for row in rows] == [VALID, SUSPECT, VALID]
    assert "oss.uf.test had kernel 6.1-other and not synthetic" in rows[1]["verdict_reasons"]
    assert "had net.ipv4.tcp_congestion_control reno and not cubic" in rows[1]["verdict_reasons"]
    assert rows[0]["conditions"] == rows[2]["conditions"] != rows[1]["conditions"]


def arranged(run, repeat, value):
    """The trial has the storage server's mount arranged by a condition of the site."""
    folder = run / f"trials/lan-xrootd.root.x004.r{repeat}"
    edit_trial(folder, conditions=[
        {"name": "flavour", "condition": "flavour", "host": OSS, "value": value, "unit": "", "tolerance_pct": 0.0}
    ])  # fmt: skip
    record = folder / names.ARRANGED / "flavour.jsonl"
    record.parent.mkdir(exist_ok=True)
    record.write_text("".join(json.dumps({"event": event, "now": value}) + "\n" for event in ("arranged", "restored")))


def test_what_is_arranged_for_a_trial_is_no_other_condition(run):
    for repeat, flavour in ((1, "krb5"), (2, "krb5p"), (3, "krb5")):
        tuned(run, repeat, mounts={"/extenci": f"nfs4 rw,sec={flavour}"})
        arranged(run, repeat, flavour)
    assert [row["verdict_reasons"] for row in tables(run).trials] == [""] * 3


def test_what_differs_between_trials_that_are_arranged_alike_is_one(run):
    for repeat, options in ((1, "rw"), (2, "ro"), (3, "rw")):
        tuned(run, repeat, mounts={"/extenci": f"nfs4 {options},sec=krb5"})
        arranged(run, repeat, "krb5")
    rows = tables(run).trials
    assert [row["verdict"] for row in rows] == [VALID, SUSPECT, VALID]
    assert "had mount /extenci nfs4 ro,sec=krb5 and not nfs4 rw,sec=krb5" in rows[1]["verdict_reasons"]


def test_a_reboot_alone_is_no_other_condition(run):
    tuned(run, 2, boot_id="rebooted")
    for index in range(4):
        edit_client(run / "trials/lan-xrootd.root.x004.r2", index, "start", boot_id="rebooted")
    assert [row["verdict"] for row in tables(run).trials] == [VALID] * 3


def test_the_runs_conditions_name_hosts_boots_and_differences(run):
    tuned(run, 2, kernel="6.1-other")
    tables(run)
    told = json.loads((run / "conditions.json").read_text(encoding="utf-8"))
    assert told["hosts"][OSS]["kernel"] == "synthetic"
    assert told["boot_ids"][OSS] == ["synthetic"]
    assert list(told["differences"].values()) == [["oss.uf.test had kernel 6.1-other and not synthetic"]]


def test_the_runs_table_has_the_runs_verdicts(run):
    tuned(run, 2, kernel="6.1-other")
    tables(run)
    shown = as_text(run)
    assert "SUSPECT" in shown
    assert "had kernel 6.1-other" in shown
    assert "6.1-other" not in (run / "trials/lan-xrootd.root.x004.r2/trials.csv").read_text(encoding="utf-8")


# -- documentation -------------------------------------------------------------------------------------------


def documented(heading):
    chapter = DOCUMENT.read_text(encoding="utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    lines = [line for line in chapter.splitlines() if line.startswith("| ") and not line.startswith("| rule")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_documentation_has_each_rule_with_its_thresholds():
    def cell(threshold):
        return "–" if threshold is None else f"{threshold:g}"

    assert [row[:5] for row in documented("The rules")] == [
        [rule.name, rule.looks_at, rule.unit, cell(rule.suspect), cell(rule.invalid)] for rule in RULES
    ]


def test_each_rule_has_a_case_here():
    elsewhere = {"incomplete", "above the ceiling", "other conditions"}
    elsewhere |= {"missing at a worker", "stall", "other direction", "slow beside rest", "clock comparison"}
    elsewhere |= {"still at an edge", "failed fetches"}
    elsewhere |= {"proxies apart", "origin apart", "hits apart", "proxies not compared"}  # test_proxies.py
    elsewhere |= {"not alone", "wrong place", "not pinned"}  # test_start.py and test_placement.py
    elsewhere |= {"other servers"}  # test_storage_of_a_way.py
    elsewhere |= {"cold cache held", "warm cache fetched"}  # test_software_cache.py
    elsewhere |= {"software from elsewhere", "software cache not told"}
    elsewhere |= {"other mount"}  # test_mounts.py
    elsewhere |= {"unlike its repetitions", "counts apart", "written late"}
    assert {rule.name for rule in RULES} == {case[0] for case in CASES} | elsewhere


@pytest.mark.parametrize("rule", RULES)
def test_a_reason_is_one_clause_so_that_semicolons_separate_reasons(rule):
    assert ";" not in of_reason(Evidence(rule.name, 1e9, "measured"))
