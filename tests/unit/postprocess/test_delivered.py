"""What the jobs took in is told apart from what the storage sent, and it is what comparisons speak of."""

import json
from dataclasses import replace

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.postprocess.test_uncertainty import ratio_of, trial
from tests.unit.synthetic_report import Shape, read_csv, write_csv, write_run
from tests.unit.synthetic_run import WORKER
from tierbench.postprocess.compare.points import point_at
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.report.notes import amplification_notes
from tierbench.postprocess.tables.factors import Panel
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.run_tables import ratio_rows, summary_rows

READ_MBPS = 400 / 1.02  # what the four synthetic clients read together in their window of 20 s
PANEL = Panel({"workload": "root"})


def storage_sends(folder, counter):
    synthetic.write_host(folder, tx_bytes=counter)


def worker_receives(folder, counter):
    synthetic.write_host(folder, WORKER, "worker", begin=-2.3, until=22.7, head={"boot_id": "other"}, rx_bytes=counter)


def row_of(folder):
    return trial_row(read_trial(folder))


def test_what_is_sent_in_vain_does_not_raise_the_rate(folder):
    usual = row_of(folder)
    storage_sends(folder, synthetic.during(560, 20))
    wasteful = row_of(folder)
    assert wasteful["mean_mbps"] == pytest.approx(560, rel=1e-6)
    assert wasteful["delivered_mbps"] == usual["delivered_mbps"] == pytest.approx(READ_MBPS, rel=1e-6)
    assert (usual["amplification"], wasteful["amplification"]) == (pytest.approx(1.02), pytest.approx(1.428))


def test_the_rate_of_a_client_is_over_its_own_time(folder):
    mean = sum(READ_MBPS / 4 * 20 / (20 - client - client * 1e-3) for client in range(4)) / 4
    assert row_of(folder)["client_mbps"] == pytest.approx(mean, rel=1e-6)


def test_a_client_that_does_not_tell_leaves_the_rate_unknown(folder):
    size = json.loads((folder / "trial.json").read_text())["bytes"] // 4
    synthetic.write_client(
        folder / "clients/2.jsonl", begin_s=0, end_s=18, size=size, bytes_app=None, bytes_client=None
    )
    row = row_of(folder)
    assert (row["delivered_mbps"], row["amplification"]) == (None, None)


def test_the_steady_slice_is_that_of_what_the_jobs_took_in(folder):
    """The storage sends in a burst what a server on the way keeps; the workers receive at one rate."""
    storage_sends(folder, lambda time: 10**9 + round(min(max(time, 0), 8) * 1000e6 / 8))
    worker_receives(folder, synthetic.during(410, 20))
    row = row_of(folder)
    assert row["steady_from"] == "delivered"
    assert row["steady_end_s"] - row["steady_begin_s"] > 18
    assert row["steady_delivered_mbps"] == pytest.approx(READ_MBPS, rel=1e-3)
    assert row["all_active_delivered_mbps"] == pytest.approx(READ_MBPS, rel=0.02)  # its begin lies between two samples


@pytest.mark.parametrize("empties", [False, True])
def test_while_a_server_empties_what_it_has_read_ahead_nothing_is_steady(folder, empties):
    def slow_then_fast(time):
        return 10**9 + round((min(max(time, 0), 6) * 200 + min(max(time - 6, 0), 14) * 500) * 1e6 / 8)

    worker_receives(folder, slow_then_fast)
    storage_sends(folder, synthetic.during(410, 20) if empties else slow_then_fast)
    row = row_of(folder)
    assert row["steady_begin_s"] == (None if empties else pytest.approx(6, abs=1))


@pytest.mark.parametrize(("received", "delivered"), [(0, False), (300, False), (500, True)])
def test_an_interface_says_when_data_came_if_it_missed_none_whatever_its_headers(folder, received, delivered):
    worker_receives(folder, synthetic.during(received, 20))
    row = row_of(folder)
    assert row["steady_from"] == ("delivered" if delivered else "sent")
    assert row["steady_delivered_mbps"] == (pytest.approx(READ_MBPS, rel=1e-3) if delivered else None)
    assert (row["all_active_delivered_mbps"] is None) is not delivered
    assert row["steady_mbps"] == pytest.approx(400, rel=1e-3)


def test_computing_on_a_slower_core_is_computing(folder):
    size = json.loads((folder / "trial.json").read_text())["bytes"] // 4
    for client in range(4):
        slow = {"computed_s": 0.95 * (20 - client)}
        synthetic.write_client(folder / f"clients/{client}.jsonl", begin_s=0, end_s=20 - client, size=size, detail=slow)
    row = row_of(folder)
    assert row["cpu_efficiency"] == pytest.approx(0.95)
    assert (row["cpu_s"], row["bottleneck"]) == (8, "client's own CPU")


def test_ratios_and_gains_are_of_what_was_delivered():
    ways = {"direct": (200.0, 210.0), "bridge": (180.0, 300.0)}  # delivered, sent
    rows = [
        trial(access, n, delivered * jobs / 8, jobs, mean_mbps=sent)
        for access, (delivered, sent) in ways.items()
        for n in (1, 2)
        for jobs in (4, 8)
    ]
    assert ratio_of([row for row in rows if row["jobs"] == 8], "direct", "bridge")["ratio"] == pytest.approx(200 / 180)
    assert [row["growth"] for row in summary_rows(rows) if row["jobs"] == 8] == [pytest.approx(2)] * 2


def answer_of(run, summary=None, ratios=None):
    """The answer of a run of which some ways' rows are changed."""
    return answer(results_of(run, summary, ratios), PANEL)


def results_of(run, summary=None, ratios=None):
    write_run(run, Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(4, 8), samples=False))
    for name, changes in (("summary.csv", summary or {}), ("ratios.csv", ratios or {})):
        write_csv(run / name, [{**row, **changes.get(row["access"], {})} for row in read_csv(run / name)])
    return read_results(run, lambda _: None)


def test_the_wasteful_way_does_not_win_and_is_named(tmp_path):
    found = answer_of(tmp_path / "run", {"lan-xrootd": {"amplification": "1.43", "mean_mbps": "900"}})
    assert "direct is the fastest" in found.sentence
    notes = " ".join(found.notes)
    assert "the storage sent more than was delivered over lan-xrootd 1.43" in notes
    assert "cache_mb = 30" in notes
    assert "By what the storage sent, the thesis’ measure, lan-xrootd would come first" in notes


def test_of_operations_and_of_what_is_written_nothing_is_read_in_vain_and_nobody_is_told_to_set_what_is_set(tmp_path):
    results = results_of(tmp_path / "run", {"lan-xrootd": {"amplification": "1.43"}})
    results.experiment["workloads"]["root"]["options"]["cache_mb"] = 30
    point = point_at(results, PANEL)
    (note, *_) = amplification_notes(results, point)
    assert note.endswith("a client that asks for larger pieces in their order.")
    operations = replace(results, experiment={**results.experiment, "measure": "operations"})
    written = replace(results, trials=[replace(trial, direction="received") for trial in results.trials])
    assert not list(amplification_notes(operations, point))
    assert not list(amplification_notes(written, point_at(written, PANEL)))


def test_headers_are_no_waste(tmp_path):
    assert not any("sent more" in note for note in answer_of(tmp_path / "run").notes)


@pytest.mark.parametrize(("ratio", "low", "high", "clear"), [(1.02, 0.9, 1.2, False), (1.9, 1.5, 2.4, True)])
def test_an_answer_that_only_suspect_trials_give_is_not_clear(tmp_path, ratio, low, high, clear):
    alone = {"valid_pairs": 2, "valid_ratio": ratio, "valid_low": low, "valid_high": high}
    found = answer_of(tmp_path / "run", ratios={"direct": alone})
    assert found.clear is clear
    assert ("rests on SUSPECT trials" in found.sentence) is not clear
    assert (f"against lan-xrootd {ratio}" in found.sentence) is not clear


def with_verdicts(access, rates):
    return [trial(access, n, mbps, verdict=verdict) for n, (mbps, verdict) in enumerate(rates)]


def test_the_valid_trials_alone_are_shown_beside_all_that_count():
    [row] = summary_rows(with_verdicts("direct", [(400.0, "VALID"), (404.0, "VALID"), (100.0, "SUSPECT")]))
    assert row["delivered_mbps"] == pytest.approx(904 / 3)
    assert row["delivered_valid_mbps"] == 402
    assert row["delivered_valid_low"] < 402 < row["delivered_valid_high"]
    [row] = summary_rows(with_verdicts("direct", [(400.0, "VALID"), (404.0, "VALID")]))
    assert row.by_valid.value is None  # nothing is said twice


def test_a_ratio_by_valid_pairs_alone_is_beside_that_of_all():
    rows = with_verdicts("direct", [(200.0, "VALID"), (200.0, "VALID"), (800.0, "SUSPECT")])
    rows += with_verdicts("wan", [(100.0, "VALID")] * 3)
    found = ratio_of(rows, "direct", "wan", "delivered_mbps")
    assert (found["pairs"], found["valid_pairs"]) == (3, 2)
    assert found["ratio"] > 3
    assert found["valid_ratio"] == pytest.approx(2)
    assert all(row.by_valid.value is None for row in ratio_rows(rows[:2] + rows[3:5]))


def test_a_point_whose_trials_are_all_suspect_is_doubted_whatever_links_it():
    """Direct and the WAN share no repetition, and are compared by what both have with the LAN."""
    rows = [trial("direct", n, 400.0 + n, verdict="SUSPECT") for n in (1, 2)]
    rows += [trial("wan", n, 100.0 + n, verdict="VALID") for n in (3, 4)]
    rows += [trial("lan", n, 200.0 + n, verdict="VALID") for n in (1, 2, 3, 4)]
    by_pair = {(row.level("access"), row.against): row for row in ratio_rows(rows) if row.metric == "delivered_mbps"}
    found = by_pair["direct", "wan"]
    assert (found.pairs, found.valid_pairs, found.by_valid.value) == (0, 0, None)
    assert found.is_doubted
    assert found.compared_by_valid.df == 0
    assert not by_pair["wan", "lan"].is_doubted
    assert by_pair["wan", "lan"].valid_df is None


def test_a_ratio_that_suspect_trials_alone_link_is_doubted():
    rows = [trial("direct", n, 400.0 + n, verdict="VALID") for n in (1, 2, 3)]
    rows += [trial("wan", n, 100.0 + n, verdict="VALID") for n in (4, 5, 6)]
    rows += [trial("lan", n, 200.0 + n, verdict="SUSPECT") for n in range(1, 7)]
    (found,) = (
        row
        for row in ratio_rows(rows)
        if (row.level("access"), row.against, row.metric) == ("direct", "wan", "delivered_mbps")
    )
    assert found.ratio.interval
    assert found.is_doubted
    assert found.by_valid.value is None
