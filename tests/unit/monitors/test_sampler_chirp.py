"""The sampler as a job: it asks the access point whether to stop, and for its clock."""

import os
import time
from pathlib import Path

import pytest

from tests.unit.access_point import AHEAD_S, access_point_of
from tests.unit.sampler_process import finish, read, until
from tests.unit.shipped import ship


class TestChirp:
    @pytest.fixture
    def access_point(self, tmp_path):
        with access_point_of(tmp_path / "job") as access_point:
            yield access_point

    @pytest.fixture
    def shipped(self, tmp_path):
        """The sampler with htchirp.py beside it, as HTCondor lays them out."""
        return ship(tmp_path, "sampler.py", "htchirp.py") / "sampler.py"

    def test_it_announces_itself_in_the_event_log(self, start, shipped, access_point, out):
        start(script=shipped)
        until(lambda: access_point.logged)
        assert access_point.logged == [f"TIERBENCH SAMPLING {read(out).header['host']}"]

    def test_the_access_points_stop_file_ends_it(self, start, shipped, access_point, out):
        process = start("--stop-file", "stop", script=shipped)
        until(lambda: access_point.logged)
        (access_point.folder / "stop").touch()
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "stop")

    def test_its_clock_is_compared_with_the_access_points_uptime_at_both_ends(self, start, shipped, access_point, out):
        stop = access_point.folder / "stop"
        for _ in range(10):  # a busy machine makes the bounds wide, and never wrong
            access_point.logged.clear()
            process = start("--stop-file", "stop", script=shipped)
            until(lambda: access_point.logged)
            stop.touch()
            finish(process)
            stop.unlink()
            true_ns = ahead_of_monotonic_ns() - AHEAD_S * 1e9
            begin, end = read(out).trailer["clocks"]
            assert begin["wall_ns"] < end["wall_ns"]
            widths = [clock["high_ns"] - clock["low_ns"] for clock in (begin, end)]
            for clock in (begin, end):  # the uptime comes in steps of 10 ms, and is rounded where a kernel cuts it off
                assert clock["low_ns"] - 6e6 <= true_ns <= clock["high_ns"] + 6e6
            if max(widths) < 50e6:
                break
        assert max(widths) < 50e6

    def test_a_closed_connection_does_not_make_it_spin(self, start, shipped, access_point):
        access_point.hangs_up = True
        process = start("--period", "1", "--stop-file", "stop", script=shipped)
        until(lambda: access_point.connections)
        before = cpu_seconds(process.pid)
        time.sleep(1.5)
        assert cpu_seconds(process.pid) - before < 0.75


def ahead_of_monotonic_ns():
    """By how much the wall clock is ahead, read without a pause in between."""
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(100)]
    before, wall, _ = min(readings, key=lambda reading: reading[2] - reading[0])
    return wall - before


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
