"""Runs are compared with intervals, and not without a word where they were made differently."""

import dataclasses
import json
import math

import pytest

from tests.unit.report_page import BARE, Page, silent
from tests.unit.synthetic_report import read_csv, write_csv, write_run
from tests.unit.synthetic_run import edit_json
from tierbench.errors import ConfigError
from tierbench.postprocess.compare import judgement
from tierbench.postprocess.compare.differences import differences
from tierbench.postprocess.compare.judgement import EQUIVALENT, INCONCLUSIVE, changes, compare_runs, run_names
from tierbench.postprocess.compare.sites import across_sites
from tierbench.postprocess.compare.sites import lines as site_lines
from tierbench.postprocess.plots import canvas, gallery
from tierbench.postprocess.plots.canvas import PAPER_METHODS
from tierbench.postprocess.report.write import comparison
from tierbench.postprocess.stats import Compared, Interval, over, student
from tierbench.postprocess.tables.load_run import read_results
from tierbench.submit import cli


def make(path, **changes_to_shape):
    return write_run(path, dataclasses.replace(BARE, **changes_to_shape))


def read(path, **changes_to_shape):
    return read_results(make(path, **changes_to_shape), silent)


def test_each_look_at_a_run_widens_what_it_is_compared_by(tmp_path, monkeypatch):
    runs = read(tmp_path / "a"), read(tmp_path / "b")
    once = [change.ratio for change in changes(*runs, "delivered_mbps")]
    monkeypatch.setattr(type(runs[0]), "looks", 4.0)
    often = [change.ratio for change in changes(*runs, "delivered_mbps")]
    assert all(wide.low < narrow.low for narrow, wide in zip(once, often, strict=True))


def page_of(*runs):
    page = Page(comparison(runs, None, silent).read_text(encoding="utf-8"))
    assert page.open == []
    return page.text.replace("  ", " ")


def test_a_change_is_on_the_page_with_its_interval_from_the_first_to_each_other_run(tmp_path):
    halved = {"direct": 200.0, "lan-xrootd": 200.0}
    text = page_of(make(tmp_path / "a"), make(tmp_path / "b", rates=halved), make(tmp_path / "c"))
    assert "From a to b, 2 of 4 rates changed" in text
    assert "From a to c no rate has changed for certain" in text
    assert "Not like for like" not in text


def test_single_trials_give_a_ratio_without_an_interval(tmp_path):
    one, other = read(tmp_path / "a", repeats=1), read(tmp_path / "b", repeats=1)
    assert all(change.ratio.interval is None and not change.certain for change in changes(one, other, "mean_mbps"))


@pytest.mark.usefixtures("undrawn")
def test_invalid_trials_are_not_compared_and_their_point_is_named(tmp_path):
    verdicts = {f"direct.root.x008.r{n}": ("INVALID", "") for n in (1, 2, 3)}
    one, other = read(tmp_path / "a"), read(tmp_path / "b", verdicts=verdicts)
    assert {(c.point["access"], int(c.point["jobs"])) for c in changes(one, other, "mean_mbps")} == {
        ("direct", 4), ("lan-xrootd", 4), ("lan-xrootd", 8),
    }  # fmt: skip
    assert "has no usable trials of it: direct/root" in page_of(one.directory, other.directory)


def edited(run, files):
    """The run with other values in its files: in the tables of a JSON file, or in a column of trials.csv."""
    for name, values in files.items():
        path = run / name
        if path.suffix == ".csv":
            write_csv(path, [{**row, **values} for row in read_csv(path)])
        else:
            path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))
    return read_results(run, silent)


def link(rtt_ms, mbps):
    line = {"to": "pool private", "role": "worker", "pool": "private", "mbps": mbps, "rtt_ms": rtt_ms, "hosts": {}}
    return {"ceilings.json": {"format": 1, "measured": [line]}}


def streams(number):
    return {"experiment.json": {"workloads": {"root": {"client": "root", "environment": {"XRD_STREAMS": number}}}}}


def setting(setting, value):
    return {"conditions.json": {"format": 1, "hosts": {"wn01": {"role": "worker", setting: value}}}}


def column(name, value):
    return {"trials.csv": {name: value}}


def access(**direct):
    return {"site.json": {"access": {"direct": direct}}}


def axis(megabytes):
    """An experiment whose first of two levels has files of so many megabytes, and both of one set's name."""
    of_level = (
        {**REPLICAS, "directory": f"/synthetic/tree-{size}", "nominal_bytes": size * 10**6} for size in (megabytes, 64)
    )
    levels = [{"replicas.tree.size_mb": size} for size in (megabytes, 64)]
    axes = [{"name": "size", "levels": ["small", "large"], "settings": levels}]
    return {"plan.json": {"replicas": list(of_level)}, "experiment.json": {"axes": axes}}


REPLICAS = {"name": "tree", "directory": "/synthetic/tree-fedcba", "suffix": ".root", "count": 24,
            "nominal_bytes": 16_000_000}  # fmt: skip
NEAR = link(14.2, 191)
DIFFERENCES = [
    # what the first and the second run have in their files, and what differs: what keeps from comparing, what else
    ({}, {}, [], []),
    ({}, {"experiment.json": {"sample_period_s": 5.0}}, ["sampling period [s]"], []),
    ({}, {"plan.json": {"replicas": [REPLICAS]}}, ["replicas tree, folder"], []),
    (axis(8), axis(8), [], []),
    (axis(8), axis(32), ["replicas tree, folder", "replicas tree, size [B]", "what size=small sets"], []),
    (NEAR, link(14.6, 185), [], []),
    (NEAR, link(53.0, 190), ["round-trip time [ms] to pool private"], []),
    (NEAR, link(14.2, 95), ["ceiling [Mb/s] to pool private"], []),
    (NEAR, {}, [], ["links measured to pool private"]),
    (setting("client.program", "old"), setting("client.program", "new"), ["ROOT programs"], []),
    (setting("client.root_version", "old"), setting("client.root_version", "new"), ["ROOT’s version"], []),
    (setting("client.xrootd_version", "old"), setting("client.xrootd_version", "new"), ["XRootD’s version"], []),
    (setting("client.condor", "old"), setting("client.condor", "new"), [], ["HTCondor’s version"]),
    ({"plan.json": {"tierbench": "0.1.0"}}, {"plan.json": {"tierbench": "0.2.0"}}, [], ["tierbench"]),
    (streams("1"), streams("2"), ["workload root, environment"], []),
    (access(environment={}), access(environment={"XRD_STREAMS": "4"}), ["environment of direct"], []),
    (access(token={"file": "/t"}), access(kerberos={"keytab": "/k"}), ["kerberos of direct", "token of direct"], []),
    (setting("mount /data", "nfs4 rsize=1"), setting("mount /data", "nfs4 rsize=2"), ["mount /data on wn01"], []),
    (setting("mount /home", "nfs rw,mountport=1"), setting("mount /home", "nfs rw,mountport=2,mountaddr=10.0.0.1"),
     [], []),
    (setting("package xrootd", "5.6"), setting("package xrootd", "5.8"), [], ["package xrootd on wn01"]),
    (column("job_processes", 1), column("job_processes", 8), ["processes of a job"], []),
    (column("job_files", 1), column("job_files", 10), ["files of a job"], []),
    (column("job_for_s", ""), column("job_for_s", 60.0), ["time of a job [s]"], []),
    (column("job_fetch_every_s", ""), column("job_fetch_every_s", 5.0), ["time from one fetch to the next [s]"], []),
    (column("pool", "private"), column("pool", "public"), ["pool of workers"], []),
    (access(), access(proxy="", further_proxies=[]), [], []),  # a key that says nothing
    (access(), access(proxy="squid:3128", further_proxies=["squid2:3128"]),
     ["proxy of direct", "further_proxies of direct"], []),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "parting", "others"), DIFFERENCES)
def test_what_differs_between_runs(tmp_path, before, after, parting, others):
    one, other = edited(make(tmp_path / "a"), before), edited(make(tmp_path / "b"), after)
    found = [(difference.what, difference.parts) for difference in differences(one, other)]
    assert ([what for what, parts in found if parts], [what for what, parts in found if not parts]) == (parting, others)


def test_other_tuning_keeps_from_comparing_and_another_kernel_is_told(tmp_path):
    changed = {"tuning": {"net.ipv4.tcp_congestion_control": "bbr"}, "kernel": "another"}
    found = differences(read(tmp_path / "a", samples=True), read(tmp_path / "b", samples=True, changes=changed))
    assert [(d.what, d.parts) for d in found] == [
        ("net.ipv4.tcp_congestion_control on oss.uf.test", True),
        ("kernel on oss.uf.test", False),
    ]


@pytest.mark.usefixtures("undrawn")
def test_what_keeps_from_comparing_is_on_the_page(tmp_path):
    text = page_of(make(tmp_path / "a"), make(tmp_path / "b", site="elsewhere"))
    assert "Not like for like" in text
    assert "site: synthetic against elsewhere" in text


def test_runs_with_nothing_in_common_or_the_same_run_twice_are_refused(tmp_path):
    runs = [make(tmp_path / "a"), make(tmp_path / "b", rates={"other": 100.0})]
    with pytest.raises(
        ConfigError, match=r"no configuration in common \(direct/root, lan-xrootd/root against other/root"
    ):
        comparison(runs, None, silent)
    with pytest.raises(ConfigError, match="given twice"):
        comparison([runs[0]] * 2, None, silent)


def test_runs_are_told_apart_by_their_names_and_lines_and_keep_the_colour_of_the_access(tmp_path):
    runs = [read(tmp_path / "a"), read(tmp_path / "b")]
    with canvas.style():
        drawn = {picture.name: picture for picture in gallery.comparison_pictures(runs)}
    figure = drawn["rate.root"].figure
    assert len({axes.get_ylim() for axes in figure.axes}) == 1  # methods are compared by eye, too
    for axes, (access, look) in zip(figure.axes, PAPER_METHODS.items(), strict=False):
        lines = [bars.lines[0] for bars in axes.containers]
        assert axes.get_title(loc="left") == access
        assert {line.get_color() for line in lines} == {look.color}
        assert len({line.get_linestyle() for line in lines}) == 2
    runs = [read(tmp_path / "monday" / "quick"), read(tmp_path / "tuesday" / "quick")]
    assert run_names(runs) == ["monday/quick", "tuesday/quick"]


def with_stray(run):
    """The run with its first trial, one by direct, at a fifth of its rate."""
    odd, *others = read_csv(run / "trials.csv")
    odd["delivered_mbps"] = float(odd["delivered_mbps"]) / 5
    write_csv(run / "trials.csv", [odd, *others])
    return run, odd["trial"]


@pytest.mark.usefixtures("undrawn")
def test_what_is_equivalent_only_without_a_stray_trial_is_inconclusive_and_says_which(tmp_path):
    shape = {"repeats": 5, "rates": {"direct": 400.0, "lan-xrootd": 200.0, "slow": 100.0}}
    one, (run, odd) = make(tmp_path / "a", **shape), with_stray(make(tmp_path / "b", **shape))
    first, second = read_results(one, silent), read_results(run, silent)
    made = compare_runs(first, second, 0.05)
    far, *others = sorted(made.judged, key=lambda row: row.configuration != "direct/root \N{MULTIPLICATION SIGN}4")
    assert far.judgement == INCONCLUSIVE
    assert far.strays.startswith(f"{odd} of b lies far off all others and is left out; with it the ratio is 0.7")
    assert {row.judgement for row in others} == {EQUIVALENT}
    assert made.exit_status == 3
    assert far.strays in "".join(judgement.lines(made))
    assert far.strays in judgement.as_junit(made)
    assert far.strays in page_of(one, run)
    assert compare_runs(first, read_results(make(tmp_path / "c", **shape), silent), 0.05).exit_status == 0


# -- one experiment at several sites -----------------------------------------------------------------------

AT_SITES = [
    # what the second site has: the result of the ratio, the exit status, and words
    ({"rates": {"direct": 800.0, "lan-xrootd": 400.0}}, "2 agree; agree: within 5 %", 0),  # whatever the rates are
    ({"rates": {"direct": 300.0, "lan-xrootd": 200.0}}, "differ: south's is 1.33 (", 1),
    ({"interval": 0.2}, "inconclusive: south's is 1.00 (", 3),
    ({"repeats": 1}, "left out: no ratio with an interval at south", 3),
    (
        {"verdicts": {f"direct.root.x00{jobs}.r{n}": ("INVALID", "") for jobs in (4, 8) for n in (1, 2, 3)}},
        "south: 6 INVALID of 12 trials; its report says why",
        3,
    ),
]


@pytest.mark.parametrize(("second", "words", "status"), AT_SITES)
def test_ratios_within_sites_are_compared_across_them(tmp_path, capsys, second, words, status):
    sites = [make(tmp_path / "a", site="north"), make(tmp_path / "b", **{"site": "south", **second})]
    assert cli.main(["compare", "--sites", *map(str, sites)]) == status
    said = capsys.readouterr().out
    assert "ratio to direct within each site" in said
    assert words in said.replace("\N{NO-BREAK SPACE}", " ")
    assert cli.main(["compare", "--sites", *map(str, sites), "--json"]) == status
    assert json.loads(capsys.readouterr().out)["sites"] == ["north", "south"]


def test_two_of_three_sites_that_differ_are_named(tmp_path, capsys):
    ratios = {"north": 200.0, "east": 204.0, "south": 300.0}
    rates = {site: {"direct": 400.0, "lan-xrootd": rate} for site, rate in ratios.items()}
    runs = [str(make(tmp_path / site, site=site, rates=rates[site])) for site in ratios]
    assert cli.main(["compare", "--sites", *runs]) == 1
    assert capsys.readouterr().out.count("differ: south's is 1.5") == 2


def test_a_difference_that_suspect_trials_alone_give_is_inconclusive(tmp_path):
    runs = [read(tmp_path / "a", site="north"), read(tmp_path / "b", site="south", rates={**BARE.rates, "direct": 800})]
    doubted = [dataclasses.replace(row, valid_pairs=1, by_valid=Interval(row.ratio.value)) for row in runs[1].ratios]
    assert {shared.result for shared in across_sites(runs, 0.05).shared} == {"differ"}
    runs[1] = dataclasses.replace(runs[1], ratios=doubted)
    made = across_sites(runs, 0.05)
    assert {shared.result for shared in made.shared} == {INCONCLUSIVE}
    assert "inconclusive (differ by SUSPECT trials alone): south's" in "\n".join(site_lines(made))


def test_runs_of_other_experiments_are_no_sites_of_one(tmp_path, capsys):
    one, other = make(tmp_path / "a", site="north"), make(tmp_path / "b", site="south")
    edit_json(other / "experiment.json", sample_period_s=2.0)
    assert cli.main(["compare", "--sites", str(one), str(other)]) == 2
    assert "are runs of different experiments (other sample_period_s)" in capsys.readouterr().err
    assert cli.main(["compare", "--sites", str(one)]) == 2


def test_an_option_that_only_the_newer_of_two_versions_has_is_at_its_default_in_the_other(tmp_path, capsys):
    one, other = make(tmp_path / "a", site="north"), make(tmp_path / "b", site="south")
    edit_json(one / "experiment.json", workloads={"root": {"client": "root", "options": {}}})
    for clusters, said in ((1, ""), (4, "other workloads")):
        edit_json(other / "experiment.json", workloads={"root": {"client": "root", "options": {"clusters": clusters}}})
        cli.main(["compare", "--sites", str(one), str(other)])
        assert ("runs of different experiments" in (error := capsys.readouterr().err)) == bool(said)
        assert said in error


def test_one_ratio_over_another_is_as_wide_as_both_together():
    half = Compared(Interval(2.0, 2 / 1.1, 2 * 1.1), 4.0)
    found = over(half, half)
    reach = math.log(1.1) * math.sqrt(2) * student(8) / student(4)
    assert found.df == pytest.approx(8)
    assert found.ratio.interval == pytest.approx((math.exp(-reach), math.exp(reach)))
