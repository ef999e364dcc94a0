"""Watching a run: what it says of trials that fail, are tried again, wait; and of a pool that does not answer."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.quick_plan import larger_quick, written
from tierbench import names
from tierbench.errors import BusyError, ConfigError
from tierbench.submit import commands, progress
from tierbench.submit import watch as watching
from tierbench.submit.cli import main
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Run, Stage, Submission, TrialProgress, hopeless
from tierbench.submit.watch import PatientQueue, View, watch
from tierbench.trials import read_trial


@pytest.fixture
def run(tmp_path):
    return Run(written(larger_quick(), tmp_path / "run"))


@pytest.mark.parametrize(
    ("here", "elsewhere"), [("ap", False), ("ap.site.org", False), ("ap2", True), ("ap.site2.org", True)]
)
def test_a_run_is_elsewhere_by_its_hosts_name_also_where_no_name_server_answers(monkeypatch, here, elsewhere):
    monkeypatch.setattr("tierbench.submit.pool.own_name", lambda: here)
    assert Submission(1, host="ap.site.org").is_elsewhere == elsewhere


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(watching, "QUEUE_SECONDS", 0.05)
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.01)


def end(run, number, state, *reasons, again=False, age_s=0.0):
    path = run.trial_directories[number] / names.OUTCOME
    path.write_text(json.dumps({"format": 1, "state": state, "reasons": reasons, "again": again}))
    when = path.stat().st_mtime - age_s
    os.utime(path, (when, when))


def wait(run, what):
    """Have the first trial's gate wait."""
    (run.trial_directories[0] / names.CLIENTS_LOG).touch()
    waiting = {"what": what, "since_wall_s": 0.0}
    (run.trial_directories[0] / names.WAITING_FOR).write_text(json.dumps(waiting))


def begin(run):
    """Have the first trial's clients read."""
    (run.trial_directories[0] / names.CLIENTS_LOG).touch()
    (run.trial_directories[0] / names.GO).write_text("{}")


@pytest.fixture
def look(run):
    """Looks once more at the run; all that was written of it so far."""
    out = io.StringIO()
    view = View(out)

    def look():
        view.show(list(run.trials()))
        return out.getvalue()

    return look


def test_what_a_client_says_has_no_power_over_the_terminal(run, look):
    end(run, 0, "incomplete", "client 1 failed: \x1b[2J × \u202e")  # noqa: RUF001
    assert r"client 1 failed: \u001b[2J × \u202e" in look()  # noqa: RUF001


def test_a_trial_that_is_tried_again_says_so_and_is_counted_once(run, look):
    for again, counted in ((True, 0), (False, 1)):
        end(run, 0, "incomplete", "client 1 lost", again=again)
        for _ in range(2):
            text = look()
        assert text.count("INCOMPLETE: client 1 lost; it is tried again") == 1
        assert text.count("1/24") == counted


def test_trials_that_are_not_needed_are_told_of_once(run, look):
    for number in (0, 1):
        end(run, number, "skipped")
        look()
    judge(run, 2, "VALID")
    first, second = look().splitlines()
    assert first == "some trials are not needed any more, and are passed over"
    assert second.startswith("3/")


def test_a_wait_that_lasts_is_told_once(run, look):
    wait(run, "client 1, which was lost")
    look()
    assert look().count("waits for client 1, which was lost") == 1


def judge(run, number, verdict, *reasons, rate="151.42"):
    end(run, number, "complete")
    row = {"verdict": verdict, "verdict_reasons": "; ".join(reasons), "started": "together", "delivered_mbps": rate}
    with (run.trial_directories[number] / names.TRIALS_CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*row, "summed_mbps", "events_per_s", "operations_per_s"])
        writer.writeheader()
        writer.writerow(row)


def test_a_trial_is_told_of_with_its_verdict_and_rate_once_it_has_them(run, look):
    end(run, 0, "complete")
    assert look() == ""
    judge(run, 0, "VALID")
    judge(run, 1, "INVALID", "the storage received 3 Mb/s", "a cache was warm", "no gate")
    first, second = look().splitlines()
    assert first.endswith(": VALID, 151.4 Mb/s")
    assert second.endswith(": INVALID, 151.4 Mb/s: the storage received 3 Mb/s; a cache was warm and 1 more")


def test_a_trial_whose_tables_nobody_makes_is_told_of_all_the_same(run, look):
    end(run, 0, "complete", age_s=watching.TABLES_SECONDS + 1)
    assert look().endswith(": complete\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 1

    def show(self, run):
        """What is on it at first sight of the run."""
        View(self).show(list(run.trials()))
        return self

    @property
    def live(self):
        """The line that is written over."""
        return self.getvalue().rpartition("\r\033[K")[2]


@pytest.fixture
def columns(monkeypatch):
    """Makes terminals so wide."""
    return lambda number: monkeypatch.setattr(
        watching.os, "get_terminal_size", lambda _: os.terminal_size((number, 24))
    )


def test_a_damaged_record_of_the_trial_at_work_does_not_end_the_watching(run):
    begin(run)
    (run.trial_directories[0] / names.TRIAL).write_text('{"form')
    assert "0 of 8 clients done" in Terminal().show(run).live


def test_of_a_trial_that_writes_it_tells_what_the_storage_receives(run):
    begin(run)
    trial = run.trial_directories[0]
    traits = {**json.loads((trial / names.TRIAL).read_text())["traits"], "does": "writes"}
    synthetic.edit_json(trial / names.TRIAL, traits=traits)
    host = next(sampler.host for sampler in read_trial(trial).samplers if sampler.of_storage)
    (trial / names.SAMPLES).mkdir(exist_ok=True)
    counters = {name: lambda time, by=by: round((time + 5) * by) for name, by in (("rx_bytes", 1e8), ("tx_bytes", 1e6))}
    synthetic.write_host(trial, host, **counters)
    assert "storage receives 800 " in Terminal().show(run).live


def test_the_live_line_fits_the_terminal(run, monkeypatch, columns):
    wait(run, "client 1, " * 30)
    columns(0)  # as of a terminal that does not say how many it has
    assert len(Terminal().show(run).live) == watching.COLUMNS - 1
    monkeypatch.setenv("TERM", "dumb")
    assert "\033" not in Terminal().show(run).getvalue()


def test_the_time_left_follows_the_trial_at_work(run, monkeypatch):
    """Two trials took 100 s each, and one is at work."""
    now, number_of = 1_000_000.0, len(run.trial_directories)
    for number, age_s in enumerate((100, 0)):
        judge(run, number, "VALID")
        os.utime(run.trial_directories[number] / names.OUTCOME, (now - age_s, now - age_s))
    out = Terminal()
    view = View(out)
    view.pass_over([], now - 200)
    lines = []
    for passed_s in (0, 60, 100, 700):
        monkeypatch.setattr(watching.time, "time", lambda passed_s=passed_s: now + passed_s)
        view.show(list(run.trials()))
        lines.append(out.live.split("  ")[0])
    left_s = [100 * (number_of - 3) + at_work_s for at_work_s in (100, 40, 0, 600)]
    assert lines == [f"2/{number_of}, {seconds / 60:.0f} min left" for seconds in left_s]


def test_each_configuration_has_a_line_with_rate_interval_and_verdicts_as_wide_as_the_terminal(run, columns):
    columns(40)
    batch = run.plan["trials"][0]["name"].rpartition(" #")[0]
    alike = [n for n, trial in enumerate(run.plan["trials"]) if trial["name"].startswith(f"{batch} #")]
    for number, rate in zip(alike[:2], ("150.0", "152.0"), strict=True):
        judge(run, number, "VALID" if rate == "150.0" else "SUSPECT", rate=rate)
    (run.trial_directories[alike[2]] / names.CLIENTS_LOG).touch()
    out = type("Ascii", (Terminal,), {"encoding": "ascii"})()
    view = View(out)
    for _ in range(2):
        view.show(list(run.trials()))
    block = re.sub(r"\033\[\w*?[mKJA]", "", out.getvalue().rpartition("\033[1A\r\033[J")[2])
    block = block.replace("\r", "\n").split("\n")
    (line,) = [line for line in block if "+-" in line]
    assert re.fullmatch(r"  \S.* 151 \+- 13 Mb/s  2/\d 1 SUSP.*", line)
    assert all(len(line) < 40 for line in block)
    assert out.live.startswith(f"2/{len(run.trial_directories)}, ")


def test_a_low_rate_is_not_shown_as_none(run):
    judge(run, 0, "VALID", rate="0.042")
    ((_, row),) = watching.so_far(list(run.trials()))
    assert row.startswith("0.042 Mb/s")


def test_rows_that_are_too_long_keep_what_tells_them_apart(run, monkeypatch, columns):
    columns(60)
    long = "wan-xrootd-private/root cache_mb=default rtt_ms=47 x"
    monkeypatch.setattr(watching, "so_far", lambda _: [(f"{long}{jobs}", "150 +- 2 Mb/s  3/3") for jobs in (4, 16)])
    lines = Terminal().show(run).getvalue().split("\n")
    assert [len([line for line in lines if f"x{jobs} " in line]) for jobs in (4, 16)] == [1, 1]


WARM, WRITTEN = "MB of {} MB that the clients read: a cache was warm", "{} Mb/s: somebody else writes to the storage"


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ([("INVALID", WRITTEN, WARM), ("INVALID", WRITTEN), ("INVALID", WRITTEN)], WRITTEN),
        ([("INVALID", WRITTEN), ("INVALID", WRITTEN)], ""),
        ([("INVALID", WRITTEN), ("INVALID", WARM), ("INVALID", WRITTEN)], ""),
        ([("INVALID", WRITTEN), ("SUSPECT", WRITTEN), ("INVALID", WRITTEN)], ""),
    ],
)
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_whose_first_trials_are_all_invalid_for_one_reason_is_doubted_once(run, verdicts, reason, goes_on):
    for number, (verdict, *reasons) in enumerate(verdicts):
        judge(run, number, verdict, *(words.format(number + 1.5) for words in reasons))
    lines = []
    ended = watch(run, lambda: False, View(io.StringIO()), lambda words: bool(lines.append(words)) or not goes_on)
    assert lines == ([reason.format(len(verdicts) + 0.5)] if reason else [])
    assert ended == (goes_on or not reason)


@pytest.mark.parametrize(("each", "reason"), [(2, ""), (3, "a cache was warm; somebody else writes")])
def test_each_access_method_may_be_invalid_for_a_reason_of_its_own(each, reason):
    reasons = {"direct": "a cache was warm", "lan": "somebody else writes"}
    trials = [
        TrialProgress(Path(f"{name}.root.x004.r{repeat}"), name, 4, Stage.FINISHED, state="incomplete", reasons=(why,))
        for repeat in range(each)
        for name, why in reasons.items()
    ]
    assert hopeless([*trials, TrialProgress(Path("lan.root.x004.r9"), "lan", 4, Stage.WAITING)]) == reason


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


def test_a_trial_that_was_called_off_reads_no_more(run, capsys):
    trial = run.trial_directories[0]
    (trial / names.CLIENTS_LOG).touch()
    (trial / names.WAITING_FOR).write_text('{"format": 1, "what": "client 0", "since_wall_s": 0.0}')
    main(["status", str(run.directory)])
    assert "waits for client 0" in capsys.readouterr().out
    (trial / names.CALLED_OFF).write_text("{}")
    main(["status", str(run.directory)])
    output = capsys.readouterr().out
    assert ("called off, ending" in output, "waits for" in output) == (True, False)


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


@pytest.mark.parametrize("plan", ["{}", '{"trials": 3}', '{"trials": [{"id": "a", "name": "a"}]}'])
def test_a_damaged_plan_is_named(run, plan, capsys):
    (run.directory / names.PLAN).write_text(plan)
    assert main(["status", str(run.directory)]) == 1
    assert capsys.readouterr().err.startswith(f"tierbench: {run.directory}/plan.json is damaged: ")


def test_outcomes_from_before_the_submission_are_not_shown(run):
    end(run, 0, "incomplete", "client 1 lost", age_s=100)
    end(run, 1, "complete", age_s=100)
    run.record_submission(7, (run.trial_directories[0] / names.OUTCOME).stat().st_mtime + 50)
    out = io.StringIO()
    watch(run, lambda: False, View(out))
    assert out.getvalue() == "1 of 24 trials are done from before\n"


def test_a_dag_that_stays_when_all_is_done_is_not_waited_for(run, monkeypatch):
    """As one does that a scheduler has started anew which was killed at its very end."""
    monkeypatch.setattr(watching, "LEFT_SECONDS", 0.0)
    for number in range(len(run.trial_directories)):
        judge(run, number, "VALID")
    out = io.StringIO()
    watch(run, lambda: True, View(out))
    assert "`tierbench stop" in out.getvalue().splitlines()[-1]


def test_a_pool_that_does_not_answer_is_asked_again_with_a_word_and_given_up_in_the_end(monkeypatch):
    lines = []
    answers = [None, None, True, False, None, None]

    def ask():
        answer = answers.pop(0)
        if answer is None:
            raise PoolError("cannot ask the scheduler")
        return answer

    queue = PatientQueue(ask, lines.append)
    assert [queue.holds() for _ in range(5)] == [True, True, True, False, True]
    first, second, _ = lines
    assert first.startswith("cannot ask the scheduler; asking again")
    assert second.startswith("HTCondor answers again")
    monkeypatch.setattr(watching, "UNANSWERED_SECONDS", -1)
    with pytest.raises(PoolError):
        queue.holds()


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
