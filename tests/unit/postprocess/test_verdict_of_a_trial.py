"""The verdict on a trial as a whole, and what looks like the breach of a rule and is none, or that of another."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import OSS, READ, TICKS, apart, edit_trial, measured, sampled, send, worst
from tierbench.postprocess.schema.rows import Limit
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict.judge import INVALID, SUSPECT, VALID


@pytest.mark.parametrize(("mbps", "verdict"), [(400, VALID), (375, VALID), (370, SUSPECT), (40, SUSPECT)])
def test_a_rate_above_the_ceiling_is_doubted(folder, mbps, verdict):
    _, found = measured(folder, limit=Limit(ceiling_mbps=mbps, ceiling_from="worker NICs, stated"))
    [finding] = [finding for finding in found if finding.rule.name == "above the ceiling"]
    assert finding.verdict == verdict
    assert f"the jobs took in 392.2 Mb/s, over a ceiling of {mbps}.0 (worker NICs, stated)" in finding.reason


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


def test_offsets_are_from_the_access_points_own_clock(folder):
    (folder / "clock.json").write_text(json.dumps(synthetic.clock(300)))
    sampled(folder, ahead_ms=300)
    assert measured(folder)[0]["clock_offset_ms"] == 0


def test_what_tcp_sent_again_is_no_excess(folder):
    excess = 400 / 1.02 * 1.2
    sampled(folder, synthetic.during(excess, 20))
    assert worst(measured(folder)[1], "excess bytes") == SUSPECT
    again = {"tcp_retrans": lambda time: round(min(max(time, 0), 20) * 0.1 * READ / 1500 / 20)}
    synthetic.write_host(folder, tx_bytes=synthetic.during(excess, 20), tcp_out_segs=lambda _: 10, **again)
    assert worst(measured(folder)[1], "excess bytes") == VALID


def test_an_excess_beside_background_traffic_is_background(folder):
    excess = synthetic.during(400 / 1.02 * 1.6, 20)
    sampled(folder, excess)
    assert trial_tables(folder)["verdict"] == SUSPECT
    sampled(folder, lambda time: excess(time) + send(0, 20, 20)(time))
    assert worst(measured(folder)[1], "background bytes") == INVALID


def quiet_server(run):
    folder = synthetic.write_trial(run, mbps=25)
    sampled(folder, send(25, 0.4))
    return folder


def cut_off_after_the_window(run):
    folder = synthetic.write_trial(run)
    synthetic.write_samples(folder / f"samples/{OSS}.samples", TICKS, synthetic.during(400, 20), cut=True)
    return folder


@pytest.mark.parametrize("write", [synthetic.write_trial, quiet_server, cut_off_after_the_window])
def test_a_clean_trial_is_valid(tmp_path, write):
    row = trial_tables(write(tmp_path))
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
    synthetic.edit_clients(folder, "end", bytes_client=round(READ / 3))
    row, found = measured(folder)
    assert row["closure"] == pytest.approx(0.02, abs=1e-6)
    assert worst(found, "missing bytes") == VALID
