"""What begins nights, and what becomes of them: one record each and at most one message, whatever goes wrong."""

import dataclasses
import errno
import os
import shutil
import sqlite3
import subprocess
import time
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import classad2
import pytest

from tests.unit.submit.nightly.conftest import LAST, NOW, SHAPE, close, damage, measured
from tests.unit.synthetic_report import write_run
from tierbench import json_files, names
from tierbench.dags.graphs import NOTHING_TO_DO
from tierbench.errors import BusyError
from tierbench.postprocess.history.database import History, chronicle
from tierbench.postprocess.history.rows import MEASURED, NightMark
from tierbench.postprocess.history.rows import Night as NightRow
from tierbench.submit import pool
from tierbench.submit.cli import main
from tierbench.submit.nightly import record, schedule, steps
from tierbench.submit.nightly.record import Night, Nightly, locked
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Run

FULL = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
LATE, LATE_WHY = "direct.root.x008.r1", ("SUSPECT", "the sampler was late")


@pytest.mark.parametrize(
    ("hours", "days", "by_hand", "hopeless", "why"),
    [
        (1, "", False, "", ""),
        (13, "", False, "", "more than 12 h"),
        (61, "wed,fri", False, "", "more than 24 h"),  # LAST is a Wednesday
        (61, "wed,fri", True, "", "more than 60 h"),  # half of the week's longest gap
        (1, "", False, "the flush on vmuf found no slot in time", "the flush on vmuf"),
    ],
)
def test_a_night_without_prospects_begins_no_more_trials(define, monkeypatch, hours, days, by_hand, hopeless, why):
    """Nor does one that has taken half the time to the next."""
    nightly = define(days=days)
    begun_wall_s = time.time() - 3600 * hours
    night = measured(nightly, outcome="running", begun_wall_s=begun_wall_s, asked_for=by_hand)
    measured_links = []
    monkeypatch.setattr(steps, "Run", lambda _: Mock(trials=list))
    monkeypatch.setattr(steps, "from_json", Mock())
    monkeypatch.setattr(steps, "hopeless", lambda _: hopeless)
    monkeypatch.setattr(steps, "leave_ceilings", lambda *_: measured_links.append("links"))
    folder = record.folder(nightly, night)
    assert main(["nightly", "step", "quick", "links", str(folder)]) == (NOTHING_TO_DO if why else 0)
    assert measured_links == ([] if why else ["links"])
    assert why in record.read(folder).reason
    assert why in close(nightly, night).reason


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_accepts_the_units(define, tmp_path, monkeypatch):
    nights = define(by="systemd").directory.parent.rename(tmp_path / "100%h of 'my' nights")
    nightly = Nightly(nights / "quick")
    nightly.starter.write_text("#!/bin/sh\n")
    nightly.starter.chmod(0o755)
    monkeypatch.setattr(schedule, "_systemctl", lambda *_: None)
    monkeypatch.setattr(schedule.SystemdTimer, "_folder", lambda _: tmp_path / "units")
    assert schedule.SCHEDULERS["systemd"].start(nightly).startswith("timer tierbench-nightly-quick")
    units = list((tmp_path / "units").iterdir())
    report = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (report.returncode, [line for line in report.stderr.splitlines() if "tierbench" in line]) == (0, [])
    assert "Persistent=true" in (tmp_path / "units/tierbench-nightly-quick.timer").read_text()
    assert "/100%%h of 'my' nights/quick\n" in (tmp_path / "units/tierbench-nightly-quick.service").read_text()


def test_htcondor_finds_the_job_of_a_nightly_in_a_folder_of_any_name(define, tmp_path, monkeypatch):
    nights = define().directory.parent.rename(tmp_path / 'disk "b\\c", \N{LATIN SMALL LETTER U WITH DIAERESIS}')
    nightly, asked = Nightly(nights / "quick"), []
    monkeypatch.setattr(pool, "act", lambda action, constraint, _: asked.append((action, constraint)))
    schedule.SCHEDULERS["condor"].change(nightly, "remove")
    ((action, constraint),) = asked
    job = classad2.ClassAd({"TierbenchNightly": "quick", "Iwd": str(nightly.directory)})
    job["Found"] = classad2.ExprTree(constraint)
    assert (action, job.eval("Found")) == ("Remove", True)


def test_a_dead_night_whose_record_cannot_be_written_is_left_alone(define, monkeypatch):
    """Or each look would finish it, and send its message, once more."""
    nightly = define()
    measured(nightly, outcome="running", cluster=7)
    monkeypatch.setattr(pool, "in_queue", lambda *_: False)
    finished = Mock()
    monkeypatch.setattr(steps, "finish", finished)
    with monkeypatch.context() as full:
        full.setattr(record, "write", FULL)
        record.finish_dead_nights(nightly)
    assert not finished.called
    record.finish_dead_nights(nightly)
    assert finished.called


def test_days_are_by_the_nightlys_clock_whoever_looks(define, monkeypatch):
    define(zone="Europe/Berlin")
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        night = NightRow("quick", round(datetime(2026, 6, 9, 0, 30, tzinfo=UTC).timestamp() * 1e9), MEASURED)
        assert night.day == "2026-06-08"
        record.find_nightly("quick")
        assert night.day == "2026-06-09"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nights_that_nothing_began_are_on_record_as_missed_once_by_whatever_clock_one_looks(define, monkeypatch):
    nightly = define(zone="Europe/Berlin")
    nights = record.record_missed(nightly, NOW)
    planned = [(f"{night.planned:%d %H:%M}", night.outcome) for night in nights]
    assert planned == [("09 00:30", "missed"), ("10 00:30", "missed")]
    monkeypatch.setenv("TZ", "America/New_York")
    assert record.record_missed(nightly, NOW) == []
    assert [nightly.label(night)[8:] for night in nights] == ["09 02:30", "10 02:30"]


def test_a_night_whose_folder_was_deleted_was_not_missed(define):
    nightly = define(since=LAST - timedelta(days=2, minutes=1))
    old, *_ = [measured(nightly, LAST - timedelta(days=days), run=False) for days in (2, 1, 0)]
    shutil.rmtree(record.folder(nightly, old))
    assert record.record_missed(nightly, NOW) == []


def test_a_gap_is_in_the_history_as_soon_as_a_night_is_measured(define):
    nightly = define()
    record.record_missed(nightly, LAST)
    close(nightly, measured(nightly))
    with History() as history:
        assert [night.outcome for night in chronicle(history, "quick").nights] == ["missed", "measured"]


def test_no_night_is_expected_while_it_is_paused(define):
    assert record.record_missed(define(paused=True), NOW) == []


def test_a_night_begins_once_though_the_scheduler_means_it_twice(define, monkeypatch):
    nightly = define(patience_s=0.0)
    monkeypatch.setattr(steps, "prepare", Mock(side_effect=PoolError("the storage cannot be reached")))
    began = [steps.start(nightly, False) for _ in range(2)]
    assert [night and night.outcome for night in began] == ["failed", None]
    assert len([night for night in record.nights(nightly) if night.outcome == "failed"]) == 1


def test_two_begin_nights_in_turn_and_who_dies_keeps_no_lock(define):
    nightly = define()
    held = subprocess.Popen(
        ["flock", str(nightly.directory / names.NIGHTLY_LOCK), "sh", "-c", "echo held; exec sleep 60"],
        stdout=subprocess.PIPE,
    )
    assert held.stdout and held.stdout.readline() == b"held\n"
    with pytest.raises(BusyError), locked(nightly.directory, patience_s=0):
        pass
    subprocess.run(["pkill", "-KILL", "-P", str(held.pid)], check=True)  # what it started, by its parent
    held.wait()
    held.stdout.close()
    with locked(nightly.directory, patience_s=60):
        pass


def test_while_the_night_before_is_at_work_another_one_is_a_record_or_if_asked_for_refused(define, monkeypatch, capsys):
    nightly = define()
    record.write(nightly, Night((LAST - timedelta(days=1)).timestamp(), "running", cluster=7))
    monkeypatch.setattr(pool, "in_queue", lambda cluster, _: cluster == 7)
    assert main(["nightly", "run", nightly.name]) == 4
    assert "still at work, as job 7" in capsys.readouterr().err
    assert {night.outcome for night in record.nights(nightly)} <= {"running", "missed"}  # the latter long ago
    night = steps.start(nightly, False)
    assert night and night.outcome == "still-running"
    assert "still at work, as job 7" in night.sentences[0]


def test_who_removes_a_nightly_is_told_of_the_night_that_goes_on(define, monkeypatch, capsys):
    nightly = define()
    record.write(nightly, Night(LAST.timestamp(), "running", cluster=7))
    monkeypatch.setattr("tierbench.submit.nightly.setup.change", lambda *_: None)
    assert main(["nightly", "remove", nightly.name]) == 0
    told = "ends after the repetition at work, without tables or a message; `condor_rm 7` ends it now"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("site", "cluster", "queued", "outcome"),
    [
        ("testbed", 7, True, "failed"),  # at work
        ("testbed", 7, False, "running"),  # died
        ("testbed", None, False, "running"),  # died as it began
        ("elsewhere", 7, True, "running"),
    ],
)
def test_no_night_begins_while_another_one_measures_at_its_site(define, monkeypatch, site, cluster, queued, outcome):
    nightly = define(patience_s=0.0)
    other = Nightly(nightly.directory.with_name("other"))
    other.directory.mkdir()
    other.change(dataclasses.replace(nightly.terms, site=site))
    record.write(other, Night((LAST - timedelta(days=1)).timestamp(), "measured", cluster=1))
    record.write(other, Night(LAST.timestamp(), "running", cluster=cluster))
    in_queue = Mock(return_value=queued)
    monkeypatch.setattr(pool, "in_queue", in_queue)
    monkeypatch.setattr(steps, "prepare", lambda *_: None)
    monkeypatch.setattr(steps, "_submitted", lambda *_: 8)
    night = steps.start(nightly, False)
    assert night and night.outcome == outcome
    assert outcome == "running" or "the nightly other measures at the same site" in night.reason
    assert 1 not in [cluster for (cluster, _), _ in in_queue.call_args_list]  # of a night that is over


def test_another_nightly_that_is_damaged_keeps_no_night_from_its_start(define, monkeypatch):
    nightly = define(patience_s=0.0)
    damage(nightly.directory.with_name("damaged"))
    monkeypatch.setattr(steps, "prepare", lambda *_: None)
    monkeypatch.setattr(steps, "_submitted", lambda *_: 8)
    assert steps.start(nightly, False).outcome == "running"


def test_a_beginning_that_hangs_is_a_record_of_the_next_night(define, monkeypatch):
    nightly = define()
    monkeypatch.setattr(locked, "__defaults__", (0.0,))
    with locked(nightly.directory):
        night = steps.start(nightly, False)
    assert night and night.outcome == "still-running"
    assert "another `tierbench nightly`" in night.sentences[0]


def test_who_looks_while_a_night_begins_does_not_take_it_for_dead(define):
    nightly = define()
    night = record.write(nightly, Night(LAST.timestamp(), "running"))  # not submitted yet
    with locked(nightly.directory):
        main(["nightly", "check", "quick"])
    assert record.read(record.folder(nightly, night)).outcome == "running"


def test_a_night_without_room_for_its_record_is_told_all_the_same(define, monkeypatch, receiver):
    nightly = define(webhook=receiver.url)
    monkeypatch.setattr(record, "write", FULL)
    steps.start(nightly, False)
    assert "No space left on device" in str(receiver.bodies[0]["text"])


def test_the_run_of_a_night_is_in_the_queue_between_its_repetitions_too(define, monkeypatch):
    """The night's DAG lies above it, and may have no job in it: the links are measured, or a change is confirmed."""
    nightly = define()
    night = measured(nightly, outcome="running")
    folder = record.folder(nightly, night)
    (folder / names.NIGHT_DAG).touch()
    monkeypatch.setattr(steps, "write_night", lambda *_: folder / names.NIGHT_DAG)
    monkeypatch.setattr(pool, "submit_dag", lambda _: 7)
    steps._submitted(nightly, night, Mock())
    for place, goes_on in ((folder, True), (folder.with_name("another"), False)):
        monkeypatch.setattr(pool, "jobs", lambda *_, place=place: [{"ClusterId": 7, "Iwd": str(place)}])
        assert Run(folder / names.NIGHT_RUN).goes_on == goes_on


def test_a_night_that_died_is_finished_by_whoever_looks_next(define, monkeypatch):
    nightly = define()
    record.write(nightly, Night(LAST.timestamp(), "running", cluster=7))
    monkeypatch.setattr(pool, "in_queue", lambda *_: False)
    assert record.finish_dead_nights(nightly) is None
    (night,) = record.nights(nightly)
    assert (night.outcome, night.reason.split(" before")[0]) == ("failed", "its DAG was gone from the queue")


@pytest.mark.parametrize(("ago_s", "outcome"), [(3600, "running"), (3 * 86_400, "failed")])
def test_a_night_that_another_access_point_has_at_work_is_left_to_that(define, monkeypatch, ago_s, outcome):
    """With a home that both have; but not for ever."""
    nightly = define()
    monkeypatch.setattr(pool, "in_queue", lambda *_: False)
    monkeypatch.setattr(pool, "own_name", lambda: "ap2.example")
    begun = {"cluster": 7, "host": "ap1.example", "begun_wall_s": time.time() - ago_s}
    record.write(nightly, Night(LAST.timestamp(), "running", **begun))
    assert (record.finish_dead_nights(nightly) is not None) is (outcome == "running")
    (night,) = record.nights(nightly)
    assert night.outcome == outcome


@pytest.mark.parametrize(("ago_s", "messages"), [(3600, 1), (1, 0), (7 * 86_400, 0)])
def test_a_night_of_late_whose_message_was_not_sent_sends_it(define, monkeypatch, receiver, ago_s, messages):
    nightly = define(webhook=receiver.url)
    monkeypatch.setattr(pool, "in_queue", lambda *_: False)
    record.write(nightly, Night(LAST.timestamp(), "failed", "a cable was cut", ended_wall_s=time.time() - ago_s))
    for _ in range(2):
        record.finish_dead_nights(nightly)
    assert len(receiver.bodies) == messages


def test_a_dag_that_stays_in_the_queue_when_its_night_is_over_is_removed(define, monkeypatch):
    """As that of DAGMan 23.9.6 does when the scheduler was killed while it was at work."""
    nightly = define()
    removed = []
    monkeypatch.setattr(pool, "in_queue", lambda cluster, _: cluster not in removed)
    monkeypatch.setattr(pool, "forget", lambda cluster, _: removed.append(cluster))
    measured(nightly, run=False, cluster=7, deliveries={"nobody": ""})
    running = record.write(nightly, Night((LAST + timedelta(days=1)).timestamp(), "running", cluster=8))
    assert record.finish_dead_nights(nightly) == running
    assert removed == [7]


def test_a_pool_that_is_down_is_one_record_and_one_message(define, monkeypatch, receiver):
    nightly = define(webhook=receiver.url, patience_s=0.0)
    monkeypatch.setattr(steps, "prepare", Mock(side_effect=PoolError("cannot ask the pool for its slots")))
    steps.start(nightly, False)
    assert steps.start(nightly, False) is None
    (body,) = receiver.bodies
    assert body["state"] == "UNKNOWN"
    assert "cannot ask the pool for its slots" in str(body["text"])


@pytest.fixture
def closed(define, monkeypatch, receiver):
    """Closes a night whose trials have these verdicts."""

    def closed(verdicts):
        nightly = define(webhook=receiver.url, since=LAST - timedelta(minutes=1))
        monkeypatch.setattr(steps, "_make_tables", lambda *_: None)  # they are there
        night = record.write(nightly, Night(LAST.timestamp(), "running", cluster=7))
        shape = dataclasses.replace(SHAPE, verdicts=verdicts)
        run = write_run(record.folder(nightly, night) / names.NIGHT_RUN, shape)
        json_files.write(run / names.NIGHT, NightMark("quick", int(LAST.timestamp() * 1e9)))
        return close(nightly, night)

    return closed


def test_a_night_without_a_valid_trial_has_failed_for_the_reason_that_most_of_them_give(closed, receiver):
    why = "kinit: Client's credentials have been revoked"
    verdicts = {f"{way}.root.x008.r{n}": ("INVALID", why) for way in SHAPE.rates for n in (1, 2, 3)}
    night = closed({**verdicts, LATE: LATE_WHY})
    assert (night.outcome, night.counts) == ("failed", {"INVALID": 5, "SUSPECT": 1})
    assert why in night.reason
    (body,) = receiver.bodies
    assert (body["state"], why in str(body["text"])) == ("UNKNOWN", True)


def test_a_night_whose_keytab_was_gone_in_the_middle_says_so_in_its_message(closed, receiver):
    why = "kinit: Keytab contains no suitable keys"
    night = closed({f"{way}.root.x008.r{n}": ("INVALID", why) for way in SHAPE.rates for n in (2, 3)})
    assert (night.outcome, night.reason) == ("measured", f"2 of 6 trials are VALID: {why}")
    (body,) = receiver.bodies
    assert (body["state"], f"is not whole: 2 of 6 trials are VALID: {why}" in str(body["text"])) == ("WARNING", True)


def test_a_damaged_record_of_a_night_is_told_and_hides_no_other(define):
    nightly = define()
    good, bad = measured(nightly, run=False), measured(nightly, LAST - timedelta(days=1), run=False)
    (record.folder(nightly, bad) / names.NIGHT_RECORD).write_text("{")
    first, last = record.nights(nightly)
    assert (first.planned, first.outcome, last) == (bad.planned, "failed", good)
    assert "damaged" in first.reason


def test_a_copy_of_a_nights_folder_is_no_night(define, capsys):
    nightly = define()
    night = measured(nightly, run=False)
    shutil.copytree(record.folder(nightly, night), record.folder(nightly, night).with_suffix(".bak"))
    assert record.nights(nightly) == [night]
    assert main(["nightly", "check", "quick"]) == 2  # no result for so long
    assert "TIERBENCH CRITICAL" in capsys.readouterr().out


def test_a_damaged_history_is_told_of_once_and_the_night_is_kept(define, receiver, tmp_path):
    nightly = define(webhook=receiver.url)
    (tmp_path / "history.sqlite").write_bytes(b"this is no database" * 100)
    night = close(nightly, measured(nightly))
    assert (night.outcome, len(receiver.bodies)) == ("measured", 1)
    assert "history rebuild" in str(receiver.bodies[0]["text"])
    close(nightly, night)
    assert len(receiver.bodies) == 1


def test_a_locked_history_is_waited_for_and_then_told(define, receiver, tmp_path, monkeypatch):
    nightly = define(webhook=receiver.url)
    History().database.close()
    monkeypatch.setattr(History.__init__, "__defaults__", (None, 0.1))
    other = sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        night = close(nightly, measured(nightly))
    finally:
        other.close()
    assert night.outcome == "measured"
    assert "another program has been writing to it" in str(receiver.bodies[0]["text"])
