"""A run that is submitted, stopped, copied, moved or lost: whose it is, and what is said of it."""

import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.submit.test_watch import begin, judge
from tierbench import names
from tierbench.errors import BusyError, ConfigError
from tierbench.submit import commands, progress
from tierbench.submit.cli import main
from tierbench.submit.progress import Run, Submission

WATCHED_INSIDE = """
import sys
from tierbench.errors import listen
from tierbench.testbed import run

class Host:
    @staticmethod
    def command(argv, user, terminal):
        return ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-m", *argv]

listen()
sys.exit(run._inside(Host, "watch", sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [("ap", False), ("ap.site.org", False), ("AP.Site.org", False), ("ap2", True), ("ap.site2.org", True)],
)
def test_a_run_is_elsewhere_by_its_hosts_name_also_where_no_name_server_answers(monkeypatch, here, elsewhere):
    monkeypatch.setattr("tierbench.submit.pool.own_name", lambda: here)
    assert Submission(1, host="ap.site.org").is_elsewhere == elsewhere


def test_a_run_that_is_stopped_for_its_first_trials_says_how_to_go_on(run, monkeypatch, capsys):
    for number in range(3):
        judge(run, number, "INVALID", "somebody else writes")
    removed = []
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: not removed)
    monkeypatch.setattr(commands.pool, "remove", lambda cluster, _: removed.append(cluster))
    monkeypatch.setattr(commands, "show_tables", lambda _: True)
    monkeypatch.setattr(commands, "without_tables", lambda _: [])
    monkeypatch.setattr(commands.pool, "submit_dag", lambda _: 7)
    assert commands._submit_and_watch(run, partial(commands._stops, run)) == 1
    assert removed == [7]
    output = capsys.readouterr().err
    assert "all trials so far are INVALID for the same reason, so the others will be: somebody else writes" in output
    assert f"`tierbench submit {run.directory}` goes on with it" in output
    with pytest.raises(KeyboardInterrupt):  # while the trial at work is waited for: the run does not go on
        monkeypatch.setattr(commands, "_end", Mock(side_effect=KeyboardInterrupt))
        commands._watch_to_the_end(run, None, partial(commands._stops, run))
    assert "the run goes on" not in capsys.readouterr().err


def test_of_two_who_submit_a_run_at_once_one_does(run, monkeypatch):
    submitted, second = [], []

    def submit_dag(dag):
        submitted.append(dag)
        with pytest.raises(BusyError) as refused:
            commands._submit_and_watch(run)
        second.append(str(refused.value))
        return 7

    monkeypatch.setattr(commands, "without_tables", lambda _: [])
    monkeypatch.setattr(commands.pool, "submit_dag", submit_dag)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: True)
    monkeypatch.setattr(commands, "_watch_to_the_end", lambda *_, **__: 0)
    assert commands._submit_and_watch(run) == 0
    assert not (run.directory / names.SUBMIT_LOCK).exists()
    assert "is being submitted by somebody else" in second[0]
    with pytest.raises(BusyError, match="is in the queue already, as job 7"):
        commands._submit_and_watch(run)
    assert len(submitted) == 1


def test_another_run_at_work_is_told_when_one_is_submitted(run, monkeypatch, capsys):
    own = {"ClusterId": 8, "Owner": "me", "Iwd": str(run.directory.resolve()), "Args": "-Dag experiment.dag"}
    other, no_run = {**own, "ClusterId": 7, "Iwd": "/data/other"}, {**own, "Iwd": "/data/x", "Args": "-Dag diamond.dag"}
    night = {**own, "ClusterId": 9, "Iwd": "/data/nights/x", "Args": "-Dag night.dag"}
    monkeypatch.setattr(commands.pool, "jobs", lambda *_: [own, other, no_run, night])
    looked_into = []
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda path: looked_into.append(path))
        commands._warn_of_others(run)
    assert not looked_into  # a dead mount would not let go
    output = capsys.readouterr().err.splitlines()
    expected = [f"/data/{which} measures, too (job {job} of me)" for which, job in (("other", 7), ("nights/x", 9))]
    assert [line.partition(":")[0] for line in output] == expected


def test_a_run_that_was_submitted_again_by_hand_has_not_ended_for_stop(run, monkeypatch, capsys):
    run.record_submission(7, 0.0)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: False)
    monkeypatch.setattr(progress, "is_held", lambda _: True)
    (run.directory / "experiment.dag.lock").touch()
    assert main(["stop", str(run.directory)]) == 4
    assert "submitted by hand" in capsys.readouterr().err


def test_a_run_without_a_usable_trial_does_not_succeed(run, monkeypatch):
    for number in range(len(run.trial_directories)):
        judge(run, number, "INVALID", "somebody else writes")
    run.record_submission(7, 0.0)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: False)
    assert main(["watch", "--json", str(run.directory)]) == 1
    for usable, status in ((True, 0), (False, 1)):
        monkeypatch.setattr(commands, "show_tables", lambda _, usable=usable: usable)
        assert main(["watch", str(run.directory)]) == status


@pytest.mark.parametrize(
    ("command", "queued", "says"), [("status", True, False), ("status", False, True), ("watch", False, True)]
)
def test_a_run_that_no_queue_holds_any_more_is_said_to_be_lost(run, command, queued, says, monkeypatch, capsys):
    begin(run)
    run.record_submission(7, 0.0)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: queued)
    monkeypatch.setattr(commands, "show_tables", lambda _: True)
    main([command, str(run.directory)])
    output = "".join(capsys.readouterr())
    assert ("job 7 is in no queue any more, so nobody runs" in output) == says
    assert (f"`tierbench submit {run.directory}` does what is not complete" in output) == says


def test_a_stopped_run_keeps_no_room_for_trials_that_were_prepared(run, monkeypatch):
    reserve = run.trial_directories[-1] / names.RESERVE
    reserve.write_bytes(b"room")
    run.record_submission(7, 0.0)
    queue = [True, False]
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: queue.pop(0) if len(queue) > 1 else queue[0])
    monkeypatch.setattr(commands.pool, "remove", lambda *_: None)
    monkeypatch.setattr(commands, "show_tables", lambda _: True)
    assert main(["stop", str(run.directory)]) == 0
    assert not reserve.exists()


def test_a_run_whose_queue_was_lost_is_not_taken_up_from_what_dagman_left(run, monkeypatch):
    left = [run.directory / f"{names.EXPERIMENT_DAG}.{what}" for what in ("lock", "nodes.log", "rescue001")]
    for path in left:
        path.write_text("PID = 0\n")
    run.record_submission(7, 0.0)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: False)
    monkeypatch.setattr(commands, "_submit_and_watch", lambda *_: 0)
    main(["submit", str(run.directory)])
    assert [path.exists() for path in left] == [False, False, True]


def test_another_name_of_its_directory_makes_no_copy_of_a_run(run):
    """As on a second mount; a copy in which a DAGMan lives is not begun once more."""
    run.record_submission(7, 0.0)
    path = run.directory / names.SUBMITTED
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "directory": "/data/home/run"}))
    assert run.copy_of == ""
    path.write_text(json.dumps({**record, "directory": "/data/home/run", "inode": 1}))
    assert run.copy_of == "/data/home/run"


def test_a_copy_leaves_the_original_alone_and_does_not_read_on_in_its_logs(run, tmp_path, monkeypatch, capsys):
    run.record_submission(7, 0.0)
    for name in ("experiment.dag.lock", "experiment.dag.nodes.log", names.LOCK_HOLDER, "turn.lock", "turn-key.dag"):
        (run.directory / name).write_text("the original's")
    copy = Run(Path(shutil.copytree(run.directory, tmp_path / "copy")))
    assert (copy.copy_of, run.copy_of) == (str(run.directory), "")
    monkeypatch.setattr(commands.pool, "remove", lambda *_: pytest.fail("the original was removed"))
    for verb in ("stop", "watch"):
        assert main([verb, str(copy.directory)]) == ConfigError.exit_status
        assert "is a copy; job 7 is that of" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(commands.Run, "trials", lambda _: iter(()))  # all complete
        assert main(["submit", str(copy.directory)]) == ConfigError.exit_status
    assert copy.copy_of == str(run.directory)  # still
    copy.become_its_own()
    assert copy.submission is None
    assert not list(copy.directory.glob("*.dag.*"))
    assert not (copy.directory / names.LOCK_HOLDER).exists()
    assert not (copy.directory / "turn.lock").exists()
    assert (copy.directory / names.EXPERIMENT_DAG).exists()
    assert (copy.directory / "turn-key.dag").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("inside", [False, True], ids=["run", "testbed run"])
def test_who_is_asked_to_end_says_where_the_run_goes_on(run, inside, number, status):
    """Also through the processes between it and a testbed's host, of which none is left."""
    run.record_submission(7, 0.0)
    command = ["-c", WATCHED_INSIDE] if inside else ["-m", "tierbench", "watch"]
    as_at_a_terminal = ["env", "--default-signal"]  # whatever started these tests may ignore signals, as nohup does
    watching = subprocess.Popen(
        [*as_at_a_terminal, sys.executable, *command, run.directory],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert watching.stdout
    assert "; asking again for up to" in watching.stdout.readline()  # no pool is here; so it waits
    watching.send_signal(number)
    output, _ = watching.communicate(timeout=120)  # which ends when nobody holds the pipe any more
    assert watching.returncode == status
    assert f"no longer watching; the run goes on. `tierbench watch {run.directory}`" in output
