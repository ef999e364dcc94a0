"""What waits longer than what: said once, and in an order in which nothing waits without end."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from tierbench.dags.experiment import find_experiment
from tierbench.dags.limits import limits
from tierbench.dags.trial_settings import Every
from tierbench.trials import Limits


def of(jobs: int = 4, **changes: Any) -> Limits:
    return limits(dataclasses.replace(find_experiment("quick"), **changes), jobs)


ALL = [
    of(slot_limit_s=slot, time_limit_s=read, stall_limit_s=stall, start=start)
    for slot, read, stall, start in itertools.product(
        (10, 1200, 86_400), (1, 7200, 604_800), (5, 300), ("together", Every(every_s=7), "in-turn")
    )
]


@pytest.mark.parametrize("limit", ALL, ids=str)
class TestOutside:
    """What stands outside is more patient than what stands inside, which knows the reason."""

    def test_the_gate_waits_longer_than_a_job_may_be_idle(self, limit: Limits) -> None:
        assert limit.ready_s > limit.slot_s

    def test_a_client_waits_longer_for_the_go_than_the_gate_for_the_clients(self, limit: Limits) -> None:
        assert limit.go_s > limit.ready_s

    def test_the_gate_waits_longer_for_the_ends_than_a_client_may_read(self, limit: Limits) -> None:
        assert limit.end_s > limit.read_s

    def test_htcondor_waits_longer_for_a_client_than_the_gate(self, limit: Limits) -> None:
        assert limit.job_s > limit.ready_s + limit.end_s

    def test_htcondor_waits_longer_for_the_gate_than_for_the_clients(self, limit: Limits) -> None:
        assert limit.gate_s > limit.job_s

    def test_a_trial_keeps_the_turn_until_the_gate_and_the_last_step_have_ended(self, limit: Limits) -> None:
        assert limit.turn_s > limit.gate_s + 3 * limit.stop_s


def test_clients_in_turn_are_waited_for_as_often_as_there_are_clients() -> None:
    together, in_turn = of(8), of(8, start="in-turn")
    assert in_turn.end_s >= 8 * together.read_s
    assert in_turn.go_s >= together.go_s + 7 * together.read_s  # the last one waits for all others


def test_clients_that_begin_one_by_one_are_waited_for_until_the_last_can_have_read() -> None:
    assert of(8, start=Every(every_s=10)).end_s == of(8).end_s + 70
