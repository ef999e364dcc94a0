"""What a file costs: the difference of two levels with its interval, and the report's note in round trips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.synthetic_report import Shape, write_run
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.tables.load_run import Results, read_results
from tierbench.postprocess.tables.run_tables import ratio_rows, summary_rows

SHAPE = Shape(
    rates={"gridftp": 100.0}, batches=(1,), axes={"session": {"one": 1.0, "each": 0.1}},
    report={"lines": "session", "x": "access"}, samples=False,
)  # fmt: skip
SECONDS = {"one": (0.140, 0.150, 0.160), "each": (1.140, 1.140, 1.170)}  # by repetition


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Three repetitions of both, with the time that a file took."""
    read = read_results(write_run(tmp_path / "run", SHAPE), lambda _: None)
    trials = [
        replace(trial, job_files=36, fetch_s=seconds, round_trips_per_fetch=seconds / 0.05)
        for trial in read.trials
        for seconds in [SECONDS[str(trial.levels["session"])][trial.repeat - 1]]
    ]
    axes = [read.factors["session"]]
    return replace(read, trials=trials, summary=summary_rows(trials, axes), ratios=ratio_rows(trials, axes))


def test_a_files_time_differs_by_the_mean_over_pairs(results: Results) -> None:
    (row,) = (row for row in results.ratios if row.metric == "fetch_s" and row.against == "one")
    assert row.more.value == pytest.approx(1.0)  # of 1.000, 0.990 and 1.010
    assert row.more.interval == pytest.approx((1 - 0.0248, 1 + 0.0248), abs=1e-3)  # t of two degrees of freedom


def test_the_report_says_it_in_round_trips_and_by_how_much_more(results: Results) -> None:
    (note,) = (note for note in answer(results, results.panels[0]).notes if note.startswith("The time of a file"))
    said = note.replace("\N{NO-BREAK SPACE}", " ")
    assert "session=one 150 ms or 3.00 round trips; session=each 1150 ms or 23.0 round trips" in said
    assert "1000 ms (95 % interval 975 ms to 1025 ms) more" in said


def test_of_trials_without_lists_of_files_it_says_nothing(results: Results) -> None:
    single = replace(results, trials=[replace(trial, job_files=1) for trial in results.trials])
    assert not [note for note in answer(single, single.panels[0]).notes if note.startswith("The time of a file")]
