"""The last step of a trial, run as DAGMan runs it."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.unit.shipped import PYTHON, ship
from tests.unit.stand_ins import run, script
from tierbench import condition_state, names
from tierbench.submit.trial import finish
from tierbench.trials import Limits, Trial


@pytest.fixture
def trial(tmp_path):
    """A trial of two clients, the first of which has read its file; no sampler to wait for."""
    ship(tmp_path / names.SCRIPTS)
    trial = tmp_path / names.TRIALS / "one"
    (trial / names.CLIENTS).mkdir(parents=True)
    write(trial)
    (trial / names.CLIENTS_LOG).touch()
    (trial / names.client_output(0)).write_text('{"event": "end", "status": "ok", "message": ""}\n')
    (tmp_path / names.LOCK_HOLDER).write_text("one")
    return trial


def write(trial, **changes):
    definition = {"name": "direct/dd", "jobs": 2, "samplers": [], "limits": {"stop_s": 0.2}, **changes}
    (trial / names.TRIAL).write_text(json.dumps(definition))


def finished(trial, dag_status="0", path="/usr/bin", failed="0"):
    """Without tierbench on the PATH, as on an access point that has none."""
    command = [PYTHON, trial.parent.parent / names.SCRIPTS / names.FINISH, dag_status, failed]
    return run(*command, cwd=trial, env={"PATH": path})


def outcome(trial):
    return json.loads((trial / names.OUTCOME).read_text())


def state(trial):
    return outcome(trial)["state"]


def test_a_client_that_never_started_makes_the_trial_incomplete_and_all_clients_done_complete(trial):
    assert finished(trial).returncode == 1
    assert state(trial) == "incomplete"
    assert outcome(trial)["reasons"] == ["client 1 never started"]
    (trial / names.OUTCOME).unlink()
    (trial / "clients/1.jsonl").write_text('{"event": "end", "status": "ok", "message": ""}\n')
    assert finished(trial).returncode == 0
    assert finished(trial, failed="1").returncode == 1  # whatever else it was that failed
    assert outcome(trial)["reasons"] == ["1 nodes of the trial's DAG failed; see trial.dag.dagman.out"]


@pytest.mark.parametrize(("status", "retry", "again"), [("2", 0, True), ("2", 1, False), (finish.REMOVED, 0, False)])
def test_a_failed_trial_is_tried_again_while_dagman_does_so(trial, status, retry, again):
    (trial / names.BEGUN).touch()
    (trial / names.ATTEMPT).write_text(json.dumps({"retry": retry, "retries": 1}))
    finished(trial, status)
    assert outcome(trial)["again"] is again


def test_what_outlives_a_trial_makes_it_incomplete(trial):
    """A condition of the next one's hosts, or a flush that goes on in its time."""
    rtt = {"name": "rtt.wan", "condition": "rtt", "host": "wan", "value": "47", "unit": "ms", "tolerance_pct": 1.0}
    write(trial, jobs=1, conditions=[rtt])
    (trial / names.ARRANGED).mkdir()
    (trial / names.ARRANGED / "rtt.wan.jsonl").write_text('{"event": "arranged", "before": "9", "now": "47"}\n')
    running = "001 (8.0.000) 2026-07-10 12:00:00 Job executing on host: <>\n\tSlotName: slot1@wn01\n...\n"
    (trial / names.FLUSH_LOG).write_text(running)
    assert finished(trial).returncode == 1
    flush, condition = outcome(trial)["reasons"]
    assert flush.startswith("jobs 8.0 (slot1@wn01) did not end within 0.2 s of being removed")
    assert condition.startswith("nothing says that rtt on wan was restored")


def test_who_says_that_restoring_takes_longer_is_waited_for(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(condition_state, "poll", lambda _, seconds, __: asked.append(seconds))
    (tmp_path / names.ARRANGED).mkdir()
    (tmp_path / names.ARRANGED / "cache.wan.jsonl").write_text('{"event": "arranged", "within_s": 300}\n')
    condition_state.wait_until_restored(tmp_path, [], 30)
    (tmp_path / names.STOP).touch()
    os.utime(tmp_path / names.STOP, (time.time() - 100,) * 2)  # since when it is at it
    condition_state.wait_until_restored(tmp_path, [], 30)
    assert asked == [300, pytest.approx(200, abs=9)]


def test_a_trial_without_tables_says_how_they_are_made(trial):
    folder = trial.parent.parent
    assert f"`tierbench tables {folder}`, where it is installed, makes them" in finished(trial).stdout
    assert "there is no tierbench on the PATH of" in (folder / names.NO_TABLES).read_text()


def test_a_run_whose_path_is_no_ascii_has_its_word_of_tables_where_python_knows_nothing_else(trial):
    """As Python 3.6 without an environment."""
    write(trial, jobs=1)
    run_directory = trial.parents[1].rename(trial.parents[1].with_name("größe"))
    plain = {"PATH": "/usr/bin", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [PYTHON, run_directory / names.SCRIPTS / names.FINISH, "0", "0"]
    assert run(*command, cwd=run_directory / names.TRIALS / "one", env=plain).returncode == 0
    assert "größe" in (run_directory / names.NO_TABLES).read_text(encoding="utf-8")


def test_a_tierbench_that_fails_is_told_of(trial):
    script(trial / "tierbench", "exit 2")
    assert "has ended with exit status 2" in finished(trial, path=f"{trial}:/usr/bin").stdout
    script(trial / "tierbench", "exit 0")
    (trial.parent.parent / names.NO_TABLES).unlink()
    assert "no tables" not in finished(trial, path=f"{trial}:/usr/bin").stdout
    assert not (trial.parent.parent / names.NO_TABLES).exists()


def test_whatever_has_happened_the_lock_is_given_on_and_htcondor_can_deliver_the_stop_file(trial):
    finished(trial)
    assert not (trial.parent.parent / names.LOCK_HOLDER).exists()
    assert (trial / names.STOP).stat().st_size > 0  # HTCondor 25 delivers no empty files


@pytest.mark.parametrize("unreadable", [names.CLIENTS_LOG, names.client_output(0)])
def test_a_last_step_that_fails_says_so_and_gives_the_lock_on(trial, unreadable):
    """As on a file system that is away for a moment."""
    (trial / names.BEGUN).touch()
    (trial / names.ATTEMPT).write_text(json.dumps({"retry": 0, "retries": 1}))
    (trial / unreadable).unlink()
    (trial / unreadable).symlink_to((trial / unreadable).name)
    assert finished(trial).returncode == 1
    assert outcome(trial)["reasons"] == [
        f"the last step failed: [Errno 40] Too many levels of symbolic links: '{unreadable}'"
    ]
    assert outcome(trial)["again"]
    assert not (trial.parent.parent / names.LOCK_HOLDER).exists()


def test_a_trial_that_is_complete_stays_so_where_nothing_can_be_said_of_its_tables(trial):
    write(trial, jobs=1)
    (trial.parent.parent / names.NO_TABLES).mkdir()
    assert (finished(trial).returncode, state(trial)) == (0, "complete")


def test_a_trial_that_is_removed_while_it_waits_for_the_lock_has_no_outcome(trial):
    (trial / names.CLIENTS_LOG).unlink()
    (trial / names.NOT_NEEDED).touch()  # or not: whether it is may change
    assert finished(trial, finish.REMOVED).returncode == 1
    assert not (trial / names.OUTCOME).exists()


def test_a_trial_that_is_not_needed_is_skipped_and_no_failure(trial):
    (trial / names.NOT_NEEDED).touch()
    assert finished(trial).returncode == 0
    assert state(trial) == "skipped"


@pytest.mark.parametrize(("role", "status"), [("storage", 1), ("worker", 0)])
def test_only_the_storages_samplers_make_a_trial_complete(trial, role, status):
    write(trial, jobs=1, samplers=[{"host": "wn01.test", "role": role, "via": "pool"}])
    step = trial.parent.parent / names.SCRIPTS / names.FINISH
    step.write_text(step.read_text().replace("STOP_SECONDS = 10.0", "STOP_SECONDS = 0.1"))
    assert finished(trial).returncode == status


def test_a_last_step_that_is_started_again_does_not_wait_for_samplers_anew(trial):
    """DAGMan may cut it off within a second, again and again."""
    write(trial, jobs=1, samplers=[{"host": "wn01.test", "role": "storage", "via": "pool"}])
    (trial / names.STOP).write_text("stop\n")
    os.utime(trial / names.STOP, (time.time() - 7200,) * 2)
    step = trial.parent.parent / names.SCRIPTS / names.FINISH
    step.write_text(step.read_text().replace("STOP_SECONDS = 10.0", "STOP_SECONDS = 3600.0"))
    assert finished(trial).returncode == 1


def test_of_the_samplers_htcondor_forgets_the_one_whose_worker_is_lost(trial, tmp_path):
    write(trial, jobs=1)
    executing = "001 (9.{}.000) 2026-07-10 12:00:00 Job executing on host: <10.0.0.1>\n...\n"
    lost = "022 (9.1.000) 2026-07-10 12:00:09 Job disconnected, attempting to reconnect\n    Socket closed\n...\n"
    paused = "010 (9.0.000) 2026-07-10 12:00:09 Job was suspended.\n...\n"
    (trial / names.SAMPLERS_LOG).write_text("".join(map(executing.format, range(2))) + lost + paused)
    asked = tmp_path / "asked"
    script(tmp_path / "condor_rm", f'echo "$*" >> {asked}')
    assert finished(trial, path=f"{tmp_path}:/usr/bin").returncode == 0
    assert asked.read_text() == "9.1\n-forcex 9.1\n"


@pytest.fixture
def look_through(trial, tmp_path, monkeypatch):
    """Looks once through what the trial wrote, by a condor_submit that does something."""

    def look_through(submit, written=0):
        script(tmp_path / "condor_submit", submit)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.chdir(trial)
        limits = Limits(*[60] * len(Limits._fields))
        return finish.one_try(Trial(1, limits, [], writes={"url": "/area", "bytes": written}), ["wn01"])

    return look_through


@pytest.mark.parametrize(("written", "limit"), [(0, 900), (10**12, 100_900)])
def test_the_job_that_looks_through_what_was_written_may_take_longer_for_more(tmp_path, look_through, written, limit):
    asked = tmp_path / "asked"
    look_through(f'echo "$*" > {asked}; exit 1', written)
    assert f"-a run_limit = {limit}" in asked.read_text()
    assert '-a pool_requirements = (true) && Machine != "wn01"' in asked.read_text()


def test_the_second_try_to_look_through_it_is_another_workers(trial, monkeypatch):
    monkeypatch.chdir(trial)
    (trial / names.WRITE_AREA_LOG).touch()
    tries = []
    monkeypatch.setattr(finish, "one_try", lambda _, avoided: ({}, tries.append(avoided), "slot1_1@wn01"))
    finish.clear(Trial(1, Limits(*[60] * len(Limits._fields)), [], writes={"url": "/area"}))
    assert tries == [[], ["wn01"]]


def test_what_a_last_step_that_was_killed_has_looked_through_and_removed_is_not_missing(trial, tmp_path):
    write(trial, jobs=1, traits={"does": "writes"}, writes={"url": "/area"})
    (trial / names.REPLICAS).write_text("/area/1\t5\n")
    (trial / names.WRITE_AREA).mkdir()
    (trial / names.WRITE_AREA_LOG).touch()
    report = {"status": "ok", "wrong_files": 0, "wrong": [], "left_files": 0, "left": []}
    (trial / names.CLEARED).write_text(json.dumps(report))
    script(tmp_path / "condor_submit", "exit 1")
    assert finished(trial, path=f"{tmp_path}:/usr/bin").returncode == 0
    assert (outcome(trial)["state"], outcome(trial)["left"]) == ("complete", [])


def test_while_it_looks_through_what_was_written_no_other_trial_takes_the_lock(trial, look_through):
    holder = trial.parent.parent / names.LOCK_HOLDER
    os.utime(holder, (0, 0))
    (trial / names.WRITE_AREA).mkdir()
    (trial / names.CLEARED).write_text('{"status": "ok"}')  # of an earlier try
    events = ["000 (7.0.000) {} Job submitted\n...\n", "009 (7.0.000) {} Job was aborted.\n    removed\n...\n"]
    (trial / names.WRITE_AREA_LOG).write_text("".join(events).format(*["2026-07-10 12:00:00"] * 2))
    _, why, _ = look_through("echo '7.0 - 7.0'")
    assert ("was removed" in why, time.time() - holder.stat().st_mtime < 60) == (True, True)


def test_tables_leave_the_cores_to_the_next_trial():
    """Where Linux shares them among sessions, only a session's own worth counts."""
    program = """
import os
from pathlib import Path
from tierbench.submit.trial.finish import step_aside
step_aside()
group = Path("/proc/self/autogroup")
print(os.nice(0), os.getsid(0) == os.getpid(), group.read_text() if group.exists() else "nice 19")
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split()[:2] == ["19", "True"]
    assert said.rstrip().endswith("nice 19")
