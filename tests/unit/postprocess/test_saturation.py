"""A saturation point is a number with its interval, or it says why it is unknown; a prediction can be held."""

import dataclasses
import json

import numpy as np
import pytest

from tests.unit.report_page import BARE, Page, silent
from tests.unit.synthetic_report import read_csv, write_csv, write_run
from tierbench import names
from tierbench.postprocess.compare.points import points
from tierbench.postprocess.measures.saturation import FLAT, FULL, OPEN, RISING, Rung, next_rung, saturation
from tierbench.postprocess.plots import gallery
from tierbench.postprocess.plots.canvas import Missing, style
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.report.notes import saturation_notes
from tierbench.postprocess.report.write import comparison, run_report
from tierbench.postprocess.schema.columns import columns_of, read_rows
from tierbench.postprocess.schema.run_rows import SaturationRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.run_tables import saturation_rows, summary_rows

COMMON = {1: 1.0, 2: 1.03, 3: 0.98, 4: 0.99, 5: 1.01}  # what all trials of a repetition have alike


def ladder(curve, clients, repeats=3, scatter=0.015):
    random = np.random.default_rng(3)
    return [
        Rung(repeat, number, curve(number) * COMMON[repeat] * float(np.exp(random.normal(0, scatter))))
        for repeat in range(1, repeats + 1)
        for number in clients
    ]


def full_with_16(clients):
    return min(50.0 * clients, 800.0)


def test_the_saturation_point_and_the_plateau_have_intervals_that_hold_them_whatever_a_repetition_has_in_common():
    found = saturation(ladder(full_with_16, (4, 8, 16, 32, 64)))
    assert found.state == FULL
    for interval, truth in ((found.full_with, 16), (found.plateau, 800), (found.each, 50), (found.predicted, 800)):
        assert interval.low < truth < interval.high
    assert found.full_with.high / found.full_with.low < 1.3
    assert found.predicted_jobs == 128
    rungs = [dataclasses.replace(rung, rate=rung.rate * rung.repeat) for rung in ladder(full_with_16, (4, 8, 16, 32))]
    found = saturation(rungs)
    assert found.state == FULL
    assert found.full_with.low < 16 < found.full_with.high < 20


def test_no_point_begins_below_the_fewest_clients_and_a_ladder_that_does_not_bend_bounds_it_from_one_side():
    for first in (3.0, 3.5, 4.0, 4.5, 5.0, 6.0):
        found = saturation(ladder(lambda clients, first=first: min(50.0 * clients, 50.0 * first), (4, 8, 16, 32), 4))
        assert found.full_with.low is None or found.full_with.low >= 4
        assert (found.state == FULL) == (found.full_with.low is not None)
    never = saturation(ladder(full_with_16, (2, 4, 8, 12)))
    assert (never.state, never.full_with.high, never.plateau.high) == (RISING, None, None)
    assert 8 < never.full_with.low < 16
    at_once = saturation(ladder(full_with_16, (32, 64, 128)))
    assert (at_once.state, at_once.full_with.low) == (FLAT, None)
    assert at_once.plateau.low < 800 < at_once.plateau.high
    assert at_once.each.low is None or at_once.each.high is None


def falling(clients):
    return full_with_16(clients) * (1 if clients <= 16 else (16 / clients) ** 0.4)


def sawtooth(clients):
    return 50.0 * clients * (0.5 if clients in (8, 32) else 1)


@pytest.mark.parametrize(
    ("rungs", "why"),
    [
        (ladder(full_with_16, (4, 32)), "needs 3 job counts, this run has 2 with rates"),
        (ladder(full_with_16, (4, 16, 32), repeats=1), "a single repetition has no interval"),
        (ladder(falling, (4, 8, 16, 32, 64)), "beyond 16 jobs the rate falls again, with 64 jobs to 0.58"),
        (ladder(lambda jobs: 800 / jobs**0.2, (1, 2, 4, 8)), "beyond 1 job the rate falls again, with 8 jobs to"),
        (ladder(sawtooth, (4, 8, 16, 32, 64)), "no line that bends into a plateau fits: with 8 jobs the rate is "),
        ([], "needs 3 job counts, this run has 0 with rates"),
    ],
)
def test_what_cannot_be_told_says_why(rungs, why):
    found = saturation(rungs)
    assert found.state == OPEN
    assert why in found.why
    assert found.full_with == Interval()


@pytest.mark.parametrize(
    ("bend", "scatter", "least"), [(0.8, 0.02, "with 6.74 jobs"), (0.5, 0.2, "from the fewest jobs")]
)
def test_a_ladder_that_may_be_full_within_it_or_beyond_says_so_in_jobs_that_were_measured(bend, scatter, least):
    found = saturation(ladder(lambda jobs: 100 * jobs**bend, (1, 2, 4, 8), scatter=scatter))
    assert found.state == OPEN
    assert found.why.startswith(f"it may be full {least} or only beyond the ladder, with up to ")


def test_the_figure_says_why_no_ladder_was_fitted(tmp_path):
    results = read_results(run_of(tmp_path / "run", (4, 32)), silent)
    with style():
        missing = {each.title: each.why for each in gallery.pictures(results) if isinstance(each, Missing)}
    assert missing["Saturation point"] == results.saturations[0].why


@pytest.mark.parametrize(("clients", "later"), [((4, 8, 16), 32), ((32, 64, 96), 128), ((1, 3, 9), 27)])
def test_the_next_batch_is_the_ladders_next_step(clients, later):
    assert next_rung(clients) == later


@pytest.mark.parametrize("started", ["in-turn", "every 5 s"])
def test_clients_that_do_not_read_at_the_same_time_fill_nothing(tmp_path, started):
    """One alone gets as much as seven in turn: that says nothing of how many a method can take."""
    path = run_of(tmp_path / "run", (32, 64, 128))
    assert [row.state for row in read_results(path, silent).saturations] == [FLAT, FLAT]
    rows = [{**row, "started": started} for row in read_csv(path / names.TRIALS_CSV)]
    write_csv(path / names.TRIALS_CSV, rows)
    trials = read_results(path, silent).trials
    assert saturation_rows(trials, summary_rows(trials)) == []


def run_of(path, batches, factor=1.0, repeats=3):
    """A run whose jobs' rates are those of a method that is full with 16."""
    write_run(path, dataclasses.replace(BARE, batches=batches, repeats=repeats))
    rows = read_csv(path / names.TRIALS_CSV)
    for row in rows:
        scatter = {"1": 1.0, "2": 1.01, "3": 0.99}[row["repeat"]]
        row["delivered_mbps"] = str(round(factor * scatter * full_with_16(int(row["jobs"])), 3))
    write_csv(path / names.TRIALS_CSV, rows)
    trials = read_results(path, silent).trials
    summary = summary_rows(trials)
    (path / names.SCHEMA).write_text(json.dumps({}))
    found = saturation_rows(trials, summary)
    write_csv(path / names.SUMMARY_CSV, [as_csv(row) for row in summary])
    write_csv(path / names.SATURATION_CSV, [as_csv(row) for row in found])
    return path


def as_csv(row):
    return {column.name: "" if row[column.name] is None else row[column.name] for column in columns_of(type(row))}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("saturation") / "monday", (4, 8, 16, 32))


def test_tables_of_an_older_run_are_read_by_former_names_and_a_column_that_is_gone_is_no_axis(run, tmp_path):
    former = (run / names.SATURATION_CSV).read_text().replace("saturation_", "knee_")
    (tmp_path / "knee.csv").write_text(former)
    assert read_rows(SaturationRow, tmp_path) == read_rows(SaturationRow, run)
    rows = read_csv(run / names.SUMMARY_CSV)
    write_csv(
        tmp_path / names.SUMMARY_CSV, [{**row, "steady_peak_mbps": "304.1", "steady_peak_mbps_sd": "2"} for row in rows]
    )
    assert [row.levels for row in read_rows(SummaryRow, tmp_path)] == [row.levels for row in read_rows(SummaryRow, run)]


def test_a_row_and_the_page_say_where_it_is_full_and_what_is_predicted(run):
    results = read_results(run, silent)
    row = results.saturations[0]
    assert (row.state, row.jobs, row.batches, row.repeats, row.predicted_jobs) == (FULL, 32, 4, 3, 64)
    assert row.further.value == pytest.approx(0, abs=0.01)
    assert row.full_with.low < 16 < row.full_with.high
    [note] = [note for note in answer(results, results.panels[0]).notes if note.startswith("Saturation point")]
    assert "direct with 16" in note
    page = Page(run_report(run, None, silent).read_text(encoding="utf-8"))
    assert "figure-saturation.root" in page.ids
    assert "predicted Mb/s" in page.text


@pytest.mark.parametrize(
    ("factor", "repeats", "held", "failed"),
    [(1.0, 3, True, False), (0.5, 3, False, True), (0.5, 2, False, False)],  # of fewer repetitions it says nothing
)
def test_a_later_run_is_held_against_the_prediction(run, tmp_path, factor, repeats, held, failed):
    later = run_of(tmp_path / "tuesday", (32, 64), factor, repeats)
    text = Page(comparison([run, later], tmp_path / "page.html", silent).read_text(encoding="utf-8")).text
    predictions = text.partition("What a run predicted")[2].partition("What differs")[0]
    assert ("held" in predictions, "did not hold" in predictions) == (held, failed)


def test_a_ladder_of_operations_has_no_saturation_point_in_bytes(run):
    results = read_results(run, silent)
    of_operations = dataclasses.replace(results, experiment={**results.experiment, "measure": "operations"})
    noted = [
        [note for point in points(results) for note in saturation_notes(of, point)] for of in (results, of_operations)
    ]
    assert [bool(notes) for notes in noted] == [True, False]
