"""Trials whose jobs are started while the one before measures: what is written, who waits where, what is told."""

import dataclasses
import json
import subprocess
import time
from types import SimpleNamespace

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.access_point import access_point_of
from tests.unit.quick_plan import POOL
from tests.unit.shipped import PYTHON, ship
from tests.unit.submit.test_lock import PATIENCE_S
from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.graphs import trial_dag
from tierbench.dags.plan import expand
from tierbench.dags.records import trial_record
from tierbench.errors import ConfigError
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.submit.planning import Planned, enough_slots
from tierbench.submit.pool import Slots
from tierbench.submit.progress import Stage, progress
from tierbench.submit.trial.lock import MeasurementLock
from tierbench.submit.trial.stop import OverlapLog
from tierbench.wrappers import prestart

STARTED = "001 (7.00{}.000) 2026-01-01 12:00:00 Job executing on host: <>\n\tSlotName: slot1\n...\n"


@pytest.fixture(scope="module")
def ahead():
    return dataclasses.replace(find_experiment("quick"), repeats=3, ahead=True)


@pytest.fixture(scope="module")
def plan(site, ahead):
    return expand(site, ahead, POOL)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[conditions]\nwan-rtt = 5", "leave the conditions out"),
        ('[axes.rtt_ms]\nvalues = [5]\narranges = "wan-rtt"', "leave the conditions out"),
        ("repeats = { within_pct = 5, at_least = 3, at_most = 10 }", "make repeats a number"),
        ('start = "natural"', 'a start other than "natural"'),
        (
            'access = ["direct"]\n[workloads.w]\nclient = "writer"\nreplicas = "w"\n'
            '[replicas.w]\nkind = "written"\nsize_mb = 1',
            "what this one wrote is looked through",
        ),
    ],
)
def test_where_it_cannot_be_honest_it_is_refused_by_the_plan(variant, site, text, told):
    repeats = "" if "repeats" in text else "repeats = 3\n"
    with pytest.raises(ConfigError, match=told):
        expand(site, variant(f"ahead = true\n{repeats}{text}"), POOL)


def test_an_axis_compares_trials_with_and_without_it(variant, site):
    experiment = variant('repeats = 3\n[axes.ahead]\nvalues = [false, true]\nsets = "ahead"')
    plan = expand(site, experiment, POOL)
    waits = {}
    for trial in plan.trials:
        text = trial_dag(site, experiment.at(trial.configuration.levels), trial).text()
        waits[trial.levels["ahead"]] = "lock.py ahead" in text
    assert waits == {False: False, True: True}


def test_its_jobs_and_gate_wait_for_the_lock_themselves_and_one_node_takes_it(site, ahead, plan):
    text = trial_dag(site, ahead, plan.trials[0]).text()
    scripts = {line.split()[2]: line.split()[4:] for line in text.splitlines() if line.startswith("SCRIPT PRE")}
    assert scripts.pop("stop") == ["take", "waking"]
    assert scripts == {node: ["ahead"] for node in ("flush", "sampling", "gate", "clients")}
    assert 'program="prestart.py" then="begun ./client.py" held=", ../../scripts/client.py"' in text
    assert 'held="../../scripts/htchirp.py, ../../scripts/flush.py" chirp="True"' in text


def test_htcondor_lets_them_wait_for_all_tries_of_the_trial_before(site, ahead, plan):
    record = trial_record(site, ahead, plan, plan.trials[0])
    limits = record["limits"]
    awaited = 2 * limits["lock_s"]
    text = trial_dag(site, ahead, plan.trials[0]).text()
    assert f'slot_limit="{limits["slot_s"] + awaited}" run_limit="{limits["job_s"] + awaited}"' in text
    slot_s, run_s = (limits["slot_s"] + awaited) // 4, limits["gate_s"] + awaited
    assert f'VARS gate slot_limit="{slot_s}" run_limit="{run_s}"' in text
    assert record["ahead"]


@pytest.mark.parametrize(("arguments", "pause_s"), [((), 0.3), (("--clients", "1000"), 5.0)])
def test_many_jobs_that_wait_for_their_trial_look_less_often(tmp_path, monkeypatch, arguments, pause_s):
    looks = iter(["", "", "there"])
    pauses = []
    monkeypatch.setattr(prestart, "in_job", lambda: True)
    monkeypatch.setattr(prestart, "AccessPoint", lambda: SimpleNamespace(fetch=lambda _: next(looks)))
    monkeypatch.setattr(prestart.time, "sleep", pauses.append)
    monkeypatch.setattr(prestart.random, "uniform", lambda *_: 1.0)
    (tmp_path / "client.py").touch()
    assert prestart.main(["begun", str(tmp_path / "client.py"), *arguments]) == 0
    assert pauses == [pause_s] * 2


def test_the_plan_says_that_slots_for_two_trials_are_missing(site, ahead, plan):
    def told(experiment, cores):
        slots = {name: Slots(dict.fromkeys(POOL[name], cores)) for name in plan.pools}
        seen = [found.seen for found in enough_slots(Planned(plan, site, experiment, slots))]
        return "\n".join(words for words in seen if "pool private" in words)

    assert "and as many for the next trial (ahead = true)" in told(ahead, 9)
    assert told(dataclasses.replace(ahead, ahead=False), 9) == ""
    assert told(ahead, 10) == ""


@pytest.fixture
def gone(trials):
    """The first one measures, and has all that it needs."""
    assert MeasurementLock(trials["first"]).acquire()
    assert MeasurementLock(trials["first"]).begin()
    (trials["first"] / names.GO).write_text('{"go_wall_ns": 1}')
    return trials


def may_start(trials, name):
    return MeasurementLock(trials[name]).may_wait_in_slots()


def may_take(trials, name):
    lock = MeasurementLock(trials[name])
    return lock.is_next() and lock.acquire()


@pytest.mark.parametrize("go", [None, "{", '{"called_off": "a client was lost"}'])
def test_nobody_is_started_before_the_one_that_measures_has_its_slots(trials, go):
    assert MeasurementLock(trials["first"]).acquire()
    if go:
        (trials["first"] / names.GO).write_text(go)
    assert not may_start(trials, "second")


def test_the_next_one_is_started_then_and_has_not_begun_and_no_other_one_is(gone):
    assert may_start(gone, "second")
    assert may_start(gone, "second")  # for its other nodes
    assert all((gone["second"] / folder).is_dir() for folder in names.FILLED)
    assert not (gone["second"] / names.BEGUN).exists()
    assert (gone.run / names.AHEAD).read_text() == "second"
    for after in ("first", "second"):  # of another DAG of the run, or of this one
        (gone["third"] / names.AFTER).write_text(after)
        assert not may_start(gone, "third")


def test_the_next_but_one_is_started_when_the_next_one_measures(gone):
    assert may_start(gone, "second")
    MeasurementLock(gone["first"]).release()
    assert may_take(gone, "second")
    assert MeasurementLock(gone["second"]).begin()
    assert (gone.run / names.AHEAD).read_text() == ""
    assert not may_start(gone, "third")
    (gone["second"] / names.GO).write_text('{"go_wall_ns": 1}')
    assert may_start(gone, "third")


def test_jobs_are_started_when_their_trial_has_the_lock_whatever_went_before(trials):
    assert not may_start(trials, "first")
    assert trials.take("first").wait(PATIENCE_S) == 0
    assert may_start(trials, "first")


def test_who_holds_slots_goes_first(gone):
    """Even before the one that was tried again, for that one may need those slots."""
    assert may_start(gone, "second")
    MeasurementLock(gone["first"]).release()
    (gone["first"] / names.SERVED).unlink()  # as reset_trial.py does
    assert not may_take(gone, "first")
    assert may_take(gone, "second")


def test_who_comes_late_is_the_next_one(gone):
    """Its DAGMan was started when others had been, and had its place; there is always one that is started ahead."""
    (gone["third"] / names.AFTER).write_text("")
    assert may_start(gone, "second")
    assert not may_take(gone, "third")
    MeasurementLock(gone["first"]).release()
    assert may_take(gone, "second")
    assert not may_take(gone, "third")  # and is in line now
    assert MeasurementLock(gone["second"]).begin()
    assert not may_start(gone, "third")  # the second one may lack slots
    (gone["second"] / names.GO).write_text('{"go_wall_ns": 1}')
    assert may_start(gone, "third")
    assert (gone["third"] / names.CLIENTS).is_dir()
    (gone["first"] / names.AFTER).write_text("second")  # one more trial, for what matters here
    (gone["first"] / names.BEGUN).unlink()
    assert not may_start(gone, "first")
    MeasurementLock(gone["second"]).release()
    assert may_take(gone, "third")


def test_where_nobody_is_started_ahead_nothing_is_noted_of_lines(trials):
    assert MeasurementLock(trials["first"]).acquire()
    assert not MeasurementLock(trials["second"]).acquire()
    assert not (trials.run / names.AHEAD).exists()


def test_who_is_removed_or_has_failed_before_it_had_the_lock_is_in_nobodys_way(gone):
    assert may_start(gone, "second")
    MeasurementLock(gone["second"]).release()
    assert (gone.run / names.AHEAD).read_text() == ""
    assert (gone.run / names.LOCK_HOLDER).read_text() == "first"
    (gone["second"] / names.OUTCOME).touch()
    MeasurementLock(gone["first"]).release()
    assert may_take(gone, "third")


def test_a_job_waits_and_then_becomes_what_it_was_held_for(tmp_path):
    script = ship(tmp_path, names.PRESTART, "htchirp.py") / names.PRESTART
    (tmp_path / "work.py").write_text("#!/bin/sh\necho begins with $*\n")
    (tmp_path / "work.py").chmod(0o755)
    command = [PYTHON, script, "begun", "./work.py", "--index", "1"]
    with access_point_of(tmp_path) as access_point:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        while len(access_point.looks_s) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        (access_point.folder / "begun").touch()
        assert process.communicate(timeout=PATIENCE_S)[0] == "begins with --index 1\n"
    assert process.returncode == 0


def test_a_trial_notes_which_jobs_were_started_in_its_window(gone):
    def started(job):
        with (gone["second"] / names.CLIENTS_LOG).open("a") as log:
            log.write(STARTED.format(job))

    assert may_start(gone, "second")
    started(0)
    overlap = OverlapLog(gone["first"])  # from the go on
    overlap.look()
    assert not (gone["first"] / names.BESIDE).exists()
    started(1)
    overlap.look()
    first = json.loads((gone["first"] / names.BESIDE).read_text())
    again = OverlapLog(gone["first"])  # the stop was started again
    started(2)
    again.look()
    noted = json.loads((gone["first"] / names.BESIDE).read_text())
    assert (first["jobs"], noted["jobs"]) == (1, 2)
    assert noted["first_wall_s"] == first["first_wall_s"] <= noted["last_wall_s"]


def test_a_trial_that_waits_in_slots_is_shown_as_waiting(gone):
    assert may_start(gone, "second")
    (gone["second"] / names.CLIENTS_LOG).touch()
    assert progress(gone["second"], "second", 1).stage is Stage.WAITING
    (gone["second"] / names.BEGUN).touch()
    assert progress(gone["second"], "second", 1).stage is Stage.GATHERING


def test_the_time_before_it_has_the_lock_is_no_part_of_a_trial(tmp_path):
    when = "2027-01-15 08:00:00"
    log = f"000 (7.000.000) {when} Job submitted\n...\n001 (7.000.000) {when} Job executing\n...\n"
    told = {}
    for ahead in (False, True):
        trial = synthetic.write_trial(tmp_path / str(ahead), ahead=ahead)
        (trial / names.CLIENTS_LOG).write_text(log)
        told[ahead] = read_trial(trial).submit_wall_ns
    assert told[False] is not None
    assert told[True] is None
