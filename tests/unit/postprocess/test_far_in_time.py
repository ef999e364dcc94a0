"""Trials measured long before or after the rest of their repetition, or while another one of the run was."""

import pytest

from tests.unit.postprocess.test_uncertainty import trial
from tests.unit.synthetic_run import GO_NS
from tierbench.postprocess.verdict.judge import judge_run

ACCESSES = ("direct", "lan", "wan")


def judged(begins_h):
    """The trials of all access methods, repetition by repetition, each of 20 s that began at its hour."""
    rows = [
        trial(
            access, repeat, 400.0, trial=f"{access} {repeat}", verdict="VALID",
            go_wall_ns=GO_NS + round(hour * 3600e9), end_wall_ns=GO_NS + round(hour * 3600e9) + 20 * 10**9,
        )
        for repeat, hours in enumerate(begins_h, 1)
        for access, hour in zip(ACCESSES, hours, strict=True)
    ]  # fmt: skip
    return judge_run(rows, {row.trial: {"hosts": {}} for row in rows})


@pytest.mark.parametrize(
    ("begins_h", "suspect"),
    [
        pytest.param([(0, 0.1, 0.2), (0.3, 0.4, 0.5)], [], id="one after the other"),
        pytest.param([(0, 0.1, 24), (0.3, 0.4, 0.5)], ["wan 1"], id="one submitted again the day after"),
        pytest.param([(24, 0.1, 0.2), (24.1, 0.4, 0.5)], ["direct 1", "direct 2"], id="all of an access method"),
        pytest.param([(0, 24, 24.1), (24.2, 24.3, 24.4)], ["direct 1"], id="a run that was stopped over night"),
        pytest.param([(0, 0.1, 0.2), (24, 24.1, 24.2)], [], id="whole repetitions that were added"),
        pytest.param([(0, 2, 4), (6, 8, 10)], [], id="a pool in which each trial waits for two hours"),
        pytest.param([(0, 24, 48)], [], id="nothing says what is usual"),
    ],
)
def test_they_are_suspect(begins_h, suspect):
    rows = judged(begins_h)
    assert [row.trial for row in rows if row.verdict == "SUSPECT"] == suspect
    reasons = [reason for row in rows for reason in row.verdict_reasons]
    assert all("h from the rest of its repetition (at most 1 h)" in reason for reason in reasons)


@pytest.mark.parametrize("after_s", [20, 19.1, 18.9, 5])
def test_two_that_were_measured_at_once_are_invalid(after_s):
    rows = judged([(0, after_s / 3600, 1)])
    assert [row.trial for row in rows if row.verdict == "INVALID"] == (["direct 1", "lan 1"] if after_s < 19 else [])
    words = f"1 other trial measured in {5 * (20 - after_s):.0f} % of its window (at most 5 % of the window)"
    assert any(words in reason for reason in rows[0].verdict_reasons) is (after_s < 19)


@pytest.mark.parametrize(
    ("beside", "ahead_ms", "verdict"),
    [
        pytest.param([(10, 14), (50, 54)], 0, "INVALID", id="two short ones add up"),
        pytest.param([(10, 14), (11, 14)], 0, "VALID", id="what two share counts once"),
        pytest.param([(94, 200)], 0, "INVALID", id="another one's begin"),
        pytest.param([(94, 200)], 2000, "VALID", id="another one's begin, by a worker's clock that is ahead"),
    ],
)
def test_what_was_measured_beside_a_long_one(beside, ahead_ms, verdict):
    rows = [
        trial("direct", 1, 400.0, trial=f"trial {begin}", verdict="VALID", clock_offset_ms=ahead_ms,
              go_wall_ns=GO_NS + begin * 10**9, end_wall_ns=GO_NS + end * 10**9)
        for begin, end in ((0, 100), *beside)
    ]  # fmt: skip
    assert judge_run(rows, {})[0].verdict == verdict
