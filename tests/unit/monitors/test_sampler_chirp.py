"""The sampler as a job: it asks the access point whether to stop, and for its clock."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.unit.sampler_process import finish, read, until
from tests.unit.shipped import ship

AHEAD_S = 1000.0  # the access point's uptime, over our monotonic clock


class AccessPoint(threading.Thread):
    """The far end of chirp, as far as a sampler speaks with it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.open = []
        self.logged = []
        self.requests = 0
        self.stop = self.hangs_up = False

    def run(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.open.append(connection)
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
                for line in lines:
                    connection.sendall(self.reply(line.decode()).encode())
                    if self.hangs_up:
                        break

    def reply(self, line):
        command, _, argument = line.strip().partition(" ")
        self.requests += 1
        if command == "ulog":
            self.logged.append(argument.replace("\\ ", " "))
        if command == "open":
            return "3\n0 0 33060 1 0 0 0 0 0 0 0 0 0\n"  # a descriptor, and what stat says
        if command == "pread":
            uptime = f"{time.monotonic() + AHEAD_S:.2f} 0.00\n"
            return f"{len(uptime)}\n{uptime}"
        absent = command == "getfile" and not self.stop
        return "-3\n" if absent else "0\n"

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        while self.is_alive():  # it may just have taken one more
            for connection in self.open:  # which the sampler keeps
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.join(0.1)
        self.server.close()


class TestChirp:
    @pytest.fixture
    def access_point(self, tmp_path):
        access_point = AccessPoint()
        config = f"127.0.0.1 {access_point.server.getsockname()[1]} cookie\n"
        (tmp_path / "job" / ".chirp.config").write_text(config, encoding="ascii")
        access_point.start()
        yield access_point
        access_point.close()

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
        access_point.stop = True
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "stop")

    def test_its_clock_is_compared_with_the_access_points_uptime_at_both_ends(self, start, shipped, access_point, out):
        for _ in range(10):  # a busy machine makes the bounds wide, and never wrong
            access_point.logged, access_point.stop = [], False
            process = start("--stop-file", "stop", script=shipped)
            until(lambda: access_point.logged)
            access_point.stop = True
            finish(process)
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
        until(lambda: access_point.requests >= 2)
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
