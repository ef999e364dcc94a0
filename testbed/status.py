"""What state a testbed's hosts and daemons are in, found out by asking each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tierbench.errors import HostError
from tierbench.testbed import assembly, filesystem, htcondor, kerberos, xrootd
from tierbench.testbed.cgroups import means
from tierbench.testbed.host import RunningHost
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import MOUNT_POINT, Role, Topology


@dataclass(frozen=True)
class Finding:
    """One thing on one host, whether it is well, and what was seen."""

    host: str
    thing: str
    well: bool
    seen: str


@dataclass(frozen=True)
class Question:
    """Something to find out about a host: `ask` says yes or no, or itself tells what it saw."""

    host: RunningHost
    thing: str
    ask: Callable[[], bool | str]
    yes: str = "answers"

    def put(self) -> Finding:
        try:
            seen = self.ask()
        except HostError as error:
            seen, well = str(error).splitlines()[0], False
        else:
            well = bool(seen)
            seen = seen if isinstance(seen, str) else self.yes if seen else "does not answer"
        return Finding(self.host.name, self.thing, well, seen)


def findings(testbed: Testbed) -> list[Finding]:
    """All findings, host by host in the topology's order."""
    topology, hosts = testbed.topology, testbed.hosts
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(Question.put, _questions(hosts, topology)))
    order = list(hosts)
    return sorted(found, key=lambda finding: order.index(finding.host))


def _questions(hosts: dict[str, RunningHost], topology: Topology) -> Iterator[Question]:
    def only(role: Role) -> RunningHost:
        return hosts[topology.with_role(role)[0].name]

    wan, kdc, gateway, manager = only("wan"), only("kdc"), only("gateway"), only("access-point")
    metadata, storage = only("metadata"), only("storage")
    yield Question(wan, "delay", lambda: _delay(wan, topology))
    yield Question(kdc, "krb5kdc", partial(kerberos.gives_tickets, gateway), "gives tickets")
    yield Question(metadata, "mfsmaster", partial(filesystem.master_answers, metadata))
    yield Question(storage, "mfschunkserver", partial(filesystem.objects_joined, metadata), "has joined the master")
    for server in (metadata, storage):
        yield Question(server, "Kerberos gate", partial(_gate, server))
    for door in xrootd.doors(topology):
        server = hosts[door.host.name]
        yield Question(server, door.name, partial(xrootd.answers, server, door), f"answers at {door.url}")
    for host in hosts.values():
        yield Question(host, "host", partial(_running, host))
        if host.host.mounts:
            yield Question(host, "mount", partial(filesystem.mounted, host), f"{MOUNT_POINT} answers")
        if host.host in xrootd.xrootdfs_workers(topology):
            yield Question(host, "xrootdfs", partial(xrootd.xrootdfs_answers, host), f"{xrootd.XROOTDFS} answers")
        if host.host.in_pool:
            yield Question(host, "HTCondor", partial(htcondor.in_pool, manager, host), "in the pool")


def _running(host: RunningHost) -> str:
    interfaces = ", ".join(f"{nic.address} {nic.rate_mbps} Mb/s" for nic in host.host.nics)
    if not interfaces:
        return f"running as process {host.pid}; switches and the WAN between them"
    cgroup = host.namespaces.cgroup
    cpu = "counted apart, can be limited" if cgroup.limited else "counted apart" if cgroup.account else means().lacking
    return f"running as process {host.pid}; {interfaces}; CPU: {cpu}"


def _gate(server: RunningHost) -> str:
    if not filesystem.gate_answers(server):
        raise HostError("does not answer")
    return f"answers; {filesystem.admitted_hosts(server)} hosts admitted"


def _delay(wan: RunningHost, topology: Topology) -> str:
    means = wan.run("cat", "/run/wan-delay").stdout.strip()
    if means == "none":
        return "no delay configured"
    if means == "delay-line" and not assembly.delay_line_listens(wan):
        raise HostError("the delay line is dead: nothing crosses the WAN")
    return f"{topology.settings.rtt_ms:g} ms RTT by {'netem' if means == 'netem' else 'our NFQUEUE delay line'}"
