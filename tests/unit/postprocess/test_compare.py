"""Runs are compared with intervals, and not without a word where they were made differently."""

import dataclasses
import json

import pytest

from tests.unit.report_page import Page, silent
from tests.unit.synthetic_report import Shape, read_csv, write_csv, write_run
from tierbench.errors import ConfigError
from tierbench.postprocess.compare.changes import changes, run_names
from tierbench.postprocess.compare.differences import differences
from tierbench.postprocess.compare.judgement import EQUIVALENT, INCONCLUSIVE, as_junit, compare_runs, lines
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.plots.canvas import PAPER_METHODS
from tierbench.postprocess.report.compare import comparison_pictures
from tierbench.postprocess.report.write import comparison
from tierbench.postprocess.tables.load_run import read_results

SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(4, 8))


def make(path, **changes_to_shape):
    return write_run(path, dataclasses.replace(SHAPE, **changes_to_shape))


def read(path, **changes_to_shape):
    return read_results(make(path, **changes_to_shape), silent)


def parting(one, other):
    return [difference.what for difference in differences(one, other) if difference.parts]


def test_a_change_is_found_and_told_with_its_interval(tmp_path):
    before, after = make(tmp_path / "a"), make(tmp_path / "b", rates={"direct": 200.0, "lan-xrootd": 200.0})
    page = Page(comparison([before, after], None, silent).read_text(encoding="utf-8"))
    assert page.open == []
    assert "From a to b, 2 of 4 rates changed" in page.text
    assert "Not like for like" not in page.text


def test_single_trials_give_a_ratio_without_an_interval(tmp_path):
    one, other = read(tmp_path / "a", repeats=1), read(tmp_path / "b", repeats=1)
    assert all(change.low is None and not change.certain for change in changes(one, other, "mean_mbps"))


def test_a_point_that_is_left_out_is_named(tmp_path):
    verdicts = {f"direct.root.x008.r{n}": ("INVALID", "") for n in (1, 2, 3)}
    page = Page(comparison([make(tmp_path / "a"), make(tmp_path / "b", verdicts=verdicts)], None, silent).read_text())
    assert "has no trials of it that count: direct/root" in page.text


def test_invalid_trials_are_not_compared(tmp_path):
    verdicts = {f"direct.root.x008.r{n}": ("INVALID", "") for n in (1, 2, 3)}
    one, other = read(tmp_path / "a"), read(tmp_path / "b", verdicts=verdicts)
    assert {(c.point["access"], int(c.point["jobs"])) for c in changes(one, other, "mean_mbps")} == {
        ("direct", 4), ("lan-xrootd", 4), ("lan-xrootd", 8),
    }  # fmt: skip


def test_like_runs_differ_in_nothing(tmp_path):
    assert differences(read(tmp_path / "a"), read(tmp_path / "b")) == []


def edited(run, name, **values):
    path = run.directory / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return read_results(run.directory, silent)


def test_what_a_run_was_made_of_keeps_from_comparing(tmp_path):
    one = read(tmp_path / "a")
    replicas = {"name": "tree", "directory": "/synthetic/tree-fedcba", "suffix": ".root", "count": 24,
                "nominal_bytes": 16_000_000}  # fmt: skip
    assert "site" in parting(one, read(tmp_path / "b", site="elsewhere"))
    assert "sampling period [s]" in parting(one, edited(read(tmp_path / "c"), "experiment", sample_period_s=5.0))
    assert parting(one, edited(read(tmp_path / "d"), "plan", replicas=[replicas])) == ["replicas tree, folder"]


def test_other_tuning_keeps_from_comparing_and_another_kernel_is_told(tmp_path):
    changed = {"tuning": {"net.ipv4.tcp_congestion_control": "bbr"}, "kernel": "another"}
    found = differences(read(tmp_path / "a"), read(tmp_path / "b", changes=changed))
    assert [(d.what, d.parts) for d in found] == [
        ("net.ipv4.tcp_congestion_control on oss.uf.test", True),
        ("kernel on oss.uf.test", False),
    ]


def linked(run, rtt_ms, mbps):
    line = {"to": "pool private", "role": "worker", "pool": "private", "mbps": mbps, "rtt_ms": rtt_ms, "hosts": {}}
    (run.directory / "ceilings.json").write_text(json.dumps({"format": 1, "measured": [line]}))
    return read_results(run.directory, silent)


def test_runs_at_other_distances_or_by_other_links_are_not_alike(tmp_path):
    near, noisy = linked(read(tmp_path / "a"), 14.2, 191), linked(read(tmp_path / "b"), 14.6, 185)
    far, slow = linked(read(tmp_path / "c"), 53.0, 190), linked(read(tmp_path / "d"), 14.2, 95)
    assert parting(near, noisy) == []
    assert parting(near, far) == ["round-trip time [ms] to pool private"]
    assert parting(near, slow) == ["ceiling [Mb/s] to pool private"]


def test_links_that_were_measured_in_one_run_alone_are_told(tmp_path):
    found = differences(linked(read(tmp_path / "a"), 14.2, 191), read(tmp_path / "b"))
    assert [(d.what, d.values, d.parts) for d in found] == [("links measured to pool private", ("yes", "no"), False)]


def client_of(run, **settings):
    hosts = {"wn01": {"role": "worker", **{f"client.{name}": value for name, value in settings.items()}}}
    (run.directory / "conditions.json").write_text(json.dumps({"format": 1, "hosts": hosts}))
    return read_results(run.directory, silent)


@pytest.mark.parametrize(
    ("name", "what", "parts"),
    [
        ("program", "ROOT programs", True),
        ("root_version", "ROOT’s version", True),
        ("xrootd_version", "XRootD’s version", True),
        ("condor", "HTCondor’s version", False),
    ],
)
def test_what_clients_ran_with_is_compared(tmp_path, name, what, parts):
    one, other = (client_of(read(tmp_path / value), **{name: value}) for value in ("old", "new"))
    assert [(d.what, d.values, d.parts) for d in differences(one, other)] == [(what, ("old", "new"), parts)]


def test_another_environment_keeps_from_comparing(tmp_path):
    runs = [read(tmp_path / "a"), read(tmp_path / "b")]
    one, other = (
        edited(run, "experiment", workloads={"root": {"client": "root", "environment": {"XRD_STREAMS": value}}})
        for run, value in zip(runs, "12", strict=True)
    )
    assert parting(one, other) == ["workload root, environment"]


@pytest.mark.parametrize(
    ("column", "values", "what"),
    [
        ("job_processes", (1, 8), "processes of a job"),
        ("job_files", (1, 10), "files of a job"),
        ("job_for_s", ("", 60.0), "time of a job [s]"),
        ("job_fetch_every_s", ("", 5.0), "time from one fetch to the next [s]"),
        ("pool", ("private", "public"), "pool of workers"),
    ],
)
def test_jobs_that_do_something_else_keep_from_comparing(tmp_path, column, values, what):
    runs = []
    for name, value in zip("ab", values, strict=True):
        path = make(tmp_path / name) / "trials.csv"
        write_csv(path, [{**row, column: value} for row in read_csv(path)])
        runs.append(read_results(path.parent, silent))
    assert parting(*runs) == [what]


def test_another_proxy_of_a_way_keeps_from_comparing_and_a_key_that_says_nothing_does_not(tmp_path):
    runs = [read(tmp_path / name) for name in "abc"]
    ways = [{}, {"proxy": "", "further_proxies": []}, {"proxy": "squid:3128", "further_proxies": ["squid2:3128"]}]
    plain, same, cached = (edited(run, "site", access={"direct": way}) for run, way in zip(runs, ways, strict=True))
    assert parting(plain, same) == []
    assert parting(plain, cached) == ["proxy of direct", "further_proxies of direct"]


def test_what_keeps_from_comparing_is_on_the_page(tmp_path):
    runs = [make(tmp_path / "a"), make(tmp_path / "b", site="elsewhere")]
    page = Page(comparison(runs, tmp_path / "page.html", silent).read_text(encoding="utf-8"))
    assert "Not like for like" in page.text
    assert "site: synthetic against elsewhere" in page.text


def test_runs_with_nothing_in_common_are_refused(tmp_path):
    runs = [make(tmp_path / "a"), make(tmp_path / "b", rates={"other": 100.0})]
    with pytest.raises(
        ConfigError, match=r"no configuration in common \(direct/root, lan-xrootd/root against other/root"
    ):
        comparison(runs, None, silent)


def test_a_run_is_not_compared_with_itself(tmp_path):
    run = make(tmp_path / "a")
    with pytest.raises(ConfigError, match="given twice"):
        comparison([run, run], None, silent)


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    runs = [read(tmp_path / "monday" / "quick"), read(tmp_path / "tuesday" / "quick")]
    assert run_names(runs) == ["monday/quick", "tuesday/quick"]


def test_runs_are_told_apart_by_their_lines_and_keep_the_colour_of_the_access(tmp_path):
    runs = [read(tmp_path / "a"), read(tmp_path / "b")]
    with canvas.style():
        drawn = {picture.name: picture for picture in comparison_pictures(runs)}
    figure = drawn["rate.root"].figure
    assert len({axes.get_ylim() for axes in figure.axes}) == 1  # ways are compared by eye, too
    for axes, (access, look) in zip(figure.axes, PAPER_METHODS.items(), strict=False):
        lines = [bars.lines[0] for bars in axes.containers]
        assert axes.get_title(loc="left") == access
        assert {line.get_color() for line in lines} == {look.color}
        assert len({line.get_linestyle() for line in lines}) == 2


def test_three_runs_are_compared_with_the_first(tmp_path):
    runs = [make(tmp_path / name) for name in "abc"]
    page = Page(comparison(runs, None, silent).read_text(encoding="utf-8"))
    assert "From a to b" in page.text
    assert "From a to c" in page.text


def with_stray(run):
    """The run with one trial by direct at a fifth of its rate."""
    rows = read_csv(run / "trials.csv")
    odd = next(row["trial"] for row in rows if row["trial"].startswith("direct"))
    slowed = [
        {**row, "delivered_mbps": float(row["delivered_mbps"]) / (5 if row["trial"] == odd else 1)} for row in rows
    ]
    write_csv(run / "trials.csv", slowed)
    return run, odd


def test_what_is_equivalent_only_without_a_stray_trial_is_inconclusive_and_says_which(tmp_path):
    shape = {"repeats": 5, "rates": {"direct": 400.0, "lan-xrootd": 200.0, "slow": 100.0}}
    one, (run, odd) = make(tmp_path / "a", **shape), with_stray(make(tmp_path / "b", **shape))
    first, second = read_results(one, silent), read_results(run, silent)
    made = compare_runs(first, second, 0.05)
    far, *others = [row for row in made.judged if row.configuration == "direct/root \N{MULTIPLICATION SIGN}4"] + [
        row for row in made.judged if row.configuration != "direct/root \N{MULTIPLICATION SIGN}4"
    ]
    assert far.judgement == INCONCLUSIVE
    assert far.strays.startswith(f"{odd} of b lies far off all others and is left out; with it the ratio is 0.7")
    assert {row.judgement for row in others} == {EQUIVALENT}
    assert made.exit_status == 3
    assert far.strays in "".join(lines(made))
    assert far.strays in as_junit(made)
    page = Page(comparison([one, run], None, silent).read_text(encoding="utf-8"))
    assert far.strays in page.text.replace("  ", " ")
    assert compare_runs(first, first, 0.05).exit_status == 0
