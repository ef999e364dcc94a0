"""The command that makes a report's page, and what it says where there can be none."""

import functools
import json
import operator
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.unit.report_page import BARE, Page, silent
from tests.unit.synthetic_report import edit_csv, write_run
from tests.unit.synthetic_run import edit_json, write_trial
from tierbench.errors import ConfigError, TierbenchError, UnmetNeed
from tierbench.postprocess.report.write import run_report
from tierbench.postprocess.tables.write import tables
from tierbench.submit import cli

CACHE = replace(BARE, rates={"lan-xrootd": 350.0}, axes={"cache_mb": {0: 1, 30: 1.25}})


def test_what_is_no_run_or_has_not_started_is_told(tmp_path):
    with pytest.raises(ConfigError, match="is not a run directory"):
        run_report(tmp_path, None, silent)
    (tmp_path / "trials").mkdir()
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(ConfigError, match="none of its trials has started; `tierbench watch"):
        tables(tmp_path)


@pytest.mark.parametrize(
    ("name", "keys", "value", "told"),
    [
        ("plan.json", ["configurations", 0], None, "configurations[0]: must be a table, not null"),
        ("plan.json", ["replicas", 0, "nominal_bytes"], "much", "replicas[0].nominal_bytes: must be a whole number"),
        ("plan.json", ["trials", 0], {"id": "a", "name": "a"}, "trials[0].repeat: missing"),
        ("schema.json", ["files"], {"summary.csv": {"columns": [[]]}}, "files.summary.csv.columns[0]: must be a table"),
    ],
)
def test_a_damaged_plan_or_schema_is_told_by_its_key(tmp_path, capsys, name, keys, value, told):
    run = write_run(tmp_path / "run", BARE)
    table = json.loads((run / name).read_text()) if (run / name).exists() else {}
    *above, last = keys
    functools.reduce(operator.getitem, above, table)[last] = value
    (run / name).write_text(json.dumps(table))
    assert cli.main(["report", str(run)]) == 1
    assert f"{name} is damaged: " in (said := capsys.readouterr().err)
    assert told in said


@pytest.mark.parametrize(
    ("state", "told"),
    [("not run", " yet; `tierbench watch"), ("incomplete", ": direct/root .* #1: no flush; all reasons")],
)
def test_a_run_that_has_measured_nothing_has_no_page(tmp_path, state, told):
    run = write_run(tmp_path / "run", BARE)
    edit_csv(run / "trials.csv", mean_mbps="", jobs_ok=0, state=state, verdict_reasons="no flush")
    with pytest.raises(TierbenchError, match="none of its 12 trials has measured anything" + told):
        run_report(run, None, silent)


def test_trials_of_a_run_that_was_copied_in_part_are_named(tmp_path, capsys):
    for repeat in (1, 2):
        write_trial(tmp_path, repeat=repeat, index=repeat)
    ids = [f"lan-xrootd.root.x004.r{repeat}" for repeat in (1, 2, 3)]
    configuration = {"configuration": "lan-xrootd/root", "jobs": 4}
    planned = [{"id": trial, "name": trial, "repeat": place, **configuration} for place, trial in enumerate(ids, 1)]
    configurations = [{"access": "lan-xrootd", "workload": "root"}]
    (tmp_path / "plan.json").write_text(json.dumps({"configurations": configurations, "trials": planned}))
    words = "1 of 3 planned trials have no folder: lan-xrootd.root.x004.r3"
    assert cli.main(["tables", str(tmp_path)]) == 0
    assert words in capsys.readouterr().err
    assert words in run_report(tmp_path, None, silent).read_text(encoding="utf-8")
    write_trial(tmp_path, repeat=3, index=3)
    assert cli.main(["tables", str(tmp_path)]) == 0
    assert "no folder" not in capsys.readouterr().err


CLAIM = {
    "says": "the mount is twice as fast", "kind": "value", "metric": "delivered_mbps", "factor": "access",
    "at": {"access": "direct", "workload": "root", "jobs": 8}, "against": "lan-xrootd",
}  # fmt: skip


def test_a_folder_of_runs_gets_an_index(tmp_path, capsys):
    runs = tmp_path / "runs"
    for name in ("a", "b", "damaged", "newer", "older", "torn"):
        write_run(runs / name, BARE)
    edit_json(runs / "newer/experiment.json", claims=[{**CLAIM, "later": 1}])
    edit_json(runs / "older/experiment.json", claims=[{**CLAIM, "kind": "faster", "metric": "gone_mbps"}])
    edit_json(runs / "torn/experiment.json", claims=[1])
    (runs / "damaged/trials.csv").write_text("trial,jobs\nx,many\n")
    (runs / "a/report.html").write_text("")
    assert cli.main(["report", str(runs)]) == 0
    path = runs / "index.html"
    assert capsys.readouterr().out.strip() == str(path)
    page = Page(path.read_text(encoding="utf-8"))
    assert set(page.links) == {"a/report.html", "b", "damaged", "newer", "older", "torn"}
    assert page.text.count("direct is the fastest access method at all 2 points") == 2
    assert page.text.count("No answer") == 4
    assert 'metric: there is no "gone_mbps"' in page.text
    assert "newer No answer: experiment.json: claims.later: unknown key" in page.text


UNKNOWN_METRIC = {"claims": [{**CLAIM, "metric": "nosuch", "values": [2, 1], "within_pct": 10}]}


@pytest.mark.parametrize(("changes", "key"), [({"measure": "nosuch"}, "measure"), (UNKNOWN_METRIC, "metric")])
def test_what_an_experiment_of_another_version_measures_is_told_in_words(tmp_path, capsys, changes, key):
    run = write_run(tmp_path / "run", BARE)
    edit_json(run / "experiment.json", **changes)
    assert cli.main(["report", str(run)]) == ConfigError.exit_status
    assert f'{key}: there is no "nosuch"' in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("claims", "status", "answer"),
    [
        ([{"values": [2, 1], "within_pct": 10}], 0, "reproduced: the mount is twice as fast"),
        ([{"values": [3, 1], "within_pct": 10}], 1, "contradicted"),
        ([{"values": [2, 1], "within_pct": 0.2}], 3, "inconclusive"),
        ([], 2, ""),
    ],
)
def test_whether_claims_hold_is_the_exit_status(tmp_path, capsys, claims, status, answer):
    run = write_run(tmp_path / "run", BARE)
    edit_json(run / "experiment.json", claims=[{**CLAIM, **claim} for claim in claims])
    assert cli.main(["report", str(run), "--check"]) == status
    assert answer in capsys.readouterr().out


@pytest.mark.parametrize("error", [UnmetNeed("no matplotlib"), TierbenchError("the disk is full")])
def test_an_error_is_no_answer_to_whether_claims_hold(tmp_path, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr("tierbench.postprocess.report.write.run_report", fails)
    assert cli.main(["report", str(write_run(tmp_path / "run", BARE)), "--check"]) == 2


def test_a_page_goes_into_no_folder_that_is_not_there_and_a_place_that_cannot_be_written_is_told(tmp_path):
    run = write_run(tmp_path / "run", BARE)
    for page in (tmp_path / "mistyped" / "page.html", tmp_path):
        assert cli.main(["report", str(run), "--output", str(page)]) == 2
    assert not (tmp_path / "mistyped").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(TierbenchError, match=r"cannot be written: .*; --output FILE"):
        run_report(run, tmp_path / "file" / "page.html", silent)


def without(libraries, *arguments, cwd):
    """tierbench in a process that cannot load these libraries."""
    program = (
        f"import sys; sys.modules |= dict.fromkeys({libraries})\n"
        "from tierbench.submit.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    "arguments", [["report", "nowhere"], ["compare", "nowhere", "."], ["tables", "."], ["tables", ".", "--trial"]]
)
def test_what_is_no_run_is_refused_before_libraries_are_loaded(tmp_path, arguments):
    done = without(["numpy"], *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "numpy" not in done.stderr


def test_a_folder_right_below_the_root_is_no_trial(capsys):
    assert cli.main(["tables", "--trial", "/usr"]) == 2
    assert "/usr: is not a trial's folder" in capsys.readouterr().err


def test_a_damaged_table_is_told_with_its_remedy(tmp_path):
    run = write_run(tmp_path / "run", BARE)
    path = run / "trials.csv"
    path.write_text(path.read_text().replace(",1,direct.root", ",one,direct.root"))
    with pytest.raises(TierbenchError, match=r"trials\.csv: cannot be read: .*`tierbench tables"):
        run_report(run, None, silent)


def test_without_matplotlib_the_command_says_what_to_install(tmp_path):
    done = without(["matplotlib"], "report", write_run(tmp_path / "run", BARE), cwd=tmp_path)
    assert done.returncode == 3
    assert "pip install matplotlib" in done.stderr


def test_the_tables_of_a_trial_are_made_without_scipy_and_matplotlib(folder):
    """They are made within the DAG, where a second counts."""
    assert without(["matplotlib", "scipy"], "tables", "--trial", folder, cwd=folder).returncode == 0


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("options", "page", "says"),
    [
        ([], "report.html", "cache_mb=30 is the fastest level of cache_mb"),
        (["--lines", "jobs"], "report-jobs-by-cache_mb.html", "number of jobs"),
        (["--x", "cache_mb"], "report-jobs-by-cache_mb.html", "number of jobs"),
    ],
)
def test_a_run_is_drawn_again_along_other_factors(tmp_path, capsys, options, page, says):
    run = write_run(tmp_path / "run", CACHE)
    assert cli.main(["report", str(run), *options]) == 0
    assert capsys.readouterr().out.strip() == str(run / page)
    assert says in Page((run / page).read_text(encoding="utf-8")).text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--x", "cache"], 'tierbench: --x: there is no "cache"'),
        (["--lines", "jobs", "--x", "jobs"], "report: jobs has two places"),
        (["--lines", "access/workload"], "--lines: there is no"),
    ],
)
def test_along_what_is_no_factor_of_the_run_nothing_is_drawn(tmp_path, capsys, options, why):
    run = write_run(tmp_path / "run", CACHE)
    assert cli.main(["report", str(run), *options]) == 2
    assert why in capsys.readouterr().err
    assert not list(run.glob("*.html"))
