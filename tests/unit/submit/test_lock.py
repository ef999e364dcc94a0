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
from tierbench.submit.trial import lock
from tierbench.trials import UNLIMITED, Clock, read_trial, record_or, record_text

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

    def take(self, name, *more):
        self.waiting.append(subprocess.Popen([PYTHON, self.script, "take", *more], cwd=self[name]))
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


@pytest.mark.parametrize(
    ("begun_s", "seconds"),
    [(None, [1000.97, 1000.97, 1001]), (1000.25, [1000.97, 1000.97, 1001]), (1000.96, [1001, 1001, 1002])],
    ids=["not known", "within a second", "too late for this second"],
)
def test_dagman_looks_after_all_scripts_of_a_trial_have_ended(monkeypatch, tmp_path, begun_s, seconds):
    """One ends first, so that DAGMan has looked in this second; when the next begins, another one wakes it."""
    if begun_s:
        (tmp_path / names.BEGUN).write_text(record_text(Clock(0, 0, round(begun_s * 1e9))))
    monkeypatch.setattr(lock.time, "time", lambda: 1000.97)
    slept = []
    monkeypatch.setattr(lock.time, "sleep", slept.append)
    for awaited in (["first"], [], ["waking"]):
        lock.wait_for(awaited, tmp_path, Mock())
    ends = [1000.97 + each for each in slept]
    assert ends == [pytest.approx(second, abs=2 * lock.SECOND_BEGUN + lock.ALL_ENDED / 2) for second in seconds]
    assert ends == sorted(ends)


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


def test_clients_that_might_take_every_slot_wait_until_flush_and_samplers_have_theirs(trials):
    samplers, flush = [{"host": "wn1", "role": "worker", "via": "pool"}], {"hosts": ["wn1", "wn2"]}
    trials.define("first", samplers=samplers, flush=flush)
    clients = trials.take("first", "slots")

    def tell(log, *events):
        with (trials["first"] / log).open("a") as file:
            file.write("".join(f"{kind} (7.{job}.0) 2026-01-31 10:00:00 event\n...\n" for kind, job in events))

    wait_until((trials["first"] / names.SAMPLES).exists)
    tell("samplers.log", ("001", 0))
    tell("flush.log", ("001", 0), ("001", 1), ("004", 1))  # that one has left its slot, and has not reported
    assert waits(clients)
    tell("flush.log", ("001", 1))
    assert clients.wait(PATIENCE_S) == 0


def test_they_wait_for_samplers_for_a_while_only(trials):
    samplers = [{"host": "wn1", "role": "worker", "via": "pool"}]
    trials.define("first", samplers=samplers, limits={"samplers_s": 0})
    assert trials.take("first", "slots").wait(PATIENCE_S) == 0


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
    """An empty file would have it begun for its gate, and not for jobs that wait for it on their workers."""
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
    assert (result.returncode, "is not a trial's directory" in result.stderr) == (2, True)


def test_a_limit_that_an_earlier_version_called_otherwise_is_passed_over(tmp_path):
    (tmp_path / names.TRIAL).write_text('{"jobs": 1, "limits": {"slot_s": 7, "turn_s": 600}, "samplers": []}')
    assert read_trial(tmp_path).limits[:2] == (7, UNLIMITED)


@pytest.mark.parametrize("text", ["null", "7", "[]", '"low_ns"', '{"low_ns": 1}', '{"low_ns"', ""])
def test_a_record_that_is_damaged_is_none(tmp_path, text):
    (tmp_path / names.BEGUN).write_text(text)
    assert record_or(Clock(1, 2), tmp_path / names.BEGUN) == Clock(1, 2)
