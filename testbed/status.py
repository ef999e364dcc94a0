"""What state a testbed's hosts and daemons are in, found out by asking each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tierbench.errors import HostError
from tierbench.testbed import assembly, filesystem, htcondor, kerberos, xrootd
from tierbench.testbed.host import RunningHost
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import MOUNT_POINT, Topology


@dataclass(frozen=True)
class Finding:
    """One thing on one host, whether it is well, and what was seen."""

    host: str
    thing: str
    well: bool
    seen: str


@dataclass(frozen=True)
class Question:
    """Something to find out about a host; `ask` tells what it saw, or raises HostError."""

    host: str
    thing: str
    ask: Callable[[], str]

    def put(self) -> Finding:
        try:
            return Finding(self.host, self.thing, True, self.ask())
        except HostError as error:
            return Finding(self.host, self.thing, False, str(error).splitlines()[0])


def findings(testbed: Testbed) -> list[Finding]:
    """All findings, host by host in the topology's order."""
    topology, hosts = testbed.topology, testbed.hosts
    questions = [*_hosts(hosts), *_daemons(hosts, topology)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(Question.put, questions))
    order = list(hosts)
    return sorted(found, key=lambda finding: order.index(finding.host))


def _hosts(hosts: dict[str, RunningHost]) -> Iterator[Question]:
    for name, host in hosts.items():
        where = ", ".join(f"{nic.address} {nic.rate_mbps} Mb/s" for nic in host.host.nics)
        yield Question(name, "host", lambda h=host, w=where: f"running as process {h.pid}; {w or 'switches and WAN'}")  # type: ignore[misc]


def _daemons(hosts: dict[str, RunningHost], topology: Topology) -> Iterator[Question]:
    wan = hosts["wan"]
    yield Question("wan", "delay", lambda: _delay(wan, topology))
    kdc = hosts[topology.with_role("kdc")[0].name]
    asker = hosts[topology.with_role("gateway")[0].name]
    yield Question(kdc.name, "krb5kdc", lambda: _said_yes(kerberos.gives_tickets(asker), "gives tickets"))
    metadata, storage = (hosts[server.name] for server in filesystem.servers(topology))
    yield Question(metadata.name, "mfsmaster", lambda: _said_yes(filesystem.master_answers(metadata), "answers"))
    yield Question(
        storage.name, "mfschunkserver", lambda: _said_yes(filesystem.objects_joined(metadata), "has joined the master")
    )
    for server in (metadata, storage):
        yield Question(server.name, "Kerberos gate", lambda s=server: filesystem.gate_state(s))  # type: ignore[misc]
    for host in hosts.values():
        if host.host.mounts:
            yield Question(
                host.name, "mount", lambda h=host: _said_yes(filesystem.mounted(h), f"{MOUNT_POINT} answers")  # type: ignore[misc]
            )
    for door in xrootd.doors(topology):
        server = hosts[door.host.name]
        yield Question(
            server.name, door.name, lambda h=server, d=door: _said_yes(xrootd.answers(h, d), f"answers at {d.url}")  # type: ignore[misc]
        )
    for host in hosts.values():
        if xrootd.has_xrootdfs(host.host):
            yield Question(
                host.name, "xrootdfs", lambda h=host: _said_yes(xrootd.xrootdfs_answers(h), f"{xrootd.XROOTDFS} answers")  # type: ignore[misc]
            )
    (manager,) = (hosts[host.name] for host in topology.with_role("access-point"))
    for host in hosts.values():
        if host.host.in_pool:
            yield Question(host.name, "HTCondor", lambda h=host: htcondor.seen_in_pool(manager, h))  # type: ignore[misc]


def _said_yes(yes: bool, words: str) -> str:
    if not yes:
        raise HostError("does not answer")
    return words


def _delay(wan: RunningHost, topology: Topology) -> str:
    means = wan.path("/run/wan-delay").read_text().strip()
    if means == "none":
        return "no delay configured"
    if means == "delay-line" and not assembly.delay_line_listens(wan):
        raise HostError("the delay line is dead: nothing crosses the WAN")
    return f"{topology.settings.rtt_ms:g} ms RTT by {'netem' if means == 'netem' else 'our NFQUEUE delay line'}"
