"""A report is about the factor that was asked about, with whatever other factors the experiment has."""

import dataclasses
import itertools

import pytest

from tests.unit.postprocess.test_plots import by_name, pictures
from tests.unit.report_page import Page, results_of, silent
from tests.unit.synthetic_report import Shape, write_run
from tierbench.postprocess.compare.judgement import changes
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.report.page_tables import bottleneck_table, summary_table
from tierbench.postprocess.report.write import comparison, run_report

NBSP = "\N{NO-BREAK SPACE}"
CACHE = Shape(rates={"lan-xrootd": 350.0}, batches=(2, 6), samples=False, axes={"cache_mb": {0: 1, 30: 1.25}})
LATENCY = Shape(
    rates={"direct": 400.0, "lan-xrootd": 350.0}, batches=(6,), repeats=2, samples=False,
    axes={"rtt_ms": {47: 0.3, 0.1: 1, 5: 0.9}, "cache_mb": {0: 1, 30: 1.25}},
    report={"x": "rtt_ms", "lines": "access", "counterpart": "ExTENCI paper, Figure 7"},
)  # fmt: skip


@pytest.fixture(scope="module")
def latency(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("latency") / "run", LATENCY)


@pytest.fixture(scope="module")
def drawn(latency):
    return by_name(pictures(latency))


def test_the_first_sentence_has_the_ratio_of_what_was_asked_about(tmp_path):
    results = results_of(tmp_path / "run", CACHE)
    [panel] = results.panels
    result = answer(results, panel)
    assert result.clear
    where = "With 6 jobs of root by lan-xrootd"
    assert result.sentence.startswith(f"{where}, cache_mb=30 is the fastest level of cache_mb: ")
    assert f"1.25 (95{NBSP}% CI 1.22–1.28) times cache_mb=0" in result.sentence


def test_each_panel_has_its_answer_at_the_largest_number_along_x(latency):
    for panel, cache_mb in zip(latency.panels, (0, 30), strict=True):
        where = f"With 6 jobs of root at rtt_ms=47 and cache_mb={cache_mb}"
        assert answer(latency, panel).sentence.startswith(
            f"{where}, no access method is distinguishably the fastest: direct"
        )


def test_along_x_it_is_told_by_which_factor_each_rate_changes(latency):
    notes = answer(latency, latency.panels[0]).notes
    changed = [note for note in notes if note.startswith("From rtt_ms=0.1 to 47 the rate changes by ")]
    assert [note.count(f"0.30 (95{NBSP}% CI ") for note in changed] == [2]


def test_panels_of_a_workload_share_a_figure_to_one_scale_with_numbers_along_x_in_their_order(drawn):
    first, second = drawn["rate.root"].figure.axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["cache_mb=0", "cache_mb=30"]
    assert first.get_ylim() == second.get_ylim()
    assert [label.get_text() for label in first.get_xticklabels()] == ["0.1", "5", "47"]
    assert first.get_xlabel() == "rtt_ms (evenly spaced)"


def test_the_label_of_small_figures_is_along_them_and_not_in_the_legend(drawn):
    with canvas.style():
        for name in ("rate.root", "amplification.root", "volatility.root", "wall-time.root"):
            figure = drawn[name].figure
            figure.draw_without_rendering()
            first, (legend,) = figure.axes[0], figure.legends
            label = first.yaxis.get_label().get_window_extent()
            assert first.get_ylabel()
            assert figure.get_supylabel() == ""
            assert not label.overlaps(legend.get_window_extent())
            assert figure.bbox.y0 <= label.y0 < label.y1 <= first.get_tightbbox().y1


def test_titles_side_by_side_leave_each_other_alone(tmp_path):
    axes = {"rtt_ms": {1: 1, 9: 0.5}, "readahead_kb": {0: 1, 4096: 1.2}, "dataset": {"small": 1, "large": 2}}
    figure = pictures(results_of(tmp_path / "run", dataclasses.replace(LATENCY, axes=axes, report={})))[0].figure
    with canvas.style():
        figure.draw_without_rendering()
        boxes = [axes._left_title.get_window_extent() for axes in figure.axes]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_words_along_x_are_as_the_experiment_has_them(tmp_path):
    shape = dataclasses.replace(CACHE, axes={"data": {"small": 1, "large": 2, "huge": 3}}, report={"x": "data"})
    results = results_of(tmp_path / "run", shape)
    assert (results.layout.lines, results.layout.x) == ("access", "data")
    assert results.ladder(results.panels[0]) == ["small", "large", "huge"]
    assert "at data=huge" in answer(results, results.panels[0]).sentence


def test_what_is_of_batches_is_drawn_along_batches_only_and_no_figure_claims_another_counterpart(drawn, tmp_path):
    assert not [name for name in drawn if name.startswith(("slope", "gain"))]
    assert {"slope.root", "gain.root", "bottleneck.root"} <= set(by_name(pictures(results_of(tmp_path / "run", CACHE))))
    assert not [name for name, picture in drawn.items() if "thesis’ Figure" in picture.caption]


def test_of_many_panels_figures_stay_few(tmp_path):
    axes = {"rtt_ms": {1: 1, 9: 0.5}, "cache_mb": dict.fromkeys((0, 30, 60), 1), "data": dict.fromkeys("abc", 1)}
    results = results_of(tmp_path / "run", dataclasses.replace(LATENCY, axes=axes, report={}))
    assert len(results.panels) == 6
    names = by_name(pictures(results))
    assert len(names) < 12
    assert "rate.root" in names


def test_a_page_names_levels_in_its_tables_trials_and_head_and_tables_have_a_column_for_each_factor(tmp_path, latency):
    page = Page(run_report(write_run(tmp_path / "run", LATENCY), None, silent).read_text(encoding="utf-8"))
    assert len(page.trials) == 24
    assert "ExTENCI paper, Figure 7" in page.text
    assert all("rtt_ms" in words and "cache_mb" in words for words in page.trials)
    for name in ("access", "workload", "rtt_ms", "cache_mb", "jobs"):
        assert f">{name}</th>" in summary_table(latency)
    assert all(f">rtt_ms={level}</th>" in bottleneck_table(latency) for level in ("0.1", "5", "47"))


def test_runs_are_compared_point_by_point(tmp_path, latency):
    axes = {"rtt_ms": {47: 0.3, 0.1: 1, 5: 0.9}, "cache_mb": {0: 1, 30: 2.5}}
    other = results_of(tmp_path / "run", dataclasses.replace(LATENCY, axes=axes))
    factors = {change.name: change.factor for change in changes(latency, other, "delivered_mbps")}
    assert len(factors) == 12
    assert factors["direct/root rtt_ms=5 cache_mb=30 ×6"] == pytest.approx(2, rel=0.01)  # noqa: RUF001
    assert factors["direct/root rtt_ms=5 cache_mb=0 ×6"] == pytest.approx(1, rel=0.01)  # noqa: RUF001
    page = Page(comparison([latency.directory, other.directory], tmp_path / "page.html", silent).read_text())
    assert "6 of 12 rates changed" in page.text
