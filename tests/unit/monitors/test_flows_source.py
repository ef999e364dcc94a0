"""TCP_INFO of real connections, between two network namespaces with a delay between them, and losses."""

import collections
import fcntl
import os
import select
import statistics
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.unit.sampler_process import PATIENCE_S, read, until
from tests.unit.shipped import PYTHON, ship
from tierbench.monitors.sources import flows

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="only root may make namespaces and interfaces"
)
RTT_S = 0.02
SLOW_START_S, SECONDS = 1, 3
TICKS = 5
ENDS = {f"tcpi-{os.getpid()}-server": "10.219.0.1", f"tcpi-{os.getpid()}-client": "10.219.0.2"}
SERVER_NAME, CLIENT_NAME = ENDS
DEVICES = [f"tcpi{os.getpid()}n{number}" for number in range(len(ENDS))]
TUNSETIFF, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
SERVER = """
import socket
server = socket.create_server(("::", 5000), family=socket.AF_INET6, dualstack_ipv6=True)
print(flush=True)
connection, _ = server.accept()
for size in iter(lambda: int(connection.recv(12) or 0), 0):
    connection.sendall(bytes(size))
"""
CLIENT = f"""
import select, socket, sys, time
size, buffer = map(int, sys.argv[1:])
reader = socket.socket()
if buffer:
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
reader.connect(("{ENDS[SERVER_NAME]}", 5000))
begin, received = time.monotonic() + {SLOW_START_S}, 0

def goes_on():
    return time.monotonic() < begin + {SECONDS} or not select.select([sys.stdin], [], [], 0)[0]

while goes_on():
    reader.sendall(b"%12d" % size)
    left = size
    while left and goes_on():
        piece = len(reader.recv(min(left, 1 << 16)))
        left -= piece
        received += piece * (time.monotonic() > begin)
print(received / (time.monotonic() - begin))
"""
BULK, ASKING = 1 << 30, 32 << 10
BUFFER = 30_000


class Line:
    """Passes packets between two TUN devices, each half a round trip late; of the server's some are lost."""

    def __init__(self, drops):
        self.drops, self.sent = drops, 0
        self.ends = [os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK) for _ in ENDS]
        for number, end in enumerate(self.ends):
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", DEVICES[number].encode(), TUN_WITHOUT_HEADER))
        self.over = threading.Event()
        self.passing = threading.Thread(target=self.pass_on)

    def pass_on(self):
        late = collections.deque()
        while not self.over.is_set():
            wait = late[0][0] - time.monotonic() if late else 0.1
            for end in select.select(self.ends, [], [], max(0, wait))[0]:
                other = self.ends[1 - self.ends.index(end)]
                packet = os.read(end, 65536)
                self.sent += end == self.ends[0]
                if not (self.drops and end == self.ends[0] and self.sent % self.drops == 0):
                    late.append((time.monotonic() + RTT_S / 2, other, packet))
            while late and late[0][0] <= time.monotonic():
                _, other, packet = late.popleft()
                os.write(other, packet)


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=PATIENCE_S)


@contextmanager
def line(drops, congestion_control):
    """Two namespaces and the line between them."""
    line = Line(drops)
    try:
        for number, (name, address) in enumerate(ENDS.items()):
            ip("netns", "add", name)
            ip("link", "set", DEVICES[number], "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", DEVICES[number])
            ip("-n", name, "link", "set", DEVICES[number], "up")
        ip("-n", SERVER_NAME, "route", "replace", "10.219.0.0/24", "dev", DEVICES[0], "congctl", congestion_control)
        line.passing.start()
        yield
    finally:
        line.over.set()
        if line.passing.is_alive():
            line.passing.join()
        for end in line.ends:
            os.close(end)
        for name in ENDS:
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=PATIENCE_S)


@contextmanager
def started_in(namespace, command, stdout):
    process = subprocess.Popen([*namespace, *command], stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def has_flows(out, copy):
    """Whether a sampler at work has seen bytes of a flow at some of its ticks."""
    copy.write_bytes(out.read_bytes().rpartition(b"\n")[0])
    return copy.stat().st_size > 0 and sum(rate > 0 for rate in read(copy)["tcp_flows_bytes_per_s"]) >= TICKS


def sampled(tmp_path, client):
    """What a reading client received per second, and the gauges of its server's sampler while it read."""
    of_server, of_client = (["ip", "netns", "exec", name] for name in ENDS)
    out, script = tmp_path / "samples", ship(tmp_path, "sampler.py")
    options = ["--trial", "t", "--role", "storage", "--interface", DEVICES[0], "--period", "0.1"]
    with out.open("wb") as file, ExitStack() as started:
        server = started.enter_context(started_in(of_server, [sys.executable, "-c", SERVER], subprocess.PIPE))
        server.stdout.readline()
        started.enter_context(started_in(of_server, [PYTHON, str(script), *options], file))
        command = [*of_client, sys.executable, "-c", CLIENT, *map(str, client)]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.callback(client.kill)
        until(lambda: has_flows(out, tmp_path / "so-far"))
        received, _ = client.communicate(timeout=PATIENCE_S)  # which ends what it reads
        assert client.returncode == 0
    samples = read(out)
    with_flows = [place for place, flows in enumerate(samples["tcp_flows"]) if flows > 0]
    names = [column["name"] for column in samples.header["columns"] if column["source"] == "flows"]
    return float(received), {name: statistics.median(samples[name][at] for at in with_flows) for name in names}


def test_what_the_kernel_says_of_a_flow_is_that_of_its_line_and_ends(tmp_path):
    with line(200, "reno"):
        _, gauges = sampled(tmp_path, (BULK, BUFFER))
    assert (gauges["tcp_flows"], gauges["tcp_flows_bytes_per_s"] > 0) == (1, True)
    assert gauges["tcp_flow_rtt_us"] >= gauges["tcp_flow_min_rtt_us"] >= RTT_S * 1e6
    assert 0 < gauges["tcp_flow_peer_window_bytes"] <= 2 * BUFFER  # Linux doubles what is asked for
    assert gauges["tcp_flow_cwnd_bytes"] > 0


@pytest.mark.quiet
@pytest.mark.parametrize(("congestion_control", "drops", "client", "window", "within"), [
    pytest.param("reno", 200, (BULK, 0), "tcp_flow_cwnd_bytes", 0.65, id="losses, a window that falls by half"),
    pytest.param("bbr", 200, (BULK, 0), None, 0, id="losses that bbr does not mind"),
    pytest.param("reno", 0, (BULK, BUFFER), "tcp_flow_peer_window_bytes", 0.15, id="a small buffer"),
    pytest.param("reno", 0, (ASKING, 0), None, 0, id="asking for a piece at a time"),
])  # fmt: skip
def test_a_flow_that_fills_its_window_has_it_a_round_trip(tmp_path, congestion_control, drops, client, window, within):
    with line(drops, congestion_control):
        rate, gauges = sampled(tmp_path, client)
    # What no window limits, this machine's cores do, and their rate varies.
    assert gauges["tcp_flows_bytes_per_s"] == pytest.approx(rate, rel=0.15 if window else 0.5)
    assert (gauges["tcp_flows"], gauges["tcp_flows_window_full"]) == (1, int(bool(window)))
    assert (gauges["tcp_flows_retrans_per_s"] > 0) == bool(drops)
    if window:
        assert gauges["tcp_flow_min_rtt_us"] / 1e6 == pytest.approx(RTT_S, rel=0.1)
        assert rate == pytest.approx(gauges[window] / (gauges["tcp_flow_rtt_us"] / 1e6), rel=within)


def test_a_kernel_that_tells_too_little_of_flows_is_not_taken_for_one_without_any(monkeypatch):
    monkeypatch.setattr(flows, "_dump", lambda _: [bytes(range(60))])
    monkeypatch.setattr(flows, "_info", lambda _: b"short")
    assert flows.sending_flows() is None


def test_what_was_last_seen_is_not_told_for_ever_if_asking_breaks(monkeypatch):
    answers = iter([{}, {}])
    monkeypatch.setattr(flows, "PERIOD_S", 0)
    monkeypatch.setattr(flows, "sending_flows", lambda: next(answers))  # and then StopIteration, which nobody expects
    source = flows.Flows.__new__(flows.Flows)
    source.latest = (3,) * 8
    with pytest.raises(StopIteration):
        source._keep_asking()
    assert source.look() == flows.UNKNOWN


FLOW = flows.Flow(peer_window=-1, flags=0, mss=1000, rtt_us=30_000, cwnd=10, retrans=3, acked=10**9, min_rtt_us=10_000)


@pytest.mark.parametrize(
    ("change", "full"),
    [
        ({}, 1),
        ({"flags": 1}, 0),  # its program has nothing more to send
        ({"cwnd": 20}, 0),
        ({"cwnd": 20, "peer_window": 10_000}, 1),
    ],
)
def test_a_flow_fills_the_smaller_window_in_its_least_round_trip_if_it_has_more_to_send(change, full):
    flow = FLOW._replace(**change)
    sent = flow._replace(acked=flow.acked + 1_500_000, retrans=flow.retrans + 8)
    slow = FLOW._replace(acked=FLOW.acked + 140_000, rtt_us=1)
    told = flows.summary({b"1": flow, b"2": FLOW}, {b"1": sent, b"2": slow, b"new": FLOW}, 2.0)
    assert told == (1, full, 4, 750_000, flow.cwnd * 1000, flow.peer_window, 30_000, 10_000)


@pytest.mark.parametrize(("peer", "sends"), [(b"a", 0), (b"b", 1)])
def test_a_host_sends_itself_nothing(monkeypatch, peer, sends):
    info = struct.pack("=HH", 4 + 256, flows.INFO) + bytes(256)
    message = bytes(8) + 16 * b"a" + 16 * peer + bytes(flows.MESSAGE - 40)
    monkeypatch.setattr(flows, "_dump", lambda _: [message + info])
    assert len(flows.sending_flows()) == sends
