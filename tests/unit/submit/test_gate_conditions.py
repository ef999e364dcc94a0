"""Gate and stop where the site arranges a condition: the trial runs under it from go to end, or is called off."""

import json
import time

import pytest

from tests.unit.gate_process import CLOSED_S, WHEN
from tierbench import names

RTT = {
    "name": "wan-rtt.wan", "condition": "wan-rtt", "host": "wan", "word": "rtt", "value": "47", "unit": "ms",
    "tolerance_pct": 1.0, "helper": "/usr/local/sbin/tierbench-arrange",
}  # fmt: skip


@pytest.fixture
def arranged(trial):
    """A trial for which the WAN is to be 47 ms long."""
    trial.restart(conditions=[RTT])
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
    arranged.log("arrange.log", end)
    assert arranged.why.startswith("the job that arranges wan-rtt on wan failed: it ")


def test_the_next_trial_does_not_begin_under_this_ones_conditions(arranged):
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    arranged.says_end(0, 1)
    arranged.has_soon(names.STOP)
    assert not arranged.has(names.SERVED)
    says(arranged, "restored", now="14")
    arranged.has_soon(names.SERVED)
