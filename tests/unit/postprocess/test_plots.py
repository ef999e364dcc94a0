"""Figures show what the tables say: every trial, its verdict, and bars that are what the caption calls them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from tests.unit.report_page import results_of
from tests.unit.synthetic_report import RATES, Shape
from tierbench.dags.levels import Factor
from tierbench.postprocess.plots import canvas, gallery, ladder
from tierbench.postprocess.plots.canvas import PAPER, PAPER_METHODS, looks
from tierbench.postprocess.plots.ladder import BESIDE, INTERVAL, SPREAD, Ladder, error_bars, ladder_of, metric_ladder
from tierbench.postprocess.plots.single_trials import typical, uses
from tierbench.postprocess.schema.rows import ResourceRow
from tierbench.postprocess.tables.factors import Panel

ROOT = Panel({"workload": "root"})
INVALID = "direct.root.x008.r1"
SUSPECT = "direct.root.x008.r2"
SHAPE = Shape(
    workloads=("root", "higgs"), verdicts={INVALID: ("INVALID", "warm cache"), SUSPECT: ("SUSPECT", "late ticks")}
)


def pictures(results):
    """All that is drawn of a run, or is missing, in its order."""
    with canvas.style():
        return list(gallery.pictures(results))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("plots") / "run", SHAPE)


@pytest.fixture(scope="module")
def drawn(results):
    return by_name(pictures(results))


def by_name(drawn):
    return {picture.name: picture for picture in drawn if isinstance(picture, canvas.Picture)}


def root_of(results, **of_lines):
    """The plot of the workload root; `of_lines` makes other summaries, or trials, of those of a line."""
    plot = gallery.plot_of(results, ROOT)
    changed = [replace(line, **{name: change(getattr(line, name)) for name, change in of_lines.items()})
               for line in plot.series]  # fmt: skip
    return replace(plot, series=changed)


def mark_of(picture, trial):
    """The line among whose marks is a trial's, at its rate."""
    of = f"{trial.levels['access']}/{trial.verdict}"
    (line,) = [line for line in picture.figure.axes[0].lines if line.get_gid() == of]
    assert trial.delivered_mbps in line.get_ydata()
    return line


def means_of(figure, access):
    (container,) = [bars for bars in figure.axes[0].containers if bars.get_label() == access]
    return container


def test_each_figure_of_the_papers_has_its_counterpart(drawn):
    assert {"rate.all", "volatility.all", "slope.all", "wall-time.all", "start-skew"} <= set(drawn)
    assert {f"{name}.{workload}" for name in ("over-time", "bottleneck") for workload in ("root", "higgs")} <= set(
        drawn
    )
    told = " ".join(picture.caption for picture in drawn.values())
    assert all(figure in told for figure in ("5-1", "5-2", "5-3", "5-4", "5-5", "5-6", "6-1", "Figures 4 and 5"))


def test_every_trial_and_every_mean_is_at_its_number_of_jobs(results):
    plot = root_of(results)
    ladder, figure = ladder_of([plot]), metric_ladder([plot], "delivered_mbps", "")
    for number, line in enumerate(plot.series):
        place = (number, len(plot.series))
        own = [mark for mark in figure.axes[0].lines if str(mark.get_gid()).startswith(f"{line.label}/")]
        marks = sorted((x, y) for mark in own for x, y in mark.get_xydata())
        assert marks == sorted((ladder.dodged(trial, *place, BESIDE), trial.delivered_mbps) for trial in line.trials)
        means = [(ladder.dodged(row, *place), row.means["delivered_mbps"].value) for row in line.summary]
        assert [tuple(point) for point in means_of(figure, line.label).lines[0].get_xydata()] == means


def test_verdicts_show_and_the_legend_says_what_the_marks_mean(results, drawn):
    valid, suspect, invalid = (
        mark_of(drawn["rate.all"], results.trials_at({"access": "direct", "workload": "root", "jobs": "8"})[n - 1])
        for n in (3, 2, 1)
    )
    assert invalid.get_marker() == "x"
    assert to_hex(suspect.get_markerfacecolor()) == PAPER
    assert (valid.get_marker(), to_hex(valid.get_markerfacecolor())) == ("o", PAPER_METHODS["direct"].color)
    assert {"a SUSPECT trial", "an INVALID trial, left out"} <= legend_of(drawn["rate.all"].figure)
    higgs = gallery.plot_of(results, Panel({"workload": "higgs"}))
    assert "an INVALID trial, left out" not in legend_of(metric_ladder([higgs], "delivered_mbps", ""))


def test_however_many_trials_a_line_has_one_set_of_marks_for_each_verdict(results):
    """Or a figure of a thousand trials takes a hundred times as long, and its file as much room."""
    plots = root_of(results), root_of(results, trials=lambda rows: rows * 20)
    few, more = (len(metric_ladder([plot], "mean_mbps", "").axes[0].lines) for plot in plots)
    assert few == more


def test_marks_on_a_page_tell_their_style_once_and_no_number_that_is_read_is_shortened(results, tmp_path):
    with canvas.style():
        figure = metric_ladder([root_of(results)], "mean_mbps", "")
        figure.axes[0].set_title("0.125 of 5.8.412")
        page = canvas.inline(canvas.save(canvas.Picture("many", "", "", figure), tmp_path))
    assert page.count("<use") >= len(results.trials_at({"workload": "root"}))
    assert not re.search(r"<use [^>]*var\(--c", page)
    assert not re.search(r"<g [^>]*style=[^>]*style=", page)
    assert "0.125 of 5.8.412" in page
    assert not re.search(r'="[^"]*\d\.\d{3}', page)


def legend_of(figure):
    return {text.get_text() for text in figure.legends[0].get_texts()}


def test_workloads_alike_share_a_figure_and_a_scale_and_a_far_slower_one_has_its_own(drawn, results):
    root, higgs = drawn["rate.all"].figure.axes
    assert [axes.get_title(loc="left") for axes in (root, higgs)] == ["root", "higgs"]
    assert root.get_ylim() == higgs.get_ylim()
    plots = [(panel, gallery.plot_of(results, panel)) for panel in results.panels]
    slow = root_of(results, trials=lambda rows: [replace(row, delivered_mbps=9.0) for row in rows])
    plots[1] = (plots[1][0], slow)
    assert [sheet.id for sheet in gallery.sheets_of(plots, "delivered_mbps")] == ["root", "higgs"]


def test_what_is_not_drawn_says_why(tmp_path):
    drawn = pictures(results_of(tmp_path / "run", Shape(batches=(4,), plain=True, samples=False)))
    missing = {one.title: one.why for one in drawn if isinstance(one, canvas.Missing)}
    assert missing["Delivered throughput in the steady state"] == "no trial had a steady state"
    assert missing["Trials over time"] == "no usable trial has samples that can be read"
    assert "Rate of increase" not in missing  # one batch was asked for


def test_without_a_ladder_each_line_is_a_row_with_its_mean_and_trials(tmp_path):
    results = results_of(tmp_path / "run", Shape(batches=(4,), workloads=("root", "higgs"), samples=False))
    root, higgs = pictures(results)[0].figure.axes
    assert [label.get_text() for label in root.get_yticklabels()] == list(RATES)
    assert root.get_xlim() == higgs.get_xlim()
    for row, access in enumerate(RATES):
        (mean,) = results.summaries_at({"workload": "root", "access": access})
        drawn_at = next(bars for bars in root.containers if bars.get_label() == access)[0]
        assert (drawn_at.get_xdata()[0], drawn_at.get_ydata()[0]) == (mean["delivered_mbps"], row)


def test_error_bars_are_the_summarys_intervals_and_volatility_is_drawn_for_itself_and_leaves_no_axis(results, drawn):
    segments = means_of(drawn["rate.all"].figure, "direct").lines[2][0].get_segments()
    for segment, row in zip(segments, results.summaries_at({"workload": "root", "access": "direct"}), strict=True):
        assert segment[:, 1] == pytest.approx([row["delivered_mbps_low"], row["delivered_mbps_high"]])
    assert error_bars([root_of(results)], "delivered_mbps") == INTERVAL
    assert INTERVAL in drawn["rate.all"].caption
    figure = drawn["volatility.all"].figure
    rows = results.summaries_at({"workload": "root", "access": "direct"})
    heights = means_of(figure, "direct").lines[0].get_ydata()
    assert list(heights) == pytest.approx([row["volatility_mbps"] for row in rows])
    assert figure.axes[0].get_ylim()[0] == 0
    assert "how uneven a transfer was" in drawn["volatility.all"].caption


def test_without_intervals_bars_are_the_spread_and_are_called_so(tmp_path):
    plot = root_of(results_of(tmp_path / "run", Shape(plain=True, samples=False)))
    assert error_bars([plot], "mean_mbps") == SPREAD
    segments = means_of(metric_ladder([plot], "mean_mbps", ""), "direct").lines[2][0].get_segments()
    for segment, row in zip(segments, plot.series[0].summary, strict=True):
        assert np.ptp(segment[:, 1]) == pytest.approx(2 * row["mean_mbps_sd"])


def test_one_repetition_has_no_bars_and_the_caption_says_so(tmp_path):
    plot = root_of(results_of(tmp_path / "run", Shape(repeats=1, plain=True, samples=False)))
    assert error_bars([plot], "mean_mbps") == ""
    (sheet,) = gallery.sheets_of([(ROOT, plot)], "delivered_mbps")
    assert "No error bars" in gallery.ladder_picture(gallery.RATE_FIGURE, sheet, "").caption


def test_a_very_wide_interval_does_not_press_the_data_flat_and_marks_alike_have_room(results):
    def wide(row):
        return replace(row, means={**row.means, "mean_mbps": replace(row.means["mean_mbps"], high=50_000.0)})

    highest = max(trial["mean_mbps"] for trial in results.trials_at({"workload": "root"}))
    plot = root_of(results, summary=lambda rows: [wide(row) for row in rows])
    assert metric_ladder([plot], "mean_mbps", "").axes[0].get_ylim()[1] < 2 * highest
    plot = root_of(
        results,
        trials=lambda rows: [replace(row, mean_mbps=100 + row.repeat / 10) for row in rows],
        summary=lambda _: [],
    )
    assert 105 < metric_ladder([plot], "mean_mbps", "").axes[0].get_ylim()[1] < 110


def test_no_axis_shows_formulas_and_an_access_has_one_colour_in_all_figures(drawn):
    drawn["start-skew"].figure.draw_without_rendering()
    for picture in drawn.values():
        for axes in picture.figure.axes:
            labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
            assert not [label.get_text() for label in labels if "$" in label.get_text()], picture.name
            for line in axes.lines:
                access = str(line.get_gid() or line.get_label()).split("/")[0]
                if access in RATES:
                    assert to_hex(line.get_color()) == PAPER_METHODS[access].color, picture.name


def test_twenty_methods_have_looks_of_their_own_whatever_else_is_there_the_first_ten_wholly():
    looking = [*looks("access", [f"way-{number:02}" for number in range(20)]).values()]
    assert len({look.color for look in looking[:10]}) == len({look.marker for look in looking[:10]}) == 10
    assert len({(look.color, look.marker) for look in looking}) == 20
    assert looks("access", ["direct", "zebra"])["direct"] == looks("access", ["lan-xrootd", "direct"])["direct"]


def test_no_trial_is_beyond_the_scale_of_its_figure_whichever_line_is_first(tmp_path):
    slow_first = dict(sorted(RATES.items(), key=lambda rate: rate[1]))
    drawn = by_name(pictures(results_of(tmp_path / "run", replace(SHAPE, rates=slow_first))))
    for axes in drawn["over-time.root"].figure.axes:
        assert max(max(line.get_ydata(), default=0) for line in axes.lines) <= axes.get_ylim()[1]


@pytest.mark.parametrize(
    ("name", "axis", "unit"),
    [("rate.all", "y", "[Mb/s]"), ("wall-time.all", "y", "[s]"), ("start-skew", "y", "[ms]"),
     ("bottleneck.root", "x", "[%"), ("over-time.root", "x", "[s]")],
)  # fmt: skip
def test_axes_have_units(drawn, name, axis, unit):
    assert unit in " ".join(getattr(axes, f"get_{axis}label")() for axes in drawn[name].figure.axes)


def test_a_doubled_batch_with_a_doubled_rate_has_slope_two_and_no_slope_goes_over_a_missing_batch():
    assert ladder.slopes({32: 100.0, 64: 200.0, 96: 200.0}, [32, 64, 96]) == [(64, 2.0), (96, 1.0)]
    assert ladder.slopes({32: 32, 64: 64, 96: 96}, [32, 64, 96]) == [(64, 2.0), (96, 1.5)]
    assert ladder.slopes({32: 100.0, 96: 200.0}, [32, 64, 96]) == []


def test_the_course_over_time_is_that_of_the_samples(results, drawn):
    trial = typical(results.trials_at({"workload": "root", "access": "direct", "jobs": "16"}))
    stairs = drawn["over-time.root"].figure.axes[0].patches[-1].get_data()
    assert np.nanmax(stairs.values) == pytest.approx(1.15 * trial["mean_mbps"], rel=0.01)
    of_invalid = results.trials_at({"workload": "root", "access": "direct", "jobs": "8"})
    assert typical(of_invalid)["trial_id"] != INVALID
    steady = [patch for patch in drawn["over-time.root"].figure.axes[0].patches if patch.get_gid() == "steady"]
    assert steady[0].get_x() == trial["steady_begin_s"]


def used(role, **more):
    cpu = {"trial": "t", "levels": {"access": "direct"}, "repeat": 1, "resource": "CPU", "utilisation": 0.5}
    return ResourceRow(role=role, **{**cpu, **more})


def test_use_is_that_of_the_busiest_host_alike_in_the_order_of_the_data_without_those_off_the_way():
    rows = [used("worker", host=host, utilisation=use) for host, use in (("a", 0.2), ("b", 0.9))]
    assert [(*key, use.value) for key, use in uses(rows, "access").items()] == [("worker: CPU", "direct", 0.9)]
    rows = [used(role) for role in ("worker", "gateway", "storage")]
    rows.append(used("door", on_the_way="no"))
    assert [place for place, _ in uses(rows, "access")] == ["storage: CPU", "gateway: CPU", "worker: CPU"]


@pytest.mark.parametrize(("batches", "even"), [((32, 64, 96), False), ((1, 2, 4, 64, 192), True), ((8,), False)])
def test_batches_far_from_even_are_spaced_evenly(batches, even):
    ladder = Ladder(Factor("jobs", batches))
    assert ladder.even == even
    assert [ladder.place(str(jobs)) for jobs in batches] == (
        [float(n) for n in range(len(batches))] if even else list(batches)
    )


def test_figures_become_files_and_the_same_data_the_same_bytes(results, tmp_path):
    def write(folder):
        (sheet,) = gallery.sheets_of([(ROOT, root_of(results))], "delivered_mbps")
        with canvas.style():
            canvas.save(gallery.ladder_picture(gallery.RATE_FIGURE, sheet, ""), folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    first = write(tmp_path / "one")
    assert first.keys() == {"rate.root.png", "rate.root.svg"}
    assert first == write(tmp_path / "two")
    assert first["rate.root.png"].startswith(b"\x89PNG")
