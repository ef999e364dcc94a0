"""What a sender says that it sent, and when, is what the sampler and the tables say.

The sender is plain UDP in datagrams of one size, so the bytes on the wire are known exactly: nothing is
sent twice, acknowledged or coalesced.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from tests.testbed.runs import PERIOD_S, sampled, sampling
from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.measures.steady import steady
from tierbench.postprocess.measures.traffic import Counted
from tierbench.postprocess.records.trial import Sampled

pytestmark = pytest.mark.quiet

MOST_LATE_S = 0.03  # of what the sender sends each 5 ms, and no more of its rate than the tolerances below
RAMP_S, LEVEL_S, LEVEL_MBPS = 2.0, 8.0, 60.0
ETHERNET_IP_UDP = 14 + 20 + 8
PAYLOAD = 1400

# Sends every 5 ms what is due by then: a ramp up, a level, a ramp down. Its log is what it did, not what it should.
SENDER = """
import json, socket, sys, time
target, ramp, level, mbps, payload, header = sys.argv[1], *map(float, sys.argv[2:])
size = payload + header
sender, datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), bytes(int(payload))
def due(t):
    up, flat, down = min(t, ramp), min(max(t - ramp, 0), level), min(max(t - ramp - level, 0), ramp)
    return (up ** 2 / 2 / ramp + flat + down - down ** 2 / 2 / ramp) * mbps * 1e6 / 8
log, sent, begin = [], 0, time.monotonic_ns()
wall = time.time_ns()
while True:
    now = time.monotonic_ns()
    t = (now - begin) / 1e9
    while sent + size <= due(t):
        sender.sendto(datagram, (target, 9))
        sent += size
    log.append((time.monotonic_ns() - begin, sent))
    if t > 2 * ramp + level:
        break
    time.sleep(0.005)
json.dump({"wall_ns": wall, "log": log}, sys.stdout)
"""


@dataclass(frozen=True)
class Injection:
    """What was sent, by the sender's own log, and what the real sampler measured meanwhile."""

    begin_ns: int
    times: Numbers  # seconds since the sender began
    sent: Numbers  # bytes on the wire until then
    storage: list[Sampled]

    @property
    def end_s(self):
        return float(self.times[-1])

    @property
    def held_up(self):
        """Whether the sender had to wait, by its own log: what it then sends at once is no level and no ramp."""
        return bool(np.diff(self.times).max() > MOST_LATE_S)

    def ns(self, seconds):
        return self.begin_ns + round(seconds * 1e9)

    def sent_between(self, begin_s, end_s):
        return float(np.diff(np.interp([begin_s, end_s], self.times, self.sent))[0])

    def mbps_between(self, begin_s, end_s):
        return self.sent_between(begin_s, end_s) * 8 / 1e6 / (end_s - begin_s)


@pytest.fixture(scope="module")
def injection(testbed):
    oss, worker = testbed.host("oss"), testbed.host("wn03")
    oss.put("/root/sender.py", SENDER)
    numbers = [RAMP_S, LEVEL_S, LEVEL_MBPS, PAYLOAD, ETHERNET_IP_UDP]
    with sampling(oss, "truth", "storage") as file:
        report = json.loads(oss.run("python3", "/root/sender.py", worker.host.address, *map(str, numbers)).stdout)
    log = np.array(report["log"], float)
    injected = Injection(report["wall_ns"], log[:, 0] / 1e9, log[:, 1], [sampled(file)])
    if injected.held_up:
        pytest.skip("this machine was too busy: the sender had to wait")
    return injected


def test_the_sender_did_what_it_should(injection):
    assert injection.mbps_between(RAMP_S, RAMP_S + LEVEL_S) == pytest.approx(LEVEL_MBPS, rel=0.01)


def test_all_bytes_sent_are_measured(injection):
    begin_ns, end_ns = injection.ns(-2 * PERIOD_S), injection.ns(injection.end_s + 2 * PERIOD_S)
    measured = Counted(injection.storage, "tx_bytes").traffic(begin_ns, end_ns)
    assert measured.bytes == pytest.approx(injection.sent[-1], rel=0.005)


@pytest.mark.parametrize(("begin_s", "end_s"), [(0.0, 2 * RAMP_S + LEVEL_S), (3.0, 9.0), (0.7, 4.1), (8.0, 11.5)])
def test_the_mean_rate_of_any_part_is_measured(injection, begin_s, end_s):
    measured = Counted(injection.storage, "tx_bytes").traffic(injection.ns(begin_s), injection.ns(end_s))
    assert measured.mean_mbps == pytest.approx(injection.mbps_between(begin_s, end_s), rel=0.005)


def test_the_steady_state_is_found_where_it_was(injection):
    state = steady(*Counted(injection.storage, "tx_bytes").rates(injection.ns(0), injection.ns(injection.end_s)))
    assert state is not None
    assert state.begin_s == pytest.approx(RAMP_S, abs=2 * PERIOD_S)
    assert state.end_s == pytest.approx(RAMP_S + LEVEL_S, abs=2 * PERIOD_S)
    assert state.mean_mbps == pytest.approx(LEVEL_MBPS, rel=0.005)
