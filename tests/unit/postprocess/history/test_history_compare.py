"""A run is judged against another, or against a nightly's nights; its exit status says how."""

import dataclasses
import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.unit.nights_of_chronicle import CONTROL, DAY_NS, LAN
from tests.unit.postprocess.history.test_history import FIRST_NS
from tests.unit.report_page import ONE_BATCH, silent
from tests.unit.synthetic_report import write_run
from tierbench import json_files, names
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER, judgement
from tierbench.postprocess.history.database import History, chronicle
from tierbench.postprocess.history.rows import FAILED, MEASURED, NightMark
from tierbench.postprocess.history.runs import _of_one_more, rebuild
from tierbench.postprocess.history.sentences import COLUMNS, as_csv, table_rows, write_parquet
from tierbench.postprocess.stats import Interval
from tierbench.submit.cli import main

FASTER_BOTH = {"direct": 800.0, "lan-xrootd": 400.0}


def make(path, **changes):
    return str(write_run(path, dataclasses.replace(ONE_BATCH, **changes)))


def night(run, number, **mark):
    """The run as the night of that number."""
    json_files.write(Path(run) / names.NIGHT, NightMark("quick", FIRST_NS + number * DAY_NS, **mark))


def history_of(folder):
    """The history of a folder's runs, beside it."""
    rebuild(folder / "history", [folder / "runs"], silent)
    return folder


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ((0.9, 0.85, 0.95), SLOWER),
        ((1.2, 1.1, 1.3), FASTER),
        ((0.99, 0.97, 1.01), EQUIVALENT),
        ((0.97, 0.96, 0.98), EQUIVALENT),  # certain, and too small to matter
        ((0.97, 0.8, 1.2), INCONCLUSIVE),
        ((0.9, None, None), INCONCLUSIVE),
    ],
)
def test_slower_is_certain_and_large_and_equivalent_is_certainly_close(ratio, expected):
    assert judgement(Interval(*ratio), 0.05, "delivered_mbps") == expected


@pytest.mark.parametrize(
    ("metrics", "more", "less"),
    [
        (("wall_time_s", "latency_p99_s", "start_skew_ms", "volatility_5s_mbps", "round_trips_per_operation"),
         SLOWER, FASTER),
        (("delivered_mbps", "events_per_s", "operations_per_s", "fetches_per_s"), FASTER, SLOWER),
    ],
    ids=["times", "rates"],
)  # fmt: skip
def test_of_a_time_more_is_worse_and_of_a_rate_less(metrics, more, less):
    for metric in metrics:
        assert judgement(Interval(1.2, 1.1, 1.3), 0.05, metric) == more
        assert judgement(Interval(0.8, 0.7, 0.9), 0.05, metric) == less


def test_what_is_slower_has_exit_status_1_and_fails_its_test_of_junit(tmp_path, capsys):
    one, other = make(tmp_path / "a"), make(tmp_path / "b", rates={"direct": 400.0, "lan-xrootd": 100.0})
    junit = tmp_path / "junit.xml"
    assert main(["compare", one, other, "--json", "--junit", str(junit)]) == 1
    told = {one["configuration"]: one for one in json.loads(capsys.readouterr().out)["configurations"]}
    lan = told[LAN]
    assert lan["judgement"] == SLOWER
    assert lan["low"] < 0.5 < lan["high"]
    suite = ElementTree.parse(junit).getroot()  # noqa: S314 - our own
    assert [case.get("name") for case in suite if case.find("failure") is not None] == [lan["configuration"]]
    assert suite.get("failures") == "1"


def test_what_is_faster_has_exit_status_0(tmp_path, capsys):
    assert main(["compare", make(tmp_path / "a"), make(tmp_path / "b", rates=FASTER_BOTH)]) == 0
    assert "2 configurations faster" in capsys.readouterr().out


def without_lan(path, **changes):
    """A run none of whose trials through xrootd is VALID."""
    lan = {f"lan-xrootd.root.x008.r{repeat}": ("INVALID", "it fell over") for repeat in (1, 2, 3)}
    return make(path, verdicts=lan, **changes)


def test_a_configuration_that_has_no_valid_trial_any_more_is_told_and_is_not_the_same(tmp_path, capsys):
    one, other = make(tmp_path / "a"), without_lan(tmp_path / "b", rates=FASTER_BOTH)
    junit = tmp_path / "junit.xml"
    assert main(["compare", one, other, "--junit", str(junit)]) == 3
    told = capsys.readouterr().out
    assert f"{LAN}  inconclusive: no usable trials in b" in told
    assert "1 configuration without usable trials" in told
    suite = ElementTree.parse(junit).getroot()  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("skipped")) == ("2", "1")
    before = without_lan(tmp_path / "c")
    assert main(["compare", before, make(tmp_path / "d", rates=FASTER_BOTH)]) == 0  # what came back costs nothing


def test_what_was_made_differently_is_refused_unless_it_is_meant(tmp_path, capsys):
    one, other = make(tmp_path / "a"), make(tmp_path / "b", site="elsewhere")
    assert main(["compare", one, other]) == 2
    assert "site: synthetic against elsewhere" in capsys.readouterr().err
    assert main(["compare", one, other, "--anyway"]) in (0, 3)


def test_each_metric_is_compared_in_its_own_unit(tmp_path, nights, capsys):
    one, other = make(tmp_path / "a"), without_lan(tmp_path / "b")
    for metric, unit in (("wall_time_s", "s"), ("amplification", ""), ("delivered_mbps", "Mb/s")):
        main(["compare", one, other, "--metric", metric, "--json"])
        assert json.loads(capsys.readouterr().out)["unit"] == unit
    main(["compare", one, other, "--metric", "window_s"])
    said = capsys.readouterr().out
    assert "window_s (less is better):" in said
    assert "inconclusive: no usable trials with window_s in b" in said
    history(nights, "list", "--metric", "window_s")
    assert "49.9 s  of" in capsys.readouterr().out


def test_an_error_is_none_of_the_answers(tmp_path, capsys):
    one, other = make(tmp_path / "one", repeats=1), make(tmp_path / "other", repeats=1)
    assert main(["compare", one, other]) == 3  # single trials
    for metric in ("gaps", "fetches_overdue", "verdict"):  # of which nobody knows whether more is better
        assert main(["compare", one, other, "--metric", metric]) == 2
        assert "must be one of" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "nowhere"), str(tmp_path)]) == 2
    assert main(["compare", make(tmp_path / "a")]) == 2
    assert main(["compare", str(tmp_path / "a"), "--baseline", "none", "--history", str(tmp_path / "h")]) == 2


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Five nights that scatter by a per cent, and their history."""
    folder = tmp_path_factory.mktemp("nights")
    for number, factor in enumerate((1.0, 1.01, 0.99, 1.005, 0.995)):
        rates = {name: rate * factor for name, rate in ONE_BATCH.rates.items()}
        night(make(folder / "runs" / f"night-{number}", rates=rates), number, control=CONTROL)
    return history_of(folder)


def against(folder):
    return ["--baseline", "quick", "--history", str(folder / "history")]


def test_a_run_is_judged_against_a_nightlys_nights(tmp_path, nights):
    slow = make(tmp_path / "slow", rates={"direct": 400.0, "lan-xrootd": 170.0})
    assert main(["compare", slow, *against(nights)]) == 1
    assert main(["compare", make(tmp_path / "like"), *against(nights)]) == 0
    assert main(["compare", without_lan(tmp_path / "lost"), *against(nights)]) == 3
    assert main(["compare", make(tmp_path / "by"), "--metric", "window_s", *against(nights)]) == 2


@pytest.mark.parametrize("trials", [1, 2, 3, 6])
def test_a_run_of_fewer_trials_than_a_night_is_expected_to_scatter_more(trials):
    chance, covered, draws = np.random.default_rng(7), 0, 2000
    for _ in range(draws):
        nights = chance.normal(0, 0.05, (20, 3)).mean(axis=1)
        ratio = _of_one_more(nights, float(np.exp(chance.normal(0, 0.05, trials).mean())), 1, 3 / trials)
        covered += ratio.low < 1 < ratio.high
    assert covered / draws > 0.935  # 0.76 for one, without


@pytest.fixture
def runs(tmp_path, nights):
    """The nights in a folder that a test may change."""
    return Path(shutil.copytree(nights / "runs", tmp_path / "runs"))


def test_a_rerun_of_the_doubtful_methods_alone_takes_none_out_of_the_baseline(tmp_path, runs, capsys):
    night(make(runs / "again", rates={"direct": 400.0}), 4, rerun=True)
    assert main(["compare", without_lan(tmp_path / "lost"), *against(history_of(tmp_path))]) == 3
    out = capsys.readouterr().out
    assert "1 configuration without VALID trials" in out
    assert "differs" not in out  # the rerun has other methods, and is none of the nights that the run is held against


def test_a_rerun_is_no_part_of_the_baseline_that_it_is_compared_with(tmp_path, nights, runs, capsys):
    slow = make(runs / "again", rates={"direct": 400.0, "lan-xrootd": 100.0})
    night(slow, 4, rerun=True)
    judged = []
    for folder in (history_of(tmp_path), nights):  # with it, and without
        assert main(["compare", slow, *against(folder), "--json"]) == 1
        judged.append(json.loads(capsys.readouterr().out)["configurations"])
    assert judged[0] == judged[1]


def test_what_the_latest_night_has_lost_too_is_not_the_same(tmp_path, runs):
    night(without_lan(runs / "night-5"), 5)
    assert main(["compare", without_lan(tmp_path / "lost"), *against(history_of(tmp_path))]) == 3


def test_where_the_latest_night_cannot_be_looked_at_any_more_it_is_refused(tmp_path, runs, capsys):
    command = ["compare", make(tmp_path / "like"), *against(history_of(tmp_path))]
    shutil.rmtree(runs / "night-4")
    assert main(command) == 2
    assert "nobody can say whether like was made as that" in capsys.readouterr().err
    assert main([*command, "--anyway"]) == 0
    assert "differs: unknown" in capsys.readouterr().out
    assert main([*command, "--anyway", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] is None


def chronicle_of(nights):
    with History(nights / "history") as known:
        return chronicle(known, "quick")


def history(nights, *words):
    return main(["history", "--history", str(nights / "history"), *words])


def test_the_nights_are_listed_shown_and_exported(nights, capsys):
    assert history(nights, "list", "--configuration", "lan-*") == 0
    told = capsys.readouterr().out
    assert "quick: 5 nights, 5 measured" in told
    assert "▄█▁▆▃" in told
    assert "direct" not in told
    assert history(nights, "show", "quick") == 0
    assert "3 VALID, 0 SUSPECT, 0 INVALID" in capsys.readouterr().out
    assert history(nights, "show", "quick", "1999-01-01") == 2
    assert history(nights, "list", "--metric", "delivered_mpbs") == 2
    assert "delivered_mbps" in capsys.readouterr().err
    assert history(nights, "export", "quick", "--csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("nightly,night,planned_ns,run,rerun,outcome")
    assert sum(",delivered_mbps," in line for line in lines) == 10


def test_the_docs_have_each_column_of_the_table():
    page = (Path(__file__).parents[4] / "docs/nightly.md").read_text()
    (table,) = re.findall(r"^The table of `export`.*?\n\n(.*?)\n\n", page, re.DOTALL | re.MULTILINE)
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert sorted(re.findall(r"`(\w+)`", "".join(first))) == sorted(COLUMNS)


def test_a_spreadsheet_computes_nothing_of_the_table(nights):
    known = chronicle_of(nights)
    night = dataclasses.replace(known.nights[0], reason="=HYPERLINK(0)", run="-5")
    lines = as_csv(dataclasses.replace(known, nights=[night])).splitlines()
    assert [line.split(",")[3:7] for line in lines[1:2]] == [["-5", "False", "measured", "'=HYPERLINK(0)"]]


def test_parquet_holds_what_the_csv_does_and_has_its_types_where_nothing_was_measured(nights, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path, known = tmp_path / "t.parquet", chronicle_of(nights)
    assert history(nights, "export", "quick", "--parquet", str(path)) == 0
    table = parquet.read_table(path)
    assert [tuple(row.values()) for row in table.to_pylist()] == list(table_rows(known))
    assert table.column_names == list(COLUMNS)
    for of_nights in (known.nights, []):
        write_parquet(dataclasses.replace(known, values={}, verdicts={}, nights=of_nights), path)
        table = parquet.read_table(path)
        assert (str(table.schema.field("mean").type), table.num_rows) == ("double", len(of_nights))


def test_parquet_without_what_it_needs_tells_so(nights, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert history(nights, "export", "quick", "--parquet", str(tmp_path / "t.parquet")) == 3
    assert "needs pyarrow" in capsys.readouterr().err


def test_parquet_that_cannot_be_written_is_told_without_a_traceback(nights, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    assert history(nights, "export", "quick", "--parquet", str(tmp_path / "nowhere/t.parquet")) == 1
    assert "may you write there?" in capsys.readouterr().err


@pytest.mark.parametrize("outcome", [MEASURED, FAILED])
def test_old_samples_go_and_tables_stay_and_are_never_made_of_nothing(tmp_path, capsys, outcome):
    run = Path(make(tmp_path / "runs" / "night", samples=True))
    night(run, 0)
    history_of(tmp_path)
    shown = (run / "trials.csv").read_bytes()
    old = ["gc", "--keep-samples", "0d"]

    def samples():
        return len(list(run.glob("trials/*/samples/*.samples")))

    with closing(sqlite3.connect(tmp_path / "history", isolation_level=None)) as opened:
        # The synthetic trials are of a time to come.
        opened.execute("UPDATE night SET ended_ns = 1000, outcome = ?", (outcome,))
    before = samples()
    assert history(tmp_path, "gc", "--keep-samples", "99999d") == 0
    assert history(tmp_path, *old, "--dry-run") == 0
    assert samples() == before > 0
    assert "would be removed" in capsys.readouterr().out
    assert history(tmp_path, *old) == 0
    assert samples() == 0
    assert main(["tables", str(run)]) == 1
    assert "its samples were removed" in capsys.readouterr().err
    schema = json.loads((run / "schema.json").read_text()) if (run / "schema.json").exists() else {}
    (run / "schema.json").write_text(json.dumps({**schema, "schema_version": 1}))
    assert rebuild(tmp_path / "history", [run], silent) == 1
    assert (run / "trials.csv").read_bytes() == shown
