"""The metrics of trials with known truth, and of several trials together."""

import numpy as np
import pytest

from tests.unit import synthetic_run as synthetic
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.run_tables import summary_rows

MB = 1e6 / 8


def resample(folder, times, counter, **changes):
    synthetic.write_samples(folder / f"samples/{synthetic.OSS}.samples", times, counter, **changes)
    return trial_row(read_trial(folder))


def test_the_numbers_of_a_trial_of_a_steady_rate_are_recovered(folder):
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == row["peak_mbps"] == pytest.approx(400, rel=1e-6)
    assert row["volatility_mbps"] == pytest.approx(0, abs=1e-3)
    assert row["bytes_server"] == pytest.approx(400 * MB * 20, rel=1e-6)
    assert row["closure"] == pytest.approx(0.02, abs=1e-6)  # what the wire carried beyond the data
    assert row["window_s"] == 20  # from go to the last end
    assert row["wall_time_s"] == pytest.approx(29.5, abs=0.001)  # in whatever zone the log is, which has milliseconds
    assert (row["natural_skew_ms"], row["start_skew_ms"]) == (3000, pytest.approx(3))


@pytest.mark.parametrize("period", [0.1, 1.0])
def test_the_mean_over_ramps_is_recovered(folder, period):
    times = synthetic.ticks(-2.35, 22.65, period)
    row = resample(folder, times, synthetic.ramps(800, up_s=6, level_s=8, down_s=6), period_s=period)
    assert row["mean_mbps"] == pytest.approx(800 * 14 / 20, rel=0.005)
    assert row["peak_mbps"] == pytest.approx(800, rel=1e-6)


def test_volatility_is_the_standard_deviation_of_the_samples_rates(folder):
    rates = np.random.default_rng(1).uniform(100, 700, 26)
    totals = dict(zip(synthetic.ticks(-3, 22), np.cumsum(rates * MB).astype(int).tolist(), strict=True))
    row = resample(folder, list(totals), totals.__getitem__)
    assert row["volatility_mbps"] == pytest.approx(np.std(rates[4:24], ddof=1), rel=1e-5)
    assert row["volatility_5s_mbps"] == pytest.approx(np.std(rates[4:24].reshape(4, 5).mean(axis=1), ddof=1), rel=1e-5)


def test_bytes_are_whole_across_gaps_and_wraps(folder):
    times = [time for time in synthetic.ticks(-2.3, 22.7) if not 5 < time < 9]
    row = resample(folder, times, synthetic.steady(400))
    assert row["bytes_server"] == pytest.approx(400 * MB * 20, rel=1e-6)
    assert (row["gaps"], row["longest_gap_s"]) == (1, pytest.approx(5))
    assert row["state"] == "complete"
    steady = synthetic.steady(8000)
    row = resample(folder, synthetic.ticks(-2.3, 22.7), lambda time: steady(time) % 2**32)
    assert row["mean_mbps"] == pytest.approx(8000, rel=1e-6)
    assert row["wraps"] == 6


def test_a_reset_leaves_the_mean_and_takes_the_bytes(folder):
    steady = synthetic.steady(400)
    row = resample(folder, synthetic.ticks(-2.3, 22.7), lambda time: steady(time) - (steady(10) if time > 10 else 0))
    assert row["mean_mbps"] == pytest.approx(400, rel=1e-6)
    assert (row["bytes_server"], row["closure"], row["resets"]) == (None, None, 1)
    assert "not known over 1.0 s" in row["reasons"]


def test_a_stepped_wall_clock_does_not_move_the_samples(folder):
    path = folder / f"samples/{synthetic.OSS}.samples"
    before = trial_row(read_trial(folder))
    lines = path.read_bytes().splitlines(keepends=True)
    stepped = []
    for time in synthetic.ticks(-2, 23):
        wall_ns = synthetic.GO_NS + round(time * 1e9) + (10**12 if time > 3 else 0)
        stepped.append(synthetic.record(time, tx_bytes=synthetic.during(400, 20)(time), wall_ns=wall_ns))
    path.write_bytes(b"".join([lines[0], *stepped, lines[-1]]))
    assert trial_row(read_trial(folder)) == before


@pytest.mark.parametrize(("host", "role", "mbps"), [("oss2", "storage", 500), ("dgt", "gateway", 400)])
def test_storage_servers_are_added_up_and_other_hosts_are_not(folder, host, role, mbps):
    times = synthetic.ticks(-4.7, 24.3)
    synthetic.write_samples(folder / f"samples/{host}.samples", times, synthetic.steady(100), host=host, role=role)
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == row["peak_mbps"] == pytest.approx(mbps, rel=1e-6)
    assert row["bytes_server"] == pytest.approx(mbps * MB * 20, rel=1e-6)


def test_without_a_gate_the_window_begins_with_the_first_client(tmp_path):
    folder = synthetic.write_trial(tmp_path, start={"kind": "natural", "every_s": 0.0})
    (folder / "go.json").unlink()
    synthetic.edit_clients(folder, "go", go_wall_ns=None)
    row = trial_row(read_trial(folder))
    assert (row["go_wall_ns"], row["started"], row["state"]) == (synthetic.GO_NS, "natural", "complete")


def test_a_window_shorter_than_a_period_has_a_mean_and_no_volatility(tmp_path):
    folder = synthetic.write_trial(tmp_path, jobs=1)
    synthetic.write_client(folder / "clients/0.jsonl", begin_s=0, end_s=0.4, size=1000)
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == pytest.approx(400, rel=1e-6)
    assert (row["volatility_mbps"], row["volatility_5s_mbps"], row["peak_mbps"]) == (None, None, None)


def test_the_summary_is_over_the_means_of_complete_trials(tmp_path):
    rates = [390.0, 400.0, 425.0]
    rows = [trial_row(read_trial(synthetic.write_trial(tmp_path, mbps=r, repeat=n))) for n, r in enumerate(rates)]
    lost = synthetic.write_trial(tmp_path, mbps=10, repeat=9)
    (lost / "clients/0.jsonl").unlink()
    [summary] = summary_rows([*rows, trial_row(read_trial(lost))])
    assert summary["mean_mbps"] == pytest.approx(405, rel=1e-6)
    assert summary["mean_mbps_sd"] == pytest.approx(np.std(rates, ddof=1), rel=1e-5)
    assert (summary["trials"], summary["trials_left_out"]) == (3, 1)
