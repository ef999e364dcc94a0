"""Trials of known truth: what is wrong with them is told by its own name, and what is right is let be."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import compare_clock, edit_client, edit_trial
from tierbench.postprocess.tables.write import tables, trial_tables

WORKER = "wn01.private.fiu.test"
READ = 1e9 / 1.02  # bytes that a synthetic trial's four clients read
MTU = 1500


def moving(mbps, begin, end):
    """A counter that rises at one rate for a while."""
    return lambda time: round((min(max(time, begin), end) - begin) * mbps * 1e6 / 8)


def both(*totals):
    return lambda time: sum(total(time) for total in totals)


def packets(total, size=MTU):
    return lambda time: total(time) // size


SENT = synthetic.during(400, 20)


def samples(
    folder, *, host = synthetic.OSS, role = "storage", period = 0.25, until = 23,
    header = None, bounds_ms = 2.0, **counters,
):  # fmt: skip
    """A host's samples anew, of counters by their names."""
    ahead_ns = synthetic.GO_NS - synthetic.MONO_NS
    bounds = {"low_ns": ahead_ns - round(bounds_ms * 1e6), "high_ns": ahead_ns + round(bounds_ms * 1e6)}
    end = {"clocks": [bounds]}
    synthetic.write_host(folder, host, role, period=period, until=until, head=header, end=end, **counters)


def judged(folder):
    row = trial_tables(folder)
    return row["verdict"], row["verdict_reasons"], row["mean_mbps"]


def assert_judged(folder, verdict, words):
    assert judged(folder)[0] == verdict
    assert words in judged(folder)[1]


@pytest.mark.parametrize(("seconds", "verdict"), [(0.75, "VALID"), (4.0, "SUSPECT"), (8.0, "INVALID")])
def test_a_path_that_stands_still_in_the_middle(folder, seconds, verdict):
    edit_trial(folder, protocol="file")
    rate = 400 * 20 / (20 - seconds)
    samples(folder, tx_bytes=both(moving(rate, 0, 6), moving(rate, 6 + seconds, 20)))
    assert judged(folder)[0] == verdict
    assert ("the storage sent nothing for" in judged(folder)[1]) == (verdict != "VALID")


def test_a_stall_between_two_samples_is_as_long_as_it_was(folder):
    """At a period of 1 s a single interval is still as a whole; the rest of the stall is in its neighbours."""
    edit_trial(folder, protocol="file")
    rate = 400 * 20 / 17.5
    samples(folder, period=1, tx_bytes=both(moving(rate, 0, 6.3), moving(rate, 8.8, 20)))
    assert_judged(folder, "SUSPECT", "the storage sent nothing for 2.5 s")


@pytest.mark.parametrize(("begin", "end"), [(8, 20), (0, 12)])
def test_a_window_in_which_nothing_moves_at_first_or_at_last(folder, begin, end):
    edit_trial(folder, protocol="file")
    synthetic.write_clients(folder, begin_s=0, end_s=20, size=round(READ / 4))
    samples(folder, tx_bytes=moving(400 * 20 / 12, begin, end))
    assert_judged(folder, "SUSPECT", "nothing moved for 8.0 s")


def test_programs_that_start_by_computing_are_not_still(folder):
    edit_trial(folder, protocol="file")
    synthetic.write_clients(folder, begin_s=0, end_s=20, size=round(READ / 4), cpu_user_s=15.0)
    samples(folder, tx_bytes=moving(400 * 20 / 12, 8, 20))
    assert "nothing moved" not in judged(folder)[1]


def test_a_server_that_has_read_ahead_serves_while_the_storage_rests(folder):
    ahead = both(moving(800, 0, 9.9), moving(400, 19.6, 20))
    samples(folder, tx_bytes=ahead)
    assert judged(folder)[0] == "SUSPECT"  # nobody knows what the workers received
    samples(folder, host=WORKER, role="worker", rx_bytes=SENT)
    assert judged(folder)[:2] == ("VALID", "")
    samples(folder, host=WORKER, role="worker", rx_bytes=ahead)
    assert judged(folder)[0] == "INVALID"


def test_bursts_of_a_way_that_reads_ahead_are_no_stall(folder):
    bursts = [moving(400 * 4, begin, begin + 1) for begin in range(0, 20, 4)]
    samples(folder, tx_bytes=both(*bursts))
    assert "sent nothing" not in judged(folder)[1]


def test_clients_that_compute_meanwhile_do_not_wait(folder):
    samples(folder, tx_bytes=both(moving(800, 0, 5), moving(800, 15, 20)))
    synthetic.edit_clients(folder, "end", cpu_user_s=16.0)
    assert "sent nothing" not in judged(folder)[1]


def test_the_last_client_alone_is_slow_and_no_stall(folder):
    for index in range(4):
        size = round(0.005 * READ) if index == 3 else round(0.995 / 3 * READ)
        synthetic.write_client(folder / f"clients/{index}.jsonl", begin_s=0, end_s=20 if index == 3 else 8, size=size)
    samples(folder, tx_bytes=both(moving(998, 0, 8), moving(2, 0, 20)))
    assert "sent nothing" not in judged(folder)[1]


@pytest.mark.parametrize("mbps", [2, 10])
def test_a_trial_as_slow_as_a_server_at_rest_is_not_valid(tmp_path, mbps):
    folder = synthetic.write_trial(tmp_path, mbps=mbps)
    samples(folder, tx_bytes=both(synthetic.during(mbps, 20), moving(0.45, -100, 100)))
    verdict, reasons, _ = judged(folder)
    assert verdict == "SUSPECT"
    assert "the storage sent 0.45 Mb/s after the trial, at rest" in reasons or "before the trial, at rest" in reasons


@pytest.mark.parametrize(("writes", "verdict"), [((-100, 100), "INVALID"), ((0, 20), "INVALID"), ((0, 4), "SUSPECT")])
def test_somebody_who_writes_meanwhile(folder, writes, verdict):
    samples(folder, tx_bytes=SENT, rx_bytes=moving(400, *writes))
    assert judged(folder)[0] == verdict
    assert "somebody else writes to the storage" in judged(folder)[1]


def test_acknowledgements_are_no_writing(folder):
    samples(folder, tx_bytes=SENT, rx_bytes=lambda time: SENT(time) // 25)
    assert judged(folder)[:2] == ("VALID", "")


def with_worker(folder, tx_bytes, rx_bytes, size=MTU, **more):
    samples(folder, tx_bytes=tx_bytes, tx_packets=packets(tx_bytes, size), **more)
    samples(folder, host=WORKER, role="worker", rx_bytes=rx_bytes, rx_packets=packets(rx_bytes, size))


WIRE = synthetic.during(400 / 1.02 * 1500 / 1434, 20)  # what the clients read, with the headers of its packets


@pytest.mark.parametrize(("share", "verdict"), [(0.06, "SUSPECT"), (0.3, "INVALID")])
def test_foreign_traffic_within_what_a_client_is_wont_to_waste_is_found_out(folder, share, verdict):
    with_worker(folder, both(WIRE, moving(share * 400, 0, 20)), WIRE)
    assert_judged(folder, verdict, "reached none of the trial's own hosts")


def test_data_sent_twice_are_not_somebody_elses(folder):
    edit_trial(folder, client="dd")
    twice = both(WIRE, moving(400, 8, 13))
    with_worker(folder, twice, twice)
    assert_judged(folder, "SUSPECT", "data were sent twice after a connection or a server broke")
    assert "somebody" not in judged(folder)[1]


@pytest.mark.parametrize(("share", "verdict"), [(0.05, "VALID"), (0.2, "SUSPECT"), (7.0, "SUSPECT")])
@pytest.mark.parametrize("role", ["worker", "door", "gateway"])
def test_others_that_use_a_host_of_the_path(folder, role, share, verdict):
    """What they move there is in nothing that the storage or the clients count."""
    others = both(WIRE, moving(400 * share, 0, 20))
    with_worker(folder, WIRE, others if role == "worker" else WIRE)
    if role != "worker":
        samples(folder, host=f"{role}.test", role=role, tx_bytes=others, rx_bytes=others)
    found, reasons, _ = judged(folder)
    assert (found, "somebody else uses these hosts" in reasons) == (verdict, verdict != "VALID")


def test_a_door_off_the_path_serves_whom_it_likes(folder):
    with_worker(folder, WIRE, WIRE)
    samples(folder, host="door.test", role="door", tx_bytes=moving(100, 0, 20), rx_bytes=moving(100, 0, 20))
    assert judged(folder)[:2] == ("VALID", "")


def test_a_warm_share_at_a_worker_shows_beside_others_excess(folder):
    wire = synthetic.during(400 / 1.02 * 1500 / 1434 * 0.93, 20)
    with_worker(folder, both(wire, moving(0.09 * 400, 0, 20)), wire)
    verdict, reasons, _ = judged(folder)
    assert verdict != "VALID"
    assert "that its clients read" in reasons


@pytest.mark.parametrize(("mtu", "size"), [(9000, 1500), (1500, 1500), (1500, 60_000)])
def test_headers_are_those_of_the_packets_whatever_the_cards_mtu(folder, mtu, size):
    edit_trial(folder, client="dd")
    wire = synthetic.during(400 / 1.02 * size / (size - 66) * 1.005, 20)
    samples(folder, tx_bytes=wire, tx_packets=packets(wire, size), header={"tuning": {"mtu": str(mtu)}})
    assert judged(folder)[:2] == ("VALID", "")


def test_with_large_packets_small_headers_leave_room_for_no_background(folder):
    edit_trial(folder, client="dd")
    wire = synthetic.during(400 / 1.02 * 1.045, 20)
    samples(folder, tx_bytes=wire, tx_packets=packets(wire, 60_000))
    assert judged(folder)[0] == "SUSPECT"


def test_what_is_read_ahead_and_comes_late_is_no_idle_traffic(folder):
    late = 8e6 * 8 / 1e6 / 0.6
    samples(folder, tx_bytes=both(SENT, moving(late, 20, 20.6)), until=22)
    assert judged(folder)[:2] == ("VALID", "")


def test_a_background_that_goes_on_after_the_end_is_idle_traffic(folder):
    samples(folder, tx_bytes=both(SENT, moving(50, 20, 100)), until=22)
    assert judged(folder)[0] == "INVALID"


@pytest.mark.parametrize("share", [1.045, 0.96])
def test_a_trial_unlike_its_repetitions_is_suspect(tmp_path, share):
    """A foreign burst or a warm part that stays within what a client of this kind is wont to waste."""
    for repeat in (1, 2, 3, 4):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
        factor = 1.04 + (share - 1 if repeat == 3 else 0) + 0.002 * repeat
        samples(folder, tx_bytes=synthetic.during(400 / 1.02 * factor, 20))
    rows = tables(tmp_path).trials
    assert [row["verdict"] for row in rows] == ["VALID", "VALID", "SUSPECT", "VALID"]
    assert "its repetitions +4" in rows[2]["verdict_reasons"]


@pytest.mark.parametrize(
    ("splits", "verdicts"),
    [
        (["wwvv", "wwwv", "vwvw"], "V S V"),
        (["wwvv", "vvwv"], "V S"),  # of two, the even one is the usual
        (["wwww", "wwvv", "wwvv"], "S V V"),
        (["wvxy", "wwvv", "wwvv", "wwvv"], "S V V V"),
        (["wwwv", "wwwv", "wwvv", "wwvv", "wwvv"], "S S V V V"),  # the first two are all of another configuration's
        (["wwvv", "xxyy", "vvxx"], "V V V"),
    ],
)
def test_clients_that_were_split_unlike_those_of_most_trials_are_told(tmp_path, splits, verdicts):
    for place, split in enumerate(splits):
        access = "direct" if len(splits) > 4 and place < 2 else "lan-xrootd"
        folder = synthetic.write_trial(tmp_path, repeat=place + 1, index=place, access=access, workers=list("vwxy"))
        for index, host in enumerate(split):
            edit_client(folder, index, "start", host=host)
    rows = tables(tmp_path).trials
    assert " ".join(row["verdict"][0] for row in rows) == verdicts
    assert all(("clients were split" in row["verdict_reasons"]) == (row["verdict"] != "VALID") for row in rows)


def test_clients_that_read_less_than_those_of_repetitions_are_told(tmp_path):
    for repeat in (1, 2, 3):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
        share = 0.9 if repeat == 2 else 1.0
        samples(folder, tx_bytes=synthetic.during(400 * share, 20))
        synthetic.edit_clients(folder, "end", **dict.fromkeys(("bytes_app", "bytes_client"), round(READ / 4 * share)))
    rows = tables(tmp_path).trials
    assert [row["verdict"] for row in rows] == ["VALID", "SUSPECT", "VALID"]
    assert "those of its repetitions 980392156 B" in rows[1]["verdict_reasons"]


@pytest.mark.parametrize("step_s", [-1.5, 0.8])
def test_a_clock_set_before_the_last_end_moves_no_edge_and_is_told(folder, step_s):
    """NTP steps the worker when three of its four clients have ended: the last one sets the window's end."""
    samples(folder, tx_bytes=SENT)
    end = json.loads((folder / "clients/0.jsonl").read_text().splitlines()[-1])  # of the last client to end
    edit_client(folder, 0, "end", wall_ns=end["wall_ns"] + round(step_s * 1e9))
    verdict, reasons, mean = judged(folder)
    assert mean == pytest.approx(400, rel=1e-3)
    assert verdict != "VALID"
    assert f"the clock of {WORKER} was set by" in reasons


def test_an_access_point_whose_clock_is_behind_makes_no_trial_longer(folder):
    """Its log says when clients were submitted, theirs when they ended: 29.5 s by one clock, and 3 s more by two."""
    for index in range(4):
        clock = {"event": "clock", **synthetic.times(-0.5), **synthetic.clock()}
        path = folder / f"clients/{index}.jsonl"
        start, ready, *rest = path.read_text().splitlines()
        path.write_text("".join(f"{line}\n" for line in (start, ready, json.dumps(clock), *rest)))
    path = folder / "clients.log"
    path.write_text(path.read_text().replace("03:59:50.5", "03:59:47.5").replace("03:59:56.2", "03:59:53.2"))
    (folder / "clock.json").write_text(json.dumps(synthetic.clock(ahead_ms=-3000)))
    row = trial_tables(folder)
    assert row["verdict"] == "VALID"
    assert row["wall_time_s"] == pytest.approx(29.5, abs=0.001)
    assert row["wall_time_error_s"] == pytest.approx(0.0045, abs=0.0001)


@pytest.mark.parametrize(
    ("stamp", "begin_ahead_s", "end_ahead_s", "error_s", "verdict"),
    [
        pytest.param("03:59:50.5", 0, 0, 0.0045, "VALID", id="nobody sets it"),
        pytest.param("04:00:20.5", 30, 0, 3.502, "SUSPECT", id="30 s ahead and corrected after the submission"),
        pytest.param("03:59:50.5", -30, 0, 3.502, "SUSPECT", id="30 s behind and corrected before the submission"),
        pytest.param("03:59:50.5", 0, 30, 3.502, "SUSPECT", id="set by 30 s after the submission"),
        pytest.param("03:59:55.5", 5, 0, 3.502, "SUSPECT", id="5 s ahead and corrected"),
        pytest.param("04:00:20.5", 0, 0, 3.502, "VALID", id="set for a moment"),
        pytest.param("04:59:50.5", 0, 0, 0.0045, "VALID", id="summer time ends after the submission"),
        pytest.param("02:59:50.5", 0, 0, 0.0045, "VALID", id="summer time begins after the submission"),
    ],
)
def test_the_wall_time_is_right_within_its_error_whatever_the_access_points_clock_does(
    folder, stamp, begin_ahead_s, end_ahead_s, error_s, verdict
):
    """29.5 s; its turn came 1.5 s before the submission, its first client began 5.5 s after that."""
    compare_clock(folder)
    samples(folder, tx_bytes=SENT)
    path = folder / "clients.log"
    path.write_text(path.read_text().replace("03:59:50.5", stamp))
    for name, ahead_s in (("begun", begin_ahead_s), ("clock.json", end_ahead_s)):
        uptime = {"uptime_ns": synthetic.MONO_NS - 11 * 10**9, "boot_id": "access point"}
        (folder / name).write_text(json.dumps({**synthetic.clock(ahead_ms=1e3 * ahead_s), **uptime}))
    row = trial_tables(folder)
    assert abs(row["wall_time_s"] - 29.5) <= row["wall_time_error_s"] + 1e-6
    assert (row["wall_time_error_s"], row["verdict"]) == (pytest.approx(error_s, abs=1e-3), verdict)


def test_a_wall_time_that_cannot_be_is_none(folder):
    """Of an earlier version, and on hosts that have not compared their clocks."""
    path = folder / "clients.log"
    path.write_text(path.read_text().replace("03:59:50.5", "04:00:20.5"))
    assert trial_tables(folder)["wall_time_s"] is None


def test_a_comparison_with_wide_bounds_is_none(folder):
    compare_clock(folder)
    samples(folder, tx_bytes=SENT, bounds_ms=20)
    assert judged(folder)[0] == "VALID"
    samples(folder, tx_bytes=SENT, bounds_ms=500)
    assert_judged(folder, "SUSPECT", "the clocks of storage and workers can be 502 ms apart, 2.5 % of the window")


@pytest.mark.parametrize(("period", "refresh", "phase"), [(1.0, 1.0, 0.5), (0.5, 0.5, 0.15), (0.2, 0.7, 0.3)])
def test_a_driver_that_counts_late_is_within_the_trials_own_error(folder, period, refresh, phase):
    """Refreshed as often as it is sampled it cannot be seen, and what it owes comes after the window."""
    last = lambda time: SENT((time - phase) // refresh * refresh + phase)  # noqa: E731
    samples(folder, period=period, tx_bytes=last)
    row = trial_tables(folder)
    assert row["mean_mbps"] < 400
    assert row["mean_mbps"] + row["mean_error_mbps"] >= 400 - 1e-3


@pytest.mark.parametrize("ahead_s", [-0.4, -0.1, 0.1, 0.4])
def test_a_clock_that_is_off_within_its_bounds_is_within_the_trials_own_error(folder, ahead_s):
    compare_clock(folder)
    samples(folder, tx_bytes=SENT, bounds_ms=500, header={"clock_wall_ns": synthetic.GO_NS + round(ahead_s * 1e9)})
    row = trial_tables(folder)
    assert abs(row["mean_mbps"] - 400) <= row["mean_error_mbps"] + 1e-6
