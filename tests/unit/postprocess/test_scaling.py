"""How a rate scales along a factor is a number with its interval, and what is extrapolated says so everywhere."""

import dataclasses
import math
import re

import pytest

from tests.unit.postprocess.test_papers import BASE
from tests.unit.postprocess.test_uncertainty import trial
from tests.unit.report_page import Page, silent
from tests.unit.synthetic_report import Shape, read_csv, write_csv, write_run
from tests.unit.synthetic_run import edit_json
from tierbench.dags.levels import Factor, Scaling, scaling_problems
from tierbench.postprocess.plots.gallery import plot_of
from tierbench.postprocess.plots.ladder import scaling_plot
from tierbench.postprocess.report.notes import scaling_of
from tierbench.postprocess.report.page_tables import scaling_table
from tierbench.postprocess.report.papers import papers_table
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, MEASURED
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.run_tables import ratio_rows, scaling_rows, summary_rows

AXES = (Factor("dataset", ("medium", "large")),)
ASKED = Scaling(along="jobs", by={"dataset": "medium"})
SCATTER = {1: 1.0, 2: 1.02, 3: 0.98}


def copies(dataset, jobs, mbps, repeat, verdict="VALID"):
    about = {"workload": "copy", "configuration": f"nics/copy dataset={dataset}", "dataset": dataset}
    return trial("nics", repeat, mbps * SCATTER[repeat], jobs, verdict=verdict, **about)


@pytest.fixture
def trials():
    """Four interfaces bring 3.32 times one of medium files, drawing lots for each repeat; large ones are not tried."""
    rates = {("medium", 1): 50.0, ("medium", 2): 95.0, ("medium", 4): 166.0, ("large", 1): 80.0}
    tilted = {2: 1.05, 3: 0.97}
    return [
        copies(dataset, jobs, mbps * (tilted.get(repeat, 1.0) if jobs == 4 else 1.0), repeat)
        for (dataset, jobs), mbps in rates.items() for repeat in SCATTER
    ]  # fmt: skip


@pytest.fixture
def rows(trials):
    return scaling_rows(ASKED, summary_rows(trials, AXES), ratio_rows(trials, AXES))


def at(rows, dataset, jobs):
    (row,) = [row for row in rows if (row.levels["dataset"], row.jobs) == (dataset, jobs)]
    return row


def test_the_scale_factor_is_the_ratio_over_that_of_the_levels_with_its_interval(rows, trials):
    row = at(rows, "medium", 4)
    (ratio,) = [
        one for one in ratio_rows(trials, AXES)
        if (one.factor, one.jobs, one.against, one.metric) == ("jobs", 4, "1", "delivered_mbps")
    ]  # fmt: skip
    assert row.kind == MEASURED
    assert row.scale.value == pytest.approx(ratio.ratio.value / 4)
    assert row.scale.low == pytest.approx(ratio.ratio.low / 4)
    assert row.scale.low < 0.83 < row.scale.high
    assert row.pairs == 3
    assert at(rows, "medium", 1).scale.value is None


def test_what_was_not_measured_is_extrapolated_with_both_uncertainties_and_says_so(rows):
    row, one, model = at(rows, "large", 4), at(rows, "large", 1), at(rows, "medium", 4)
    assert (row.kind, row.by, row.pairs) == (EXTRAPOLATED, "dataset=medium", None)
    assert row.delivered.value == pytest.approx(one.delivered.value * 4 * model.scale.value)
    width = math.log(row.delivered.high / row.delivered.value)
    assert width > math.log(model.scale.high / model.scale.value)
    assert width > math.log(one.delivered.high / one.delivered.value)
    assert {row.kind for row in rows if row.levels["dataset"] == "medium"} == {MEASURED}


def test_nothing_is_extrapolated_unless_the_experiment_names_by_what_nor_over_what_was_measured_in_vain(trials):
    rows = scaling_rows(Scaling(along="jobs"), summary_rows(trials, AXES), ratio_rows(trials, AXES))
    assert {row.kind for row in rows} == {MEASURED}
    vain = [copies("large", 4, 25.0, repeat, "INVALID") for repeat in SCATTER]
    summary = summary_rows([*trials, *vain], AXES)
    rows = scaling_rows(ASKED, summary, ratio_rows([*trials, *vain], AXES))
    assert {row.jobs for row in rows if row.kind == EXTRAPOLATED} == {2}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"along": "job"}, r'scaling\.along: there is no "job"'),
        ({"along": "dataset"}, r"scaling\.along: must be a factor of numbers"),
        ({"along": "delay_ms"}, r"scaling\.along: must be a factor of numbers above 0"),
        ({"along": "jobs", "by": {"dataset": "midle"}}, r'scaling\.by\.dataset: there is no "midle"'),
        ({"along": "jobs", "by": {"jobs": 1}}, r'scaling\.by: there is no "jobs"'),
    ],
)
def test_what_makes_no_sense_is_refused(asked, complaint):
    (problem,) = scaling_problems(
        Scaling(**asked), {"jobs": [1, 4], "dataset": ["medium", "large"], "delay_ms": [0, 1]}
    )
    assert re.search(complaint, problem)


@pytest.fixture
def results(tmp_path):
    """A run that measured large files by one interface only, with a claim that the paper has extrapolated as well."""
    axes = {"dataset": {"medium": 1.0, "large": 1.1}}
    run = write_run(tmp_path / "run", Shape(rates={"nics": 400.0}, batches=(1, 4), axes=axes, samples=False))
    for name in ("summary.csv", "ratios.csv", "trials.csv"):
        path = run / name
        kept = [line for line in read_csv(path) if (line["dataset"], line["jobs"]) != ("large", "4")]
        write_csv(path, kept)
    rate = {"delivered_mbps": 300, "delivered_low": 290, "delivered_high": 310}
    factor = {"scale_factor": 0.83, "scale_low": 0.8, "scale_high": 0.86}
    extrapolated = {"kind": "extrapolated", "by": "dataset=medium"}
    point = {"factor": "jobs", "access": "nics", "workload": "root", "against": "1", "method": "t", "kind": "measured"}
    points = [("medium", 1, {}), ("medium", 4, factor), ("large", 1, {}), ("large", 4, {**factor, **extrapolated})]
    rows = [{**point, **rate, **more, "dataset": dataset, "jobs": jobs} for dataset, jobs, more in points]
    write_csv(run / "scaling.csv", [dict.fromkeys(rows[-1], "") | row for row in rows])
    claim = {**BASE, "factor": "jobs", "against": "least", "levels": [12, 1], "values": [78.7, 7.9],
             "extrapolated": True}  # fmt: skip
    claim["at"] = {"workload": "root", "access": "nics", "dataset": "large", "jobs": 4}
    edit_json(run / "experiment.json", claims=[claim])
    return read_results(run, silent)


def test_extrapolated_values_are_told_from_measured_ones_in_the_table_and_beside_a_papers_own(results):
    text = Page(scaling_table(results)).text
    assert text.count("measured") == 3 + text.count("was measured")
    assert "extrapolated by dataset=medium" in text
    assert "≈ 300" in text
    text = Page("".join(papers_table(results))).text
    assert "78.7 : 7.90 Mb/s over 12 : 1 = 0.83, extrapolated by the paper" in text
    assert "not measured; extrapolated by 0.83, that of dataset=medium" in text
    assert "not tested" in text


def test_the_sentence_speaks_of_what_was_measured_alone_and_says_of_how_many_the_share_is(results):
    _, sentence = scaling_of(results)
    # As the ratio has it, for all that is compared, and not as a table that somebody has edited.
    assert "of what one alone does: 0.54 (95\xa0% interval 0.54–0.55) at dataset=medium" in sentence
    assert "large" not in sentence
    of_four = [dataclasses.replace(row, against="4") for row in results.scaling]
    _, sentence = scaling_of(dataclasses.replace(results, scaling=of_four))
    assert "instead of 4, each brings this share of what each of 4 does" in sentence


def test_in_the_figure_what_is_extrapolated_is_hollow(results):
    plots = [plot_of(results, panel) for panel in results.panels]
    figure = scaling_plot(plots, results.factors["jobs"])
    faces = {}
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_gid() or line.get_marker() not in ("None", ""):
                faces.setdefault(line.get_gid(), set()).add(line.get_markerfacecolor())
    assert "extrapolated" in {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert len(faces) == 2
    assert not set.intersection(*faces.values())
