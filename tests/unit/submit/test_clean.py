"""What `tierbench clean` shows, refuses and removes."""

import errno
import json
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.quick_plan import written
from tests.unit.stand_ins import script
from tierbench import files, names
from tierbench.dags.experiment import find_experiment
from tierbench.site_configs.site import SHIPPED
from tierbench.submit import catalogue, clean, cli, pool


@pytest.fixture
def run(real_run):
    return real_run


@pytest.fixture
def replicas(tmp_path):
    folder = tmp_path / "random-0123"
    folder.mkdir()
    (folder / names.CATALOGUE).write_text('{"name": "random-0001", "bytes": 3000000, "adler32": "00000001"}\n')
    (folder / "random-0001").write_bytes(os.urandom(3_000_000))
    return folder


def test_nothing_goes_unless_it_is_asked_for_and_then_nothing_else(run, replicas, tmp_path, capsys):
    assert cli.main(["clean", str(run), str(replicas)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert float(shown[1].split()[0]) == pytest.approx(3.0, abs=0.1)
    assert shown[-1] == "nothing was removed; --yes does that"
    assert run.exists()
    assert replicas.exists()
    kept = tmp_path / "precious"
    kept.mkdir()
    (kept / "file").touch()
    (run / "link").symlink_to(kept)
    assert cli.main(["clean", str(run), str(replicas), f"{run}/", "--yes"]) == 0  # named twice
    assert not run.exists()
    assert not replicas.exists()
    assert (kept / "file").exists()


def test_what_a_run_has_left_on_the_storage_is_said_before_it_goes(run, capsys):
    (trial,) = (run / names.TRIALS).iterdir()
    outcome = {"state": "incomplete", "reasons": ["x"], "left": ["2 of the files written: /w/1, /w/2"]}
    (trial / names.OUTCOME).write_text(json.dumps(outcome))
    assert cli.main(["clean", str(run)]) == 0
    assert f"{trial.name} has left on the storage: 2 of the files written: /w/1, /w/2" in capsys.readouterr().out


def test_a_run_that_writes_and_was_lost_names_where_it_wrote(tmp_path, capsys):
    run = tmp_path / "run"
    written(find_experiment("quick"), run)
    trial, *_ = sorted((run / names.TRIALS).iterdir())
    (trial / names.BEGUN).touch()
    definition = json.loads((trial / names.TRIAL).read_text())
    (trial / names.TRIAL).write_text(json.dumps({**definition, "writes": {"url": "/w/area"}}))
    assert cli.main(["clean", str(run)]) == 0
    assert f"{trial.name} has no outcome: see whether anything is left below /w/area" in capsys.readouterr().out


def test_a_set_goes_where_a_folder_keeps_files_that_are_open(replicas, monkeypatch):
    """As NFS does, under other names."""

    def rmdir(path, real=Path.rmdir):
        if any(os.path.realpath(file).startswith(f"{path}/") for file in Path("/proc/self/fd").iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        real(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    assert cli.main(["clean", str(replicas), "--yes"]) == 0
    assert not replicas.exists()


@pytest.mark.parametrize("swapped", ["link", "folder", "parent"])
def test_what_has_come_into_its_place_meanwhile_is_left_alone(run, tmp_path, monkeypatch, swapped):
    precious = tmp_path / "elsewhere/run"
    precious.mkdir(parents=True)
    (precious / "file").touch()
    parent = tmp_path / "parent"
    parent.mkdir()
    run = run.rename(parent / "run")

    def swap(*_):
        if swapped == "parent":
            parent.rename(tmp_path / "moved")
            parent.symlink_to(precious.parent)
        else:
            run.rename(tmp_path / "moved")
            precious.rename(run) if swapped == "folder" else run.symlink_to(precious)
        return nullcontext()

    monkeypatch.setattr(clean, "_idle", swap)
    assert cli.main(["clean", str(run), "--yes"]) == 1
    assert (run / "file").exists()


def test_a_page_beside_runs_is_passed_over(run):
    page = run.with_name("index.html")
    page.touch()
    figures = run.with_name("a-against-b-plots")
    figures.mkdir()
    plan = (run / names.PLAN).read_text()
    assert cli.main(["clean", str(run), str(page), str(figures), "--yes"]) == 0
    assert (run.exists(), page.exists(), figures.exists()) == (False, True, True)
    (figures / names.PLAN).write_text(plan)  # a run that is called so
    assert cli.main(["clean", str(figures), "--yes"]) == 0
    assert not figures.exists()


def test_other_folders_are_refused_before_anything_goes(run, tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        assert cli.main(["clean", str(run), str(folder), "--yes"]) == 2
    assert (run / names.PLAN).exists()


def test_a_folder_whose_catalogue_lists_nothing_is_no_set(replicas, capsys):
    (replicas / names.CATALOGUE).write_text("")
    assert cli.main(["clean", str(replicas), "--yes"]) == 2
    assert "lists no replica" in capsys.readouterr().err
    assert (replicas / "random-0001").exists()


@pytest.mark.parametrize(
    ("host", "status", "says"), [("", 4, "tierbench stop"), ("other-ap.example", 2, "do this there")]
)
def test_a_run_in_the_queue_or_of_another_access_point_is_refused(run, monkeypatch, capsys, host, status, says):
    """A job's number says nothing where it was not submitted, and its processes cannot be seen from there."""
    submitted = {"cluster": 7, "directory": str(run.resolve()), "host": host}
    (run / names.SUBMITTED).write_text(json.dumps(submitted))
    monkeypatch.setattr(pool, "in_queue", lambda cluster, _: cluster == 7)
    assert cli.main(["clean", str(run), "--yes"]) == status
    assert says in capsys.readouterr().err
    assert (run / names.PLAN).exists()


def test_a_run_that_was_submitted_by_hand_is_refused_while_its_dagman_lives(run, capsys):
    with subprocess.Popen(["sleep", "600"], cwd=run) as dagman:
        (run / "experiment.dag.lock").write_text(f"PPID = 1\nPID = {dagman.pid}\n")
        verbs = (["clean", str(run), "--yes"], ["submit", str(run)], ["stop", str(run)], ["watch", str(run)])
        statuses = [cli.main(verb) for verb in verbs]
        dagman.kill()
    assert statuses == [4, 4, 2, 2]
    assert capsys.readouterr().err.count("`condor_rm JOB` ends it") == len(verbs)
    assert (run / names.PLAN).exists()
    assert cli.main(["clean", str(run), "--yes"]) == 0


def test_so_is_one_that_another_hosts_dagman_may_have_at_work(run):
    """That process is not to be seen here; HTCondor's log of its job is."""
    (run / "experiment.dag.lock").write_text("PPID = 1\nPID = 4194305\n")
    log = run / "experiment.dag.dagman.log"
    log.write_text("000 (007.000.000) 2026-07-10 12:00:00 Job submitted from host: <198.18.2.11:9618>\n...\n")
    assert [cli.main(verb) for verb in (["clean", str(run), "--yes"], ["submit", str(run)])] == [4, 4]
    with log.open("a") as file:
        file.write("009 (007.000.000) 2026-07-10 12:09:00 Job was aborted.\n\tvia condor_rm\n...\n")
    assert cli.main(["clean", str(run), "--yes"]) == 0


def test_a_set_that_is_being_made_is_refused(replicas, run):
    with catalogue.adding(replicas):
        assert cli.main(["clean", str(replicas), str(run), "--yes"]) == 4
    assert (replicas / "random-0001").exists()
    assert not run.exists()  # the others make room


def test_a_set_that_a_run_at_work_reads_is_refused(replicas, tmp_path, monkeypatch, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / names.PLAN).write_text(json.dumps({"replicas": [{"directory": str(replicas)}]}))
    dag = {"ClusterId": 7, "Owner": "me", "Iwd": str(tmp_path / "other"), "Args": "-Dag experiment.dag"}
    monkeypatch.setattr(pool, "jobs", lambda *_: [dag])
    assert cli.main(["clean", str(replicas), "--yes"]) == 4
    assert f"is read by {tmp_path}/other (job 7 of me)" in capsys.readouterr().err


def test_a_plan_on_a_mount_that_does_not_answer_is_given_up(replicas, tmp_path, monkeypatch, capsys):
    """Here it is a grep that does not."""
    script(tmp_path / "grep", "exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    dag = {"ClusterId": 7, "Owner": "you", "Iwd": "/data/dead", "Args": "-Dag experiment.dag"}
    monkeypatch.setattr(pool, "jobs", lambda *_: [dag])
    assert cli.main(["clean", str(replicas), "--yes"]) == 4
    assert "no answer in 5 s to whether it is read by /data/dead (job 7 of you)" in capsys.readouterr().err


def test_an_interrupted_removal_can_be_repeated(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", Mock(side_effect=KeyboardInterrupt))
        assert cli.main(["clean", str(run), "--yes"]) != 0
    assert (run / names.PLAN).exists()
    assert cli.main(["clean", str(run), "--yes"]) == 0
    assert not run.exists()


@pytest.mark.parametrize("command", [["clean"], ["replicas", "quick", "--verify"]])
def test_where_the_storage_is_not_mounted_that_is_said(tmp_path, capsys, command):
    text = (SHIPPED / "testbed.toml").read_text()
    (site := tmp_path / "site.toml").write_text(text.replace('"/extenci/tierbench/replicas"', f'"{tmp_path}/none"'))
    assert cli.main([*command, "--site", str(site)]) == 3
    told = capsys.readouterr()
    assert (told.out, "call this where the storage is mounted" in told.err) == ("", True)
