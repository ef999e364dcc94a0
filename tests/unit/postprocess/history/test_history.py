"""The history takes each night once, whole or not at all, whoever writes and whenever they are killed."""

import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.unit.nights_of_chronicle import CONTROL, DAY_NS, LAN
from tests.unit.report_page import ONE_BATCH, silent
from tests.unit.synthetic_report import write_run
from tests.unit.synthetic_run import edit_json
from tierbench import json_files, names
from tierbench.errors import BusyError, ConfigError
from tierbench.postprocess.compare.differences import altered
from tierbench.postprocess.history import database
from tierbench.postprocess.history.database import DamagedHistory, History
from tierbench.postprocess.history.rows import FAILED, MEASURED, MISSED, Acknowledgement, Night, NightMark, Verdicts
from tierbench.postprocess.history.runs import add_run, rebuild
from tierbench.postprocess.history.sentences import what_else

FIRST_NS = 1_800_000_000 * 10**9


def night(number=0, **changes):
    return Night(**{"nightly": "quick", "planned_ns": FIRST_NS + number * DAY_NS, "outcome": MEASURED, **changes})


def run_of(folder, number=0, **shape):
    run = write_run(folder / f"night-{number:03d}", dataclasses.replace(ONE_BATCH, **shape))
    json_files.write(run / names.NIGHT, NightMark("quick", FIRST_NS + number * DAY_NS, control=CONTROL))
    return run


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.sqlite") as opened:
        yield opened


def test_an_edited_experiment_is_the_first_thing_that_was_otherwise(history, tmp_path):
    """And another seed, as each night has, or a key that only a newer tierbench knows, is nothing."""
    runs = [run_of(tmp_path, number) for number in range(3)]
    edit_json(runs[1] / "experiment.json", seed=77, of_a_newer_version=True)
    edit_json(runs[2] / "experiment.json", seed=78, sample_period_s=5.0)
    for run in runs:
        add_run(history, run, silent)
    known = database.chronicle(history, "quick")
    first, second, third = known.nights
    assert what_else(known, first, second, beside=0) == []
    assert what_else(known, second, third, beside=0) == ["the experiment had been edited (sample_period_s)"]
    software = {("oss", "kernel"): "6.1", ("oss", "package xrootd-server"): "5.8.4", ("", "experiment: workloads"): "a"}
    before = dict.fromkeys(software, "another")
    assert next(change.words for change in altered(before, software)) == "the experiment had been edited (workloads)"


def test_a_night_has_the_means_of_its_valid_trials(history, tmp_path):
    doubtful = {"lan-xrootd.root.x008.r1": ("SUSPECT", "late"), "lan-xrootd.root.x008.r2": ("INVALID", "lost")}
    doubtful |= {f"direct.root.x008.r{repeat}": ("SUSPECT", "late") for repeat in (1, 2)}
    add_run(history, run_of(tmp_path, verdicts=doubtful), silent)
    told = database.chronicle(history, "quick")
    (only,) = told.nights
    assert (only.outcome, only.metric, only.unit) == (MEASURED, "delivered_mbps", "Mb/s")
    value = told.value(only, LAN)
    assert (value.n, value.low) == (1, None)
    assert value.mean == pytest.approx(200 * 0.4 * 1.01 / 1.02, rel=1e-3)  # the third repeat's
    assert told.counts(only) == {CONTROL: Verdicts(CONTROL, 1, 2, 0), LAN: Verdicts(LAN, 1, 1, 1)}


def test_a_night_is_there_once_however_often_it_is_added(history, tmp_path):
    run = run_of(tmp_path)
    for _ in range(3):
        add_run(history, run, silent)
    told = database.chronicle(history, "quick")
    assert len(told.nights) == 1
    assert len(told.values[told.nights[0].id]) == len({(v.configuration, v.metric) for v in told.values[1]})


def test_a_night_without_a_valid_trial_failed_and_says_why(history, tmp_path):
    verdicts = {f"direct.root.x008.r{n}": ("INVALID", "caches were warm; late") for n in (1, 2, 3)}
    added = add_run(history, run_of(tmp_path, rates={"direct": 400.0}, verdicts=verdicts), silent)
    assert (added.outcome, added.reason) == (FAILED, "none of its 3 trials is VALID: caches were warm")
    assert database.chronicle(history, "quick").verdicts[1][0].invalid == 3


def test_what_was_missed_gives_way_to_a_run_and_takes_no_runs_place(history):
    history.record(night(outcome=MISSED, reason="the machine was off"))
    history.record(night(outcome=FAILED, run="late"))
    history.record(night(outcome=MISSED))
    assert [(one.outcome, one.run) for one in database.nights(history, "quick")] == [(FAILED, "late")]


def test_a_rerun_stands_behind_its_night_and_an_unknown_nightly_is_told_with_those_that_there_are(history):
    history.record(night(run="b", rerun=True))
    history.record(night(run="c"))
    history.record(night(1, run="a"))
    assert [one.run for one in database.nights(history, "quick")] == ["c", "b", "a"]
    with pytest.raises(ConfigError, match="has: quick"):
        database.chronicle(history, "quack")


def test_a_rebuild_from_run_directories_gives_the_same_and_keeps_what_only_the_history_knows(tmp_path):
    place = tmp_path / "history.sqlite"
    for number in range(3):
        run_of(tmp_path / "runs", number)
    assert rebuild(place, [tmp_path / "runs"], silent) == 3
    (tmp_path / "quick/nights").mkdir(parents=True)
    (tmp_path / "runs").rename(tmp_path / "quick/nights/20261122T0230Z")  # with a run or two, a night's folder
    assert rebuild(tmp_path / "other.sqlite", [tmp_path / "quick"], silent) == 3
    (tmp_path / "quick/nights/20261122T0230Z").rename(tmp_path / "runs")
    with History(place) as history:
        history.record(night(3, outcome=MISSED))
        history.acknowledge(Acknowledgement("quick", LAN, FIRST_NS, "admin", FIRST_NS))
        before = database.chronicle(history, "quick")
    assert rebuild(place, [tmp_path / "runs"], silent) == 3
    with History(place) as history:
        assert database.chronicle(history, "quick") == before
        assert [one.outcome for one in before.nights] == [MEASURED] * 3 + [MISSED]


def test_a_damaged_history_is_told_and_put_aside_by_a_rebuild(tmp_path):
    place = tmp_path / "history.sqlite"
    run_of(tmp_path / "runs")
    rebuild(place, [tmp_path / "runs"], silent)
    place.write_bytes(b"not a database, and long enough not to be taken for an empty one" * 40)
    with pytest.raises(DamagedHistory, match="history rebuild"), History(place) as history:
        database.nightlies(history)
    assert rebuild(place, [tmp_path / "runs"], silent) == 1
    assert [path.name.split("-")[0] for path in tmp_path.glob("history.sqlite.damaged*")] == ["history.sqlite.damaged"]


def test_two_that_open_a_new_history_at_once_make_it_once_and_a_newer_history_is_refused_and_left_as_it_is(tmp_path):
    place = tmp_path / "history.sqlite"
    with ThreadPoolExecutor(8) as threads:  # each closes its own: SQLite lets no other thread do so
        list(threads.map(lambda _: History(place).database.close(), range(8)))
    with closing(sqlite3.connect(place)) as opened_again:
        assert opened_again.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
    with closing(sqlite3.connect(place)) as opened:
        opened.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match=r"version 99.*newer tierbench"):
        History(place)


def test_who_finds_the_history_locked_is_told_so(tmp_path):
    place = tmp_path / "history.sqlite"
    with (
        History(place) as one,
        History(place, wait_s=0.05) as other,
        one.transaction(),
        pytest.raises(BusyError, match="another program"),
    ):
        other.record(night())


WRITERS = """
import os, sys
from pathlib import Path
from tierbench.postprocess.history.rows import MEASURED, Measured, Night, Value
from tierbench.postprocess.history.database import History
name, first = ("a", sys.argv[2]) if os.fork() else ("b", sys.argv[3])
with History(Path(sys.argv[1])) as history:
    for number in range(int(first), 10**6):
        values = tuple(Value(f"way{way}", "m", number, None, None, 1) for way in range(50))
        history.record(Night("quick", number, MEASURED, run=name, metric="m"), Measured(values))
        os.write(1, f"{name} {number}\\n".encode())
"""


def test_writers_that_are_killed_leave_whole_nights_and_all_that_they_said_was_written(tmp_path):
    place, said = tmp_path / "history.sqlite", {"a": -1, "b": -1}
    for round_ in range(4):
        least = {name: last + 2 + round_ for name, last in said.items()}
        command = [sys.executable, "-c", WRITERS, str(place), *(str(last + 1) for last in said.values())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as writers:
            for line in writers.stdout:
                name, number = line.split()
                said[name] = int(number)
                if enough := all(said[name] >= least[name] for name in said):
                    with suppress(ProcessLookupError):  # both are gone, and this was still in the pipe
                        os.killpg(writers.pid, signal.SIGKILL)
        assert enough
    with History(place) as history:
        assert history.rows("PRAGMA integrity_check") == [("ok",)]
        told = database.chronicle(history, "quick")
    assert {len(values) for values in told.values.values()} == {50}
    assert len(told.values) == len(told.nights)
    for name, last in said.items():
        written = [one.planned_ns for one in told.nights if one.run == name]
        assert written[: last + 1] == list(range(last + 1))
        assert len(written) <= last + 2  # at most what was not said yet


def test_a_damaged_night_file_is_left_out_and_told(tmp_path):
    run_of(tmp_path / "runs", 0)
    (run_of(tmp_path / "runs", 1) / "night.json").write_text(json.dumps({"nightly": 5}))
    said = []
    assert rebuild(tmp_path / "history.sqlite", [tmp_path / "runs"], said.append) == 1
    assert any("night.json is damaged" in line for line in said)


def test_a_run_that_cannot_be_read_is_no_night_of_a_nightly_that_is_called_as_its_folder(tmp_path):
    run_of(tmp_path / "runs", 0)
    damaged = run_of(tmp_path / "runs", 1)
    (damaged / "night.json").unlink()
    (damaged / "plan.json").write_text("{")
    said = []
    assert rebuild(tmp_path / "history.sqlite", [tmp_path / "runs"], said.append) == 1
    assert any(str(damaged) in line and "plan.json" in line for line in said)
    with History(tmp_path / "history.sqlite") as history:
        assert database.nightlies(history) == ["quick"]


def test_a_history_on_a_network_file_system_is_known_by_its_mount(tmp_path):
    table = tmp_path / "mounts"
    table.write_text("/dev/vda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/vdb /home/local xfs rw 0 0\n")
    kinds = [database.network_file_system(Path(path), str(table)) for path in ("/home/me/h", "/home/local/h", "/var/h")]
    assert kinds == ["nfs4", "", ""]
