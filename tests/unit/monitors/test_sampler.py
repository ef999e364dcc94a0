"""The sampler on this machine's loopback: its format, how it ends, what it refuses, and how well it keeps time."""

import ctypes
import fcntl
import itertools
import os
import signal
import struct
import subprocess
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.sampler_process import ROOT, finish, read, records_in, until
from tests.unit.shipped import PYTHON, ship
from tierbench.host import NICE
from tierbench.monitors import sampler
from tierbench.monitors.source import ProcFile

AT_ONCE = 10


class TestFormat:
    @pytest.fixture
    def samples(self, sampled):
        return sampled(seconds=0.2)

    def test_header_names_trial_role_interface_and_the_kernels_tuning(self, samples):
        known = {"tierbench": "samples", "format": 1, "trial": "t", "role": "storage", "interface": "lo"}
        assert samples.header.items() >= known.items()
        rmem = Path("/proc/sys/net/ipv4/tcp_rmem").read_text(encoding="ascii").split()
        assert samples.header["tuning"]["net.ipv4.tcp_rmem"].split() == rmem

    def test_records_are_as_wide_as_their_columns_and_no_core_is_busiest_before_there_is_an_interval(self, samples):
        widths = [1 + column["width"] for column in samples.header["columns"]]
        assert {len(line) for line in samples.lines} == {samples.header["record_bytes"]} == {sum(widths) + 1}
        ends = list(itertools.accumulate(widths))
        fields = [int(samples.lines[-1][end - width : end]) for end, width in zip(ends, widths, strict=True)]
        assert fields == [int(field) for field in samples.lines[-1].split()]
        assert (samples.trailer["records"], samples.trailer["reason"]) == (len(samples.lines), "time")
        gauges = ("cpu_busiest", "cpu_busiest_busy_pct", "softirq_busiest_pct")
        assert [samples[gauge][0] for gauge in gauges] == [-1, -1, -1]

    def test_columns_and_the_headers_keys_are_the_published_ones(self, samples):
        document = (ROOT / "docs" / "samples.md").read_text(encoding="utf-8")
        rows = [row.split(" | ")[:5] for row in document.splitlines() if row.startswith("| `") and row.count("|") == 6]
        published = [[cell.strip("|` ") for cell in row] for row in rows]
        assert [[str(value) for value in column.values()][:5] for column in samples.header["columns"]] == published
        section = (ROOT / "docs" / "samples.md").read_text(encoding="utf-8").split("## Header")[1].split("## ")[0]
        published = {key for row in section.splitlines() for key in row.split(" | ")[0].split("`")[1::2]}
        assert samples.header.keys() == published


@pytest.mark.parametrize("allowed", [True, False])
def test_it_asks_to_go_before_other_processes_and_does_without(monkeypatch, allowed):
    asked = Mock(side_effect=None if allowed else PermissionError)
    monkeypatch.setattr(sampler.os, "setpriority", asked)
    sampler.go_first()
    asked.assert_called_once_with(os.PRIO_PROCESS, 0, NICE)


class TestEnd:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it_with_a_trailer(self, start, out, number):
        process = start()
        until(records_in(out, 2))
        process.send_signal(number)
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "signal")

    def test_the_stop_file_ends_it(self, start, out, tmp_path):
        process = start("--stop-file", "stop")
        until(records_in(out, 2))
        (tmp_path / "job" / "stop").touch()
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "stop")

    def test_a_signal_that_interrupts_no_sleep_ends_it_at_once_however_long_the_period(self, start, out):
        """As one that comes just before it goes to sleep; here another of its threads takes it."""
        process = start("--period", "1000", "--stop-file", "stop")
        until(records_in(out, 1))
        tasks = {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
        another = min(tasks - {process.pid})
        assert ctypes.CDLL(None).tgkill(process.pid, another, signal.SIGTERM) == 0
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "signal")
        assert len(read(out).lines) == 2  # the first, and a last one off the grid

    def test_it_ends_when_its_parent_is_gone(self, tmp_path):
        out = tmp_path / "orphan.samples"
        script = ship(tmp_path, "sampler.py")
        command = f"{PYTHON} {script} --trial t --role r --interface lo --period 0.02 >{out} & wait"
        with subprocess.Popen(["sh", "-c", command]) as shell:
            until(lambda: out.exists() and records_in(out, 2)())
            shell.kill()
        until(lambda: read(out).trailer)
        assert read(out).trailer["reason"] == "parent"


class TestRefusal:
    def test_an_unknown_interface_is_exit_3_and_names_those_there_are(self, start):
        code, message = finish(start("--interface", "eth99"))
        assert code == 3
        assert "no interface eth99 here; there are:" in message
        assert "lo" in message.split(":")[-1]

    def test_an_unreadable_proc_is_exit_4(self, start, tmp_path):
        assert finish(start("--proc", str(tmp_path / "none")))[0] == 4

    @pytest.mark.parametrize("period", ["0", "nan", "-1", "0.0001"])
    def test_an_impossible_period_is_exit_2(self, start, period):
        assert finish(start("--period", period))[0] == 2

    def test_chirp_without_its_client_is_exit_4(self, start, tmp_path):
        (tmp_path / "job" / ".chirp.config").write_text("127.0.0.1 9 cookie", encoding="ascii")
        code, message = finish(start())
        assert (code, "htchirp.py must lie beside" in message) == (4, True)


class TestOutput:
    def test_a_reader_that_is_gone_is_exit_5(self, start):
        read_end, write_end = os.pipe()
        os.close(read_end)
        code, _ = finish(start(stdout=write_end))
        os.close(write_end)
        assert code == 5

    def test_a_reader_that_never_reads_is_exit_6(self, start):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        code, _ = finish(start("--max-blocked-seconds", "0.3", stdout=write_end))
        os.close(read_end)
        os.close(write_end)
        assert code == 6

    def test_a_reader_that_pauses_loses_nothing(self, start, out):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        process = start("--max-seconds", "1.5", stdout=write_end)
        os.close(write_end)
        time.sleep(1)  # 50 records; the pipe holds 10
        with os.fdopen(read_end, "rb") as pipe:
            out.write_bytes(pipe.read())
        finish(process)
        samples = read(out)
        assert samples.account_for(1.5 / 0.02)

    def test_what_is_not_taken_at_once_is_written_in_order(self, monkeypatch):
        said = []
        monkeypatch.setattr(sampler.os, "write", lambda _, data: said.append(data[:1]) or 1)
        read_end, write_end = os.pipe()
        sampler.Output(write_end, 60).put(b"abc")
        os.close(read_end)
        os.close(write_end)
        assert said == [b"a", b"b", b"c"]

    def test_a_reader_that_comes_on_is_waited_for(self, monkeypatch):
        monkeypatch.setattr(sampler, "time", Mock(monotonic=Mock(side_effect=[100, 100, 115, 115])))
        read_end, write_end = os.pipe()
        output = sampler.Output(write_end, 10)
        output.writable = Mock(poll=Mock(side_effect=[False, True, False]))
        output.put(b"one")
        output.put(b"")
        output.put(b"two")
        assert (os.read(read_end, 9), output.blocked_since) == (b"one", 115)
        os.close(read_end)
        os.close(write_end)

    @pytest.mark.parametrize("waiting", [[], [b"a record"]])
    def test_it_has_begun_when_its_reader_has_a_record(self, waiting):
        sampling = Mock(looks=[], output=Mock(waiting=waiting))
        sampler.Sampling._write(sampling)
        assert sampling.first_written.set.called is not bool(waiting)


class TestCadence:
    @pytest.mark.parametrize("period_s", [0.1, 0.05])
    def test_a_busy_machine_misses_no_tick_unsaid(self, start, out, period_s):
        busy = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(2)]
        try:
            finish(start("--period", str(period_s), "--max-seconds", "2"))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        samples = read(out)
        assert samples.account_for(2 / period_s)
        assert samples.ticks() == sorted(samples.ticks())  # one that comes late may be within the next one's time

    def test_deadlines_do_not_drift(self, start, out):
        for _ in range(10):  # not each tick is late, but on a busy machine a whole quarter of a second's may be
            finish(start("--period", "0.01", "--max-seconds", "1"))
            samples = read(out)
            lags = [(mono - samples.header["clock_mono_ns"]) % 10_000_000 for mono in samples["mono_ns"]]
            if min(lags[-25:]) < 3_000_000:
                break
        assert min(lags[-25:]) < 3_000_000  # where a drift of 0.05 ms a tick would be beyond

    @pytest.mark.parametrize("seconds", ["60", "1"])  # it ends meanwhile
    def test_a_pause_shows_as_missed_ticks_and_is_counted(self, start, out, seconds):
        process = start("--period", "0.1", "--max-seconds", seconds)
        until(records_in(out, 2))
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        lines = out.read_bytes().count(b"\n")
        process.send_signal(signal.SIGCONT)
        until(records_in(out, lines + 1))
        process.terminate()
        finish(process)
        samples = read(out)
        assert max(after - before for before, after in itertools.pairwise(samples["mono_ns"])) > 0.5e9
        assert samples.trailer["late_ticks"] >= samples.trailer["missed_ticks"] >= 5

    @pytest.mark.parametrize(("now", "late", "missed"), [(349, 0, 0), (351, 1, 0), (610, 3, 3)])
    def test_a_tick_is_late_by_more_than_half_a_period(self, now, late, missed):
        sampling = Mock(origin_ns=0, period_ns=100, late=0, missed=0, records=1)
        sampling._pass_over = partial(sampler.Sampling._pass_over, sampling)
        assert sampler.Sampling._tick(sampling, 3, now) == now // 100 + 1
        assert (sampling.late, sampling.missed) == (late, missed)


def test_the_first_records_arrive_at_once_and_later_ones_several_at_a_time(tmp_path):
    """Half a second's at 20 a second, so that a busy host's caches are filled for all of them together.

    Who reads too late, on a busy machine, finds the first pieces together; a sampler that comes to few of its ticks
    ends before the later ones are many. Either tries again.
    """
    script = ship(tmp_path, "sampler.py")
    command = [PYTHON, str(script), "--trial", "t", "--role", "r", "--interface", "lo", "--period", "0.05"]
    for _ in range(8):
        read_end, write_end = os.pipe()
        with subprocess.Popen([*command, "--max-seconds", "2.5"], stdout=write_end):
            os.close(write_end)
            pieces = [piece.count(b"\n") for piece in iter(partial(os.read, read_end, 65536), b"")]
        os.close(read_end)
        if max(pieces[:4]) <= 2 < AT_ONCE <= max(pieces):
            break
    assert max(pieces[:4]) <= 2  # of the header, or a record
    assert max(pieces) >= AT_ONCE


def test_a_file_of_several_pages_is_read_to_its_end():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"!")
        process.stdin.flush()
        assert process.stdout.read(1) == b"!"  # it is loaded, has taken what memory it wants, and waits
        maps = Path(f"/proc/{process.pid}/smaps")
        whole = maps.read_bytes()
        assert len(whole) > 8192
        assert len(ProcFile(maps).read()) == len(whole)
        process.stdin.close()


@pytest.mark.skipif(os.sched_getscheduler(0) != os.SCHED_OTHER, reason="these tests run at another priority")
@pytest.mark.skipif(
    tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2]) < (6, 12), reason="needs Linux 6.12"
)
def test_it_asks_for_short_slices(start, out):
    """So it is let in soon on a host whose cores are all taken: 3 ms late at most, of 99 % of the ticks, not 20."""
    process = start("--max-seconds", "60")
    until(records_in(out, 1))
    assert slice_ns(process.pid) == 100_000
    process.kill()


def slice_ns(pid):
    """What the kernel grants a process at once."""
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(315, pid, attributes, 48, 0) == 0  # sched_getattr, on x86_64
    return int(struct.unpack("IIQiIQQQ", attributes.raw)[5])
