"""The emulated sites as pure data: networks, hosts, interfaces. Nothing here touches a machine.

UF (Tier-2)                    WAN                   FIU (Tier-3)
oss   object server  ──┐                     ┌── ce    HTCondor access point and central manager
mds   metadata       ──┤  uf ── wan ── fiu   ├── dgt   NAT gateway, LAN xrootd
kdc   Kerberos       ──┤  delay, rate cap    ├── wn..  public workers
vmuf  WAN xrootd     ──┘                     └── private ── wn.. private workers (behind dgt)

Here are the machines that every site has, between the networks and on them; each of the others is a service's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tierbench.testbed.settings import Settings

USER = "bench"
BEHIND, BEHIND_ROUTER = "10.0.2.100", "10.0.2.2"  # slirp4netns' own addresses for who is behind it, and for itself
WAN, GATEWAY = "wan", "dgt"


@dataclass(frozen=True)
class Network:
    """A site's local network; its router has the address .1 on it."""

    name: str
    prefix: str
    zone: str
    router: str

    @property
    def cidr(self) -> str:
        return f"{self.prefix}.0/24"

    @property
    def bridge(self) -> str:
        return f"br-{self.name}"


# 198.18.0.0/15 is set aside for benchmarks (RFC 2544): here it plays the public Internet.
UF = Network("uf", "198.18.1", "uf.test", WAN)
FIU = Network("fiu", "198.18.2", "fiu.test", WAN)
PRIVATE = Network("private", "192.168.2", "private.fiu.test", GATEWAY)
FNAL = Network("fnal", "198.18.3", "fnal.test", WAN)  # a third site, if there is one
SITES = (UF, FIU, FNAL)
NETWORKS = (*SITES, PRIVATE)


@dataclass(frozen=True)
class Nic:
    device: str
    network: Network
    number: int
    rate_mbps: int

    @property
    def address(self) -> str:
        return f"{self.network.prefix}.{self.number}"


@dataclass(frozen=True)
class Host:
    """One machine of the testbed; its first interface is the one it is known by."""

    name: str
    nics: tuple[Nic, ...] = ()
    in_pool: bool = False  # of HTCondor: it runs jobs, or submits them
    mounts: bool = False  # the remote file system, by a Kerberos principal of its own
    principals: tuple[str, ...] = ()  # what it has Kerberos keys as, beside "host" where it mounts
    is_worker: bool = False
    is_virtual: bool = False  # a virtual machine, with a kernel of its own
    user_network: bool = False  # its network is a process of a user (slirp4netns)
    is_writer: bool = False  # the benchmark's files are made there

    @property
    def fqdn(self) -> str:
        return f"{self.name}.{self.nics[0].network.zone if self.nics else FIU.zone}"

    @property
    def address(self) -> str:
        """The address that it is known by; the WAN's is that of the router on the pool's side."""
        return self.nics[0].address if self.nics else f"{FIU.prefix}.1"

    @property
    def own_address(self) -> str:
        """The address that it has itself, whatever others know it by."""
        return BEHIND if self.user_network else self.address

    @property
    def comes_by_ticket(self) -> bool:
        """Whether the file system's gate lets it in; a virtual machine mounts it when it is asked to."""
        return self.mounts or self.is_virtual

    @property
    def names(self) -> dict[Nic, str]:
        """What each interface is called: as the host, and of several on one network the second one HOST-2."""
        own: dict[Nic, str] = {}
        for nic in self.nics:
            before = sum(other.network == nic.network for other in own)
            own[nic] = f"{self.name}-{before + 1}" if before else self.name
        return own

    def nic_on(self, network: Network) -> Nic | None:
        return next((nic for nic in self.nics if nic.network == network), None)

    @property
    def network_kind(self) -> str:
        """What the host advertises to HTCondor as its network."""
        if self.nic_on(FNAL):
            return "far"
        if self.is_virtual:
            return "virtual-near" if self.nic_on(UF) else "virtual"
        if self.nic_on(UF) and self.is_worker:
            return "near-user-network" if self.user_network else "near" if self.mounts else "tier2"
        return "private" if self.nics and self.nics[0].network == PRIVATE else "public"


@dataclass(frozen=True)
class Topology:
    """All hosts of a testbed, the WAN first."""

    settings: Settings
    hosts: tuple[Host, ...]

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    @property
    def sited_hosts(self) -> list[Host]:
        """The hosts at the sites: all but the WAN between them."""
        return [host for host in self.hosts if host.nics]

    @property
    def workers(self) -> list[Host]:
        return [host for host in self.hosts if host.is_worker]

    def pool(self, name: str) -> list[Host]:
        """The workers on a network, which is what the pools of the testbed's site file are called by."""
        return [host for host in self.workers if host.network_kind == name]

    @property
    def writer(self) -> Host:
        return next(host for host in self.hosts if host.is_writer)

    def etc_hosts(self) -> Iterator[str]:
        """The lines of /etc/hosts that serve as every host's name service."""
        yield "127.0.0.1 localhost"
        for host in self.hosts:
            if not host.nics:
                yield f"{host.address} {host.fqdn} {host.name}"
            for nic, name in host.names.items():
                short = f" {host.name}" if nic is host.nics[0] else ""
                yield f"{nic.address} {name}.{nic.network.zone}{short}"


def with_workers(settings: Settings, servers: Iterable[Host]) -> Topology:
    """The hosts that the settings ask for, and these."""
    rate = settings.rates_mbps
    gateway = (Nic("eth0", FIU, 10, rate.gateway), Nic("eth1", PRIVATE, 1, rate.gateway))
    hosts = [Host(WAN, in_pool=True), *servers, Host(GATEWAY, gateway, in_pool=True, mounts=True)]
    for index in range(settings.private_workers + settings.public_workers):
        public = index >= settings.private_workers
        nic = Nic("eth0", FIU if public else PRIVATE, 101 + index, rate.worker)
        hosts.append(Host(f"wn{index + 1:02d}", (nic,), in_pool=True, mounts=public, is_worker=True))
    return Topology(settings, tuple(hosts))
