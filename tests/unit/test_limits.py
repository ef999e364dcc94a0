"""What waits longer than what: said once, and in an order in which nothing waits without end."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tierbench.dags.experiment import find_experiment
from tierbench.dags.limits import Limits, limits


def of(**changes: int) -> Limits:
    return limits(dataclasses.replace(find_experiment("quick"), **changes))  # type: ignore[arg-type]


ALL = [
    of(slot_limit_s=slot, time_limit_s=read, stall_limit_s=stall)
    for slot, read, stall in itertools.product((10, 1200, 86_400), (1, 7200, 604_800), (5, 300))
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
