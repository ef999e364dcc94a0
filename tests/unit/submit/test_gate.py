"""Start gate and stop: when a trial's clients go, when the lock is given on, and that both outlive their own death."""

import os
import time
from pathlib import Path

import pytest

from tests.unit.gate_process import CLOSED_S, WHEN
from tests.unit.shipped import wait_until
from tierbench import names
from tierbench.submit.trial import stop


def test_a_gate_that_was_started_ahead_waits_for_the_lock(trial):
    trial.restart(ahead=True)
    trial.open(wait=False)
    time.sleep(CLOSED_S)
    assert not trial.has(names.GO)
    (trial.trial / names.BEGUN).write_text("begun\n")
    assert trial.said()["go_wall_ns"]


def test_it_opens_when_all_are_ready_flushed_and_sampled(trial):
    before_ns = time.time_ns()
    trial.open()
    assert trial.said()["go_wall_ns"] > before_ns


@pytest.mark.parametrize("lacking", ["ready", "flushed", "sampling"])
def test_it_stays_closed_while_anything_is_lacking(trial, lacking):
    for name in {"flushed", "sampling"} - {lacking}:
        getattr(trial, name)()
    trial.ready(0, *([1] if lacking != "ready" else []))
    time.sleep(CLOSED_S)
    assert not trial.has(names.GO)


def test_it_does_not_wait_for_a_client_that_has_ended(trial):
    trial.open(0, wait=False)
    trial.terminated(1)
    assert "go_wall_ns" in trial.said()


def test_who_watches_many_clients_leaves_the_cores_to_them(trial):
    """A look at 10,000 takes a tenth of a second and would be taken ten times in one."""
    trial.restart(jobs=10_000)
    trial.begun(0)
    wait_until(lambda: trial.waits_for)  # it has looked once
    since, before = time.monotonic(), cpu_seconds(trial.gate.pid)
    time.sleep(2)
    assert cpu_seconds(trial.gate.pid) - before < 0.4 * (time.monotonic() - since)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_a_flush_the_trial_is_called_off(trial):
    trial.ready(0, 1)
    trial.log("flush.log", f"005 (6.000.000) {WHEN} Job terminated.\n\t(1) Normal termination (return value 0)")
    assert "the flush on wn01 failed" in trial.said()["called_off"]


def test_the_lock_is_given_on_when_the_last_client_has_said_its_end(trial):
    trial.open()
    trial.says_end(0)
    time.sleep(CLOSED_S)
    assert not trial.has(names.SERVED)
    trial.says_end(1)
    trial.has_soon(names.SERVED)


def test_a_client_that_died_without_a_word_is_not_waited_for(trial):
    trial.open()
    trial.terminated(0, 1)
    trial.has_soon(names.SERVED)


def test_samplers_see_the_idle_storage_before_they_are_stopped(trial):
    trial.open()
    trial.says_end(0, 1)
    assert trial.stop.wait(120) == 0
    assert (trial.trial / names.STOP).stat().st_size > 0  # HTCondor 25 delivers no empty files
    idle = (trial.trial / names.STOP).stat().st_mtime - (trial.trial / names.SERVED).stat().st_mtime
    assert idle >= stop.IDLE_SECONDS - 0.01  # the stamps of files are some ms old


def test_it_ends_when_no_client_is_left_to_wait_for_the_samplers(trial):
    trial.terminated(0, 1)
    assert trial.stop.wait(120) == 0
    assert not trial.has(names.GO)


def test_a_gate_that_died_finds_its_go_and_goes_on(trial):
    trial.open()
    go = trial.said()
    trial.kill()
    trial.start()
    trial.terminated(0, 1)
    assert trial.stop.wait(120) == 0
    assert trial.said() == go


def test_a_stop_that_died_goes_on_where_it_was(trial):
    trial.open()
    trial.kill()
    trial.start()
    assert trial.gate.wait(120) == 0
    trial.terminated(0, 1)
    assert trial.stop.wait(120) == 0
    assert not trial.has(names.CALLED_OFF)


def test_an_earlier_trys_clients_are_not_taken_for_this_ones(trial):
    """A job that could not be ended writes on into the log when the trial is tried again."""
    aborted = [f"009 (3.00{n}.000) {WHEN} Job was aborted.\n\tDAG Abort" for n in (0, 1)]
    trial.begun(0, 1)
    trial.log(names.CLIENTS_LOG, *aborted)
    time.sleep(CLOSED_S)
    assert not trial.has(names.SERVED)


def test_storage_is_seen_at_rest_for_a_whole_interval_before_the_go(trial):
    """With a period of five seconds, too, its rate without clients is known then."""
    trial.flushed()
    trial.sampling(0)
    trial.ready(0, 1)
    time.sleep(CLOSED_S)
    assert not trial.has(names.GO)
    trial.sampling(0, 0)
    assert "go_wall_ns" in trial.said()
