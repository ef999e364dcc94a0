"""The physics of the emulated networks."""

from __future__ import annotations

import json
import math
import re

import pytest

from tests.testbed.runs import least
from tierbench.testbed.host import RunningHost
from tierbench.testbed.testbed import Testbed

TRIES = 15


def round_trip_ms(source: RunningHost, target: str, expected_ms: float) -> float:
    """The shortest of some, and of more where they are longer than expected: a busy machine only adds to it."""

    def shortest() -> float:
        answer = source.run("ping", "-c", "20", "-i", "0.05", "-q", target, check=False).stdout
        found = re.search(r"rtt min/avg/max/mdev = ([\d.]+)/", answer)
        return float(found.group(1)) if found else math.inf

    return least(shortest, expected_ms + 1)


def iperf_mbps(client: RunningHost, server: RunningHost, streams: int) -> float:
    """What the server sends to the client, as a file server would."""
    server.run("sh", "-c", "iperf3 -s -1 -D")
    server.wait_until(lambda: ":5201" in server.run("ss", "-ltn").stdout, 60, "iperf3 did not listen", "none")
    answer = client.run("iperf3", "-J", "-R", "-t", "4", "-O", "2", "-P", str(streams), "-c", server.host.fqdn)
    return float(json.loads(answer.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6


@pytest.mark.parametrize("source", ["wn01", "wn03", "dgt", "ce"])
def test_the_wan_has_the_configured_round_trip_time(testbed: Testbed, source: str) -> None:
    assert round_trip_ms(testbed.host(source), "oss.uf.test", 14) == pytest.approx(14, abs=1)


@pytest.mark.parametrize(
    ("source", "target"), [("vmuf", "oss.uf.test"), ("wn01", "dgt.private.fiu.test"), ("wn03", "ce.fiu.test")]
)
def test_a_site_is_within_a_millisecond(testbed: Testbed, source: str, target: str) -> None:
    assert round_trip_ms(testbed.host(source), target, 0) < 1


@pytest.mark.parametrize(
    ("client", "server", "streams", "rate"),
    [
        ("dgt", "vmuf", 4, 1000),  # the WAN: both ends and the line itself have this rate
        ("wn03", "vmuf", 2, 100),  # a public worker's interface
        ("wn01", "dgt", 1, 100),  # a private worker's
        ("vmuf", "oss", 1, 800),  # the storage server's
    ],
)
def test_links_have_their_configured_rates(testbed: Testbed, client: str, server: str, streams: int, rate: int) -> None:
    """A busy machine takes from it, or lets a receiver find at once what came before: one that is right shows it."""
    measured: list[float] = []
    while len(measured) < TRIES and not any(0.8 * rate < mbps < 1.1 * rate for mbps in measured):
        measured.append(iperf_mbps(testbed.host(client), testbed.host(server), streams))
    assert 0.8 * rate < measured[-1] < 1.1 * rate, measured


def clients_seen_by_vmuf(testbed: Testbed, worker: RunningHost) -> str:
    """What vmuf's xrootd logs of a visit by this worker."""
    log = testbed.host("vmuf").log("xrootd.log")
    before = log.stat().st_size
    worker.run("xrdfs", "vmuf.uf.test:1094", "stat", "/extenci")
    with log.open("rb") as file:
        file.seek(before)
        return file.read().decode()


def test_a_private_worker_looks_like_the_gateway_from_outside(testbed: Testbed) -> None:
    seen = clients_seen_by_vmuf(testbed, testbed.host("wn01"))
    assert re.search(r"[:@]198\.18\.2\.10\b", seen)
    assert "192.168.2.101" not in seen


def test_a_public_worker_is_seen_as_itself(testbed: Testbed) -> None:
    assert re.search(r"[:@]198\.18\.2\.103\b", clients_seen_by_vmuf(testbed, testbed.host("wn03")))


def test_nobody_reaches_a_private_worker_from_outside(testbed: Testbed) -> None:
    private = testbed.host("wn01").host.address
    assert not testbed.host("vmuf").succeeds("ping", "-c", "1", "-W", "1", private)
    assert testbed.host("ce").succeeds("ping", "-c", "3", "-W", "3", private)


def test_without_the_delay_line_nothing_crosses_the_wan(testbed: Testbed) -> None:
    wan, worker = testbed.host("wan"), testbed.host("wn03")
    wan.script(["kill -STOP $(cat /run/delayline.pid)"])
    try:
        assert not worker.succeeds("ping", "-c", "2", "-i", "0.2", "-W", "1", "oss.uf.test")
        assert worker.succeeds("ping", "-c", "3", "-W", "3", "ce.fiu.test")
    finally:
        wan.script(["kill -CONT $(cat /run/delayline.pid)"])
    assert worker.succeeds("ping", "-c", "3", "-W", "2", "oss.uf.test")
