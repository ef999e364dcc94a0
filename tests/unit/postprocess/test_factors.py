"""Any number of factors goes through the tables: a column for each axis, means by all of them, ratios along each."""

import itertools
import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.synthetic_run import rows
from tierbench import names
from tierbench.dags.levels import Factor, level_text
from tierbench.json_files import Damaged
from tierbench.postprocess.report.answer import answers
from tierbench.postprocess.schema.run_rows import FILES
from tierbench.postprocess.tables.factors import axes_of_run, axis_column, run_factors
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.run_tables import ratio_rows, summary_rows
from tierbench.postprocess.tables.write import tables, trial_tables
from tierbench.postprocess.verdict.counting import enough_without
from tierbench.submit import cli

CACHES, TRIPS, SIGNED = (0, 30, -1), (0.1, 5, 47.0), (False, True)
AXES = [
    {"name": "cache_mb", "levels": CACHES, "label": "TTreeCache [MB]", "arranged": False},
    {"name": "rtt_ms", "levels": TRIPS, "label": "", "arranged": True},
    {"name": "signed", "levels": SIGNED, "label": "", "arranged": False},
]
NAMES = tuple(axis["name"] for axis in AXES)
POINTS = [dict(zip(NAMES, at, strict=True)) for at in itertools.product(CACHES, TRIPS, SIGNED)]
REPEATS = (1, 2)


def mbps(jobs, repeat, cache_mb, rtt_ms, signed):
    """Each factor has its own share in the rate, and the hour another."""
    return 400 * (1.25 if cache_mb == 30 else 1) / (1 + rtt_ms / 47) * (0.8 if signed else 1) * jobs / 2 * 0.9**repeat


def write_plan(run, axes, **more):
    built_in = [
        {"name": "access", "levels": ["lan-xrootd"]}, {"name": "workload", "levels": ["root"]},
        {"name": "jobs", "levels": [1, 2]},
    ]  # fmt: skip
    (run / "plan.json").write_text(json.dumps({"synthetic": True, "factors": [*built_in, *axes], **more}))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two batches at each of 18 points, twice."""
    folder = tmp_path_factory.mktemp("factors") / "run"
    trials = itertools.product(REPEATS, (1, 2), POINTS)
    for index, (repeat, jobs, levels) in enumerate(trials):
        rate = mbps(jobs, repeat, **levels)
        synthetic.write_trial(folder, mbps=rate, jobs=jobs, repeat=repeat, index=index, levels=levels)
    write_plan(folder, AXES)
    return folder, tables(folder, pytest.fail)


@pytest.fixture(scope="module")
def run(measured):
    return measured[0]


@pytest.fixture(scope="module")
def made(measured):
    """Its means and ratios."""
    folder, trials = measured
    axes, _ = axes_of_run(folder, pytest.fail)
    return summary_rows(trials, axes), ratio_rows(trials, axes)


def texts(point):
    return {name: level_text(level) for name, level in point.items()}


@pytest.mark.parametrize("name", FILES)
def test_each_axis_is_a_column_after_the_jobs(run, name):
    header = (run / name).read_text(encoding="utf-8").splitlines()[0].split(",")
    at = header.index("jobs")
    assert header[at + 1 : at + 4] == ["cache_mb", "rtt_ms", "signed"]


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"scaling.csv"}))  # nothing is asked to scale here
def test_each_point_is_in_each_table(run, name):
    told = {tuple(row[name] for name in NAMES) for row in rows(run / name)}
    assert told == {tuple(texts(point).values()) for point in POINTS}


def test_the_schema_says_of_which_type_an_axis_is(run):
    schema = json.loads((run / "schema.json").read_text())
    for table in schema["files"].values():
        columns = {column["name"]: (column["type"], column["meaning"]) for column in table["columns"]}
        assert columns["cache_mb"] == ("integer", "TTreeCache [MB]")
        assert columns["rtt_ms"] == ("number", "level of the axis rtt_ms")
        assert columns["signed"][0] == "text"


def test_levels_that_are_words_and_numbers_are_texts():
    assert axis_column(Factor("cache", (0, "auto"))).type == "text"


def test_the_means_are_over_the_repetitions_of_each_point_in_the_order_of_the_levels(made):
    summary, _ = made
    assert len(summary) == 2 * len(POINTS)
    for row in summary:
        levels = next(point for point in POINTS if texts(point) == {name: row[name] for name in NAMES})
        mean = sum(mbps(row["jobs"], repeat, **levels) for repeat in REPEATS) / len(REPEATS)
        assert (row["trials"], row["mean_mbps"]) == (2, pytest.approx(mean, rel=1e-3))
    assert list(dict.fromkeys(row["cache_mb"] for row in summary)) == ["0", "30", "-1"]
    assert list(dict.fromkeys(row["rtt_ms"] for row in summary)) == ["0.1", "5", "47"]


@pytest.mark.parametrize(
    ("factor", "level", "against", "truth"),
    [
        ("cache_mb", "30", "0", 1.25),
        ("rtt_ms", "47", "0.1", (1 + 0.1 / 47) / 2),
        ("signed", "yes", "no", 0.8),
        ("jobs", 2, "1", 2.0),
    ],
)
def test_ratios_are_along_each_factor_all_else_being_equal(made, factor, level, against, truth):
    _, ratios = made
    found = [
        row for row in ratios
        if (row["factor"], row[factor], row["against"], row["metric"]) == (factor, level, against, "mean_mbps")
    ]  # fmt: skip
    assert {row["factor"] for row in ratios} == {"jobs", "cache_mb", "rtt_ms", "signed"}  # of several levels
    others = 36 // {"cache_mb": 3, "rtt_ms": 3, "signed": 2, "jobs": 2}[factor]
    assert len(found) == others
    assert len({tuple(row[name] for name in ("jobs", "cache_mb", "rtt_ms", "signed")) for row in found}) == others
    assert all((row["ratio"], row["pairs"]) == (pytest.approx(truth, rel=1e-3), 2) for row in found)


def test_accesses_with_clients_of_their_own_are_compared(tmp_path):
    rates = {("direct", "dd"): 400.0, ("direct", "http"): 200.0, ("lan-xrootd", "root"): 300.0}
    for (access, workload), rate in rates.items():
        for repeat in (1, 2, 3):
            synthetic.write_trial(tmp_path, mbps=rate * 0.99**repeat, repeat=repeat, access=access, workload=workload)
    layout = {"lines": "pair", "x": "jobs", "panels": [], "counterpart": ""}
    (tmp_path / "plan.json").write_text(json.dumps({"synthetic": True, "report": layout}))
    tables(tmp_path, pytest.fail)
    results = read_results(tmp_path, pytest.fail)
    found = [row for row in results.ratios if row.factor == "pair" and row.metric == "mean_mbps"]
    ratios = {(f"{row.access}/{row.workload}", row.against): row.ratio.value for row in found}
    assert len(ratios) == 6
    assert ratios["direct/dd", "lan-xrootd/root"] == pytest.approx(4 / 3, rel=1e-3)
    (said,) = answers(results)
    assert said.sentence.startswith("With 4 jobs, direct/dd is the fastest combination")


@pytest.mark.parametrize("levels", [{}, {"cache_mb": 0}, {"cache_mb": 7, "rtt_ms": 5, "signed": True}])
def test_a_trial_that_is_not_at_a_point_of_the_plan_is_told_and_left_out(tmp_path, levels):
    synthetic.write_trial(tmp_path, levels=POINTS[0])
    synthetic.write_trial(tmp_path, levels=levels, repeat=2)
    write_plan(tmp_path, AXES)
    told = []
    assert [row["repeat"] for row in tables(tmp_path, told.append)] == [1]
    assert "are not of the plan's factors" in told[0]


@pytest.mark.parametrize(
    ("plan", "wrong"),
    [
        (
            {"report": {"lines": "access"}},
            "report.x: missing; a text in quotes is needed, report.panels: missing; a list is needed",
        ),
        (
            {"factors": [{"name": "access", "levels": [[1]]}]},
            "factors[0].levels[0]: must be a text in quotes or a whole number or a number or true or false, not [1]",
        ),
    ],
)
def test_a_damaged_plan_is_called_by_its_file_and_what_is_wrong_there(tmp_path, plan, wrong):
    with pytest.raises(Damaged) as error:
        run_factors(plan, tmp_path, [])
    assert str(error.value) == f"{tmp_path / names.PLAN} is damaged: {wrong}"


def test_a_point_is_repeated_until_it_is_known_whatever_its_neighbours_say(tmp_path):
    """With a steady cache_mb=0 and a wavering cache_mb=30, only the former has been measured often enough."""
    planned = []
    for cache_mb, rates in {0: (400.0, 400.0), 30: (300.0, 500.0)}.items():
        for repeat, rate in enumerate(rates, 1):
            folder = synthetic.write_trial(tmp_path, mbps=rate, repeat=repeat, levels={"cache_mb": cache_mb})
            trial_tables(folder)
        name = f"lan-xrootd.root.cache_mb={cache_mb}"
        planned += [
            {"id": f"{name}.x004.r{repeat}", "name": "", "configuration": name, "jobs": 4, "repeat": repeat}
            for repeat in (1, 2, 3)
        ]
    write_plan(tmp_path, AXES[:1], trials=planned)
    rule = {"within_pct": 5, "at_least": 2, "at_most": 9}
    (tmp_path / "experiment.json").write_text(json.dumps({"repeats": rule}))
    assert enough_without(tmp_path, "lan-xrootd.root.cache_mb=0.x004.r3")
    assert not enough_without(tmp_path, "lan-xrootd.root.cache_mb=30.x004.r3")


@pytest.mark.parametrize("name", ["window_s", "rate", "xrootd_processes", "squid_hits_per_s"])
def test_an_axis_called_like_a_column_is_refused_before_anything_is_written(tmp_path, capsys, name):
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "quick"\nname = "mine"\n[axes.{name}]\nvalues = [1, 2]\nsets = "sample_period_s"\n')
    into = tmp_path / "run"
    assert cli.main(["write", str(path), "--site", "testbed", "--into", str(into)]) == 2
    assert f"axes.{name}: the tables have a column of that name already" in capsys.readouterr().err
    assert not into.exists()
