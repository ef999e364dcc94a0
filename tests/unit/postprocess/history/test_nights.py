"""Nights by the whole way of the data: sample files, job records, tables, verdicts, history, and what that says."""

import importlib.util
from pathlib import Path

import pytest

from tierbench.postprocess.history.sentences import sentence

NEWER = 7  # the night in which a method falls and xrootd is another one


@pytest.fixture(scope="module")
def nights():
    """The benchmark that simulates them, which is no part of a package."""
    path = Path(__file__).parents[4] / "benchmarks/nights.py"
    specification = importlib.util.spec_from_file_location("nights", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_a_fall_is_named_in_its_second_night_with_the_version_that_changed(nights):
    def factor(method, night):
        return 0.85 if method == "lan-xrootd" and night >= NEWER else 1.0

    known = nights.measured(NEWER + 2, factor, (0.003, -0.003, 0.0), seed=1, missed=(3,), newer=NEWER)
    assert [night.outcome for night in known.nights].count("measured") == NEWER + 1
    assert nights.alarms(nights.until(known, NEWER + 1)) == []
    (only,) = nights.alarms(known)
    assert only.configuration == nights.LAN
    assert only.ratio[1] < 0.85 < only.ratio[2]
    assert "; that night xrootd-server went from 5.8.1 to 5.8.4 on oss." in sentence(only, known)


def test_clean_nights_alarm_nobody_and_a_fall_by_a_fifth_is_always_named(nights):
    for seed in range(3):
        known = nights.until(nights.drawn(nights.FALL + 5, nights.QUIET, seed), nights.FALL + 5)
        assert nights.alarms(known) == []
        fallen = nights.slower(known, nights.LAN, 0.2, nights.FALL)
        assert [found.configuration for found in nights.alarms(fallen)] == [nights.LAN]
