"""The steady-state slice: known edges are found, and where there is no steady state none is."""

import numpy as np
import pytest

from tests.unit import synthetic_run as synthetic
from tierbench.postprocess.measures.delivered import delivered
from tierbench.postprocess.measures.steady import slices, steady
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row

LEVEL = 800.0


def trapezium(up, level, down):
    """The rate at each time: a ramp up from 0, a level, a ramp down."""

    def rate(time):
        return LEVEL * np.clip(np.minimum(time / up, (up + level + down - time) / down), 0, 1)

    return rate


def staircase(clients, up, level, down):
    """As when clients begin, and end, one after the other."""

    def rate(time):
        rising = np.ceil(np.clip(time / up, 0, 1) * clients)
        falling = np.ceil(np.clip((up + level + down - time) / down, 0, 1) * clients)
        return LEVEL * np.minimum(rising, falling) / clients

    return rate


def sampled(rate, length, period, noise=0.0, phase=0.3, seed=1):
    """What a sampler makes of a rate: its mean over each interval, with noise."""
    times = np.arange(phase * period, length, period)
    inside = np.linspace(0, 1, 51)[None, :]
    rates = rate(times[:-1, None] + period * inside).mean(axis=1)
    return times, rates * (1 + noise * np.random.default_rng(seed).standard_normal(len(rates)))


@pytest.mark.parametrize("period", [0.2, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize(("up", "level", "down"), [(6, 30, 2), (2, 20, 8), (10, 20, 10), (1, 25, 4)])
def test_known_edges_are_found_within_two_periods(period, noise, up, level, down):
    assert_slice(steady(*sampled(trapezium(up, level, down), up + level + down, period, noise)), up, up + level, period)


def assert_slice(found, begin_s, end_s, period, rel=0.02):
    assert (found.begin_s, found.end_s) == pytest.approx((begin_s, end_s), abs=2 * period)
    assert found.mean_mbps == pytest.approx(LEVEL, rel=rel)


@pytest.mark.parametrize(
    ("up", "level", "down", "period", "noise"),
    [
        pytest.param(0.6, 2.0, 0.4, 0.2, 0.02, id="a trial of three seconds"),
        pytest.param(60, 3500, 40, 0.4, 0.01, id="an hour of fast samples"),
    ],
)
def test_a_trial_may_be_short_or_long(up, level, down, period, noise):
    assert_slice(steady(*sampled(trapezium(up, level, down), up + level + down, period, noise)), up, up + level, period)


def test_noise_moves_no_edge_and_unknown_rates_are_passed_over():
    found = steady(*sampled(trapezium(6, 60, 6), 72, 0.1, noise=0.1))
    assert_slice(found, 6, 66, period=0.5, rel=0.01)
    times, rates = sampled(trapezium(6, 30, 2), 38, 0.5)
    rates[30:36] = np.nan
    assert_slice(steady(times, rates), 6, 36, period=0.5, rel=0.005)


def test_without_ramps_nothing_is_cut_and_an_idle_beginning_is():
    times, rates = sampled(lambda time: np.full_like(time, LEVEL), 20, 0.2, noise=0.1)
    found = steady(times, rates)
    assert (found.begin_s, found.end_s) == (times[0], times[-1])
    found = steady(*sampled(lambda time: np.where(time < 5, 0, LEVEL), 25, 0.5))
    assert found.begin_s == pytest.approx(5, abs=1)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_staircase_of_clients_is_cut(noise):
    assert_slice(steady(*sampled(staircase(8, 4, 30, 8), 42, 0.5, noise)), 5, 33, period=1, rel=0.03)


def test_a_gap_weighs_as_much_as_it_lasts():
    times = np.concatenate([np.arange(0, 10), np.arange(14, 30)]).astype(float)
    rates = np.where(np.diff(times) > 1, 500.0, 1000.0)
    assert steady(times, rates).mean_mbps == pytest.approx((5 * 500 + 24 * 1000) / 29)


@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(trapezium(10, 1e-9, 10), id="all ramp"),
        pytest.param(lambda time: LEVEL * time / 20, id="ever rising"),
        pytest.param(np.zeros_like, id="nothing sent"),
        pytest.param(lambda time: np.where((time > 8) & (time < 10), LEVEL, 0), id="a short burst"),
    ],
)
def test_where_nothing_is_steady_none_is_found(rate):
    assert steady(*sampled(rate, 20, 0.2, noise=0.02)) is None


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_too_few_samples_have_no_steady_state(count):
    times = np.arange(count + 1.0)
    assert steady(times, np.full(count, LEVEL)) is None
    assert steady(np.empty(0), np.empty(0)) is None
    assert steady(np.arange(31.0), np.full(30, np.nan)) is None


@pytest.mark.parametrize("background", [0.0, 50.0])
@pytest.mark.parametrize("mishap", ["none", "gap", "wrap"])
def test_the_truth_is_recovered_from_counters_with_ramps_gaps_wraps_and_background(folder, mishap, background):
    """What flows beside the clients is in the truth: the interface sends it."""
    ramps, steadily = synthetic.ramps(8000, up_s=4, level_s=12, down_s=4), synthetic.steady(background)
    times = [time for time in synthetic.ticks(-2.3, 22.7, 0.2) if mishap != "gap" or not 9 < time < 11]
    wrap = 2**32 if mishap == "wrap" else 2**63
    synthetic.write_host(folder, period=0.2, times=times, tx_bytes=lambda time: (ramps(time) + steadily(time)) % wrap)
    row = trial_row(read_trial(folder))
    assert row["mean_mbps"] == pytest.approx(8000 * 16 / 20 + background, rel=0.005)
    assert (row["steady_begin_s"], row["steady_end_s"]) == pytest.approx((4, 16), abs=0.2)
    assert row["steady_mbps"] == pytest.approx(8000 + background, rel=0.005)
    assert row["bytes_server"] == pytest.approx((8000 * 16 + background * 20) * 1e6 / 8, rel=0.005)
    gaps = (1, 2.2) if mishap == "gap" else (0, 0.2)
    assert (row["gaps"], row["longest_gap_s"]) == pytest.approx(gaps)
    assert (row["wraps"], row["state"]) == (4 if mishap == "wrap" else 0, "complete")


def test_what_no_link_can_carry_is_no_steady_state(folder):
    """It has not reached the clients: a server on the way has read ahead."""
    synthetic.write_host(folder, begin=-2.3, until=22.7, period=0.2, tx_bytes=synthetic.ramps(800, 4, 12, 4))
    data = read_trial(folder)
    steady_mbps = slices(data, delivered(data)).steady_mbps
    assert slices(data, delivered(data), ceiling_mbps=steady_mbps).steady_mbps == steady_mbps
    assert slices(data, delivered(data), ceiling_mbps=steady_mbps / 1.2).steady_mbps is None


def test_all_clients_are_active_from_the_last_begin_to_the_first_end_if_they_have_met(folder):
    row = trial_row(read_trial(folder))
    assert row["all_active_s"] == pytest.approx(17 - 0.003)
    assert row["all_active_share"] == pytest.approx((17 - 0.003) / 20)
    assert row["all_active_mbps"] == pytest.approx(400, rel=1e-6)
    synthetic.write_client(folder / "clients/3.jsonl", begin_s=19, end_s=20, size=1000)
    row = trial_row(read_trial(folder))
    assert (row["all_active_s"], row["all_active_share"], row["all_active_mbps"]) == (0, 0, None)
    (folder / "clients/3.jsonl").unlink()
    assert trial_row(read_trial(folder)).slices.all_active_s is None


def test_the_rate_while_all_were_active_fluctuates_as_single_samples_do(folder):
    """200 and 600 Mb/s by turns."""

    def sent(time):
        return round(1e9 + 50e6 * time + 5e6 * (round((time + 2.3) / 0.2) % 2))

    synthetic.write_host(folder, begin=-2.3, until=22.7, period=0.2, tx_bytes=sent)
    row = trial_row(read_trial(folder))
    assert row["all_active_volatility_pct"] == pytest.approx(50, rel=0.05)


@pytest.mark.parametrize(("end_s", "known"), [(20, True), (6, True), (4.5, False)])
def test_of_a_short_time_in_which_all_were_active_nothing_is_said(folder, end_s, known):
    synthetic.write_client(folder / "clients/3.jsonl", begin_s=0.001, end_s=end_s, size=1000)
    row = trial_row(read_trial(folder))
    assert row["all_active_s"] > 0
    assert (row["all_active_mbps"] is not None) is known


def test_whatever_the_rates_the_answer_is_sound_or_none():
    rng = np.random.default_rng(8)
    for _ in range(500):
        times = np.cumsum(rng.choice([0.2, 0.2, 0.05, 1, 1e-7], rng.integers(1, 60)))
        rates = np.abs(rng.standard_normal(len(times) - 1)) * rng.choice([0, 1, 1e4])
        rates[rng.random(len(rates)) < rng.choice([0, 0.3])] = np.nan
        found = steady(times, rates)
        if found is not None:
            assert times[0] <= found.begin_s < found.end_s <= times[-1]
            assert 0 < found.mean_mbps < np.inf
