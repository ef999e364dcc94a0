"""The CSVs of a run, also of trials in which something went wrong."""

import csv
import errno
import json
import os
import shutil
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import READ, flushed
from tests.unit.synthetic_run import rows, write_host
from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.schema.columns import places, read_rows
from tierbench.postprocess.schema.rows import TRIAL_FILES, Fetches, TrialRow
from tierbench.postprocess.schema.run_rows import FILES, SCHEMA_VERSION
from tierbench.postprocess.tables import write as writing
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.terminal import as_text
from tierbench.postprocess.tables.write import tables, trial_tables, write_parquet
from tierbench.submit import cli

TRIAL = "trials/lan-xrootd.root.x004.r1"
MANY, UNSEEN = {"resident_after_bytes": 4096}, {"files": 0, "bytes": 0}  # what a flush has left, and has not seen
SAMPLES = f"samples/{synthetic.OSS}.samples"


@pytest.fixture
def run(tmp_path):
    for repeat in (1, 2):
        synthetic.write_trial(tmp_path, repeat=repeat, index=2 - repeat)
    return tmp_path


@pytest.fixture
def folder(run):
    return run / TRIAL


@pytest.fixture
def made(run):
    """The run with a plan and its tables."""
    (run / names.PLAN).write_text(json.dumps({"configurations": [{"access": "lan-xrootd", "workload": "root"}]}))
    tables(run)
    return run


@pytest.mark.parametrize("name", FILES)
def test_each_table_has_the_columns_of_its_schema(run, name):
    tables(run)
    schema = json.loads((run / "schema.json").read_text(encoding="utf-8"))
    with (run / name).open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == [column["name"] for column in schema["files"][name]["columns"]]
    assert {len(line) for line in lines} == {len(lines[0])}


def test_a_spreadsheet_computes_no_hosts_name(folder):
    write_host(folder, "=1+1", tx_bytes=synthetic.during(400, 20))
    trial_tables(folder)
    assert "'=1+1" in {row["host"] for row in rows(folder / "samples.csv")}


def test_a_lines_surplus_fields_are_left_out(run):
    tables(run)
    path = run / names.TRIALS_CSV
    read = read_rows(TrialRow, run)
    path.write_text(path.read_text().replace("\n", ",surplus\n").replace(",surplus", "", 1))
    assert read_rows(TrialRow, run) == read


@pytest.mark.parametrize(
    ("count", "rate"),
    [("events", "events_per_s"), ("operations", "operations_per_s"), ("cpu_user_s", "cpu_efficiency")],
)
def test_a_rate_of_what_one_client_does_not_tell_is_not_the_others(folder, count, rate):
    for client in range(4):
        write(folder, client, **{count: 1000})
    assert trial_tables(folder)[rate] is not None
    write(folder, 2, **{count: None, "cpu_system_s": None})
    assert trial_tables(folder)[rate] is None


def write(folder, client, **end):
    size = json.loads((folder / names.TRIAL).read_text())["bytes"] // 4
    synthetic.write_client(
        folder / f"clients/{client}.jsonl", begin_s=client * 1e-3, end_s=20 - client, size=size, **end
    )


def test_a_trial_that_has_not_ended_is_running_and_not_judged_whatever_its_hosts_have(run):
    synthetic.write_trial(run, repeat=3, index=3)
    going = synthetic.write_trial(run, repeat=4, index=4)
    samples = going / f"samples/{synthetic.OSS}.samples"
    synthetic.write_samples(samples, synthetic.ticks(-2, 5), synthetic.during(400, 20), cut=True, kernel="another")
    (going / names.DAGMAN_LOCK).write_text("PID = 1\n")
    (going / names.client_output(1)).write_text("")
    tables(run)
    *others, row = rows(run / names.TRIALS_CSV)
    assert [other["verdict"] for other in others] == ["VALID"] * 3
    assert (row["state"], row["verdict"], row["verdict_reasons"]) == ("running", "running", "has not ended")
    assert rows(run / names.SUMMARY_CSV)[0]["trials"] == "3"


HEADERS = (
    {"packages": {"xrootd": ["5.8"]}}, {"packages": [1]}, {"mounts": {"/": {}}}, {"kernel": ["6.1"]}, {"disks": 5},
    {"clock_mono_ns": 2**63 - 1}, {"clock_wall_ns": -1}, {"tuning": {"mtu": "jumbo"}},
)  # fmt: skip
DETAILS = ({"program": ["root"]}, {"computed_s": "long"}, {"column_bytes": "x"}, {"column_bytes": 5, "gap_bytes": "x"})
ODD = [*(("header", each) for each in HEADERS), *(("detail", each) for each in DETAILS)]


@pytest.mark.parametrize(("where", "odd"), ODD)
def test_odd_headers_and_details_cost_the_other_trials_nothing(run, folder, where, odd):
    if where == "header":
        write_host(folder, head=odd, tx_bytes=synthetic.during(400, 20))
    else:
        write(folder, 2, detail=odd)
    assert [row.verdict for row in tables(run) if row.repeat == 2] == ["VALID"]


def test_a_run_has_a_row_per_sample_client_trial_and_batch_in_the_order_of_the_plan(run):
    assert [row["repeat"] for row in tables(run)] == [2, 1]
    assert {name: len(rows(run / name)) for name in FILES} == {
        "samples.csv": 52, "jobs.csv": 8, **dict.fromkeys(TRIAL_FILES, 2), "resources.csv": 18, "summary.csv": 1,
        "ratios.csv": 0, "scaling.csv": 0, "saturation.csv": 0,
    }  # fmt: skip


def test_a_complete_trials_tables_have_rates_times_and_no_empty_field_but_the_flushs_and_ceilings(folder):
    trial_tables(folder)
    written = [rows(folder / name) for name in TRIAL_FILES]
    assert {name for [row] in written for name, value in row.items() if not value} == {
        "reasons", "servers", "arranged", "steady_delivered_mbps", "all_active_delivered_mbps",
        "job_for_s", "job_fetch_every_s", *places(Fetches), "fetch_s", "round_trips_per_fetch",
        "cached_share", "hit_share", "bytes_per_server_read", "software_bytes",
        "reads", "bytes_per_read",
        "operations", "operations_per_s", "operation_s", "round_trip_s", "round_trips_per_operation",
        "resident_bytes", "bytes_late", "looked_at", "left_behind",
        "ceiling_mbps", "ceiling_from", "efficiency", "verdict_reasons",
    }  # fmt: skip
    samples = rows(folder / "samples.csv")
    assert [row["tx_mbps"] for row in samples] == ["", *["0.000"] * 2, *["400.000"] * 20, *["0.000"] * 3]
    assert samples[0]["time_s"] == "-2.000000"
    assert samples[5]["cpu_busy_pct"] == "50.0"
    row = rows(folder / "jobs.csv")[2]
    assert (row["begin_after_go_ms"], row["open_s"], row["first_byte_s"], row["run_s"]) == (
        "2.000", "0.100000", "0.200000", "17.998000",
    )  # fmt: skip


@pytest.mark.parametrize(("stamp", "wall_s", "error_s"), [("50.500", 29.5, 0.0005), ("50", 29.5, 0.5)])
def test_the_wall_time_is_as_exact_as_the_job_event_logs_stamps(folder, stamp, wall_s, error_s):
    log = folder / "clients.log"
    log.write_text(log.read_text().replace("03:59:50.500", f"03:59:{stamp}"))
    row = trial_tables(folder)
    assert row["wall_time_s"] == pytest.approx(wall_s, abs=error_s / 100 + 0.0005)
    assert row["wall_time_error_s"] == error_s


@pytest.mark.parametrize(
    ("flush", "resident_bytes"),
    [
        ({"wn01": MANY, "wn02": {}, "told": ["wn01"]}, None),
        ({"wn01": MANY, "wn02": {}}, 4096),
        ({"wn01": MANY, "wn02": {"status": "refused"}}, None),
        ({"workers": ["wn01"], "wn01": {}, "oss": UNSEEN}, None),  # by fadvise a server has to see the files itself
        ({"workers": ["wn01"], "wn01": {}, "oss": UNSEEN, "strategy": "drop_caches"}, 0),
        ({"workers": ["wn01"], "wn01": UNSEEN, "oss": {}}, 0),
        # Of several servers those that see files must see them all, or the other one looked in the wrong place.
        ({"oss": {"bytes": 4 * round(READ / 4)}, "oss2": UNSEEN}, 0),
        ({"oss": {"bytes": round(READ / 2)}, "oss2": UNSEEN}, None),
    ],
)
def test_resident_bytes_are_known_when_each_flush_has_told_and_seen_the_files(folder, flush, resident_bytes):
    flushed(folder, **flush)
    assert trial_tables(folder)["resident_bytes"] == resident_bytes


@pytest.mark.parametrize(("protocol", "resident_bytes"), [("file", None), ("xrootd", 0)])
def test_a_worker_that_saw_no_files_was_not_flushed_where_clients_read_from_its_mount(folder, protocol, resident_bytes):
    synthetic.edit_json(folder / "trial.json", protocol=protocol)
    flushed(folder, workers=[synthetic.WORKER, "wn02"], **{synthetic.WORKER: UNSEEN, "wn02": {}})
    assert trial_tables(folder)["resident_bytes"] == resident_bytes


def test_the_age_of_a_flush_counts_also_where_no_gate_gives_a_start(folder):
    flushed(folder, wn01={"wall_ns": synthetic.GO_NS - 7200 * 10**9})
    (folder / "go.json").unlink()
    for client in (folder / "clients").glob("*.jsonl"):
        client.write_text(client.read_text().replace("go_wall_ns", "other"))
    assert read_trial(folder).flush_doubt.startswith("the clients began 120 min after the flush")


def test_a_host_that_is_sampled_twice_ends_no_tables(folder):
    samples = (folder / SAMPLES).read_bytes()
    (folder / "samples/alias.samples").write_bytes(samples.rpartition(b"\n")[0].rpartition(b"\n")[0] + b"\n")
    row = trial_tables(folder)
    assert row.verdict == "INVALID"
    assert "sample each host once" in str(row["reasons"])


def shorten(change, *paths):
    """What becomes of these files, by their lines."""

    def mishap(folder):
        for path in (path for pattern in paths for path in sorted(folder.glob(pattern))):
            path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return mishap


def sample_from(begin_s, end_s, **more):
    times = synthetic.ticks(begin_s, end_s)
    return lambda folder: synthetic.write_samples(folder / SAMPLES, times, synthetic.steady(400), **more)


def fail_client(folder):
    synthetic.write_client(folder / "clients/0.jsonl", begin_s=0, end_s=20, size=9, status="short-read", events=None)


def lose_gate(folder):
    (folder / "go.json").unlink()
    shorten(lambda lines: lines[:1], "clients/*")(folder)


def remove_trial(folder):
    outcome = {"format": 1, "state": "incomplete", "reasons": ["the trial was removed", "client 0 lost"]}
    (folder / "outcome.json").write_text(json.dumps(outcome))


def without_a_host(folder):
    output = folder / "clients/0.jsonl"
    output.write_text(output.read_text().replace('"host"', '"hose"'))


def ending_at(end_s):
    return lambda folder: synthetic.write_clients(folder, begin_s=end_s, end_s=end_s, size=1)


def empty_folder(folder):
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "trial.json":
            path.unlink()
    synthetic.edit_json(folder / names.TRIAL, flush={"strategy": "none", "hosts": []})  # which is no reason then


lose_client = shorten(lambda lines: lines[:-1], "clients/2.jsonl")


@pytest.mark.parametrize(
    ("mishap", "reason"),
    [
        (lose_client, "1 of 4 clients lost (2)"),
        (shorten(lambda lines: [*lines[:-1], lines[-1][:-30]], "clients/2.jsonl"), "1 of 4 clients lost (2)"),
        (shorten(lambda _: [], "clients/[13].jsonl"), "2 of 4 clients never-started (1, 3)"),
        (fail_client, "1 of 4 clients short-read (0)"),
        (shorten(lambda lines: lines * 2, "clients/0.jsonl"), "client 0 was started 2 times"),
        (lambda folder: (folder / SAMPLES).unlink(), "no samples from oss.uf.test (storage)"),
        (shorten(lambda _: [], SAMPLES), "is empty: the sampler never ran"),
        (sample_from(-3, 12, cut=True), "samples of oss.uf.test end 9.0 s before the window's end"),
        (sample_from(2.5, 23.5), "samples of oss.uf.test begin 2.5 s after the window's begin"),
        (lose_gate, "the gate never opened"),
        (remove_trial, "the trial was removed"),
        (lambda folder: (folder / "outcome.json").write_text("{"), "outcome.json is damaged"),
        (lambda folder: write(folder, 2, bytes_app=-1_000_000), "bytes_app is negative"),
        (lambda folder: write(folder, 2, detail={"column_bytes": -1}), "detail.column_bytes is no amount"),
        (lambda folder: write(folder, 2, detail={"computed_s": -5}), "detail.computed_s is no amount"),
        (without_a_host, "1 of 4 clients never-started (0)"),
        (ending_at(0.0), "the last client ended before the window began"),
        (ending_at(-3.0), "the last client ended before the window began"),
        (empty_folder, "has not run"),
    ],
)
def test_a_mishap_is_a_reason_in_the_trials_row_and_costs_no_other_trial(run, folder, mishap, reason):
    mishap(folder)
    tables(run)
    other, row = rows(run / "trials.csv")
    assert (other["state"], row["state"], row["verdict"]) == ("complete", "incomplete", "INVALID")
    assert reason in row["reasons"]
    assert row["verdict_reasons"].startswith(row["reasons"])
    assert mishap is not empty_folder or row["verdict_reasons"] == reason
    assert len(rows(folder / "jobs.csv")) == 4


def test_what_is_shown_has_each_trial_its_reasons_and_the_summary(run, folder):
    lose_client(folder)
    tables(run)
    text = as_text(run)
    assert "#2   4  392.2  400.0       1.02" in text
    assert "#1: 1 of 4 clients lost (2)" in text
    assert "lan-xrootd/root     4       1  392.2         -     -  400.0" in text


def test_what_is_shown_has_the_interval_of_the_mean_rate_of_several_trials(tmp_path):
    for repeat, mbps in enumerate((390.0, 400.0, 410.0), 1):
        synthetic.write_trial(tmp_path, mbps=mbps, repeat=repeat, index=repeat)
    tables(tmp_path)
    assert "392.2       9.8  367.8…416.5  400.0       1.02" in as_text(tmp_path)


def test_a_broken_definition_costs_no_other_trial(run, folder):
    (folder / names.TRIAL).write_text('{"format": 1, "na')
    said = []
    assert [row["repeat"] for row in tables(run, said.append)] == [2]
    assert folder.name in said[0]


def test_a_copy_of_a_trials_folder_is_told_and_counts_no_second_time(run, folder):
    shutil.copytree(folder, folder.with_name(f"{folder.name}.old"))
    for _ in range(2):  # also of tables that are there already
        said = []
        assert [row.repeat for row in tables(run, said.append)] == [2, 1]
        assert rows(run / names.SUMMARY_CSV)[0]["trials"] == "2"
        assert f"{folder.name}.old holds the trial {folder.name}" in said[0]


def test_a_folder_without_trials_or_a_definition_without_what_it_needs_is_refused(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(TierbenchError, match="has no trials"):
        tables(tmp_path / "empty")
    (folder / names.TRIAL).write_text("{}")
    with pytest.raises(TierbenchError, match="id: missing"):
        trial_tables(folder)


def test_the_first_cause_is_among_a_trials_reasons(folder):
    why = "client 1 lost: it was held; no replicas.txt"
    outcome = {"format": 1, "state": "incomplete", "reasons": [why, "client 0 killed: ended by SIGTERM"]}
    (folder / names.OUTCOME).write_text(json.dumps(outcome))
    assert trial_tables(folder)["reasons"].split("; ")[0] == why.replace(";", ",")


def test_what_a_run_came_to_is_not_read_from_tables_that_are_older_than_a_trial(made):
    """They were made in between; a trial that was repeated since, or has ended, has a table of its own."""
    before, words = read_results(made, str).trials, []
    assert read_results(made, words.append).trials == before
    assert words == []
    for client in range(4):
        size = before[0].bytes_app // 4
        synthetic.write_client(made / f"{TRIAL}/clients/{client}.jsonl", begin_s=0, end_s=19 - client, size=size)
    trial_tables(made / TRIAL)
    (after,) = (row for row in read_results(made, words.append).trials if row.trial_id == Path(TRIAL).name)
    assert after.window_s == pytest.approx(19)
    anew = f"{made}: making its tables anew, trials have ended since"
    assert words == [anew]
    whole = (made / names.TRIALS_CSV).read_text().splitlines(keepends=True)
    (made / names.TRIALS_CSV).write_text("".join(line for line in whole if Path(TRIAL).name not in line))  # --more's
    read_results(made, words.append)
    assert words == [anew, anew]


def test_tables_of_a_newer_version_are_refused(made):
    synthetic.edit_json(made / names.SCHEMA, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(ConfigError, match="use a newer tierbench"):
        read_results(made, str)


@pytest.mark.parametrize("name", TRIAL_FILES)
def test_a_part_of_what_was_measured_of_trials_that_is_gone_is_made_anew(made, name):
    before, words = read_results(made, str).trials, []
    (made / name).unlink()
    assert read_results(made, words.append).trials == before
    assert words == [f"{made}: making its tables first"]
    assert (made / name).is_file()


def test_a_trial_whose_own_step_makes_its_tables_meanwhile_shifts_no_columns(run, monkeypatch):
    """Those have the columns of its own samplers, and the run's those of all."""
    columns = synthetic.header({**synthetic.WIDTHS, "spare_reads": synthetic.FURTHER_WIDTH})["columns"]
    columns[-1].update(kind="gauge", source="spare", scope="host")
    write_host(run / TRIAL, "gw.uf.test", "gateway", head={"columns": columns}, spare_reads=lambda _: 7)
    made, folders = writing.judge_run, sorted((run / names.TRIALS).iterdir())

    def meanwhile(*of):
        for folder in folders:
            trial_tables(folder)
        return made(*of)

    monkeypatch.setattr(writing, "judge_run", meanwhile)
    tables(run)
    header, *lines = csv.reader((run / names.SAMPLES_CSV).read_text().splitlines())
    assert ("spare_reads" in header, {len(line) for line in lines}) == (True, {len(header)})


def test_tables_are_made_anew_where_trials_ended_on_a_host_that_could_not_make_them(made):
    (made / names.NO_TABLES).write_text("no tierbench on the PATH")
    words = []
    read_results(made, words.append)
    assert words == [f"{made}: making its tables anew, trials have ended since"]
    assert not (made / names.NO_TABLES).exists()


def test_without_pyarrow_parquet_is_refused_before_tables_are_made(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cli.main(["tables", str(run), "--parquet"]) == 3
    assert "pip install tierbench[parquet]" in capsys.readouterr().err
    assert not (run / names.TRIALS_CSV).exists()


def test_a_trial_whose_tables_have_no_room_is_not_left_out(run, capsys, monkeypatch):
    """A few large tables may fill a disk on which the run's small ones still have room."""
    tables(run)
    before = {name: (run / name).read_bytes() for name in (names.TRIALS_CSV, names.SUMMARY_CSV)}
    (run / TRIAL / names.MADE_OF).unlink()
    replacing = writing.files.replacing

    def full(path):
        if path == run / TRIAL / names.SAMPLES_CSV:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return replacing(path)

    monkeypatch.setattr(writing.files, "replacing", full)
    assert cli.main(["tables", str(run)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert {name: (run / name).read_bytes() for name in before} == before


def test_parquet_has_the_rows_and_types_of_the_tables_and_what_many_clients_said_in_several_lines(run):
    parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)
    tables(run)
    written = {path.name: parquet.read_table(path) for path in write_parquet(run)}
    assert set(written) == {f"{name.removesuffix('.csv')}.parquet" for name in FILES}
    trials = written["trials.parquet"]
    assert trials.column("trial").to_pylist() == [row["trial"] for row in rows(run / names.TRIALS_CSV)]
    assert (str(trials.schema.field("jobs").type), str(trials.schema.field("window_s").type)) == ("int64", "double")
    assert trials.column("operations").to_pylist() == [None, None]
    message = 'Error in <TFile>:\nline two, with a comma\n"quoted"'
    synthetic.edit_clients(run / TRIAL, "end", status="failed", message=message)
    tables(run)
    header, *clients = csv.reader((run / names.JOBS_CSV).read_text().splitlines(keepends=True))
    with (run / names.JOBS_CSV).open("w", newline="") as file:
        csv.writer(file).writerows([header, *clients * 1000])
    assert {path.name for path in write_parquet(run)} >= {"jobs.parquet"}
    assert parquet.read_table(run / "jobs.parquet").num_rows == 1000 * len(clients)


def test_the_notebook_reads_a_runs_tables_and_draws(run, monkeypatch):
    names_in_it = executed_notebook(run, monkeypatch)
    assert len(names_in_it["trials"]) == 2
    assert set(names_in_it["usable"]["state"]) == {"complete"}
    [axes] = names_in_it["figure"].axes
    assert len(axes.lines) >= 1


def test_the_notebook_reads_levels_and_times_as_they_stand(tmp_path, monkeypatch):
    for index, version in enumerate(("5.1", "5.10", "NA", "None")):  # as numbers two would be one, and two none
        folder = synthetic.write_trial(tmp_path, index=index, levels={"version": version})
    write(folder, 0, opened_wall_ns=None)  # an empty field beside whole numbers that no float holds
    names_in_it = executed_notebook(tmp_path, monkeypatch)
    assert list(names_in_it["samples"]["version"].unique()) == ["5.1", "5.10", "NA", "None"]
    recorded = [int(row["opened_wall_ns"]) for row in rows(tmp_path / names.JOBS_CSV) if row["opened_wall_ns"]]
    assert list(names_in_it["jobs"]["opened_wall_ns"].dropna()) == recorded != []


def executed_notebook(run, monkeypatch):
    """What is there after its code has been executed as a reader would, cell by cell."""
    tables(run)
    monkeypatch.setenv("RUN", str(run))
    notebook = json.loads((Path(__file__).parents[3] / "docs/trials.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names_in_it = {}
    with mpl.rc_context({"backend": "agg"}):
        for cell in cells:
            exec(compile(cell, "docs/trials.ipynb", "exec"), names_in_it)  # noqa: S102 - our own
    return names_in_it
