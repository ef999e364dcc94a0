"""A trial before each try: reset_trial.py, run as DAGMan runs it."""

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.quick_plan import written
from tests.unit.shipped import PYTHON, outlive, wait_until
from tests.unit.stand_ins import run
from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.submit.trial import dagman, reset_trial
from tierbench.trials import ALREADY_COMPLETE


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return written(find_experiment("quick"), tmp_path_factory.mktemp("runs") / "quick")


@pytest.fixture
def tried(quick, tmp_path):
    """A trial's directory after a try."""
    directory = Path(shutil.copytree(next((quick / names.TRIALS).iterdir()), tmp_path / "run/trials/trial"))
    shutil.copytree(quick / names.SCRIPTS, tmp_path / "run" / names.SCRIPTS)
    (directory / "trial.dag.rescue001").write_text("DONE flush")
    (directory / names.GO).write_text("{}")
    (directory / names.CLIENTS).mkdir()
    (directory / names.client_output(0)).write_text("{}")
    return directory


def reset(directory, *arguments):
    return run(PYTHON, directory.parent.parent / names.SCRIPTS / names.RESET_TRIAL, *arguments, cwd=directory)


def test_a_trial_is_made_as_it_was_written_and_what_an_earlier_try_has_measured_is_kept(tried):
    assert reset(tried).returncode == 0
    assert {path.name for path in tried.iterdir()} == {*names.WRITTEN, names.TRIES, names.AFTER}
    assert (tried / names.TRIES / "1" / names.client_output(0)).read_text() == "{}"
    before = sorted(str(path) for path in tried.rglob("*"))
    reset(tried)  # it has not run
    assert sorted(str(path) for path in tried.rglob("*")) == before
    (tried / names.OUTCOME).write_text("{}")
    reset(tried)
    assert {path.name for path in (tried / names.TRIES).iterdir()} == {"1", "2"}
    shutil.rmtree(tried / names.TRIES / "1")  # by somebody who wants room
    (tried / names.OUTCOME).write_text("{}")
    assert reset(tried).returncode == 0
    assert {path.name for path in (tried / names.TRIES).iterdir()} == {"2", "3"}


def test_a_trial_that_is_not_needed_gets_no_dag_of_its_own(tried):
    (tried / names.NOT_NEEDED).touch()
    assert reset(tried, "0", "1").returncode == 3
    assert json.loads((tried / names.OUTCOME).read_text())["state"] == "skipped"


@pytest.mark.parametrize("version", [24, 25])
def test_a_trial_that_a_dagman_runs_is_left_alone(tried, version):
    (tried / names.RESERVE).touch()
    with dagman_at_work(tried, version):
        assert reset(tried).returncode == 1
    assert (tried / names.client_output(0)).exists()
    assert (tried / names.RESERVE).exists()


@pytest.mark.parametrize(("version", "other"), [(24, {"begun": 1}), (25, {"lock": "experiment.dag.lock"})])
def test_a_trial_whose_dagmans_number_is_another_process_now_is_reset(tried, version, other):
    with dagman_at_work(tried, version, **other):
        assert reset(tried).returncode == 0


@pytest.mark.parametrize("version", [24, 25])
def test_a_copy_of_a_trial_at_work_is_reset(tried, tmp_path, version):
    with dagman_at_work(tried, version):
        copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
        assert reset(copy / tried.relative_to(tmp_path / "run")).returncode == 0


def test_a_trial_that_is_complete_is_not_done_again_by_another_dag_but_by_hand(tried):
    (tried / names.OUTCOME).write_text('{"state": "complete"}')
    assert reset(tried, "0", "1").returncode == ALREADY_COMPLETE
    assert (tried / names.client_output(0)).exists()
    assert reset(tried).returncode == 0
    assert not (tried / names.OUTCOME).exists()


def test_a_trial_knows_which_try_it_is(tried):
    reset(tried, "1", "2", "another")
    attempt = json.loads((tried / names.ATTEMPT).read_text())
    assert (attempt["retry"], attempt["retries"], (tried / names.AFTER).read_text()) == (1, 2, "another")


def test_a_dag_waits_for_a_trial_that_another_dag_has_and_takes_its_outcome(tried):
    """The other DAG's DAGMan has it from its script before the trial until its outcome, also before its own begins."""
    command = [PYTHON, str(tried.parent.parent / names.SCRIPTS / names.RESET_TRIAL), "0", "1"]
    held = subprocess.Popen(  # a DAGMan, which works in the run's directory and goes on after its script
        ["sh", "-c", '(cd "$1" && shift && exec "$@"); read -r end', "sh", tried, *command],
        stdin=subprocess.PIPE, cwd=tried.parent.parent,
    )  # fmt: skip
    try:
        wait_until((tried / names.ATTEMPT).exists)
        other = subprocess.Popen(command, cwd=tried)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
        (tried / names.OUTCOME).write_text('{"state": "complete"}')
        assert other.wait(120) == ALREADY_COMPLETE
    finally:
        held.communicate(b"\n")


def test_a_trial_that_another_dag_has_given_up_is_tried(tried, monkeypatch):
    monkeypatch.chdir(tried.parent.parent)
    reset(tried, "0", "1")  # by this process, which lives on
    (tried / names.OUTCOME).write_text('{"state": "incomplete", "again": true}')
    assert not reset_trial.may_run(tried)
    (tried / names.OUTCOME).write_text('{"state": "incomplete", "again": false}')
    assert not dagman.claim(tried, 1, given_up=False)
    assert dagman.claim(tried, 1, given_up=True)
    (tried / names.CLAIM).write_text(f"{os.getpid()} 1\n")  # its number is another one's by now
    assert dagman.claim(tried, 1, given_up=False)


def test_a_script_whose_dagman_died_claims_no_trial(tried):
    """It would be for the process that inherits the script: that never ends, and the next DAGMan would wait for it."""
    run = tried.parent.parent
    command = [PYTHON, run / names.SCRIPTS / names.RESET_TRIAL, "0", "1"]
    with subprocess.Popen(["sleep", "600"], cwd=run) as other:
        dagman.claim(tried, other.pid, given_up=False)
        claimed = (tried / names.CLAIM).read_text()
        outlive(command, tried, run / names.CLAIMS_LOCK, other.kill)
    assert (tried / names.CLAIM).read_text() == claimed
    assert not (tried / names.ATTEMPT).exists()


@contextmanager
def dagman_at_work(trial, version, begun=None, lock="trial.dag.lock"):
    """A process that works in a trial's directory, and its lock file as a version of HTCondor writes it."""
    with subprocess.Popen(
        ["sh", "-c", "read -r end", "sh", "-Lockfile", lock], stdin=subprocess.PIPE, cwd=trial
    ) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        begun = begun or int(stat[19])
        recorded = f"PPID = 1\nPID = {process.pid}\nPRECISION = 100\nBDAY = {begun}\n" if version < 25 else "82\n"
        (trial / "trial.dag.lock").write_text(recorded)
        banner = "11/25/26 03:29:38 ** PID = {} RealUID = 1000\n"
        (trial / "trial.dag.dagman.out").write_text(
            banner.format(1) + banner.format(process.pid) + "11/25/26 03:29:39 ...\n"
        )
        try:
            yield
        finally:
            process.kill()


def test_no_other_directory_is_tidied(tmp_path):
    (tmp_path / "thesis.tex").touch()
    assert reset(tmp_path).returncode == 2
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize(("holder", "left"), [("trial", False), ("another", True)])
def test_an_earlier_trys_lock_is_given_on(tried, holder, left):
    lock = tried.parent.parent / names.LOCK_HOLDER
    lock.write_text(holder)
    reset(tried)
    assert lock.exists() == left
