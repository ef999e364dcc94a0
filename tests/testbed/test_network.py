"""The physics of the emulated networks, and of the hosts' CPU time."""

import json
import re
import time

import pytest

from tierbench.testbed.cgroups import ACCOUNT, means


def round_trip_ms(source, target):
    """The shortest of some: a busy machine only adds to it."""
    answer = source.run("ping", "-c", "40", "-i", "0.02", "-q", target, check=False).stdout
    (shortest,) = re.findall(r"rtt min/avg/max/mdev = ([\d.]+)/", answer)
    return float(shortest)


def iperf_mbps(client, server, streams, seconds=2):
    """What the server sends to the client, as a file server would, from the first byte on: a busy machine takes of it.

    Without the beginning, it would be more where a receiver finds at once what came before.
    """
    server.run("sh", "-c", "iperf3 -s -1 -D")
    server.wait_until(lambda: ":5201" in server.run("ss", "-ltn").stdout, "iperf3 did not listen", "none")
    answer = client.run("iperf3", "-J", "-R", "-t", str(seconds), "-P", str(streams), "-c", server.host.fqdn)
    return float(json.loads(answer.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6


@pytest.mark.parametrize("source", ["wn01", "wn03", "dgt", "ce"])
def test_the_wan_has_the_configured_round_trip_time(testbed, source):
    assert round_trip_ms(testbed.host(source), "oss.uf.test") == pytest.approx(14, abs=1)


@pytest.mark.parametrize(
    ("source", "target"), [("vmuf", "oss.uf.test"), ("wn01", "dgt.private.fiu.test"), ("wn03", "ce.fiu.test")]
)
def test_a_site_is_within_a_millisecond(testbed, source, target):
    assert round_trip_ms(testbed.host(source), target) < 1


LINKS = pytest.mark.parametrize(
    ("client", "server", "streams", "rate"),
    [
        ("dgt", "vmuf", 4, 1000),  # the WAN: both ends and the line itself have this rate
        ("wn03", "vmuf", 2, 100),  # a public worker's interface
        ("wn01", "dgt", 1, 100),  # a private worker's
        ("vmuf", "oss", 1, 800),  # the storage server's
    ],
)


@LINKS
def test_no_link_carries_more_than_its_rate(testbed, client, server, streams, rate):
    assert iperf_mbps(testbed.host(client), testbed.host(server), streams) < 1.05 * rate


@pytest.mark.quiet
@LINKS
def test_links_have_their_configured_rates(testbed, client, server, streams, rate):
    assert 0.8 * rate < iperf_mbps(testbed.host(client), testbed.host(server), streams, 6) < 1.05 * rate


def clients_seen_by_vmuf(testbed, worker):
    """What vmuf's xrootd logs of a visit by this worker."""
    log = testbed.host("vmuf").log("xrootd.log")
    before = log.stat().st_size
    worker.run("xrdfs", "vmuf.uf.test:1094", "stat", "/extenci")
    with log.open("rb") as file:
        file.seek(before)
        return file.read().decode()


def test_a_private_worker_looks_like_the_gateway_from_outside(testbed):
    log = clients_seen_by_vmuf(testbed, testbed.host("wn01"))
    assert re.search(r"[:@]198\.18\.2\.10\b", log)
    assert "192.168.2.101" not in log


def test_a_public_worker_is_seen_as_itself(testbed):
    assert re.search(r"[:@]198\.18\.2\.103\b", clients_seen_by_vmuf(testbed, testbed.host("wn03")))


def test_nobody_reaches_a_private_worker_from_outside(testbed):
    private = testbed.host("wn01").host.address
    assert not testbed.host("vmuf").succeeds("ping", "-c", "1", "-W", "1", private)
    assert testbed.host("ce").succeeds("ping", "-c", "3", "-W", "3", private)


def test_without_the_delay_line_nothing_crosses_the_wan(testbed):
    wan, worker = testbed.host("wan"), testbed.host("wn03")
    wan.script(["kill -STOP $(cat /run/delayline.pid)"])
    try:
        assert not worker.succeeds("ping", "-c", "2", "-i", "0.2", "-W", "1", "oss.uf.test")
        assert worker.succeeds("ping", "-c", "3", "-W", "3", "ce.fiu.test")
    finally:
        wan.script(["kill -CONT $(cat /run/delayline.pid)"])
    assert worker.succeeds("ping", "-c", "3", "-W", "2", "oss.uf.test")


# -- each host's own CPU time, which is counted apart from the others' and can be limited ------------------

COUNTED = pytest.mark.skipif(not means().hierarchies, reason=means().missing or "counted")
BURN = "import time\nend = time.process_time() + {cpu_s}\nwhile time.process_time() < end: pass"


def used_s(host):
    """The host's own account, as a sampler in it sees it."""
    files = host.run("sh", "-c", f"cat {ACCOUNT}/cpuacct.usage 2>/dev/null || cat {ACCOUNT}/cpu.stat").stdout.split()
    return int(files[0]) / 1e9 if len(files) == 1 else int(files[files.index("usage_usec") + 1]) / 1e6


def burn(host, cpu_s):
    """How long a host takes for so much CPU time."""
    begin = time.monotonic()
    host.run("python3", "-c", BURN.format(cpu_s=cpu_s))
    return time.monotonic() - begin


@COUNTED
def test_what_one_host_burns_is_counted_to_it_alone(testbed):
    hosts = [testbed.host("dgt"), testbed.host("vmuf")]
    before = [used_s(host) for host in hosts]
    burn(hosts[0], 1.0)
    burned, idled = (used_s(host) - then for host, then in zip(hosts, before, strict=True))
    assert burned >= 1.0
    assert idled < 0.5


@pytest.mark.skipif(not means().limits, reason=means().missing or "can be limited")
def test_a_limited_host_is_slow(testbed):
    host = testbed.host("dgt")
    host.namespaces.cgroup.limit(0.25)
    try:
        assert burn(host, 0.5) >= 1.5
    finally:
        host.namespaces.cgroup.limit(None)
