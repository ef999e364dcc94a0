"""The sampler, run as the process it is on a host: on this machine's loopback, and on made-up /proc trees."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shipped import PYTHON, ship

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20

Start = Callable[..., "subprocess.Popen[bytes]"]


@dataclass
class Samples:
    """A sample file, read the plain way."""

    header: dict[str, Any]
    lines: list[bytes]
    trailer: dict[str, Any]

    def __getitem__(self, column: str) -> list[int]:
        names = [c["name"] for c in self.header["columns"]]
        return [int(line.split()[names.index(column)]) for line in self.lines]

    def ticks(self) -> list[int]:
        """The number of the deadline that each record belongs to."""
        origin, period_ns = self.header["clock_mono_ns"], self.header["period_s"] * 1e9
        return [int((mono - origin) // period_ns) for mono in self["mono_ns"]]


def read(path: Path) -> Samples:
    first, *lines = path.read_bytes().splitlines(keepends=True)
    trailer = json.loads(lines.pop()) if lines and lines[-1].startswith(b"{") else {}
    return Samples(json.loads(first), lines, trailer)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "host.samples"


@pytest.fixture
def start(tmp_path: Path, out: Path) -> Iterator[Start]:
    """Starts the sampler in an empty folder, on loopback at 50 Hz unless told otherwise."""
    started: list[subprocess.Popen[bytes]] = []
    folder = tmp_path / "job"
    folder.mkdir()

    def start(*options: str, stdout: int | None = None, script: Path | None = None) -> subprocess.Popen[bytes]:
        usual = ["--trial", "t", "--role", "storage", "--interface", "lo", "--period", "0.02"]
        command = [PYTHON, str(script or ship(tmp_path, "sampler.py")), *usual, *options]
        with out.open("wb") as file:
            process = subprocess.Popen(command, cwd=folder, stdout=stdout or file, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stderr.decode()


def records_in(out: Path, count: int) -> Callable[[], bool]:
    return lambda: out.read_bytes().count(b"\n") > count


class TestFormat:
    @pytest.fixture
    def samples(self, start: Start, out: Path) -> Samples:
        finish(start("--max-seconds", "0.2"))
        return read(out)

    def test_header_names_format_trial_role_and_interface(self, samples: Samples) -> None:
        known = {"tierbench": "samples", "format": 1, "trial": "t", "role": "storage", "interface": "lo"}
        assert samples.header.items() >= known.items()

    def test_header_has_the_kernels_tuning(self, samples: Samples) -> None:
        rmem = Path("/proc/sys/net/ipv4/tcp_rmem").read_text(encoding="ascii").split()
        assert samples.header["tuning"]["net.ipv4.tcp_rmem"].split() == rmem

    def test_widths_add_up_to_record_bytes(self, samples: Samples) -> None:
        assert sum(1 + c["width"] for c in samples.header["columns"]) + 1 == samples.header["record_bytes"]

    def test_every_record_has_exactly_record_bytes(self, samples: Samples) -> None:
        assert {len(line) for line in samples.lines} == {samples.header["record_bytes"]}

    def test_numbers_end_where_the_widths_say(self, samples: Samples) -> None:
        line, end, cut = samples.lines[-1], 0, []
        for column in samples.header["columns"]:
            cut.append(line[end : end + 1 + column["width"]])
            end += 1 + column["width"]
        assert [int(field) for field in cut] == [int(field) for field in line.split()]

    def test_trailer_counts_the_records(self, samples: Samples) -> None:
        assert samples.trailer["records"] == len(samples.lines)

    def test_columns_are_the_published_ones(self, samples: Samples) -> None:
        document = (ROOT / "docs" / "samples.md").read_text(encoding="utf-8")
        rows = [row.split(" | ")[:5] for row in document.splitlines() if row.startswith("| `") and row.count("|") == 7]
        published = [[cell.strip("|` ") for cell in row] for row in rows]
        assert [[str(value) for value in column.values()][:5] for column in samples.header["columns"]] == published

    def test_header_has_the_published_keys(self, samples: Samples) -> None:
        section = (ROOT / "docs" / "samples.md").read_text(encoding="utf-8").split("## Header")[1].split("## ")[0]
        published = {key for row in section.splitlines() for key in row.split(" | ")[0].split("`")[1::2]}
        assert samples.header.keys() == published

    def test_no_busiest_core_before_there_is_an_interval(self, samples: Samples) -> None:
        gauges = ("cpu_busiest", "cpu_busiest_busy_pct", "softirq_busiest_pct")
        assert [samples[gauge][0] for gauge in gauges] == [-1, -1, -1]


class TestEnd:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it_with_a_trailer(self, start: Start, out: Path, number: int) -> None:
        process = start()
        until(records_in(out, 2))
        process.send_signal(number)
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "signal")

    def test_the_stop_file_ends_it(self, start: Start, out: Path, tmp_path: Path) -> None:
        process = start("--stop-file", "stop")
        until(records_in(out, 2))
        (tmp_path / "job" / "stop").touch()
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "stop")

    def test_it_ends_after_max_seconds(self, start: Start, out: Path) -> None:
        assert (finish(start("--max-seconds", "0.1"))[0], read(out).trailer["reason"]) == (0, "time")

    def test_a_long_period_does_not_delay_the_end(self, start: Start, out: Path) -> None:
        process = start("--period", "1000")
        until(records_in(out, 1))
        process.terminate()
        finish(process)
        assert len(read(out).lines) == 2  # the first, and a last one off the grid

    def test_it_ends_when_its_parent_is_gone(self, tmp_path: Path) -> None:
        out = tmp_path / "orphan.samples"
        script = ship(tmp_path, "sampler.py")
        command = f"{PYTHON} {script} --trial t --role r --interface lo --period 0.02 >{out} & wait"
        with subprocess.Popen(["sh", "-c", command]) as shell:
            until(lambda: out.exists() and records_in(out, 2)())
            shell.kill()
        until(lambda: read(out).trailer)
        assert read(out).trailer["reason"] == "parent"


class TestRefusal:
    def test_an_unknown_interface_is_exit_3_and_names_those_there_are(self, start: Start) -> None:
        code, message = finish(start("--interface", "eth99"))
        assert code == 3
        assert "no interface eth99 here; there are:" in message
        assert "lo" in message.split(":")[-1]

    def test_an_unreadable_proc_is_exit_4(self, start: Start, tmp_path: Path) -> None:
        assert finish(start("--proc", str(tmp_path / "none")))[0] == 4

    @pytest.mark.parametrize("period", ["0", "nan", "-1", "0.0001"])
    def test_an_impossible_period_is_exit_2(self, start: Start, period: str) -> None:
        assert finish(start("--period", period))[0] == 2

    def test_chirp_without_its_client_is_exit_4(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "job" / ".chirp.config").write_text("127.0.0.1 9 cookie", encoding="ascii")
        code, message = finish(start())
        assert (code, "htchirp.py must lie beside" in message) == (4, True)


class TestOutput:
    def test_a_reader_that_is_gone_is_exit_5(self, start: Start) -> None:
        read_end, write_end = os.pipe()
        os.close(read_end)
        code, _ = finish(start(stdout=write_end))
        os.close(write_end)
        assert code == 5

    def test_a_reader_that_never_reads_is_exit_6(self, start: Start) -> None:
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        code, _ = finish(start("--max-blocked-seconds", "0.3", stdout=write_end))
        os.close(read_end)
        os.close(write_end)
        assert code == 6

    def test_a_reader_that_pauses_loses_nothing(self, start: Start, out: Path) -> None:
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        process = start("--max-seconds", "1.5", stdout=write_end)
        os.close(write_end)
        time.sleep(1)  # 50 records; the pipe holds 10
        with os.fdopen(read_end, "rb") as pipe:
            out.write_bytes(pipe.read())
        finish(process)
        samples = read(out)
        assert len(samples.lines) + samples.trailer["missed_ticks"] == 1.5 / 0.02 + 1


class TestCadence:
    @pytest.mark.parametrize("period_s", [0.1, 0.05])
    def test_a_busy_machine_misses_no_tick_unsaid(self, start: Start, out: Path, period_s: float) -> None:
        busy = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(2)]
        try:
            finish(start("--period", str(period_s), "--max-seconds", "2"))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        samples = read(out)
        ticks, missed = samples.ticks(), samples.trailer["missed_ticks"]
        assert len(ticks) + missed == round(2 / period_s) + 1
        assert ticks == sorted(set(ticks))

    def test_deadlines_do_not_drift(self, start: Start, out: Path) -> None:
        finish(start("--period", "0.01", "--max-seconds", "1"))
        samples = read(out)
        lags = [(mono - samples.header["clock_mono_ns"]) % 10_000_000 for mono in samples["mono_ns"]]
        assert sorted(lags)[len(lags) // 2] < 5_000_000  # a drift of 0.05 ms a tick would be there half-way

    def test_a_pause_shows_as_missed_ticks(self, start: Start, out: Path) -> None:
        process = start("--period", "0.1")
        until(records_in(out, 2))
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.65)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        finish(process)
        gaps = [b - a for a, b in zip(read(out)["mono_ns"], read(out)["mono_ns"][1:], strict=False)]
        assert max(gaps) > 0.5e9

    def test_a_pause_is_counted_in_the_trailer(self, start: Start, out: Path) -> None:
        process = start("--period", "0.1")
        until(records_in(out, 2))
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.65)
        seen = out.read_bytes().count(b"\n")
        process.send_signal(signal.SIGCONT)
        until(records_in(out, seen + 1))
        process.terminate()
        finish(process)
        trailer = read(out).trailer
        assert trailer["late_ticks"] >= trailer["missed_ticks"] >= 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make interfaces")
@pytest.mark.parametrize(("routes", "found"), [
    ("10.1.0.0/16 congctl reno", "reno"), ("10.1.0.0/16", None), ("10.1.0.0/16 congctl reno|10.2.0.0/16", "both"),
])  # fmt: skip
def test_congestion_control_is_that_of_the_interfaces_routes(routes: str, found: str | None, tmp_path: Path) -> None:
    """In a network of its own, whose machine may have any."""
    make = "ip link add card type veth peer name other && ip link set card up && ip link set other up"
    made = " && ".join([make, *(f"ip route add {route} dev card" for route in routes.split("|"))])
    sampler = f"{PYTHON} {ship(tmp_path, 'sampler.py')} --trial t --role storage --interface card"
    words = f"{made} && exec {sampler} --max-seconds 0.2"
    result = subprocess.run(["unshare", "--net", "sh", "-c", words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert result.returncode == 0, result.stderr
    usual = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    told = json.loads(result.stdout.splitlines()[0])["tuning"]["congestion_control"]
    assert set(told.split(", ")) == {"reno": {"reno"}, None: {usual}, "both": {"reno", usual}}[found]


def test_loopback_bytes_are_counted(start: Start, out: Path) -> None:
    process = start()
    until(records_in(out, 1))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            threading.Thread(target=sender.sendall, args=(bytes(1 << 20),)).start()
            received = 0
            while received < 1 << 20:
                received += len(receiver.recv(1 << 16))
    process.terminate()
    finish(process)
    rx = read(out)["rx_bytes"]
    assert rx[-1] - rx[0] >= 1 << 20


@dataclass
class Host:
    """A made-up host: /proc and /sys as plain files, which change in place as the kernel's do."""

    root: Path

    def options(self) -> list[str]:
        return ["--proc", str(self.root / "proc"), "--sys", str(self.root / "sys"), "--interface", "eth0"]

    def write(self, name: str, text: str) -> None:
        """In one write, padded so that a shorter text needs no truncation in between."""
        path = self.root / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.pwrite(descriptor, text.rstrip("\n").ljust(4096).encode(), 0)
        os.close(descriptor)

    def network(self, rx_bytes: int, interface: str = "eth0") -> None:
        heading = "Inter-|   Receive\n face |bytes    packets\n"
        counters = f"{rx_bytes} 2 0 3 0 0 0 0 {rx_bytes + 1} 5 0 6 0 0 0 0"
        self.write("self/net/dev", f"{heading}    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n  {interface}: {counters}\n")

    def cores(self, *cores: str) -> None:
        lines = [f"cpu{n} {jiffies} 0 0" for n, jiffies in enumerate(cores)]
        self.write("stat", "\n".join(["cpu  9 9 9 9 9 9 9 9 0 0", *lines, "intr 1 2 3\n"]))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.network(1000)
    return host


class TestHost:
    def last(self, start: Start, out: Path, host: Host, column: str) -> int:
        finish(start(*host.options(), "--max-seconds", "0.05"))
        return read(out)[column][-1]

    def test_a_32_bit_counter_is_passed_on_raw_through_its_wrap(self, start: Start, out: Path, host: Host) -> None:
        host.network(2**32 - 10)
        process = start(*host.options())
        until(records_in(out, 2))
        host.network(90)
        until(records_in(out, len(read(out).lines) + 2))
        process.terminate()
        finish(process)
        assert set(read(out)["rx_bytes"]) == {2**32 - 10, 90}

    def test_a_vanished_interface_is_minus_one_until_it_returns(self, start: Start, out: Path, host: Host) -> None:
        process = start(*host.options())
        for interface in ("eth0", "gone", "eth0"):
            host.network(1000, interface)
            until(records_in(out, len(out.read_bytes().splitlines()) + 2))
        process.terminate()
        finish(process)
        values = read(out)["rx_bytes"]
        assert [value for i, value in enumerate(values) if i == 0 or values[i - 1] != value] == [1000, -1, 1000]

    @pytest.mark.parametrize(
        ("column", "value"),
        [("rx_bytes", 1000), ("tx_bytes", 1001), ("rx_packets", 2), ("tx_packets", 5), ("rx_dropped", 3)],
    )
    def test_network_columns_are_the_right_ones(
        self, start: Start, out: Path, host: Host, column: str, value: int
    ) -> None:
        assert self.last(start, out, host, column) == value

    def test_a_number_too_wide_for_its_column_is_minus_one(self, start: Start, out: Path, host: Host) -> None:
        host.network(2**64 - 2)
        assert self.last(start, out, host, "rx_bytes") == -1

    def test_a_number_too_wide_does_not_widen_the_record(self, start: Start, out: Path, host: Host) -> None:
        host.network(2**64 - 2)
        finish(start(*host.options(), "--max-seconds", "0.05"))
        samples = read(out)
        assert {len(line) for line in samples.lines} == {samples.header["record_bytes"]}

    @pytest.mark.parametrize("column", ["tcp_retrans", "cpu_user", "cpu_busiest", "mem_cached_kb", "disk_read_bytes"])
    def test_what_the_kernel_does_not_have_is_minus_one(self, start: Start, out: Path, host: Host, column: str) -> None:
        assert self.last(start, out, host, column) == -1

    def test_retransmits_are_found_by_their_name(self, start: Start, out: Path, host: Host) -> None:
        host.write("self/net/snmp", "Ip: A\nIp: 1\nTcp: InSegs Odd OutSegs RetransSegs\nTcp: 11 12 13 14\n")
        assert self.last(start, out, host, "tcp_retrans") == 14

    def test_disks_are_added_up_without_partitions_and_loops(self, start: Start, out: Path, host: Host) -> None:
        for disk in ("sda/device", "sdb/device", "loop0"):
            (host.root / "sys/block" / disk).mkdir(parents=True)
        lines = [f"8 0 {name} 0 0 2 0 0 0 4 0 0 0 0" for name in ("sda", "sda1", "sdb", "loop0")]
        host.write("diskstats", "\n".join(lines) + "\n")
        assert self.last(start, out, host, "disk_read_bytes") == 2 * 2 * 512

    def test_the_time_in_which_disks_were_busy_is_added_up(self, start: Start, out: Path, host: Host) -> None:
        for disk in ("sda", "sdb"):
            (host.root / "sys/block" / disk / "device").mkdir(parents=True)
        host.write(
            "diskstats", "".join(f"8 0 {name} 0 0 2 0 0 0 4 0 0 {ms} 0\n" for name, ms in (("sda", 7), ("sdb", 5)))
        )
        assert self.last(start, out, host, "disk_busy_ms") == 12

    @pytest.mark.parametrize(
        ("files", "used_ns", "throttled_ns"),
        [
            ({"cpu.stat": "usage_usec 3\nthrottled_usec 2\n", "cpu.max": "5000 20000\n"}, 3000, 2000),
            (
                {
                    "cpuacct.usage": "3001\n", "cpu.stat": "nr_periods 1\nthrottled_time 2002\n",
                    "cpu.cfs_quota_us": "5000\n", "cpu.cfs_period_us": "20000\n",
                },
                3001, 2002,
            ),
        ],
        ids=["version 2", "version 1"],
    )  # fmt: skip
    def test_a_hosts_own_cpu_is_read_from_its_control_group(
        self, start: Start, out: Path, host: Host, files: dict[str, str], used_ns: int, throttled_ns: int
    ) -> None:
        for name, text in files.items():
            host.write(f"own/{name}", text)
        finish(start(*host.options(), "--own-cpu", str(host.root / "proc/own"), "--max-seconds", "0.05"))
        samples = read(out)
        assert (samples["cpu_own_ns"][-1], samples["cpu_own_throttled_ns"][-1]) == (used_ns, throttled_ns)
        assert samples.header["own_cpu_limit_cores"] == 0.25

    def test_a_host_with_a_kernel_of_its_own_has_no_other_account(self, start: Start, out: Path, host: Host) -> None:
        finish(start(*host.options(), "--own-cpu", str(host.root / "none"), "--max-seconds", "0.05"))
        assert set(read(out)["cpu_own_ns"]) == {-1}
        assert read(out).header["own_cpu_limit_cores"] is None

    @pytest.mark.parametrize(("made", "real"), [("device/", True), ("uevent", False), ("bond", True)])
    def test_only_hardware_states_a_real_speed(
        self, start: Start, out: Path, host: Host, made: str, real: bool
    ) -> None:
        link = host.root / "sys/class/net/eth0"
        link.mkdir(parents=True)
        if made == "device/":
            (link / "device").mkdir()
        else:
            (link / "uevent").write_text(f"DEVTYPE={made}\nINTERFACE=eth0\n")
        finish(start(*host.options(), "--max-seconds", "0.05"))
        assert read(out).header["link_speed_real"] is real

    @pytest.mark.parametrize(
        ("column", "value"), [("cpu_busiest", 1), ("cpu_busiest_busy_pct", 75), ("softirq_busiest_pct", 40)]
    )
    def test_busiest_cores_are_those_of_the_interval(
        self, start: Start, out: Path, host: Host, column: str, value: int
    ) -> None:
        host.cores("500 0 0 100 0 0 0 0", "0 0 0 100 0 0 0 0")
        process = start(*host.options())
        until(records_in(out, 2))
        host.cores("500 0 0 106 0 0 4 0", "75 0 0 125 0 0 0 0")
        until(records_in(out, len(read(out).lines) + 2))
        process.terminate()
        finish(process)
        assert value in read(out)[column]

    def test_auto_takes_the_default_route_of_lowest_metric(self, start: Start, out: Path, host: Host) -> None:
        routes = ["Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"]
        routes += ["lo 00000000 0 0003 0 0 200 00000000 0 0 0", "eth0 00000000 0 0003 0 0 100 00000000 0 0 0"]
        host.write("self/net/route", "\n".join([*routes, "lo 0000007F 0 0001 0 0 0 000000FF 0 0 0"]))
        finish(start(*host.options(), "--interface", "auto", "--max-seconds", "0.05"))
        assert read(out).header["interface"] == "eth0"

    def test_each_of_several_interfaces_has_its_own_columns(self, start: Start, out: Path, host: Host) -> None:
        finish(start(*host.options(), "--interface", "eth0+lo", "--max-seconds", "0.05"))
        header = read(out).header
        sent = [column["name"] for column in header["columns"] if column["name"].startswith("tx_bytes")]
        assert sent == ["tx_bytes.eth0", "tx_bytes.lo"]
        assert header["interface"] == "eth0+lo"
        assert [one["name"] for one in header["interfaces"]] == ["eth0", "lo"]

    def test_an_interface_that_is_named_twice_is_exit_3(self, start: Start, host: Host) -> None:
        assert finish(start(*host.options(), "--interface", "eth0+eth0"))[0] == 3

    def test_auto_without_a_default_route_is_exit_3(self, start: Start, host: Host) -> None:
        assert finish(start(*host.options(), "--interface", "auto"))[0] == 3


AHEAD_S = 1000.0  # the access point's uptime, over our monotonic clock


class AccessPoint(threading.Thread):
    """The far end of chirp, as far as a sampler speaks with it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []
        self.logged: list[str] = []
        self.requests = 0
        self.stop = self.hangs_up = False

    def run(self) -> None:
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

    def reply(self, line: str) -> str:
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

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        for connection in self.open:  # which the sampler keeps
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.join()


class TestChirp:
    @pytest.fixture
    def access_point(self, tmp_path: Path) -> Iterator[AccessPoint]:
        access_point = AccessPoint()
        config = f"127.0.0.1 {access_point.server.getsockname()[1]} cookie\n"
        (tmp_path / "job" / ".chirp.config").write_text(config, encoding="ascii")
        access_point.start()
        yield access_point
        access_point.close()

    @pytest.fixture
    def shipped(self, tmp_path: Path) -> Path:
        """The sampler with htchirp.py beside it, as HTCondor lays them out."""
        return ship(tmp_path, "sampler.py", "htchirp.py") / "sampler.py"

    def test_it_announces_itself_in_the_event_log(
        self, start: Start, shipped: Path, access_point: AccessPoint, out: Path
    ) -> None:
        start(script=shipped)
        until(lambda: access_point.logged)
        assert access_point.logged == [f"TIERBENCH SAMPLING {read(out).header['host']}"]

    def test_the_access_points_stop_file_ends_it(
        self, start: Start, shipped: Path, access_point: AccessPoint, out: Path
    ) -> None:
        process = start("--stop-file", "stop", script=shipped)
        until(lambda: access_point.logged)
        access_point.stop = True
        assert (finish(process)[0], read(out).trailer["reason"]) == (0, "stop")

    def test_its_clock_is_compared_with_the_access_points_uptime_at_both_ends(
        self, start: Start, shipped: Path, access_point: AccessPoint, out: Path
    ) -> None:
        process = start("--stop-file", "stop", script=shipped)
        until(lambda: access_point.logged)
        access_point.stop = True
        finish(process)
        true_ns = (time.time() - time.monotonic() - AHEAD_S) * 1e9
        begin, end = read(out).trailer["clocks"]
        assert begin["wall_ns"] < end["wall_ns"]
        for clock in (begin, end):  # the uptime comes in steps of 10 ms, and is rounded here where a kernel cuts it off
            assert clock["low_ns"] - 6e6 <= true_ns <= clock["high_ns"] + 6e6
            assert clock["high_ns"] - clock["low_ns"] < 50e6

    def test_a_closed_connection_does_not_make_it_spin(
        self, start: Start, shipped: Path, access_point: AccessPoint
    ) -> None:
        access_point.hangs_up = True
        process = start("--period", "1", "--stop-file", "stop", script=shipped)
        until(lambda: access_point.requests >= 2)
        before = cpu_seconds(process.pid)
        time.sleep(1.5)
        assert cpu_seconds(process.pid) - before < 0.75


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
