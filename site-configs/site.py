"""What a site offers: pools of workers, ways of access, storage, what to sample and how to flush."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from tierbench.checked_text import (
    AbsolutePath,
    Host,
    Interface,
    Key,
    Line,
    Name,
    Prefix,
    Principal,
    Proxy,
    Requirements,
    SubmitLine,
    Value,
    Variable,
    shown,
)
from tierbench.errors import refuse
from tierbench.spec import bounded, build, find_definition, misnamed, read_toml, shipped_definitions, unknown_name

SHIPPED = Path(__file__).parent
INSTALLED = Path("/etc/tierbench")  # sites of this machine, which go before those that come with tierbench

CLEARED = ("file", "xrootd")  # by which wrappers/write_area.py can look through what was written, and remove it
NO_PROXY = Proxy("")
DOOR = "root://"  # the second slash of root://host//path belongs to the path


def together(interface: Interface | tuple[Interface, ...]) -> str:
    """How the sampler is told of a host's interfaces, each of which counts once: eth0, or eth0+eth1."""
    several = interface if isinstance(interface, tuple) else (interface,)
    if not several or len(set(several)) < len(several):
        raise ValueError(f"interface: must name at least one, and none twice, not {list(several)}")
    return "+".join(several)


@dataclass(frozen=True)
class Pool:
    """Workers that are alike in what they can reach."""

    requirements: Requirements
    description: Line = Line("")
    workers: tuple[Host, ...] = ()
    interface: Interface | tuple[Interface, ...] | None = None
    sampled_workers: int | None = bounded(None, 1, 100_000)
    link: Literal["storage", "gateway", "door", "metadata"] | None = None  # of [links], for one of its workers

    def __post_init__(self) -> None:
        if self.interface is None and self.sampled_workers is not None:
            raise ValueError("sampled_workers: needs interface, which says on what its workers are sampled")
        if self.interface is not None:
            together(self.interface)

    def samplers(self, workers: Sequence[str]) -> list[Sampler]:
        """How these workers of it are sampled: on its interface, if it names one, and no more than it says."""
        if self.interface is None:
            return []
        sampled = sorted(workers)[: self.sampled_workers]
        return [Sampler(Host(host), self.interface, "worker") for host in sampled]


@dataclass(frozen=True)
class Kerberos:
    """Who a client is to the storage: it gets a ticket from the keytab before it reads."""

    principal: Principal
    keytab: AbsolutePath


@dataclass(frozen=True)
class Token:
    """A bearer token: a file on the access point that comes with each job, or one of HTCondor's credentials."""

    file: AbsolutePath | None = None
    condor: Name | None = None  # the service that jobs ask for

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.condor):
            raise ValueError("needs either file, a path on the access point, or condor, a name of use_oauth_services")


@dataclass(frozen=True)
class GridProxy:
    """A proxy of the user's X.509 certificate: a file on the access point that comes with each job."""

    proxy: AbsolutePath


def located(prefix: str, path: str) -> str:
    """How a client names what has this absolute path behind a prefix."""
    is_web_like = "://" in prefix and not prefix.startswith(DOOR)
    return (prefix.rstrip("/") if is_web_like else prefix) + path


@dataclass(frozen=True)
class Destination:
    """Where clients have the replicas copied to, from server to server, and which of the sampled hosts that is."""

    prefix: Prefix
    folder: AbsolutePath
    host: Host

    @property
    def url(self) -> str:
        return located(self.prefix, self.folder)


@dataclass(frozen=True)
class Access:
    """A way from the workers of one pool to the replicas, or by their word from there to another server."""

    pool: Key
    protocol: Key  # "xrootd", "file", or any that a client declares
    prefix: Prefix = Prefix("")
    further: tuple[Prefix, ...] = ()  # doors beside it to the same files; clients are dealt to all in turn
    description: Line = Line("")
    path: tuple[Host, ...] = ()
    kerberos: Kerberos | None = None
    token: Token | None = None
    x509: GridProxy | None = None
    environment: dict[str, Value] = field(default_factory=dict)  # of who reads this way
    writes: AbsolutePath | None = None
    to: Destination | None = None
    proxy: Proxy = NO_PROXY  # by which clients reach the server
    further_proxies: tuple[Proxy, ...] = ()  # beside it; clients are dealt to all in turn
    replicas: AbsolutePath | None = None  # a folder with copies of its own, in place of storage.replicas
    on_disk: bool = False  # those are on each worker's own disk
    servers: tuple[Host, ...] = ()  # the storage servers that its bytes come from or go to; else all of them

    def __post_init__(self) -> None:
        for name in self.environment:
            if not Variable.fits(name):
                raise ValueError(f"environment: must hold {Variable.must_be}, not {shown(name)}")
        if self.writes is not None and self.protocol not in CLEARED:
            raise ValueError(f"writes: what trials write is removed after them by {' or '.join(CLEARED)} only")
        if self.protocol == "xrootd" and not self.prefix.startswith(DOOR):
            tls = "; write root://: a door that wants TLS asks for it" if self.prefix.startswith("roots://") else ""
            raise ValueError(
                f'prefix: must be like "root://host:1094/" for protocol "xrootd", not "{self.prefix}"{tls}'
            )
        served = "://" in self.prefix
        if self.protocol == "file" and served:
            raise ValueError(f'prefix: must be "" or like "/xrootd-fs" for protocol "file", not "{self.prefix}"')
        if self.protocol != "file" and not served:
            raise ValueError(
                f'prefix: must be a server\'s "scheme://host:port/" for "{self.protocol}", not "{self.prefix}";'
                f' what is mounted has protocol "file"'
            )
        schemes = [prefix.partition("://")[0] for prefix in self.prefixes]
        if len(set(self.prefixes)) < len(schemes) or (self.further and (not served or len(set(schemes)) > 1)):
            raise ValueError(f"further: must name other servers of the same kind as prefix, not {list(self.further)}")
        if self.further and self.writes is not None:
            raise ValueError("further: several doors are for reading; what trials write goes by one")
        self._check_copies()
        self._check_proxies()

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """Of all its doors."""
        return (self.prefix, *self.further)

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """All of them; the empty one where clients go there themselves."""
        return (self.proxy, *self.further_proxies)

    def _check_proxies(self) -> None:
        if self.proxy and self.protocol != "http":
            raise ValueError(f'proxy: is for protocol "http", not "{self.protocol}"')
        if self.further_proxies and (not all(self.proxies) or len(set(self.proxies)) < len(self.proxies)):
            raise ValueError(f"further_proxies: must name other proxies beside proxy, not {list(self.further_proxies)}")

    def _check_copies(self) -> None:
        if self.replicas is not None and self.protocol != "file":
            raise ValueError(f'replicas: copies of its own are for protocol "file", not "{self.protocol}"')
        if self.on_disk and (self.replicas is None or self.servers or self.path or self.writes):
            raise ValueError("on_disk: needs replicas, a folder on the worker's disk, and no servers, path or writes")

    def place(self, directory: str) -> str:
        """Where this way finds a set of replicas that the storage has in this directory: there, or in its copy."""
        return directory if self.replicas is None else f"{self.replicas}/{PurePath(directory).name}"

    def url(self, path: str, client: int = 0) -> str:
        """How one of the clients names the file that has this absolute path on the storage."""
        return located(self.prefixes[client % len(self.prefixes)], path)


@dataclass(frozen=True)
class Storage:
    """Where the replicas lie, and from which of the sampled storage servers the links are measured, else the first."""

    replicas: AbsolutePath
    sampled: Host | None = None


@dataclass(frozen=True)
class Sampler:
    """A host whose counters are read during a trial, by a job there or over ssh from the access point."""

    host: Host
    interface: Interface | tuple[Interface, ...]
    role: Literal["storage", "gateway", "door", "worker", "metadata"]  # a door: a server that clients read through
    link: Literal["metadata"] | None = None  # which of [links] says what it can carry, if not its role
    via: Literal["pool", "ssh"] = "pool"
    requirements: Requirements | None = None
    access: tuple[Key, ...] = ()  # the ways during whose trials it is sampled; if none, all

    def __post_init__(self) -> None:
        together(self.interface)

    @property
    def interfaces(self) -> str:
        return together(self.interface)

    def is_of(self, ways: Container[str]) -> bool:
        """Whether it is sampled in trials over any of these ways."""
        return not self.access or any(way in ways for way in self.access)


@dataclass(frozen=True)
class Flush:
    """How caches are emptied here, and the helper that may do so where it takes privilege."""

    strategy: Literal["drop_caches", "fadvise", "lustre", "none"] = "drop_caches"
    helper: AbsolutePath = AbsolutePath("/usr/local/sbin/tierbench-flush")


@dataclass(frozen=True)
class Condition:
    """What a site can change for a trial: which word of whose helper, and how near the value has to come."""

    word: Key
    hosts: tuple[Host, ...] = ()
    pool: Key | None = None
    unit: Line = Line("")
    words: tuple[Name, ...] = ()  # that it takes: all of them, or beside numbers of the unit
    tolerance_pct: float = bounded(0.0, 0, 100)
    link: Literal["wan", "storage", "gateway", "door", "worker", "rtt_ms"] | None = None
    helper: AbsolutePath = AbsolutePath("/usr/local/sbin/tierbench-arrange")
    description: Line = Line("")

    def __post_init__(self) -> None:
        if not (self.hosts or self.pool):
            raise ValueError("needs hosts, which are all told to change it, or pool, for all its workers, or both")

    def allows(self, value: object) -> bool:
        """Whether it may be changed to that, as far as the file says."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return not (self.unit or self.words) or bool(self.unit and number) or value in self.words

    @property
    def possible(self) -> str:
        """What it may be changed to."""
        return " or ".join(filter(None, [self.unit and f"a number of {self.unit}", *map(shown, self.words)]))


@dataclass(frozen=True)
class Links:
    """What the links can carry, in Mb/s, where it is known, and how far the workers are from the storage."""

    wan: float | None = bounded(None, 0.001)
    storage: float | None = bounded(None, 0.001)
    metadata: float | None = bounded(None, 0.001)
    gateway: float | None = bounded(None, 0.001)
    door: float | None = bounded(None, 0.001)
    worker: float | None = bounded(None, 0.001)
    rtt_ms: float | None = bounded(None, 0)


@dataclass(frozen=True)
class Submission:
    """What a pool asks of whoever submits to it, beside what tierbench's own jobs need."""

    lines: tuple[SubmitLine, ...] = ()
    idle_limit: int | None = bounded(None, 1)  # a trial submits nothing while so many of its jobs wait for slots


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that a site offers; experiments choose from it by the names of its accesses."""

    name: Name
    description: Line = Line("")
    caveat: Line = Line("")
    scale: float = bounded(1.0, 0.000001, 1_000_000)
    core: float = bounded(1.0, 0.0001, 1)
    pools: dict[str, Pool]
    access: dict[str, Access]
    storage: Storage
    samplers: dict[str, Sampler]
    flush: Flush = field(default_factory=Flush)
    links: Links = field(default_factory=Links)
    conditions: dict[str, Condition] = field(default_factory=dict)
    submission: Submission = field(default_factory=Submission)

    @property
    def server(self) -> Sampler:
        """The storage server that the links are measured from."""
        servers = [sampler for sampler in self.samplers.values() if sampler.role == "storage"]
        return next((server for server in servers if server.host == self.storage.sampled), servers[0])


def find_site(name_or_path: str) -> Site:
    """A site by its name, which the machine's admin has installed or which comes with tierbench, or by its path."""
    installed = INSTALLED / f"{name_or_path}.toml"
    if Key.fits(name_or_path) and installed.is_file():
        return load_site(installed)
    return load_site(find_definition("site", SHIPPED, name_or_path))


def known_sites() -> list[str]:
    """The names of the sites that the machine's admin has installed or that come with tierbench."""
    return sorted({*shipped_definitions(INSTALLED), *shipped_definitions(SHIPPED)})


def load_site(path: Path) -> Site:
    """The site that a file describes."""
    tables = read_toml(path)
    tables.pop("testbed", None)  # how to build the testbed is read by the testbed alone
    site = build(Site, tables, str(path))
    refuse(_problems(site), str(path))
    return site


def _problems(site: Site) -> Iterator[str]:
    for key, names in (("pools", site.pools), ("access", site.access), ("samplers", site.samplers)):
        yield from misnamed(key, names)
        if not names:
            yield f"{key}: is empty; at least one [{key}.NAME] table is needed"
    yield from misnamed("conditions", site.conditions)
    for name, condition in site.conditions.items():
        if condition.pool and condition.pool not in site.pools:
            yield unknown_name(f"conditions.{name}.pool", condition.pool, site.pools)
    storage = [sampler.host for sampler in site.samplers.values() if sampler.role == "storage"]
    if site.samplers and not storage:
        yield 'samplers: at least one must have role = "storage", which is what the rates are taken from; none has'
    if storage and site.storage.sampled is not None and site.storage.sampled not in storage:
        yield unknown_name("storage.sampled", site.storage.sampled, storage)
    yield from _access_problems(site)
    yield from _unproven(site, storage)
    yield from _of_one_name(site)
    yield from _sampler_problems(site)
    yield from _flushed_outside(site)


def _share(path: str | None, other: str) -> bool:
    """Whether one path leads into the other."""
    if path is None:
        return False
    first, second = PurePath(path), PurePath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)


def _access_problems(site: Site) -> Iterator[str]:
    replicas, hosts = site.storage.replicas, [sampler.host for sampler in site.samplers.values()]
    for name, access in site.access.items():
        key = f"access.{name}"
        if access.pool not in site.pools:
            yield unknown_name(f"{key}.pool", access.pool, site.pools)
        elif access.on_disk and site.pools[access.pool].interface is None:
            yield (
                f"{key}.on_disk: nothing tells what the workers' disks read, since they are not sampled;"
                f" give pools.{access.pool} its interface"
            )
        if _share(access.writes, replicas):
            yield (
                f'{key}.writes: trials write and remove below "{access.writes}", which must have nothing to do'
                f' with storage.replicas, "{replicas}"'
            )
        if _share(access.replicas, replicas):
            yield f'{key}.replicas: has copies of what is in storage.replicas, "{replicas}", so it must be elsewhere'
        if access.to and access.to.host not in hosts:  # whose counters nobody reads
            yield unknown_name(f"{key}.to.host", access.to.host, hosts)


def _of_one_name(site: Site) -> Iterator[str]:
    """Tokens and proxies that would travel under the name of another."""
    taken: dict[str, str] = {}
    for name, access in site.access.items():
        token, proxy = access.token and access.token.file, access.x509 and access.x509.proxy
        for key, path in (("token.file", token), ("x509.proxy", proxy)):
            if path and taken.setdefault(PurePath(path).name, path) != path:
                yield f'access.{name}.{key}: "{path}" and "{taken[PurePath(path).name]}" would travel under one name'


def _unproven(site: Site, storage: Sequence[Host]) -> Iterator[str]:
    """Access methods of which nothing would tell where the bytes came from."""
    unseen = {(sampler.host, name) for sampler in site.samplers.values() for name in site.access
              if not sampler.is_of({name})}  # fmt: skip
    for name, access in site.access.items():
        for server in access.servers:
            if server not in storage:
                yield unknown_name(f"access.{name}.servers", server, storage)
            elif (server, name) in unseen:
                yield f"access.{name}.servers: {server} is not sampled in its trials, by its sampler's access"


def _sampler_problems(site: Site) -> Iterator[str]:
    by_host: dict[str, str] = {}
    for name, sampler in site.samplers.items():
        for access in sampler.access:
            if access not in site.access:
                yield unknown_name(f"samplers.{name}.access", access, site.access)
        first = by_host.setdefault(sampler.host, name)
        if first != name:
            yield f'samplers.{name}.host: "{sampler.host}" is sampled by samplers.{first} already; one per host'


def _flushed_outside(site: Site) -> Iterator[str]:
    """Hosts that are flushed, which takes a job there, and yet are said not to be in the pool."""
    if site.flush.strategy == "none":
        return
    outside = {sampler.host: name for name, sampler in site.samplers.items() if sampler.via == "ssh"}
    for name, access in site.access.items():
        for host in access.path:
            if host in outside:
                yield (
                    f'access.{name}.path: "{host}" is flushed by a job, but samplers.{outside[host]} has via = "ssh",'
                    f" as for a host that is not in the pool; let it join the pool, or leave it out of path"
                )
