"""Each host's own CPU time is counted apart from the others', and can be limited."""

from __future__ import annotations

import time

import pytest

from tierbench.testbed.cgroups import ACCOUNT, means
from tierbench.testbed.host import RunningHost
from tierbench.testbed.testbed import Testbed

pytestmark = pytest.mark.skipif(not means().hierarchies, reason=means().lacking or "counted")
BURN = "import time\nend = time.process_time() + {cpu_s}\nwhile time.process_time() < end: pass"


def used_s(host: RunningHost) -> float:
    """The host's own account, as a sampler in it sees it."""
    files = host.run("sh", "-c", f"cat {ACCOUNT}/cpuacct.usage 2>/dev/null || cat {ACCOUNT}/cpu.stat").stdout.split()
    return int(files[0]) / 1e9 if len(files) == 1 else int(files[files.index("usage_usec") + 1]) / 1e6


def burn(host: RunningHost, cpu_s: float) -> float:
    """How long a host takes for so much CPU time."""
    begin = time.monotonic()
    host.run("python3", "-c", BURN.format(cpu_s=cpu_s))
    return time.monotonic() - begin


def test_what_one_host_burns_is_counted_to_it_alone(testbed: Testbed) -> None:
    hosts = [testbed.host("dgt"), testbed.host("vmuf")]
    before = [used_s(host) for host in hosts]
    burn(hosts[0], 1.0)
    burned, idled = (used_s(host) - then for host, then in zip(hosts, before, strict=True))
    assert burned >= 1.0
    assert idled < 0.5


@pytest.mark.skipif(not means().limits, reason=means().lacking or "can be limited")
def test_a_limited_host_is_slow(testbed: Testbed) -> None:
    host = testbed.host("dgt")
    host.namespaces.cgroup.limit(0.25)
    try:
        assert burn(host, 0.5) >= 1.5
    finally:
        host.namespaces.cgroup.limit(None)
