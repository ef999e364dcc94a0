"""What state a testbed's hosts and daemons are in, found out by asking each of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tierbench.errors import HostError
from tierbench.testbed import assembly
from tierbench.testbed.cgroups import means
from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Reply
from tierbench.testbed.services import SERVICES
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import WAN, Topology


def findings(testbed: Testbed) -> list[Reply]:
    """All findings, host by host in the topology's order."""
    topology, hosts = testbed.topology, testbed.hosts
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(Question.put, _questions(hosts, topology)))
    order = list(hosts)
    return sorted(found, key=lambda finding: order.index(finding.host))


def _questions(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    wan = hosts[WAN]
    yield Question(wan, "delay", lambda: _delay(wan, topology))
    for host in hosts.values():
        yield Question(host, "host", partial(_running, host))
    for service in SERVICES:
        yield from service.questions(hosts, topology)


def _running(host: RunningHost) -> str:
    interfaces = ", ".join(f"{nic.address} {nic.rate_mbps} Mb/s" for nic in host.host.nics)
    if not interfaces:
        return f"running as process {host.pid}; switches and the WAN between them"
    cgroup = host.namespaces.cgroup
    cpu = "counted apart, can be limited" if cgroup.limited else "counted apart" if cgroup.account else means().lacking
    return f"running as process {host.pid}; {interfaces}; CPU: {cpu}"


def _delay(wan: RunningHost, topology: Topology) -> str:
    means = wan.run("cat", "/run/wan-delay").stdout.strip()
    if means == "none":
        return "no delay configured"
    if means == "delay-line" and not assembly.delay_line_listens(wan):
        raise HostError("the delay line is dead: nothing crosses the WAN")
    return f"{topology.settings.rtt_ms:g} ms RTT by {'netem' if means == 'netem' else 'our NFQUEUE delay line'}"
