"""What flowed between any two times, from samples of counters, and a trial's numbers of known truth."""

import numpy as np
import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.postprocess.test_truth import both, moving
from tierbench.postprocess.records.increments import refresh_distance_s
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.write import trial_tables

MB = 1e6 / 8
MBPS = 400.0  # what a synthetic trial's storage sends


def sampled(folder, tx_bytes, period, phase):
    synthetic.write_host(folder, begin=-2 - phase * period, period=period, tx_bytes=tx_bytes)


def refreshed(total, every):
    """The counter of a driver that refreshes it so often."""
    return lambda time: total(time // every * every)


@pytest.mark.parametrize("samples", [10, 20, 50, 200])
@pytest.mark.parametrize("phase", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("edge", ["sharp", "soft", "beside a background", "none, as it goes on"])
def test_the_mean_has_no_bias_whatever_the_edges(folder, edge, phase, samples):
    total, truth = {
        "sharp": (synthetic.during(MBPS, 20), MBPS),
        "soft": (synthetic.ramps(MBPS, 4, 12, 4), MBPS * 0.8),
        "beside a background": (both(synthetic.during(MBPS, 20), synthetic.steady(9)), MBPS + 9),
        "none, as it goes on": (synthetic.steady(MBPS), MBPS),
    }[edge]
    sampled(folder, total, 20 / samples, phase)
    row = trial_tables(folder)
    assert row["mean_mbps"] == pytest.approx(truth, rel=1e-5)
    assert edge != "sharp" or row["all_active_mbps"] == pytest.approx(MBPS, rel=1e-3)  # which begins with the window
    assert row["peak_mbps"] == pytest.approx(MBPS + (9 if edge == "beside a background" else 0), rel=1e-5)


def test_a_counter_that_began_anew_outside_costs_no_edge(folder):
    total = synthetic.during(MBPS, 20)
    sampled(folder, lambda time: total(time) - (0 if time < 22 else 10**9), 1.0, 0.3)
    assert trial_tables(folder)["mean_mbps"] == pytest.approx(MBPS, rel=1e-5)


@pytest.mark.parametrize("phase", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_what_comes_late_and_unseen_is_within_the_trials_own_error(folder, phase):
    sampled(folder, both(synthetic.during(MBPS, 20), moving(MBPS / 4, 20, 20.3)), 1.0, phase)
    row = trial_tables(folder)
    assert abs(row["mean_mbps"] - MBPS) <= row["mean_error_mbps"] + 1e-6
    assert row["mean_error_mbps"] < 0.05 * MBPS
    sampled(folder, synthetic.during(MBPS, 20), 0.1, 0.5)  # with nothing unknown at its edges
    assert trial_tables(folder)["mean_error_mbps"] < 0.003 * MBPS


@pytest.mark.parametrize("every", [0.3, 0.5, 1.0])
def test_a_driver_that_refreshes_rarely_costs_neither_mean_nor_peak(folder, every):
    sampled(folder, refreshed(synthetic.during(MBPS, 20), every), 0.2, 0.4)
    row = trial_tables(folder)
    assert row["resolution_s"] == pytest.approx(every, rel=0.1)
    assert row["mean_mbps"] == pytest.approx(MBPS, rel=0.005)
    assert row["peak_mbps"] == pytest.approx(MBPS, rel=0.25 / every)  # by the sampler's tick more or less
    assert row["volatility_mbps"] < 0.4 * MBPS


def test_pauses_that_differ_or_in_which_tcp_rests_are_no_drivers_doing(folder):
    pauses = [1.0, 1.4, 3.0, 3.2, 5.0, 6.6, 9.0, 9.4, 12.0, 15.0]
    total = both(*(moving(MBPS, begin, begin + 0.2 + 0.3 * (number % 3)) for number, begin in enumerate(pauses)))
    sampled(folder, total, 0.2, 0.0)
    assert trial_tables(folder)["resolution_s"] == 0.2
    total = refreshed(synthetic.during(MBPS, 20), 1.0)
    for segments, expected in ((lambda time: total(time) // 1448, 0.2), (lambda time: round(100 * time) + 300, 1.0)):
        synthetic.write_host(folder, period=0.2, tx_bytes=total, tcp_out_segs=segments)
        assert trial_tables(folder)["resolution_s"] == pytest.approx(expected, rel=0.1)


def test_a_driver_may_refresh_one_direction_rarely_and_the_other_not(folder):
    total = refreshed(synthetic.during(MBPS, 20), 1.0)
    both_ways = {
        "tcp_out_segs": lambda time: round(100 * time) + 300,
        "rx_bytes": lambda time: round(1e4 * time) + 10**6,
    }
    synthetic.write_host(folder, period=0.2, tx_bytes=total, **both_ways)
    row = trial_tables(folder)
    assert row["resolution_s"] == pytest.approx(1.0, rel=0.1)
    assert row["peak_mbps"] == pytest.approx(MBPS, rel=0.25)


def test_frames_that_come_in_time_and_distances_of_which_no_two_are_alike_are_no_slow_drivers():
    times, frame = np.arange(0.0, 30.0, 0.2), np.arange(150) % 5 == 0
    assert refresh_distance_s(times, 0.2, frame, frame * 1500.0, None) is None
    assert refresh_distance_s(times, 0.2, frame, frame * 1e6, None) == pytest.approx(1.0)
    times = np.array([0.0, 1.0, 2.0, 11.0, 12.0, 21.0])  # between two that are the median's equals nothing lies
    sent = np.full(len(times), 1e6)
    assert refresh_distance_s(times, 0.1, np.full(len(times), True), sent, None) is None


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_server_with_hardly_a_sample_is_no_error(folder, count):
    synthetic.write_host(folder, times=[-1.0, 3.0][:count], tx_bytes=synthetic.during(MBPS, 20))
    synthetic.write_host(folder, "wn", "worker", times=[0.0], tx_bytes=synthetic.during(MBPS, 20))
    row = trial_tables(folder)
    assert (row["verdict"], row["bytes_server"], row["mean_error_mbps"]) == ("INVALID", None, None)


def test_the_numbers_of_a_trial_of_a_steady_rate_are_recovered(folder):
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == row["peak_mbps"] == pytest.approx(400, rel=1e-6)
    assert row["volatility_mbps"] == pytest.approx(0, abs=1e-3)
    assert row["bytes_server"] == pytest.approx(400 * MB * 20, rel=1e-6)
    assert row["closure"] == pytest.approx(0.02, abs=1e-6)  # what the wire carried beyond the data
    assert row["window_s"] == 20  # from go to the last end
    assert row["wall_time_s"] == pytest.approx(29.5, abs=0.001)  # in whatever zone the log is, which has milliseconds
    assert (row["natural_skew_ms"], row["start_skew_ms"]) == (3000, pytest.approx(3))


def test_volatility_is_the_standard_deviation_of_the_samples_rates(folder):
    rates = np.random.default_rng(1).uniform(100, 700, 26)
    totals = dict(zip(synthetic.ticks(-3, 22), np.cumsum(rates * MB).astype(int).tolist(), strict=True))
    synthetic.write_host(folder, times=list(totals), tx_bytes=totals.__getitem__)
    row = trial_row(read_trial(folder))
    assert row["volatility_mbps"] == pytest.approx(np.std(rates[4:24], ddof=1), rel=1e-5)
    assert row["volatility_5s_mbps"] == pytest.approx(np.std(rates[4:24].reshape(4, 5).mean(axis=1), ddof=1), rel=1e-5)


def test_a_stepped_wall_clock_does_not_move_the_samples(folder):
    before = trial_row(read_trial(folder))
    stepped = lambda time: synthetic.times(time + 1000 * (time > 3))["wall_ns"]  # noqa: E731 - as a counter is
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 20), wall_ns=stepped)
    assert trial_row(read_trial(folder)) == before


@pytest.mark.parametrize(("host", "role", "mbps"), [("oss2", "storage", 500), ("dgt", "gateway", 400)])
def test_storage_servers_are_added_up_and_other_hosts_are_not(folder, host, role, mbps):
    synthetic.write_host(folder, host, role, begin=-4.7, until=24.3, tx_bytes=synthetic.steady(100))
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == row["peak_mbps"] == pytest.approx(mbps, rel=1e-6)
    assert row["bytes_server"] == pytest.approx(mbps * MB * 20, rel=1e-6)


def test_without_a_gate_the_window_begins_with_the_first_client(tmp_path):
    folder = synthetic.write_trial(tmp_path, start={"kind": "natural", "every_s": 0.0})
    (folder / "go.json").unlink()
    synthetic.edit_clients(folder, "go", go_wall_ns=None)
    row = trial_row(read_trial(folder))
    assert (row["go_wall_ns"], row["started"], row["state"]) == (synthetic.GO_NS, "natural", "complete")


def test_where_the_access_points_clock_is_behind_the_time_before_the_first_client_is_none_of_the_window(folder):
    synthetic.write_clients(folder, begin_s=1, end_s=20, size=10**8)
    row = trial_row(read_trial(folder))
    assert (row["go_wall_ns"], row["window_s"]) == (synthetic.GO_NS + 10**9, 19)


def test_a_window_shorter_than_a_period_has_a_mean_and_no_volatility(tmp_path):
    folder = synthetic.write_trial(tmp_path, jobs=1)
    synthetic.write_client(folder / "clients/0.jsonl", begin_s=0, end_s=0.4, size=1000)
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == pytest.approx(400, rel=1e-6)
    assert (row["volatility_mbps"], row["volatility_5s_mbps"], row["peak_mbps"]) == (None, None, None)
