"""The measurement lock of a run: lock.py, run as DAGMan runs it."""

import json
import os
import subprocess
import time
from unittest.mock import Mock

import pytest

from tests.unit.shipped import PYTHON, outlive, ship, wait_until
from tests.unit.stand_ins import full_disk, run
from tierbench import json_files, names
from tierbench.dags.graphs import CALLED_OFF
from tierbench.submit.trial import lock
from tierbench.trials import UNLIMITED, CalledOff, Clock, read_trial, record_or

DEAD = 2**22 + 1  # more than a process number can be
PATIENCE_S = 600
WAITING_S = 0.5  # who has not got the lock by then is waiting: one that may take it needs a tenth of that


class Trials:
    """The trials of a run, with a DAGMan at work on each unless it is told to be gone."""

    def __init__(self, run):
        self.run = run
        self.waiting = []
        self.dagmans = []
        ship(run / names.SCRIPTS)
        before = ""
        for name in ("first", "second", "third"):
            directory = run / names.TRIALS / name
            directory.mkdir(parents=True)
            self.define(name)
            (directory / names.AFTER).write_text(before)
            self.start_dagman(name)
            before = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.waiting + self.dagmans:
            process.kill()
            process.wait()

    def start_dagman(self, name, pid=None):
        """A process that works in the trial's directory, until it is told to be another one."""
        if pid is None:
            self.dagmans.append(subprocess.Popen(["sleep", "600"], cwd=self[name]))
            pid = self.dagmans[-1].pid
        (self[name] / names.DAGMAN_LOCK).write_text(f"PPID = 1\nPID = {pid}\n")

    def define(self, name, **changes):
        (self[name] / names.TRIAL).write_text(json.dumps({"jobs": 1, "limits": {}, "samplers": [], **changes}))

    def __getitem__(self, name):
        return self.run / names.TRIALS / name

    def take(self, name, *more, step="take"):
        self.waiting.append(subprocess.Popen([PYTHON, self.script, step, *more], cwd=self[name]))
        return self.waiting[-1]

    def release(self, name):
        lock.release_lock(self[name])

    @property
    def script(self):
        return self.run / names.SCRIPTS / names.LOCK_SCRIPT

    @property
    def holder(self):
        return (self.run / names.LOCK_HOLDER).read_text()


def waits(process):
    try:
        process.wait(WAITING_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_a_trial_after_a_look_begins_when_those_before_have_been_looked_at(trials):
    for number, name in enumerate(("first", "second"), 1):
        trials[name].rename(trials[name].with_name(f"{name}.r{number}"))
    second = trials["second.r2"]
    trials["third"].rename(second.with_name("third.r2"))
    (trials["third.r2"] / names.BEGUN).touch()  # of the same repetition
    trials.define("second.r2", after_look=True)
    (second / names.AFTER).write_text("")
    (trials["first.r1"] / names.BEGUN).touch()
    (trials["first.r1"] / names.SERVED).touch()
    waiting = trials.take("second.r2")
    assert waits(waiting)
    (trials["first.r1"] / names.COUNTED).touch()
    assert waiting.wait(PATIENCE_S) == 0


def test_who_waits_for_the_lock_need_not_look_again_and_again(tmp_path):
    rest = lock.waiting(tmp_path)
    (tmp_path / names.LOCK_HOLDER).touch()
    began = time.monotonic()
    rest(PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S / 2


def test_clients_without_a_gate_wait_for_the_samplers(trials):
    trials.define("first", samplers=[{"host": "oss", "role": "storage", "via": "pool"}])
    clients = trials.take("first", "sampled")
    wait_until((trials["first"] / names.SAMPLES).exists)
    assert waits(clients)
    (trials["first"] / names.sample_file("oss")).write_text("header\nrecord\n")
    assert clients.wait(PATIENCE_S) == 0


LOGS = {5: names.FLUSH_LOG, 6: names.SAMPLERS_LOG, 7: names.CLIENTS_LOG}


class Jobs:
    """The jobs of a trial in a queue; a stand-in for HTCondor's commands notes how it is called, and releases them."""

    COMMAND = """#!/bin/sh
    echo "${0##*/} $*" >> ../../commands
    for cluster; do
        for log in *.log; do
            new=$(sed -n "s/^000 ($cluster\\.\\(.*\\)/013 ($cluster.\\1/p" $log)
            echo "$new" | sed 's/$/\\n.../' >> $log
        done
    done
    """

    def __init__(self, trials, monkeypatch):
        self.trials = trials
        samplers, flush = [{"host": "wn1", "role": "worker", "via": "pool"}], {"hosts": ["wn1", "wn2"]}
        trials.define("first", samplers=samplers, flush=flush, jobs=2, limits={"samplers_s": 0})
        commands = trials.run / "bin"
        commands.mkdir()
        for name in ("condor_release", "condor_rm"):
            (commands / name).write_text(self.COMMAND)
            (commands / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")

    def log(self, kind, *clusters, jobs=2, why=""):
        for cluster in clusters:
            with (self.trials["first"] / LOGS[cluster]).open("a") as file:
                for job in range(1 if cluster == 6 else jobs):
                    file.write(f"{kind} ({cluster}.{job}.000) 2026-01-31 10:00:00 event\n{why}...\n")

    def release(self, *more):
        return self.trials.take("first", *more, step="release")

    @property
    def commands(self):
        path = self.trials.run / "commands"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def jobs(trials, monkeypatch):
    return Jobs(trials, monkeypatch)


@pytest.mark.parametrize("hold_is_logged", [False, True])
def test_jobs_on_hold_are_released_when_their_trial_has_the_lock(trials, jobs, hold_is_logged):
    jobs.log("000", 5, 6, 7)
    if hold_is_logged:
        jobs.log("012", 5, 6, 7, why="\tsubmitted on hold at user's request\n\tCode 15 Subcode 0\n")
    assert lock.MeasurementLock(trials["second"]).acquire()
    step = jobs.release()
    assert waits(step)
    assert not jobs.commands
    trials.release("second")
    assert step.wait(PATIENCE_S) == 0
    assert jobs.commands == ["condor_release 5 6 7"]
    jobs.log("001", 5, 6, 7)
    assert jobs.release().wait(PATIENCE_S) == 0  # as when this step has died and is started again
    assert len(jobs.commands) == 1


def test_jobs_that_are_submitted_later_are_released_then(jobs):
    jobs.log("000", 5, 6)
    step = jobs.release()
    wait_until(lambda: jobs.commands == ["condor_release 5 6"])
    assert waits(step)
    jobs.log("000", 7)
    assert step.wait(PATIENCE_S) == 0
    assert jobs.commands[1:] == ["condor_release 7"]


def test_clients_that_might_take_every_slot_are_released_when_flush_and_samplers_have_theirs(jobs):
    jobs.log("000", 5, 6, 7)
    step = jobs.release("slots")
    wait_until(lambda: jobs.commands)
    jobs.log("001", 6)
    jobs.log("001", 5)
    jobs.log("004", 5, jobs=1)  # that one has left its slot, and has not reported
    assert waits(step)
    assert jobs.commands == ["condor_release 5 6"]
    jobs.log("001", 5, jobs=1)
    assert step.wait(PATIENCE_S) == 0
    assert jobs.commands[1:] == ["condor_release 7"]


def test_they_wait_for_samplers_for_a_while_only(jobs):
    jobs.log("000", 5, 6, 7)
    step = jobs.release("slots")
    wait_until(lambda: jobs.commands)
    jobs.log("001", 5)
    assert step.wait(PATIENCE_S) == 0


def test_what_htcondor_does_not_take_is_not_waited_for(trials, jobs):
    """The gate tells why."""
    jobs.log("000", 5, 6)
    (trials["first"] / names.DAGMAN_LOG).write_text("Shortcutting node clients retries because of submit failure\n")
    assert jobs.release().wait(PATIENCE_S) == 0


def test_a_trial_whose_jobs_somebody_else_has_released_is_called_off(trials, jobs):
    """They find no folder to write to, and are held; or they have flushed, or read, in another trial's time."""
    jobs.log("000", 5, 6, 7)
    jobs.log("013", 5)
    assert jobs.release().wait(PATIENCE_S) == CALLED_OFF
    called_off = json_files.read_as(CalledOff, trials["first"] / names.CALLED_OFF)
    assert "released before its turn" in called_off.reason
    assert not jobs.commands


@pytest.mark.parametrize("damage", ["not needed", "no definition"])
def test_of_a_trial_that_does_not_begin_no_job_stays_on_hold(trials, jobs, damage):
    """DAGMan would wait for it for ever; exit status 3 has it remove them."""
    jobs.log("000", 5, 6, 7)
    if damage == "not needed":
        (trials["first"] / names.NOT_NEEDED).touch()
        assert jobs.release().wait(PATIENCE_S) == 1
        assert jobs.commands == ["condor_rm 5 6 7"]
    else:
        (trials["first"] / names.TRIAL).write_text("{")
        assert jobs.release().wait(PATIENCE_S) == CALLED_OFF


def test_the_second_waits_until_the_first_has_had_the_lock_and_releases_it(trials):
    second = trials.take("second")
    assert waits(second)
    trials.take("first").wait(PATIENCE_S)
    assert waits(second)
    trials.release("first")
    assert second.wait(PATIENCE_S) == 0
    trials.release("first")
    assert trials.holder == "second"


def test_a_lock_whose_trial_has_failed_and_is_gone_for_good_is_free(trials):
    trials.take("first").wait(PATIENCE_S)
    (trials["first"] / names.DAGMAN_LOCK).unlink()
    (trials["first"] / names.OUTCOME).touch()
    assert trials.take("second").wait(PATIENCE_S) == 0
    assert trials.holder == "second"


@pytest.fixture
def clock(monkeypatch):
    """The time in this process, which passes as a test has it."""
    clock = Mock(return_value=1000.0)
    monkeypatch.setattr(lock, "time", Mock(wraps=time, monotonic=clock))
    return clock


def test_a_trial_without_a_dagman_is_waited_for_only_for_a_while(trials, clock):
    (trials["first"] / names.DAGMAN_LOCK).unlink()
    second = lock.MeasurementLock(trials["second"])
    assert not second.is_next()
    clock.return_value += lock.PATIENCE_SECONDS - 1
    assert not second.is_next()
    clock.return_value += 2
    assert second.is_next()


def test_of_two_dags_at_once_only_one_trial_has_the_lock(trials):
    for name in ("first", "second"):
        (trials[name] / names.AFTER).write_text("")
    waiting = {name: trials.take(name) for name in ("first", "second")}
    wait_until(lambda: any(process.poll() == 0 for process in waiting.values()))
    assert waits(waiting["first" if trials.holder == "second" else "second"])


def test_a_trial_that_is_not_needed_releases_the_lock_and_runs_no_node(trials):
    (trials["first"] / names.NOT_NEEDED).touch()
    assert [trials.take("first").wait(PATIENCE_S) for _ in range(2)] == [1, 1]
    assert not (trials["first"] / names.RESERVE).exists()
    assert trials.take("second").wait(PATIENCE_S) == 0


def test_who_has_the_lock_has_the_folders_that_its_jobs_write_to_and_alone_releases_it(trials):
    assert [trials.take("first").wait(PATIENCE_S) for _ in range(3)] == [0, 0, 0]  # as its nodes do
    trials.release("second")
    assert trials.holder == "first"
    assert not (trials["second"] / names.SERVED).exists()
    trials.release("first")
    assert not (trials.run / names.LOCK_HOLDER).exists()
    clock = json_files.read_as(Clock, trials["first"] / names.BEGUN)
    assert abs(clock.uptime_ns + clock.ahead_ns - time.time_ns()) < PATIENCE_S * 1e9
    left = (names.TRIAL, names.AFTER, names.BEGUN, names.SERVED, names.RESERVE, names.DAGMAN_LOCK)
    assert {path.name for path in trials["first"].iterdir()} == {*left, *names.FILLED}


def test_a_dagman_that_died_does_not_keep_the_lock(trials, clock):
    trials.take("first").wait(PATIENCE_S)
    trials.start_dagman("first", pid=DEAD)
    (trials["second"] / names.AFTER).write_text("")
    second = lock.MeasurementLock(trials["second"])
    assert not second.acquire()  # HTCondor may start it again
    clock.return_value += lock.PATIENCE_SECONDS + 1
    assert second.acquire()


def test_a_script_whose_dagman_died_takes_no_lock(trials):
    trials.take("first").wait(PATIENCE_S)
    (trials["second"] / names.AFTER).write_text("")
    command = [PYTHON, trials.script, "take"]
    outlive(command, trials["second"], trials.run / names.LOCK_LOOK, lambda: trials.release("first"))
    assert not (trials["second"] / names.BEGUN).exists()
    assert not (trials.run / names.LOCK_HOLDER).exists()


def test_who_has_waited_for_room_for_too_long_takes_the_lock_anew(trials, monkeypatch):
    first, second = limited(trials)

    def is_taken_by_another(*_, **__):
        if not (trials["second"] / names.BEGUN).exists():
            make_old(trials)
            assert second.acquire()
            assert second.begin()
        return True

    def the_other_ends(_):
        assert not (trials["first"] / names.BEGUN).exists()
        second.release()

    monkeypatch.setattr(lock, "wait_for_room", is_taken_by_another)
    monkeypatch.setattr(lock, "waiting", lambda _: the_other_ends)
    assert lock.take(first, read_trial(first.trial)) == 0
    assert (trials["second"] / names.SERVED).exists()
    assert trials.holder == "first"


def test_a_trial_has_begun_when_that_is_written_whole(trials):
    """An empty file would have it begun, and nobody would know when."""
    first = lock.MeasurementLock(trials["first"])
    assert first.acquire()
    with full_disk(), pytest.raises(OSError, match="too large"):
        first.begin()
    assert not (trials["first"] / names.BEGUN).exists()


def test_the_time_that_a_trial_may_keep_the_lock_counts_from_its_beginning(trials):
    first, second = limited(trials)
    assert first.acquire()
    make_old(trials)
    assert first.begin()
    assert not second.acquire()
    make_old(trials)
    lock.keep_lock(trials["first"])  # as while it reads what its clients have written
    lock.keep_lock(trials["second"])
    assert not second.acquire()
    make_old(trials)
    lock.keep_lock(trials["second"])
    assert first.begin()  # as each of its nodes looks
    assert second.acquire()


def limited(trials):
    """The lock as two trials of several DAGs see it, which may keep it for a limited time."""
    for name in ("first", "second"):
        trials.define(name, limits={"lock_s": 600})
        (trials[name] / names.AFTER).write_text("")
        yield lock.MeasurementLock(trials[name])


def make_old(trials):
    """As if the lock had been taken an hour ago."""
    os.utime(trials.run / names.LOCK_HOLDER, (time.time() - 3600,) * 2)


def test_elsewhere_than_in_a_trial_it_says_so(tmp_path):
    ship(tmp_path / names.SCRIPTS)
    result = run(PYTHON, tmp_path / names.SCRIPTS / names.LOCK_SCRIPT, "take", cwd=tmp_path)
    assert (result.returncode, "is not a trial's directory" in result.stderr) == (3, True)


def test_a_limit_that_an_earlier_version_called_otherwise_is_passed_over(tmp_path):
    (tmp_path / names.TRIAL).write_text('{"jobs": 1, "limits": {"slot_s": 7, "turn_s": 600}, "samplers": []}')
    assert read_trial(tmp_path).limits[:2] == (7, UNLIMITED)


@pytest.mark.parametrize("text", ["null", "7", "[]", '"low_ns"', '{"low_ns": 1}', '{"low_ns"', ""])
def test_a_record_that_is_damaged_is_none(tmp_path, text):
    (tmp_path / names.BEGUN).write_text(text)
    assert record_or(Clock(1, 2), tmp_path / names.BEGUN) == Clock(1, 2)
