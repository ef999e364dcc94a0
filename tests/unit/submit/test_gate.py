"""Start gate and stop: when a trial's clients go, under which conditions and in which order, and when it ends."""

import contextlib
import json
import time

import pytest

from tests.unit.gate_process import CLOSED_S, WHEN, Over, Passing, monitor_of
from tests.unit.shipped import wait_until
from tierbench import names
from tierbench.starts import read_go
from tierbench.submit.trial import stop
from tierbench.submit.trial.gate import TURN_SECONDS
from tierbench.submit.trial.joblog import Cluster
from tierbench.submit.trial.stop import see_end
from tierbench.submit.trial.trial_monitor import CalledOff, gather
from tierbench.trials import Wait, record_text

SUBMITTED = f"000 (6.000.000) {WHEN} Job submitted from host: <>"
IN_TURN = {"start": {"kind": "in-turn", "every_s": 0.0}}
ARRANGING = f"001 (6.000.000) {WHEN} Job executing on host: <>\n\tSlotName: slot1@wan"


def test_it_opens_when_all_are_ready_flushed_and_sampled_or_have_ended(trial):
    before_ns = time.time_ns()
    trial.open(0, wait=False)
    trial.terminated(1)
    assert trial.said()["go_wall_ns"] > before_ns


@pytest.mark.parametrize("lacking", ["ready", "flushed", "sampling"])
def test_it_stays_closed_while_anything_is_lacking(trial, lacking):
    for name in {"flushed", "sampling"} - {lacking}:
        getattr(trial, name)()
    trial.ready(0, *([1] if lacking != "ready" else []))
    time.sleep(CLOSED_S)
    assert not trial.has(names.GO)
    trial.ready(1) if lacking == "ready" else getattr(trial, lacking)()
    assert trial.said()["go_wall_ns"]


def test_who_watches_many_clients_leaves_the_cores_to_them(gate, monkeypatch):
    """A look at 10,000 takes a tenth of a second and would be taken ten times in one."""
    passing = Passing(5, work_s=0.1)
    monitor = monitor_of(gate(at_work=False, definition={"jobs": 10_000}), monkeypatch, passing)
    with pytest.raises(Over):
        gather(monitor)
    assert passing.rests == [pytest.approx(2.0)] * 3


@pytest.mark.parametrize("words", ["", "flush: [Errno 5] Input/output error: '/store'"])
def test_without_a_flush_the_trial_is_called_off_with_its_last_words(trial, words):
    trial.ready(0, 1)
    (trial.trial / names.FLUSH / "wn01.err").write_text(words and f"a warning\n{words}\n")
    end = f"005 (6.000.000) {WHEN} Job terminated.\n\t(1) Normal termination (return value 0)"
    trial.log(names.FLUSH_LOG, SUBMITTED, end)
    why = words or "it ended without a report"
    assert trial.said()["called_off"] == f"the flush on wn01 failed: {why}; see flush.log and flush/*.err"


def test_the_end_of_an_earlier_trys_job_is_none_of_this_one(tmp_path):
    """It may leave the queue when its log has been moved aside already, and this try's are not submitted yet."""
    log, aborted = tmp_path / "log", f" {WHEN} Job was aborted.\n\tremoved with its DAGMan\n...\n"
    cluster = Cluster(log)
    log.write_text("009 (5.000.000)" + aborted)
    cluster.read_on()
    assert not cluster.ended
    log.write_text(log.read_text() + SUBMITTED + "\n...\n009 (6.000.000)" + aborted)
    cluster.read_on()
    assert cluster.ended == {0: "was removed: removed with its DAGMan"}


def test_the_lock_is_given_on_when_the_last_client_has_ended_with_a_word_or_without(trial):
    trial.open()
    trial.says_end(0)
    time.sleep(CLOSED_S)
    assert not trial.has(names.SERVED)
    trial.terminated(1)
    trial.has_soon(names.SERVED)


def test_samplers_see_the_idle_storage_before_they_are_stopped(trial):
    trial.open()
    trial.says_end(0, 1)
    assert trial.stop.wait(120) == 0
    assert (trial.trial / names.STOP).stat().st_size > 0  # HTCondor 25 delivers no empty files
    idle = (trial.trial / names.STOP).stat().st_mtime - (trial.trial / names.SERVED).stat().st_mtime
    assert idle >= stop.IDLE_SECONDS - 0.01  # the stamps of files are some ms old


@pytest.mark.parametrize(
    ("definition", "rests", "served"), [({}, [9.5, 1.0], True), ({"writes": {"kind": "files"}}, [10.5], False)]
)
def test_so_that_an_interval_of_theirs_is_whole_and_before_what_was_written_is_gone_no_other_trial_begins(
    gate, monkeypatch, definition, rests, served
):
    trial = gate(at_work=False, definition={"sample_period_s": 5.0, **definition})
    trial.open(wait=False)
    trial.go()
    trial.says_end(0, 1)
    passing = Passing(20)
    stop.stop(monitor_of(trial, monkeypatch, passing))
    assert (passing.rests[1:], trial.has(names.STOP), trial.has(names.SERVED)) == (rests, True, served)


def test_an_event_that_was_cut_off_calls_the_trial_off_for_which_dagman_would_wait_for_ever(trial):
    trial.open()
    cut = "005 (7.000.000) 2026-11-28 08:45:10 Job termi005 (7.001.000) 2026-11-28 08:45:11 Job terminated.\n...\n"
    (trial.trial / names.NODES_LOG).write_text(cut)
    trial.says_end(0, 1)
    assert "DAGMan has missed an event" in trial.why


def test_it_ends_when_no_client_is_left_to_wait_for_the_samplers(trial):
    trial.begun(0, 1)
    trial.terminated(0, 1)
    assert trial.stop.wait(120) == 0
    assert not trial.has(names.GO)


def test_a_gate_and_a_stop_that_died_go_on_where_they_were(trial):
    trial.open()
    go = trial.said()
    trial.kill()
    trial.start()
    assert trial.gate.wait(120) == 0
    trial.terminated(0, 1)
    assert trial.stop.wait(120) == 0
    assert trial.said() == go
    assert not trial.has(names.CALLED_OFF)


@pytest.mark.parametrize("given", [False, True], ids=["before the go", "just after it"])
def test_what_a_gate_that_died_has_said_to_wait_for_is_taken_back(gate, given):
    trial = gate(at_work=False)
    trial.open(wait=False)
    (trial.trial / names.WAITING_FOR).write_text(record_text(Wait("clients 0, 1 without a slot", 0.0)))
    if given:
        trial.go()
    trial.start()
    assert trial.gate.wait(120) == 0
    assert trial.waits_for == ""


def test_an_earlier_trys_clients_are_not_taken_for_this_ones(trial):
    """A job that could not be ended writes on into the log when the trial is tried again."""
    aborted = [f"009 (3.00{n}.000) {WHEN} Job was aborted.\n\tDAG Abort" for n in (0, 1)]
    trial.begun(0, 1)
    trial.log(names.CLIENTS_LOG, *aborted)
    time.sleep(CLOSED_S)
    assert not trial.has(names.SERVED)
    assert trial.stop.poll() is None  # and looks on


def test_storage_is_seen_at_rest_for_a_whole_interval_before_the_go(trial):
    """With a period of five seconds, too, its rate without clients is known then."""
    trial.flushed()
    trial.sampling(0)
    trial.ready(0, 1)
    time.sleep(CLOSED_S)
    assert not trial.has(names.GO)
    trial.sampling(0, 0)
    assert "go_wall_ns" in trial.said()


@pytest.fixture
def in_turn(gate):
    return gate(definition=IN_TURN)


def test_clients_that_begin_one_by_one_have_one_go_and_a_step(gate):
    trial = gate(definition={"start": {"kind": "every", "every_s": 2.5}})
    trial.open()
    go = read_go(json.dumps(trial.said()))
    assert [go.begin(client) - go.go_wall_ns for client in (0, 1)] == [0, 2_500_000_000]


def test_nothing_has_to_move_while_the_next_client_does_not_read_yet(gate, monkeypatch):
    trial = gate(at_work=False, definition={"start": {"kind": "every", "every_s": 600}}, stall_s=1)
    trial.open(wait=False)
    trial.go(step_ns=600 * 10**9)
    trial.terminated(0)
    with pytest.raises(Over):  # and not CalledOff
        see_end(monitor_of(trial, monkeypatch, Passing(10)), {})


def test_a_clients_turn_comes_when_the_one_before_has_ended(in_turn):
    in_turn.open()
    time.sleep(CLOSED_S)
    assert len(in_turn.said()["turns_wall_ns"]) == 1
    ended = time.time_ns()
    in_turn.terminated(0)
    wait_until(lambda: len(in_turn.said()["turns_wall_ns"]) == 2)
    assert in_turn.said()["turns_wall_ns"][1] > ended + TURN_SECONDS * 1e9
    assert in_turn.gate.wait(120) == 0
    in_turn.terminated(1)
    assert in_turn.stop.wait(120) == 0


def test_a_gate_that_died_between_two_turns_goes_on(in_turn):
    in_turn.open()
    first = in_turn.said()
    in_turn.kill()
    in_turn.terminated(0)
    in_turn.start()
    wait_until(lambda: len(in_turn.said()["turns_wall_ns"]) == 2)
    assert in_turn.said()["turns_wall_ns"][0] == first["go_wall_ns"]


def test_who_waits_for_its_turn_learns_that_the_trial_is_called_off(gate):
    trial = gate(definition=IN_TURN, stall_s=1)
    trial.open()
    reason = trial.why
    assert "while client 0 read" in reason
    assert trial.said()["called_off"] == reason


RTT = {
    "name": "wan-rtt.wan", "condition": "wan-rtt", "host": "wan", "word": "rtt", "value": "47", "unit": "ms",
    "tolerance_pct": 1.0, "helper": "/usr/local/sbin/tierbench-arrange",
}  # fmt: skip


@pytest.fixture
def arranged(gate):
    """A trial for which the WAN is to be 47 ms long."""
    trial = gate(definition={"conditions": [RTT]})
    trial.open(wait=False)
    return trial


def says(trial, event, **content):
    with (trial.trial / names.ARRANGED / "wan-rtt.wan.jsonl").open("a") as file:
        file.write(json.dumps({"event": event, **content}) + "\n")


def test_it_opens_when_the_condition_is_what_was_asked_for(arranged):
    time.sleep(CLOSED_S)
    assert not arranged.has(names.GO)
    says(arranged, "arranged", before="14", now="47.2")
    assert "go_wall_ns" in arranged.said()


@pytest.mark.parametrize(
    ("event", "content", "why"),
    [
        ("arranged", {"before": "14", "now": "14"}, "wan-rtt on wan is 14 ms where 47 ms were asked for"),
        ("failed", {"message": "no such word"}, "wan-rtt on wan could not be arranged: no such word"),
    ],
)
def test_a_condition_that_did_not_take_calls_the_trial_off(arranged, event, content, why):
    says(arranged, event, **content)
    assert arranged.why == why


def test_a_condition_that_is_undone_too_early_calls_the_trial_off(arranged):
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    says(arranged, "restored", now="14")
    assert arranged.why == "wan-rtt on wan was restored before the trial was over"


@pytest.mark.parametrize(
    "end",
    [
        f"009 (6.000.000) {WHEN} Job was aborted.\n\tvia condor_rm (by user bench)",
        f"005 (6.000.000) {WHEN} Job terminated.\n\t(0) Abnormal termination (signal 9)",
    ],
)
def test_a_condition_whose_job_ends_calls_the_trial_off(arranged, end):
    """Root's helper restores it then, and nobody is left to say so."""
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    arranged.log("arrange.log", SUBMITTED, end)
    assert arranged.why.startswith("the job that arranges wan-rtt on wan failed: it ")


def see_end_while(trial, monkeypatch, log, *events):
    """See the end of a trial whose clients read; before they have ended HTCondor tells of events."""

    def meanwhile(number):
        if number == 2:
            trial.log(log, *events)
        if number == 4:
            trial.says_end(0, 1)

    trial.go()
    monitor = monitor_of(trial, monkeypatch, Passing(10, meanwhile))
    see_end(monitor, {0: 1, 1: 1})


@pytest.mark.parametrize(
    ("befalls", "why"),
    [
        ((f"004 (6.000.000) {WHEN} Job was evicted.", ARRANGING), "began anew: meanwhile nothing held the condition"),
        ((f"004 (6.000.000) {WHEN} Job was evicted.",), "was evicted from slot1@wan"),
        ((f"022 (6.000.000) {WHEN} Job disconnected, attempting\n    gone",), "was lost: its slot slot1@wan"),
        ((f"010 (6.000.000) {WHEN} Job was suspended.",), None),  # root's helper goes on
    ],
    ids=["restarted", "evicted", "cut off to the end", "suspended"],
)
def test_a_condition_that_nobody_held_for_a_while_calls_the_trial_off(gate, monkeypatch, befalls, why):
    """Its job may have set it again meanwhile, and may restore it in the end."""
    trial = gate(at_work=False, definition={"conditions": [RTT]})
    trial.open(wait=False)
    trial.log(names.ARRANGE_LOG, ARRANGING)
    says(trial, "arranged", before="14", now="47")
    with pytest.raises(CalledOff, match=why) if why else contextlib.nullcontext():
        see_end_while(trial, monkeypatch, names.ARRANGE_LOG, *befalls)


def test_a_sampler_of_the_storage_that_begins_anew_calls_the_trial_off(gate, monkeypatch):
    """HTCondor lets it write its file from the beginning."""
    sampling = f"001 (9.000.000) {WHEN} Job executing on host: <>\n\tSlotName: slot1@oss"
    trial = gate(at_work=False)
    trial.open(wait=False)
    trial.log(names.SAMPLERS_LOG, f"000 (9.000.000) {WHEN} Job submitted from host: <>", sampling)
    with pytest.raises(CalledOff, match="the sampler on oss began anew, and has lost what it had sampled"):
        see_end_while(trial, monkeypatch, names.SAMPLERS_LOG, f"004 (9.000.000) {WHEN} Job was evicted.", sampling)


def test_a_sampler_of_the_storage_that_ends_while_clients_read_calls_the_trial_off(gate):
    """Else the storage seems to stand still, and is blamed for it minutes later."""
    sampling, end = "Job executing on host: <>", "Job terminated.\n\t(1) Normal termination (return value 255)"
    trial = gate(definition={"samplers": [{"host": "oss", "role": "storage", "via": "ssh"}]})
    trial.log(names.SAMPLERS_SSH_LOG, f"001 (9.000.000) {WHEN} {sampling}")
    trial.open()
    trial.log(names.SAMPLERS_SSH_LOG, f"005 (9.000.000) {WHEN} {end}")
    assert trial.why == "the sampler on oss ended (return value 255) while clients read"


@pytest.mark.parametrize("restored", [True, False])
def test_the_next_trial_does_not_begin_under_this_ones_conditions(arranged, restored):
    """While one is not restored the last step has the lock, to wait on."""
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    arranged.says_end(0, 1)
    arranged.has_soon(names.STOP)
    assert not arranged.has(names.SERVED)
    if restored:
        says(arranged, "restored", now="14")
    assert arranged.stop.wait(120) == 0
    assert arranged.has(names.SERVED) == restored


def test_a_stop_that_died_when_all_was_over_calls_nothing_off(arranged):
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    arranged.says_end(0, 1)
    arranged.has_soon(names.STOP)
    arranged.kill()
    says(arranged, "restored", now="14")
    arranged.start()
    assert arranged.stop.wait(120) == 0
    assert not arranged.has(names.CALLED_OFF)
