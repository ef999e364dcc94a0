"""Gate and stop where clients begin one by one: by a step of time, or each when the one before has ended."""

import json
import time

import pytest

from tests.unit.gate_process import CLOSED_S, LIMITS
from tests.unit.shipped import wait_until
from tierbench import names
from tierbench.starts import read_go


@pytest.fixture
def in_turn(gate):
    return gate(definition={"start": {"kind": "in-turn", "every_s": 0.0}})


def test_clients_that_begin_one_by_one_have_one_go_and_a_step(gate):
    trial = gate(definition={"start": {"kind": "every", "every_s": 2.5}})
    trial.open()
    go = read_go(json.dumps(trial.said()))
    assert [go.begin(client) - go.go_wall_ns for client in (0, 1)] == [0, 2_500_000_000]


def test_nothing_has_to_move_while_the_next_client_does_not_read_yet(gate):
    trial = gate(definition={"start": {"kind": "every", "every_s": 600}}, stall_s=1)
    trial.open()
    trial.terminated(0)
    time.sleep(3)  # beyond the limit, and the time that it takes to be seen
    assert not trial.has(names.CALLED_OFF)


def test_a_clients_turn_comes_when_the_one_before_has_ended(in_turn):
    in_turn.open()
    time.sleep(CLOSED_S)
    assert len(in_turn.said()["turns_wall_ns"]) == 1
    ended = time.time_ns()
    in_turn.terminated(0)
    wait_until(lambda: len(in_turn.said()["turns_wall_ns"]) == 2)
    assert in_turn.said()["turns_wall_ns"][1] > ended
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


def test_who_waits_for_its_turn_learns_that_the_trial_is_called_off(in_turn):
    in_turn.restart(limits={**LIMITS, "stall_s": 2})
    in_turn.open()
    reason = in_turn.why
    assert "while client 0 read" in reason
    assert in_turn.said()["called_off"] == reason
