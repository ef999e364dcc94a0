"""The emulated sites as pure data: networks, hosts, interfaces. Nothing here touches a machine.

UF (Tier-2)                    WAN                   FIU (Tier-3)
oss   object server  ──┐                     ┌── ce    HTCondor access point and central manager
mds   metadata       ──┤  uf ── wan ── fiu   ├── dgt   NAT gateway, LAN xrootd
kdc   Kerberos       ──┤  delay, rate cap    ├── wn..  public workers
vmuf  WAN xrootd     ──┘                     └── private ── wn.. private workers (behind dgt)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tierbench.testbed.settings import Settings

REALM = "UF.TEST"
TRUST_DOMAIN = "tierbench.test"
USER = "bench"
MOUNT_POINT = "/extenci"
WRITABLE = "writes"  # the folder in it where trials write
WRITES = f"{MOUNT_POINT}-{WRITABLE}"  # and where hosts that else may only read mount that folder alone
XROOTDFS_ROOT = "/xrootd-fs"
DATA = f"{MOUNT_POINT}/tierbench"
FIRST_PORT, LAST_PORT = 9419, 9422  # of the remote file system's servers
XROOTD_PORT = 1094
KRB5_XROOTD_PORT = 1095

Role = Literal["wan", "storage", "metadata", "kdc", "wan-xrootd", "gateway", "access-point", "worker"]


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
UF = Network("uf", "198.18.1", "uf.test", "wan")
FIU = Network("fiu", "198.18.2", "fiu.test", "wan")
PRIVATE = Network("private", "192.168.2", "private.fiu.test", "dgt")
NETWORKS = (UF, FIU, PRIVATE)


@dataclass(frozen=True)
class Nic:
    """A host's interface on a network."""

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
    role: Role
    nics: tuple[Nic, ...] = ()

    @property
    def fqdn(self) -> str:
        return f"{self.name}.{self.nics[0].network.zone if self.nics else FIU.zone}"

    @property
    def address(self) -> str:
        """The address that it is known by; the WAN's is that of the router on the pool's side."""
        return self.nics[0].address if self.nics else f"{FIU.prefix}.1"

    def nic_on(self, network: Network) -> Nic | None:
        return next((nic for nic in self.nics if nic.network == network), None)

    @property
    def network_kind(self) -> str:
        """What the host advertises to HTCondor as its network."""
        return "private" if self.nics and self.nics[0].network == PRIVATE else "public"

    @property
    def mounts(self) -> bool:
        """Whether the host mounts the remote file system: it has a Kerberos principal and a public name."""
        return self.role in ("gateway", "wan-xrootd") or (self.role == "worker" and self.network_kind == "public")

    @property
    def is_server(self) -> bool:
        """Whether it is one of the hosts along the data's way that are sampled and flushed by jobs."""
        return self.role in ("storage", "wan-xrootd", "gateway")

    @property
    def in_pool(self) -> bool:
        return self.role in ("access-point", "worker", "wan") or self.is_server


@dataclass(frozen=True)
class Topology:
    """All hosts of a testbed, the WAN first."""

    settings: Settings
    hosts: tuple[Host, ...]

    @property
    def sited_hosts(self) -> list[Host]:
        """The hosts at the sites: all but the WAN between them."""
        return [host for host in self.hosts if host.nics]

    def with_role(self, role: Role) -> list[Host]:
        return [host for host in self.hosts if host.role == role]

    def etc_hosts(self) -> Iterator[str]:
        """The lines of /etc/hosts that serve as every host's name service."""
        yield "127.0.0.1 localhost"
        for host in self.hosts:
            if not host.nics:
                yield f"{host.address} {host.fqdn} {host.name}"
            for nic in host.nics:
                short = f" {host.name}" if nic is host.nics[0] else ""
                yield f"{nic.address} {host.name}.{nic.network.zone}{short}"


def topology(settings: Settings) -> Topology:
    """The hosts that the settings ask for."""
    rate = settings.rates_mbps
    hosts = [
        Host("wan", "wan"),
        Host("oss", "storage", (Nic("eth0", UF, 10, rate.storage),)),
        Host("mds", "metadata", (Nic("eth0", UF, 11, rate.server),)),
        Host("kdc", "kdc", (Nic("eth0", UF, 12, rate.server),)),
        Host("vmuf", "wan-xrootd", (Nic("eth0", UF, 13, rate.server),)),
        Host("dgt", "gateway", (Nic("eth0", FIU, 10, rate.server), Nic("eth1", PRIVATE, 1, rate.server))),
        Host("ce", "access-point", (Nic("eth0", FIU, 11, rate.server), Nic("eth1", PRIVATE, 11, rate.server))),
    ]
    for index in range(settings.private_workers + settings.public_workers):
        network = PRIVATE if index < settings.private_workers else FIU
        nic = Nic("eth0", network, 101 + index, rate.worker)
        hosts.append(Host(f"wn{index + 1:02d}", "worker", (nic,)))
    return Topology(settings, tuple(hosts))
