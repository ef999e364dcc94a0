"""Repetitions that are spared as enough is known, but for what a trial at work shows; scripts as DAGMan runs them."""

import os
import shutil
import subprocess
import sysconfig

import pytest

from tests.unit.dags.test_repeats import repetitions
from tests.unit.shipped import PYTHON, ship, wait_until
from tests.unit.submit.test_lock import PATIENCE_S, waits
from tierbench import names
from tierbench.submit import pool
from tierbench.submit.trial import skip_repeats

WITH_TIERBENCH = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
WITHOUT = "/usr/bin:/bin"


class Batch:
    """Six repetitions of one batch, of which three are measured and close, and a fourth has begun."""

    def __init__(self, run, fourth_mbps, counted):
        ship(run / names.SCRIPTS)
        self.run, self.processes = run, list[subprocess.Popen[bytes]]()
        trials = repetitions(run, fourth_mbps, 400.0, 400.0, until_known=True, limits={"stop_s": 1})
        for repeat, (trial, before) in enumerate(zip(trials, [None, *trials], strict=False), 1):
            (trial / names.CLIENTS_LOG).write_text("")
            (trial / names.AFTER).write_text(before.name if before else "")
            if repeat <= 4:
                (trial / names.BEGUN).touch()
                (trial / names.SERVED).touch()
            if repeat <= counted:
                (trial / names.COUNTED).touch()
            self.start("sleep", "600", cwd=trial)
            (trial / names.DAGMAN_LOCK).write_text(f"PID = {self.processes[-1].pid}\n")

    def __getitem__(self, repeat):
        return self.run / names.trial_directory(f"lan-xrootd.root.x004.r{repeat}")

    def start(self, *command, cwd, path=WITH_TIERBENCH):
        self.processes.append(subprocess.Popen(command, cwd=cwd, env={**os.environ, "PATH": path}))
        return self.processes[-1]

    def finish(self, repeat, path=WITH_TIERBENCH):
        script = str(self.run / names.SCRIPTS / names.FINISH)
        assert self.start(PYTHON, script, "0", "0", cwd=self[repeat], path=path).wait(PATIENCE_S) == 0

    def take(self, repeat):
        return self.start(PYTHON, str(self.run / names.SCRIPTS / names.LOCK_SCRIPT), "take", cwd=self[repeat])

    def marked(self):
        return [repeat for repeat in range(1, 7) if (self[repeat] / names.NOT_NEEDED).exists()]


@pytest.fixture
def batch(tmp_path):
    made = []

    def batch(fourth_mbps, counted):
        made.append(Batch(tmp_path, fourth_mbps, counted))
        return made[-1]

    yield batch
    for process in [process for batch in made for process in batch.processes]:
        process.kill()
        process.wait()


def test_a_trial_at_work_counts_before_others_are_skipped(batch):
    """Three close ones seem to be enough, until the fourth, which has begun meanwhile, lies far from them."""
    trials = batch(700.0, 2)
    trials.finish(3)
    assert trials.marked() == [5, 6]
    fifth = trials.take(5)
    assert waits(fifth)  # the fourth is at work
    trials.finish(4)
    assert fifth.wait(PATIENCE_S) == 0
    assert (trials[5] / names.BEGUN).exists()
    assert trials.marked() == []


def test_one_that_bears_them_out_has_the_others_skipped(batch):
    trials = batch(400.0, 3)
    for repeat in (5, 6):
        (trials[repeat] / names.NOT_NEEDED).touch()
    fifth = trials.take(5)
    assert waits(fifth)
    trials.finish(4)
    assert fifth.wait(PATIENCE_S) == 1
    assert trials.marked() == [5, 6]


def test_one_whose_dagman_is_gone_is_not_waited_for(batch):
    trials = batch(400.0, 3)
    (trials[5] / names.NOT_NEEDED).touch()
    (trials[4] / names.DAGMAN_LOCK).unlink()
    assert trials.take(5).wait(PATIENCE_S) == 1


@pytest.mark.parametrize("decided", [names.BEGUN, names.SERVED])
def test_of_one_that_was_let_go_nothing_is_decided_anew(tmp_path, decided):
    (tmp_path / decided).touch()
    skip_repeats.mark(tmp_path, not_needed=True)
    assert not (tmp_path / names.NOT_NEEDED).exists()
    (tmp_path / names.NOT_NEEDED).touch()
    skip_repeats.mark(tmp_path, not_needed=False)
    assert (tmp_path / names.NOT_NEEDED).exists()


def test_without_tierbench_each_is_run(batch):
    trials = batch(400.0, 3)
    trials.finish(4, path=WITHOUT)
    assert trials.marked() == []
    wait_until((trials[4] / names.COUNTED).exists)
    assert trials.take(5).wait(PATIENCE_S) == 0


def test_trials_find_the_command_that_submits_them_though_no_path_leads_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", WITHOUT)
    assert not shutil.which("tierbench")
    with pytest.raises(pool.PoolError):  # there is no pool here
        pool.submit_dag(tmp_path / names.EXPERIMENT_DAG)
    assert shutil.which("tierbench")
