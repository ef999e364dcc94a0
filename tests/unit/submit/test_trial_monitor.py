"""What those who watch a trial share: its storage's stillness, and files that several of them write."""

import json
import multiprocessing
from pathlib import Path
from unittest.mock import Mock

import pytest

from tierbench.files import replace
from tierbench.submit.trial import trial_monitor
from tierbench.submit.trial.trial_monitor import OF_INTERFACES, Moving

OFTEN = 3000
MB = 10**6


@pytest.fixture
def clock(monkeypatch):
    clock = Mock(return_value=0.0)
    monkeypatch.setattr(trial_monitor, "time", Mock(wraps=trial_monitor.time, monotonic=clock))
    return clock


@pytest.mark.parametrize(
    ("course", "still_s"),
    [
        ([100, 200, 300, 400], 0),
        ([100, 100, 100, 100], 3),
        ([100, 100.06, 100.12, 100.18], 3),  # they but talk
        ([100, 200, 0, 100], 0),  # the storage was restarted
        ([4200, 5, 105, 205], 0),  # a counter of 32 bits wrapped
        ([100, 200, 0, 0], 2),
    ],
)
def test_counters_that_fall_are_no_stillness(course, still_s, monkeypatch, clock):
    moving = Moving(["oss1.uf.test", "oss2.uf.test"], OF_INTERFACES)
    for megabytes in course:
        monkeypatch.setattr(
            trial_monitor, "last_samples", lambda *_, sent=megabytes: [{"tx_bytes.eth0": round(sent * MB)}]
        )
        clock.return_value += 1
        moving.look()
    assert moving.still_s() == still_s


def test_time_that_reading_the_samples_takes_is_no_stillness(monkeypatch, clock):
    def read_for_a_minute(*_):
        clock.return_value += 60
        return []

    moving = Moving(["oss.uf.test"], OF_INTERFACES)
    moving.look()
    clock.return_value += 1
    monkeypatch.setattr(trial_monitor, "last_samples", read_for_a_minute)
    moving.look()
    assert moving.still_s() == 1


def write_often(number):
    for _ in range(OFTEN):
        replace("waiting-for.json", json.dumps([number] * 100))


def test_the_gate_and_who_stops_the_trial_may_write_the_same_file_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_often, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert json.loads(Path("waiting-for.json").read_text()) in ([0] * 100, [1] * 100)
    assert [path.name for path in tmp_path.iterdir()] == ["waiting-for.json"]
