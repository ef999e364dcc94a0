"""Watching a run: what it says of trials that fail, are tried again, wait; and of a pool that does not answer."""

import csv
import io
import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.unit import synthetic_run as synthetic
from tierbench import names
from tierbench.submit import watch as watching
from tierbench.submit.cli import main
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Stage, TrialProgress, hopeless
from tierbench.submit.watch import PatientQueue, View, lacks_room, watch
from tierbench.trials import read_trial

WARM, WRITTEN = "MB of {} MB that the clients read: a cache was warm", "{} Mb/s: somebody else writes to the storage"


def end(run, number, state, *reasons, again=False, age_s=0.0):
    path = run.trial_directories[number] / names.OUTCOME
    path.write_text(json.dumps({"format": 1, "state": state, "reasons": reasons, "again": again}))
    when = path.stat().st_mtime - age_s
    os.utime(path, (when, when))


def start(trial):
    (trial / names.BEGUN).touch()
    (trial / names.CLIENTS_LOG).touch()


def wait(run, what):
    """Have the first trial's gate wait."""
    start(run.trial_directories[0])
    waiting = {"what": what, "since_wall_s": 0.0}
    (run.trial_directories[0] / names.WAITING_FOR).write_text(json.dumps(waiting))


def begin(run):
    """Have the first trial's clients read."""
    start(run.trial_directories[0])
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


def test_a_client_that_writes_no_text_does_not_end_the_watching(run):
    begin(run)
    (run.trial_directories[0] / names.CLIENTS).mkdir()
    (run.trial_directories[0] / names.client_output(0)).write_bytes(b'\xff\n{"event": "end"}\n')
    assert next(run.trials()).done == 1


def test_who_has_the_lock_and_no_room_to_begin_is_told_of_also_where_a_quota_leaves_none(run, look):
    trial, holder = run.trial_directories[0], run.directory / names.LOCK_HOLDER
    holder.write_text(trial.name)
    assert look() == ""
    os.utime(holder, (time.time() - 60,) * 2)
    assert look() == "waiting for 101 MB of room on the access point's disk, or of a quota there\n"
    (trial / names.BEGUN).touch()
    assert not lacks_room(run.directory)


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
    size = watching.os, "get_terminal_size"
    return lambda number: monkeypatch.setattr(*size, lambda _: os.terminal_size((number, 24)))


def test_a_damaged_record_of_the_trial_at_work_does_not_end_the_watching_and_a_low_rate_is_not_shown_as_none(run):
    begin(run)
    (run.trial_directories[0] / names.TRIAL).write_text('{"form')
    assert "0 of 8 clients done" in Terminal().show(run).live
    judge(run, 0, "VALID", rate="0.042")
    ((_, row),) = watching.so_far(list(run.trials()))
    assert row.startswith("0.042 Mb/s")


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
    start(run.trial_directories[alike[2]])
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


def test_rows_that_are_too_long_keep_what_tells_them_apart(run, monkeypatch, columns):
    columns(60)
    long = "wan-xrootd-private/root cache_mb=default rtt_ms=47 x"
    monkeypatch.setattr(watching, "so_far", lambda _: [(f"{long}{jobs}", "150 +- 2 Mb/s  3/3") for jobs in (4, 16)])
    lines = Terminal().show(run).getvalue().split("\n")
    assert [len([line for line in lines if f"x{jobs} " in line]) for jobs in (4, 16)] == [1, 1]


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


def test_a_trial_whose_jobs_are_on_hold_waits(run):
    trial = run.trial_directories[0]
    (trial / names.CLIENTS_LOG).touch()
    assert next(run.trials()).stage is Stage.WAITING
    (trial / names.BEGUN).touch()
    assert next(run.trials()).stage is Stage.GATHERING


def test_a_trial_that_was_called_off_reads_no_more(run, capsys):
    trial = run.trial_directories[0]
    start(trial)
    (trial / names.WAITING_FOR).write_text('{"format": 1, "what": "client 0", "since_wall_s": 0.0}')
    main(["status", str(run.directory)])
    assert "waits for client 0" in capsys.readouterr().out
    (trial / names.CALLED_OFF).write_text("{}")
    main(["status", str(run.directory)])
    output = capsys.readouterr().out
    assert ("called off, ending" in output, "waits for" in output) == (True, False)


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
