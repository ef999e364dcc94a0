"""Confidence intervals over repetitions: their true coverage, and what they are taken over."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tests.unit import synthetic_run as synthetic
from tierbench.postprocess import stats as ours
from tierbench.postprocess.schema.columns import row_of
from tierbench.postprocess.schema.rows import Fetches, TrialRow
from tierbench.postprocess.stats import ApartBlocks, Compared, Interval, blocks, changes, mean_interval, tukey
from tierbench.postprocess.tables.run_tables import ratio_rows, summary_rows
from tierbench.postprocess.tables.write import tables

# The totals of the thesis' Table 2-1: iperf from groups of ten worker nodes to the object storage server.
TABLE_2_1 = [
    8540, 8685, 8516, 8579, 8645, 8514, 8736, 8591,
    8579, 8629, 8671, 8684, 8658, 8588, 8623, 8632,
]  # fmt: skip
FAR = [0.0001, 0.005, 0.047, 0.060]
OWN_S = 0.0004


def trial(access, repeat, mbps, jobs=8, **changes):
    return row_of(TrialRow, {
        "configuration": f"{access}/root", "access": access, "workload": "root", "jobs": jobs, "repeat": repeat,
        "position": repeat, "state": "complete", "delivered_mbps": mbps, "window_s": 1000 / mbps, **changes,
    })  # fmt: skip


def trials_of(rates):
    """A trial for each rate, by access methods in the order of the repetitions."""
    return [trial(access, n, mbps) for access, values in rates.items() for n, mbps in enumerate(values)]


def test_the_thesis_table_2_1_is_reproduced_from_its_rows():
    [row] = summary_rows(trials_of({"iperf": TABLE_2_1}))
    assert (round(row["delivered_mbps"]), round(row["delivered_mbps_sd"])) == (8617, 63)
    assert row["delivered_mbps_low"] < 8617 < row["delivered_mbps_high"]
    assert max(TABLE_2_1) == 8736


def test_a_single_trial_has_a_mean_and_no_interval_and_without_verdicts_their_counts_are_not_known():
    [row] = summary_rows([trial("direct", 1, 400.0)])
    assert (row["delivered_mbps"], row["method"]) == (400, "")
    assert {row[f"delivered_mbps_{what}"] for what in ("sd", "low", "high")} == {None}
    assert {row["valid"], row["suspect"], row["invalid"]} == {None}


def test_equal_values_claim_no_more_than_trials_resolve():
    narrowest = [mean_interval([400.0] * n) for n in (2, 3, 10)]
    assert [round(found.high - 400, 2) for found in narrowest] == [3.59, 0.99, 0.29]
    assert mean_interval([0.0] * 3).interval is None
    rows = trials_of({"direct": [400.0] * 3, "wan": [200.0] * 3})
    [ratio] = [row for row in ratio_rows(rows) if (row.access, row.metric) == ("direct", "delivered_mbps")]
    assert (ratio.method, summary_rows(rows)[0].method) == ("resolution", "resolution")
    assert (ratio.ratio.low, ratio.ratio.high) == (pytest.approx(1.993, abs=0.001), pytest.approx(2.007, abs=0.001))
    [changed] = changes({("a", n): 400.0 for n in range(3)}, {("a", n): 200.0 for n in range(3)}).values()
    assert changed.ratio.low < 0.499


def test_a_stray_trial_is_named_and_left_out_and_what_trials_do_not_resolve_is_none():
    values = drawn(np.random.default_rng(2), 6, 3, scatter=0.02)
    values[4, 1] /= 2
    model, strays = blocks(values)
    assert strays == [(4, 1)]
    assert model.ratio(4, 0).ratio.value == pytest.approx(1, abs=0.06)
    values = {(point, repeat): 400.0 for point in "abcd" for repeat in range(4)}
    assert blocks({**values, ("a", 1): 400.01})[1] == []


@pytest.mark.parametrize("count", [2, 3, 9, 10, 25])
def test_intervals_are_those_of_scipy(count):
    values = np.random.default_rng(5).normal(400, 20, count)
    found = mean_interval(values.tolist())
    expected = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx(tuple(expected))


@pytest.mark.parametrize(("levels", "df", "together"), [(3, 1, 1), (4, 2, 50), (5, 7, 2.28), (16, 30, 9), (30, 1e4, 1)])
def test_tukeys_quantiles_are_those_of_scipy(levels, df, together):
    expected = stats.studentized_range.ppf(0.95 ** (1 / together), levels, min(df, 1000)) / 2**0.5
    assert tukey(levels, df, together) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("df", [1e-6, 0.01, 0.05, 0.3])
def test_with_hardly_a_degree_of_freedom_tukeys_quantile_is_no_less_than_that_of_one_pair(df):
    assert tukey(5, df) >= tukey(2, df) > tukey(2, 1)


def test_an_outlier_is_in_the_mean_and_no_rates_interval_goes_below_zero():
    [row] = summary_rows(trials_of({"direct": [400.0, 401.0, 399.0, 40.0]}))
    assert (row["delivered_mbps"], row["trials"], row["delivered_mbps_low"] > 0) == (310, 4, True)
    [row] = summary_rows(trials_of({"direct": [10.0, 400.0]}))
    assert row["delivered_mbps_low"] == 0


def test_invalid_trials_do_not_count_and_are_counted():
    verdicts = ["VALID", "VALID", "SUSPECT", "INVALID"]
    [row] = summary_rows(trial("direct", n, 400.0 - n, verdict=v) for n, v in enumerate(verdicts))
    assert (row["valid"], row["suspect"], row["invalid"]) == (2, 1, 1)
    assert (row["trials"], row["trials_left_out"]) == (3, 1)
    assert row["delivered_mbps"] == 399


def test_the_gain_is_over_the_next_smaller_batch_of_the_same_configuration():
    ladder = {32: (100.0, 110.0), 64: (200.0, 230.0), 96: (150.0, 160.0)}
    rows = [trial("direct", n, mbps, jobs) for jobs, rates in ladder.items() for n, mbps in enumerate(rates)]
    first, second, third = summary_rows(rows)
    assert first.gain.value is None
    assert (second["gain_mbps"], third["gain_mbps"]) == (110, -60)
    assert second["growth"] == pytest.approx((2 * 230 / 110) ** 0.5)
    assert second["gain_low"] < 110 < second["gain_high"]
    rows = summary_rows([trial("direct", 1, 100.0, jobs=4), trial("wan", 1, 200.0, jobs=8)])
    assert [row.gain.value for row in rows] == [None, None]


def test_what_drifts_drops_out_of_the_gain():
    """Of paired trials only the difference counts, whatever the hour does to both."""
    hours = [0.0, 150.0, 40.0, 90.0]
    rows = [trial("d", n, 300 + 100 * (jobs == 8) + hour, jobs) for jobs in (4, 8) for n, hour in enumerate(hours)]
    _, larger = summary_rows(rows)
    assert (larger["gain_low"], larger["gain_high"]) == (pytest.approx(100, abs=1), pytest.approx(100, abs=1))


def ratio_of(rows, access, against, metric="delivered_mbps"):
    [found] = [r for r in ratio_rows(rows) if (r["access"], r["against"], r["metric"]) == (access, against, metric)]
    return found


def test_ratios_are_of_trials_of_the_same_repeat_and_a_ratio_turned_round_is_its_inverse():
    rows = trials_of({"direct": (200.0, 100.0, 140.0), "wan": (100.0, 50.0, 70.0)})
    found = ratio_of(rows, "direct", "wan")
    assert (found["ratio"], found["pairs"]) == (pytest.approx(2), 3)
    assert (found["low"], found["high"]) == (pytest.approx(2, rel=0.004), pytest.approx(2, rel=0.004))
    rows = trials_of({"direct": (200.0, 180.0, 210.0), "wan": (100.0, 120.0, 90.0)})
    there, back = ratio_of(rows, "direct", "wan"), ratio_of(rows, "wan", "direct")
    assert back["ratio"] == pytest.approx(1 / there["ratio"])
    assert (back["low"], back["high"]) == (pytest.approx(1 / there["high"]), pytest.approx(1 / there["low"]))


def test_a_trial_without_a_counting_partner_is_in_no_ratio_and_what_neither_has_measured_has_no_ratio():
    rows = [trial("direct", n, 200.0 + n) for n in range(3)]
    rows += [trial("wan", 0, 100.0), trial("wan", 1, 100.0, verdict="INVALID"), trial("wan", 2, 100.0)]
    assert ratio_of(rows, "direct", "wan")["pairs"] == 2
    rows = [trial("direct", 1, 200.0), trial("wan", 1, 100.0)]
    assert {row["metric"] for row in ratio_rows(rows)} == {"delivered_mbps", "window_s"}


def test_a_latency_that_is_empty_for_being_too_long_leaves_no_mean_of_the_others_and_no_ratio():
    rows = trials_of({"direct": (200.0, 201.0, 199.0), "wan": (100.0, 101.0, 102.0)})
    rows = [dataclasses.replace(row, fetched=Fetches(fetches=90, latency_p99_s=1.0 + row.repeat / 9)) for row in rows]
    assert ratio_of(rows, "wan", "direct", "latency_p99_s")["pairs"] == 3
    rows[4] = dataclasses.replace(rows[4], fetched=Fetches(fetches=90, fetches_overdue=10))
    assert "latency_p99_s" not in {row["metric"] for row in ratio_rows(rows)}
    means = {row["access"]: row["latency_p99_s"] for row in summary_rows(rows)}
    assert (means["wan"], means["direct"]) == (None, pytest.approx(1.111, rel=0.001))


def drawn(chance, points, repeats, scatter=0.05, hours=0.1):
    """Trials of equal points, which share their hours."""
    shift = chance.normal(0, hours, repeats)
    return {
        (point, repeat): float(np.exp(shift[repeat] + chance.normal(0, scatter)))
        for point in range(points) for repeat in range(repeats)
    }  # fmt: skip


def width(model, point, against):
    """Of the interval of a ratio, as a logarithm."""
    ratio = model.ratio(point, against).ratio
    return math.log(ratio.high / ratio.low)


@pytest.mark.parametrize(("points", "repeats"), [(2, 3), (8, 3), (8, 2), (4, 5)])
def test_ratios_hold_the_truth_as_often_as_they_say(points, repeats):
    """With a trial missing as well: what is left is linked by the others."""
    chance = np.random.default_rng(13)
    held = []
    for _ in range(150):
        values = drawn(chance, points, repeats)
        if points > 2 and repeats > 2:
            del values[0, 0]
        model, _ = blocks(values)
        found = [model.ratio(one, other).ratio for one in range(points) for other in range(one)]
        held += [ratio.low <= 1 <= ratio.high for ratio in found]
    assert np.mean(held) == pytest.approx(0.955, abs=0.025)


@pytest.mark.parametrize(("scatters", "narrowed"), [((0.05, 0.05), 1.0), ((0.01, 0.2), 0.12)])
def test_a_workload_that_scatters_less_has_ratios_as_narrow_as_its_own(scatters, narrowed):
    chance, widths, held = np.random.default_rng(3), [], []
    for _ in range(60):
        values = {
            ((workload, point), repeat): np.exp(chance.normal(0, scatter))
            for workload, scatter in enumerate(scatters) for point in range(4) for repeat in range(3)
        }  # fmt: skip
        models = ApartBlocks(values, lambda point: point[0]), blocks(values)[0]
        for points in itertools.combinations([(0, point) for point in range(4)], 2):
            ratio = models[0].ratio(*points).ratio
            held.append(ratio.low <= 1 <= ratio.high)
            widths.append([width(model, *points) for model in models])
    assert np.divide(*np.median(widths, axis=0)) == pytest.approx(narrowed, abs=0.05)
    assert np.mean(held) > 0.92


def test_a_method_that_scatters_less_has_narrow_ratios_of_its_own_and_the_others_ones_across():
    """Those across methods go by the model of both, and no model uses a trial that another one leaves out."""
    chance, scatters = np.random.default_rng(6), (0.01, 0.2)
    values = {
        ((method, jobs), repeat): float(np.exp(chance.normal(0, scatter)))
        for method, scatter in enumerate(scatters) for jobs in range(4) for repeat in range(5)
    }  # fmt: skip
    values[(0, 0), 0] *= 1.2  # far off in its method, and not beside the other one
    together = ApartBlocks(values, lambda _: None)
    apart = ApartBlocks(values, lambda _: None, lambda point: point[0])
    assert (together.strays, apart.strays) == ([], [((0, 0), 0)])

    for jobs in range(1, 4):
        assert width(apart, (0, 0), (0, jobs)) < 0.3 * width(together, (0, 0), (0, jobs))
        assert width(apart, (0, jobs), (1, jobs)) == pytest.approx(width(together, (0, jobs), (1, jobs)), rel=0.3)
    without = ApartBlocks({key: value for key, value in values.items() if key != ((0, 0), 0)}, lambda _: None)
    assert apart.ratio((0, 0), (1, 0)) == without.ratio((0, 0), (1, 0))


@pytest.mark.parametrize("wide", [1, 3])
def test_points_that_scatter_widely_widen_no_other_ratio(wide):
    chance = np.random.default_rng(4)
    scatter = np.array([*[0.8] * wide, *[0.01] * (8 - wide)])
    values = {(point, n): float(np.exp(chance.normal(0, scatter[point]))) for point in range(8) for n in range(5)}
    del values[5, 0]
    apart, together = ApartBlocks(values, lambda _: None), blocks(values)[0]
    assert math.log(together.ratio(6, 7).ratio.high) > 0.1 > math.log(apart.ratio(6, 7).ratio.high)
    assert 3.9 < apart.ratio(0, 7).df < 4 * wide + 0.1
    assert apart.ratio(0, 7).ratio.high > 1.5


def test_eight_points_of_three_trials_have_narrower_ratios_than_pairs():
    chance, widths = np.random.default_rng(7), []
    for _ in range(60):
        values = drawn(chance, 8, 3)
        logs = np.array([np.log(values[0, n] / values[1, n]) for n in range(3)])
        widths.append((width(blocks(values)[0], 0, 1), 2 * 4.303 * logs.std(ddof=1) / 3**0.5))
    ours, pairs = np.median(widths, axis=0)
    assert ours / pairs < 0.75


@pytest.mark.parametrize("points", [4, 12])
def test_of_equal_points_the_fastest_is_seldom_ahead_of_any(points):
    chance, wrong = np.random.default_rng(5), 0
    for _ in range(100):
        model, _ = blocks(drawn(chance, points, 3))
        order = sorted(range(points), key=lambda point: model.means[point])
        found = model.ratio(order[-1], order[0])
        wrong += found.at(lambda df: tukey(points, df)).low > 1
    assert wrong <= 10


def test_an_interval_of_next_to_no_degrees_of_freedom_has_ends_at_any_quantile():
    """Of two places in forty the ratio of one was 400 times another's."""
    wide = Compared(Interval(0.5, 0.0001, 2500.0), 1.0).at(lambda _: 4000.0)
    assert 0 < wide.low < wide.value < wide.high < math.inf


@pytest.mark.parametrize("scatters", [(0.01, 0.01, 0.1), (0.005,) * 5 + (0.1,)])
def test_of_equal_points_that_scatter_unlike_seldom_is_any_ahead(scatters):
    """By the scatter of the calm the noisy one is ahead or behind in one run of eight, or of five."""
    chance, wrong = np.random.default_rng(5), 0
    for _ in range(100):
        rates = np.exp(chance.normal(0, np.array(scatters)[:, None], (len(scatters), 3)))
        model = ApartBlocks({at: float(rate) for at, rate in np.ndenumerate(rates)}, lambda _: None)
        found = [model.ratio(*pair) for pair in itertools.combinations(range(len(scatters)), 2)]
        wrong += any(each.at(lambda df: tukey(len(scatters), df)).leaves_out(1) for each in found)
    assert wrong <= 9


def test_a_point_with_a_stray_trial_has_a_scatter_of_its_own():
    """Its other trials may be near each other by chance, as a noisy point's of which the farthest is gone."""
    values = {at: rate * 2 ** at[0] for at, rate in drawn(np.random.default_rng(2), 6, 4, scatter=0.02).items()}
    calm = ApartBlocks(values, lambda _: None)
    values[4, 1] /= 2
    model = ApartBlocks(values, lambda _: None)
    assert (calm.strays, model.strays) == ([], [(4, 1)])
    assert model.ratio(4, 0).ratio.value == pytest.approx(16, rel=0.06)
    assert model.ratio(4, 0).df < 2 < 5 < model.ratio(1, 0).df


def test_a_stray_trial_whose_leaving_out_decides_stays_in():
    rates = {
        "direct": (135.0, 48.0, 138.0, 137.0),
        "lan": (130.0, 131.0, 130.0, 130.0),
        "wan": (65.0, 66.0, 65.0, 66.0),
    }
    rows = trials_of(rates)
    undecided, far = ratio_of(rows, "direct", "lan"), ratio_of(rows, "direct", "wan")
    assert undecided["low"] < 0.8 < undecided["high"]
    assert (far["ratio"], far["low"] > 1.9) == (pytest.approx(2.09, rel=0.01), True)  # with it and without


def test_a_ratio_of_next_to_no_degrees_of_freedom_has_no_interval():
    """A calm point whose repetitions are else a noisy point's."""
    chance = np.random.default_rng(283)
    logs = chance.normal(0, 1, (4, 4)) * np.array([[0.002], [0.002], [0.002], [0.1]])
    there = chance.random((4, 4)) >= 0.15
    rows = [trial(f"a{n}", r, 100 * math.exp(logs[n, r])) for r in range(4) for n in range(4) if there[n, r]]
    assert any(row["ratio"] and row["low"] is None for row in ratio_rows(rows))


@pytest.mark.parametrize("points", [4, 12, 24])
def test_of_runs_in_which_nothing_changed_few_have_a_change(points):
    chance, wrong = np.random.default_rng(9), 0
    for _ in range(100):
        found = changes(drawn(chance, points, 3), drawn(chance, points, 3))
        wrong += any(not ratio.low <= 1 <= ratio.high for ratio in ours.simultaneous(found).values())
    assert wrong <= 10


def test_a_trial_that_was_not_needed_has_no_row(tmp_path):
    for repeat in (1, 2):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
    for path in folder.rglob("*.*"):
        if path.is_file() and path.name != "trial.json":
            path.unlink()
    (folder / "outcome.json").write_text('{"format": 1, "state": "skipped", "reasons": []}')
    assert [row["repeat"] for row in tables(tmp_path)] == [1]
    assert synthetic.rows(tmp_path / "summary.csv")[0]["trials_left_out"] == "0"


def operations(trips, noise=0.0):
    """What a known sequence takes: so many round trips for each operation, and the time that it takes itself."""
    chance = np.random.default_rng(1)
    return [(far, (OWN_S + trips * far) * (1 + chance.normal(0, noise))) for far in FAR for _ in range(2)]


@pytest.mark.parametrize("trips", [0, 1, 2, 7.5])
def test_a_known_sequence_is_found_again(trips):
    found = ours.round_trips(operations(trips))
    assert found.each.value == pytest.approx(trips, abs=1e-9)
    assert found.beside_s == pytest.approx(OWN_S)


def test_the_interval_holds_it_where_trials_scatter():
    found = ours.round_trips(operations(2, noise=0.05)).each
    assert found.low < 2 < found.high
    assert found.high - found.low < 0.5


@pytest.mark.parametrize("trials", [[], operations(2)[:1], [(0.005, 0.01)] * 4])
def test_one_distance_says_nothing(trials):
    assert ours.round_trips(trials) is None


def test_a_ratio_of_a_thousandth_keeps_its_figures_in_the_table(tmp_path):
    """Read back with four decimals, 0.0008 to a baseline is 1250 times as fast, or 1429, where 1286 were measured."""
    for repeat in (1, 2, 3):
        for place, (access, mbps) in enumerate({"direct": 900.0, "slow": 0.7}.items()):
            synthetic.write_trial(tmp_path, mbps=mbps * (1 + repeat / 100), repeat=repeat, index=place, access=access)
    tables(tmp_path)
    ratios = {
        row["against"]: float(row["ratio"]) for row in synthetic.rows(tmp_path / "ratios.csv")
        if (row["factor"], row["metric"]) == ("access", "delivered_mbps")
    }  # fmt: skip
    assert ratios["direct"] == pytest.approx(1 / ratios["slow"], rel=1e-3)
