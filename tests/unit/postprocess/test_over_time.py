"""A trial over time: kept by its tables in few steps, of which no byte is lost, and drawn from there alone."""

import re

import numpy as np
import pytest

from tests.unit.synthetic_report import Shape, write_run
from tierbench import names
from tierbench.postprocess.measures.over_time import OverTime, TimeSeries, read_over_time
from tierbench.postprocess.report.trials import spark
from tierbench.postprocess.report.write import run_report
from tierbench.postprocess.tables.write import trial_tables

SMALL = Shape(rates={"direct": 400.0}, batches=(4,), repeats=2)


def megabits(rate):
    return float((rate.values * np.diff(rate.edges)).sum())


@pytest.fixture
def whole(folder, tmp_path):
    """A synthetic trial over time, as its tables leave it."""
    return read_over_time(tmp_path, trial_tables(folder).trial_id)


def test_what_is_kept_is_what_the_storage_sent(whole):
    assert megabits(whole.storage) == pytest.approx(400 * 20, rel=1e-6)
    assert whole.storage.edges[0] <= -1
    assert whole.storage.edges[-1] >= 21


@pytest.mark.parametrize("steps", [1, 4, 7, 300])
def test_in_fewer_steps_the_same_has_moved_in_the_same_time(whole, steps):
    few = whole.thinned(steps).storage
    assert len(few.values) <= steps
    assert (few.edges[0], few.edges[-1]) == (whole.storage.edges[0], whole.storage.edges[-1])
    assert megabits(few) == pytest.approx(megabits(whole.storage))


def test_a_step_with_an_unknown_part_is_unknown():
    few = TimeSeries(np.arange(5.0), np.array([1.0, np.nan, 2.0, 4.0])).thinned(2)
    assert np.isnan(few.values[0])
    assert few.values[1] == 3


def test_a_chart_tells_a_level_once():
    rate = TimeSeries(np.arange(7.0), np.array([0, 0, 5, 5, np.nan, 5.0]))
    (path,) = re.findall(r' d="([^"]*)"', str(spark(rate, 5.0, "--ink")))
    assert path == "M0 25H44V1H88M110 1H132"


@pytest.mark.parametrize("content", ["", "[]", '{"hosts": [{"host": "oss"}], "taken_in": null, "further_hosts": 0}'])
def test_a_damaged_file_tells_nothing_and_breaks_nothing(folder, tmp_path, content):
    (folder / names.OVER_TIME).write_text(content)
    assert read_over_time(tmp_path, folder.name) == OverTime()


def test_a_report_reads_no_samples_but_their_headers(tmp_path):
    run = write_run(tmp_path / "run", SMALL)
    before = run_report(run, None, print).read_text(encoding="utf-8")
    for path in run.glob(f"{names.TRIALS}/*/{names.SAMPLES}/*.samples"):
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert run_report(run, None, print).read_text(encoding="utf-8") == before
    assert before.count('class="chart"') == SMALL.repeats
