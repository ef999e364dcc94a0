"""What waits longer than what: said once, and in an order in which nothing waits without end."""

import dataclasses
import itertools

import pytest

from tierbench.dags.experiment import find_experiment
from tierbench.dags.limits import limits
from tierbench.dags.trial_settings import Every


def of(jobs=4, **changes):
    return limits(dataclasses.replace(find_experiment("quick"), **changes), jobs)


ALL = [
    of(slot_limit_s=slot, time_limit_s=read, stall_limit_s=stall, start=start)
    for slot, read, stall, start in itertools.product(
        (10, 1200, 86_400), (1, 7200, 604_800), (5, 300), ("together", Every(every_s=7), "in-turn")
    )
]


@pytest.mark.parametrize("limit", ALL, ids=str)
def test_what_stands_outside_is_more_patient_than_what_stands_inside_which_knows_the_reason(limit):
    assert limit.slot_s < limit.ready_s < limit.go_s
    assert limit.read_s < limit.end_s
    assert limit.ready_s + limit.end_s < limit.job_s < limit.gate_s
    assert limit.turn_s > limit.gate_s + 3 * limit.stop_s  # until the gate and the last step have ended


def test_clients_in_turn_are_waited_for_as_often_as_there_are_clients():
    together, in_turn = of(8), of(8, start="in-turn")
    assert in_turn.end_s >= 8 * together.read_s
    assert in_turn.go_s >= together.go_s + 7 * together.read_s  # the last one waits for all others


def test_clients_that_begin_one_by_one_are_waited_for_until_the_last_can_have_read():
    assert of(8, start=Every(every_s=10)).end_s == of(8).end_s + 70
