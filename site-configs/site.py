"""What a site offers: pools of workers, access methods, storage, what to sample and how to flush."""

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
    TableName,
    Value,
    VariableName,
    shown,
)
from tierbench.errors import refuse
from tierbench.spec import Checked, bounded, build, find_definition, read_toml, shipped_definitions, unknown_name

SHIPPED = Path(__file__).parent
INSTALLED = Path("/etc/tierbench")  # sites of this machine, which go before those that come with tierbench

CLEARED = ("file", "xrootd")  # by which wrappers/write_area.py can look through what was written, and remove it
SECRETS = {"token": "token.file", "destination-token": "to.token.file", "proxy": "x509.proxy"}  # the keys of files
NO_PROXY = Proxy("")
DOOR = "root://"  # the second slash of root://host//path belongs to the path


def together(interface: Interface | tuple[Interface, ...]) -> str:
    """How a host's interfaces are passed to the sampler, each of which counts once: eth0, or eth0+eth1."""
    several = interface if isinstance(interface, tuple) else (interface,)
    if not several or len(set(several)) < len(several):
        raise ValueError(f"interface: must name at least one, and none twice, not {list(several)}")
    return "+".join(several)


@dataclass(frozen=True)
class Pool(Checked):
    """Workers that are alike in what they can reach."""

    requirements: Requirements
    description: Line = Line("")
    workers: tuple[Host, ...] = ()
    interface: Interface | tuple[Interface, ...] | None = None
    sampled_workers: int | None = bounded(None, 1, 100_000)
    link: Literal["storage", "gateway", "door", "metadata"] | None = None  # of [links], for one of its workers
    over_wan: bool = True  # whether their way to the storage leads over it

    def problems(self) -> Iterator[str]:
        if self.interface is None and self.sampled_workers is not None:
            yield "sampled_workers: needs interface, which says on what its workers are sampled"
        if self.interface is not None:
            together(self.interface)
        if len({host.lower() for host in self.workers}) < len(self.workers):
            yield f"workers: must name none twice, not {list(self.workers)}"

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
class Token(Checked):
    """A bearer token: a file on the access point that comes with each job, or one of HTCondor's credentials."""

    file: AbsolutePath | None = None
    condor: Name | None = None  # the service that jobs ask for

    def problems(self) -> Iterator[str]:
        if bool(self.file) == bool(self.condor):
            yield "needs either file, a path on the access point, or condor, a name of use_oauth_services"


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
    token: Token | None = None

    @property
    def url(self) -> str:
        return located(self.prefix, self.folder)


@dataclass(frozen=True)
class Access(Checked):
    """How the workers of one pool reach the replicas, or have them copied from there to another server."""

    pool: Key
    protocol: Key  # "xrootd", "file", or any that a client declares
    prefix: Prefix = Prefix("")
    further: tuple[Prefix, ...] = ()  # doors beside it to the same files; clients are dealt to all in turn
    description: Line = Line("")
    path: tuple[Host, ...] = ()
    kerberos: Kerberos | None = None
    token: Token | None = None
    x509: GridProxy | None = None
    environment: dict[VariableName, Value] = field(default_factory=dict)  # of who reads by it
    writes: AbsolutePath | None = None
    to: Destination | None = None
    proxy: Proxy = NO_PROXY  # by which clients reach the server
    further_proxies: tuple[Proxy, ...] = ()  # beside it; clients are dealt to all in turn
    replicas: AbsolutePath | None = None  # a folder with copies of its own, in place of storage.replicas
    on_disk: bool = False  # those are on each worker's own disk
    servers: tuple[Host, ...] = ()  # the storage servers that its bytes come from or go to; else all of them

    def problems(self) -> Iterator[str]:
        served, protocol = "://" in self.prefix, self.protocol
        if self.writes is not None and protocol not in CLEARED:
            yield f"writes: what trials write is removed after them by {' or '.join(CLEARED)} only"
        if protocol == "xrootd" and not self.prefix.startswith(DOOR):
            tls = "; write root://: a door that wants TLS asks for it" if self.prefix.startswith("roots://") else ""
            yield f'prefix: must be like "root://host:1094/" for protocol "xrootd", not "{self.prefix}"{tls}'
        elif protocol == "file" and served:
            yield f'prefix: must be "" or like "/xrootd-fs" for protocol "file", not "{self.prefix}"'
        elif protocol != "file" and not served:
            mounted = 'what is mounted has protocol "file"'
            yield f'prefix: must be a server\'s "scheme://host:port/" for "{protocol}", not "{self.prefix}"; {mounted}'
        yield from self._further_problems(served)

    def _further_problems(self, served: bool) -> Iterator[str]:
        schemes = {prefix.partition("://")[0] for prefix in self.prefixes}
        if self.further and (not served or len(schemes) > 1 or len(set(self.prefixes)) < len(self.prefixes)):
            yield f"further: must name other servers of the same kind as prefix, not {list(self.further)}"
        if self.further and self.writes is not None:
            yield "further: several doors are for reading; what trials write goes by one"
        if self.replicas is not None and self.protocol != "file":
            yield f'replicas: copies of its own are for protocol "file", not "{self.protocol}"'
        if self.on_disk and (self.replicas is None or self.servers or self.path or self.writes):
            yield "on_disk: needs replicas, a folder on the worker's disk, and no servers, path or writes"
        if self.proxy and self.protocol != "http":
            yield f'proxy: is for protocol "http", not "{self.protocol}"'
        if self.further_proxies and (not all(self.proxies) or len(set(self.proxies)) < len(self.proxies)):
            yield f"further_proxies: must name other proxies beside proxy, not {list(self.further_proxies)}"

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        return (self.prefix, *self.further)

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """All of them; the empty one where clients go there themselves."""
        return (self.proxy, *self.further_proxies)

    @property
    def tokens(self) -> dict[str, Token]:
        """Its own token, and that of where files are copied to, by the kinds of wrappers/credentials.py."""
        tokens = {"token": self.token, "destination-token": self.to and self.to.token}
        return {kind: token for kind, token in tokens.items() if token}

    @property
    def secrets(self) -> dict[str, str]:
        """The files of the access point that come with each job, by the same kinds: of tokens, of a proxy."""
        files = {kind: str(token.file) for kind, token in self.tokens.items() if token.file}
        return files | ({"proxy": str(self.x509.proxy)} if self.x509 else {})

    def place(self, directory: str) -> str:
        """Where it finds a set of replicas that the storage has in this directory: there, or in its copy."""
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
    access: tuple[Key, ...] = ()  # methods during whose trials it is sampled; if none, all

    def __post_init__(self) -> None:
        together(self.interface)

    @property
    def interfaces(self) -> str:
        return together(self.interface)

    def is_of(self, methods: Container[str]) -> bool:
        return not self.access or any(method in methods for method in self.access)


@dataclass(frozen=True)
class Flush:
    """How caches are emptied here, and the helper that may do so where it takes privilege."""

    strategy: Literal["drop_caches", "fadvise", "lustre", "none"] = "drop_caches"
    helper: AbsolutePath = AbsolutePath("/usr/local/sbin/tierbench-flush")


@dataclass(frozen=True)
class Condition(Checked):
    """What a site can change for a trial: which word of whose helper, and how near the value has to come."""

    word: Key
    hosts: tuple[Host, ...] = ()
    pool: Key | None = None
    unit: Line = Line("")
    words: tuple[Name, ...] = ()  # that it takes: all of them, or beside numbers of the unit
    tolerance_pct: float = bounded(0.0, 0, 100)
    link: Literal["wan", "storage", "gateway", "door", "worker", "rtt_ms"] | None = None
    reads_only: bool = False  # what goes to the storage has its rate as before
    helper: AbsolutePath = AbsolutePath("/usr/local/sbin/tierbench-arrange")
    description: Line = Line("")

    def problems(self) -> Iterator[str]:
        if not (self.hosts or self.pool):
            yield "needs hosts, which all change it, or pool, for all its workers, or both"
        in_links = "ms" if self.link == "rtt_ms" else "Mb/s"
        if self.link and self.unit not in ("", in_links):
            yield f'unit: link = "{self.link}" is in {in_links}, so it must be "{in_links}", not "{self.unit}"'

    def allows(self, value: object) -> bool:
        """Whether it may be changed to that, as far as the file says."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return not (self.unit or self.words) or bool(self.unit and number) or value in self.words

    @property
    def possible(self) -> str:
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
    pools: dict[TableName, Pool]
    access: dict[TableName, Access]
    storage: Storage
    samplers: dict[TableName, Sampler]
    flush: Flush = field(default_factory=Flush)
    links: Links = field(default_factory=Links)
    conditions: dict[TableName, Condition] = field(default_factory=dict)
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
    return sorted({*shipped_definitions(INSTALLED), *shipped_definitions(SHIPPED)})


def load_site(path: Path) -> Site:
    tables = read_toml(path)
    tables.pop("testbed", None)  # how to build the testbed is read by the testbed alone
    site = build(Site, tables, str(path))
    refuse(_problems(site), str(path))
    return site


def _problems(site: Site) -> Iterator[str]:
    for key, tables in (("pools", site.pools), ("access", site.access), ("samplers", site.samplers)):
        if not tables:
            yield f"{key}: is empty; at least one [{key}.NAME] table is needed"
    for name, condition in site.conditions.items():
        if condition.pool and condition.pool not in site.pools:
            yield unknown_name(f"conditions.{name}.pool", condition.pool, site.pools)
    storage = [sampler.host for sampler in site.samplers.values() if sampler.role == "storage"]
    if site.samplers and not storage:
        yield 'samplers: at least one must have role = "storage", which is what the rates are taken from; none has'
    if storage and site.storage.sampled is not None and site.storage.sampled not in storage:
        yield unknown_name("storage.sampled", site.storage.sampled, storage)
    yield from _sampler_problems(site)
    yield from _access_problems(site)
    yield from _host_problems(site, storage)


def _sampler_problems(site: Site) -> Iterator[str]:
    by_host: dict[str, str] = {}
    for name, sampler in site.samplers.items():
        for access in sampler.access:
            if access not in site.access:
                yield unknown_name(f"samplers.{name}.access", access, site.access)
        first = by_host.setdefault(sampler.host.lower(), name)
        if first != name:
            yield f'samplers.{name}.host: "{sampler.host}" is sampled by samplers.{first} already; one per host'


def _access_problems(site: Site) -> Iterator[str]:
    replicas = site.storage.replicas
    travelling: dict[str, str] = {}
    for name, access in site.access.items():
        key = f"access.{name}"
        if access.pool not in site.pools:
            yield unknown_name(f"{key}.pool", access.pool, site.pools)
        elif access.on_disk and site.pools[access.pool].interface is None:
            unsampled = "nothing tells what the workers' disks read, since they are not sampled"
            yield f"{key}.on_disk: {unsampled}; give pools.{access.pool} its interface"
        if _overlap(access.writes, replicas):
            apart = f'must have nothing to do with storage.replicas, "{replicas}"'
            yield f'{key}.writes: trials write and remove below "{access.writes}", which {apart}'
        if _overlap(access.replicas, replicas):
            yield f'{key}.replicas: has copies of what is in storage.replicas, "{replicas}", so it must be elsewhere'
        for kind, path in access.secrets.items():
            other = travelling.setdefault(PurePath(path).name, path)
            if other != path:
                yield f'{key}.{SECRETS[kind]}: "{path}" and "{other}" would travel under one name'


def _host_problems(site: Site, storage: Sequence[Host]) -> Iterator[str]:
    """Hosts of access methods that nothing tells of, or that no job can reach."""
    sampled = {sampler.host: name for name, sampler in site.samplers.items()}
    for name, access in site.access.items():
        key = f"access.{name}"
        if storage and not access.on_disk and not any(site.samplers[sampled[host]].is_of({name}) for host in storage):
            why = "is in no storage server's samplers.NAME.access, so none of its trials could be VALID"
            yield f"{key}: {why}"
        if access.to and access.to.host not in sampled:
            yield unknown_name(f"{key}.to.host", access.to.host, sampled)
        for server in access.servers:
            if server not in storage:
                yield unknown_name(f"{key}.servers", server, storage)
            elif not site.samplers[sampled[server]].is_of({name}):
                yield f"{key}.servers: {server} is not sampled in its trials, by its sampler's access"
        for host in access.path if site.flush.strategy != "none" else ():  # where a job flushes
            if host in sampled and site.samplers[sampled[host]].via == "ssh":
                outside = f'samplers.{sampled[host]} has via = "ssh", as for a host that is not in the pool'
                remedy = "let it join the pool, or leave it out of path"
                yield f'{key}.path: "{host}" is flushed by a job, but {outside}; {remedy}'


def _overlap(path: str | None, other: str) -> bool:
    """Whether one path leads into the other."""
    first, second = PurePath(path or ""), PurePath(other)
    return path is not None and (first.is_relative_to(second) or second.is_relative_to(first))
