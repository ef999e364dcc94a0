"""`tierbench init-site`: a site file from what the pool, this host's mounts and some URLs tell."""

import argparse
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tierbench.checked_text import AbsolutePath, Host, Key, Name, Prefix, printable, shown
from tierbench.errors import ConfigError
from tierbench.host import Mount, mount_of, mounts
from tierbench.site_configs.site import load_site
from tierbench.submit import pool
from tierbench.submit.console import add_command, say, show
from tierbench.submit.pool import Machine, PoolError

DESCRIPTION = """\
Write a site file from what can be found out here: the pool's machines, this host's mounts, and whether the servers of
the URLs answer. What it guessed is marked GUESSED, what it could not find out CHANGE; `tierbench doctor` then tries
all of it and says what is missing.
"""
EXAMPLES = """\
  tierbench init-site my-site.toml                                 the pool and the network file systems mounted here
  tierbench init-site my-site.toml --url root://door.example//store --url https://door.example:1094/store
  tierbench doctor --site ./my-site.toml
"""
# By a URL's scheme: the protocol, how the prefix begins, and the port that is meant where none is said.
SCHEMES = {
    "root": ("xrootd", "root", 1094), "xroot": ("xrootd", "root", 1094),
    "http": ("http", "http", 80), "https": ("http", "https", 443),
    "dav": ("http", "http", 80), "davs": ("http", "https", 443), "gsiftp": ("gridftp", "gsiftp", 2811),
}  # fmt: skip
HEADING = """\
# Made by `tierbench init-site` on {day}: what it guessed is marked GUESSED, what it
# could not find out CHANGE. docs/sites.md has all keys. What is missing still, and what to do about it:
#     tierbench doctor --site ./{name}.toml

name = "{name}\""""
UNKNOWN = "storage.example"  # a host to be named
SERVERS = "server"  # TierbenchNetwork of slots that take no clients
PATIENCE_S = 5.0
MOST_NAMES = 4  # of machines in a comment
COLUMN = 50  # where comments begin


def register(subcommands: Any) -> None:
    text = "Write a site file from the pool, the mounts here and some URLs"
    parser = add_command(subcommands, "init-site", _init_site, text, DESCRIPTION, EXAMPLES)
    parser.add_argument("file", metavar="FILE", type=Path, help="the site file, which must not be there yet")
    url = "a server of the storage, as root://HOST//PATH or https://HOST:PORT/PATH; may be repeated"
    parser.add_argument("--url", action="append", default=[], metavar="URL", help=url)
    mount = "where the storage is mounted; may be repeated (default: all network file systems mounted here)"
    parser.add_argument("--mount", action="append", default=[], metavar="PATH", help=mount)


@dataclass(frozen=True)
class Server:
    protocol: str
    prefix: str
    host: str
    path: str
    trouble: str


def _init_site(arguments: argparse.Namespace) -> int:
    file: Path = arguments.file
    name = file.stem
    if file.suffix != ".toml" or not Name.fits(name):
        raise ConfigError(f"{printable(str(file))}: must be called NAME.toml, the name {Name.must_be}")
    servers = [server_of(url) for url in arguments.url]
    places = [mount_at(path) for path in arguments.mount] or [mount for mount in mounts() if mount.by_network]
    try:
        machines, trouble = pool.all_machines(), ""
    except PoolError as error:
        machines, trouble = [], str(error)
        say(f"the pool was not asked: {error}")
    text = "".join(f"{line}\n" for line in site_lines(name, machines, trouble, places, servers))
    try:
        new = file.open("x", encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{file}: is there already; remove it, or give another name") from None
    try:
        with new:
            new.write(text)
        load_site(file)
    except BaseException:  # as where the disk is full: what is left would be in the way
        file.unlink()
        raise
    count = f"{len(machines)} machines, {len(places)} mounts and {len(servers)} URLs"
    show(f"{file}: made of {count}; {text.count('# CHANGE')} places to change, {text.count('# GUESSED')} guessed")
    show(f"next: tierbench doctor --site {file if '/' in str(file) else f'./{file}'}")
    return 0


def server_of(url: str) -> Server:
    try:
        parts = urlsplit(url)
        protocol, scheme, usual = SCHEMES[parts.scheme]
        port, host = parts.port or usual, parts.hostname or ""
    except (KeyError, ValueError):
        remedy = f"must be SCHEME://HOST:PORT/PATH, {', '.join(SCHEMES)}"
        if url.startswith("roots:"):
            remedy = "write root://: a door that wants TLS asks for it"
        raise ConfigError(f"--url {shown(url)}: {remedy}") from None
    prefix = f"{scheme}://{host}:{port}/"
    if not Host.fits(host) or not Prefix.fits(prefix):
        raise ConfigError(f"--url {shown(url)}: its host must be {Host.must_be}")
    say(f"asking {host}:{port}")
    trouble = ""
    try:
        socket.create_connection((host, port), PATIENCE_S).close()
    except OSError as error:
        trouble = str(error.strerror or error)
    path = f"/{parts.path.strip('/')}"
    return Server(protocol, prefix, host, path if path != "/" and AbsolutePath.fits(path) else "", trouble)


def mount_at(path: str) -> Mount:
    """The file system that holds a path, as mounted there."""
    path = path.rstrip("/") or path  # as a shell completes it
    if not AbsolutePath.fits(path):
        raise ConfigError(f"--mount {shown(path)}: must be {AbsolutePath.must_be}")
    return mount_of(path)._replace(point=path)


def site_lines(
    name: str, machines: Sequence[Machine], trouble: str, places: Sequence[Mount], servers: Sequence[Server]
) -> Iterator[str]:
    yield HEADING.format(day=time.strftime("%Y-%m-%d"), name=name)
    servers = [replace(server, host=_in_pool(server.host, machines)) for server in servers]
    pools = list(_pools(machines, {*(server.host for server in servers), *_exporters(places, machines)}))
    for pool_name, requirements, members in pools or [("workers", 'TierbenchNetwork == "public"', [])]:
        cores = sum(machine.cores for machine in members)
        yield "\n" + _line(f"[pools.{pool_name}]", f"{cores} cores on {_listed(members)}" if members else "")
        why = "" if members else f"CHANGE: {trouble or 'the pool has no workers now'}"
        yield _line(f"requirements = '{requirements}'", why or "a ClassAd expression: which machines are meant")
        yield _line('interface = "auto"', "GUESSED: that of the default route; or as `ip link` has it there")
    names = [pool_name for pool_name, *_ in pools] or ["workers"]
    places = [place for place in places if AbsolutePath.fits(place.point)]
    yield from _accesses(names, places, servers, {machine.host for machine in machines})
    yield "\n[storage]"
    yield _replicas(places, servers)
    yield from _samplers(machines, places, servers)
    yield "\n[flush]"
    yield _line('strategy = "fadvise"', "needs no privilege where jobs run as the files' owner; or drop_caches")
    yield "\n# [links]                 what the links carry, in Mb/s: `tierbench doctor` measures it"
    yield "# wan = 10000\n# storage = 10000"


def _in_pool(host: str, machines: Iterable[Machine]) -> str:
    """What the pool calls a host; in fstab, or in a URL, the first part of its name often stands alone."""
    return next((machine.host for machine in machines if "." not in host and machine.host.startswith(f"{host}.")), host)


def _exporters(places: Iterable[Mount], machines: Sequence[Machine]) -> list[str]:
    """The hosts that export what is mounted."""
    devices = [place.device.partition(":/") for place in places]
    return [_in_pool(host, machines) for host, exported, _ in devices if exported and Host.fits(host)]


def _line(content: str, comment: str) -> str:
    return f"{content:<{COLUMN - 1}} # {printable(comment)}" if comment else content


def _listed(machines: Sequence[Machine]) -> str:
    names = [machine.host for machine in machines]
    return ", ".join(names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"])


def _pools(machines: Iterable[Machine], servers: set[str]) -> Iterator[tuple[str, str, list[Machine]]]:
    """The machines by the networks that they say they are on, or else all of them."""
    workers = [machine for machine in machines if machine.network != SERVERS]
    clients = [machine for machine in workers if machine.host not in servers] or workers
    names: Counter[str] = Counter()
    for network in sorted({machine.network for machine in clients}):
        members = [machine for machine in clients if machine.network == network]
        name = _numbered(network if Key.fits(network) else "workers", names)
        if network:
            yield name, f'TierbenchNetwork == "{network}"', members
        elif len(members) == 1:
            yield name, f'Machine == "{members[0].host}"', members
        else:  # so that a server that joins is none of them
            others = sorted(servers & {machine.host for machine in workers} - {machine.host for machine in members})
            not_others = (f'Machine != "{host}"' for host in others)
            yield name, " && ".join(['OpSys == "LINUX"', "TierbenchNetwork =?= undefined", *not_others]), members


def _numbered(name: str, uses: Counter[str]) -> str:
    """The name, with a number from its second use on."""
    uses[name] += 1
    return name if uses[name] == 1 else f"{name}-{uses[name]}"


def _accesses(
    pools: Sequence[str], places: Sequence[Mount], servers: Sequence[Server], there: Collection[str]
) -> Iterator[str]:
    """Each pool by each URL and mount; without any, the workers' own disks. `there`: the pool's machines."""
    tables: Counter[str] = Counter()

    def table(name: str, pool_name: str, comment: str = "") -> Iterator[str]:
        key = _numbered(name if len(pools) == 1 else f"{pool_name}-{name}", tables)
        yield "\n" + _line(f"[access.{key}]", comment)
        yield f'pool = "{pool_name}"'

    for pool_name in pools:
        for server in servers:
            state = f"CHANGE: it does not answer from here: {server.trouble}" if server.trouble else "answers from here"
            yield from table(server.protocol, pool_name)
            yield f'protocol = "{server.protocol}"'
            yield _line(f'prefix = "{server.prefix}"', state)
            path, cold = f'path = ["{server.host}"]', "its caches are emptied; else trials are SUSPECT"
            yield _line(path, cold) if server.host in there else _line(f"# {path}", f"{cold}. It must join the pool")
            yield '# token = { file = "/home/me/token" }       or kerberos, x509: where the server asks for one'
        for number, place in enumerate(places):
            here = Path(place.point).exists()
            what = f"{place.kind} {place.device} on {place.point}" if here else f"{place.point}, which is not here"
            yield from table("mount", pool_name, what)
            own_disk = "a disk of this host alone? Then on_disk = true, with replicas"
            question = own_disk if here else "do these workers mount it?"
            yield _line('protocol = "file"', "" if here and place.by_network else f"CHANGE: {question}")
            if number:
                copies = "copies: `tierbench replicas … --access` makes them"
                yield _line(f'replicas = "{place.point}/tierbench"', copies)
        if not servers and not places:
            yield from table("disk", pool_name, "GUESSED: no URL and no network file system, so the workers' own disks")
            yield 'protocol = "file"'
            private = "GUESSED: not below /tmp or /var/tmp, of which each job has its own"
            yield _line('replicas = "/srv/tierbench-copies"', private)
            yield "on_disk = true"


def _replicas(places: Sequence[Mount], servers: Sequence[Server]) -> str:
    if places:
        also = "; servers must export this path" if servers else ""
        return _line(f'replicas = "{places[0].point}/tierbench"', f"GUESSED: a folder that you can write{also}")
    path = next((server.path for server in servers if server.path), "")
    if path:
        return _line(f'replicas = "{path}/tierbench"', "GUESSED: a folder below the URL's path, on the server")
    return _line('replicas = "/srv/tierbench"', "CHANGE: a folder on the storage, for `tierbench replicas`")


def _samplers(machines: Sequence[Machine], places: Sequence[Mount], servers: Sequence[Server]) -> Iterator[str]:
    """The hosts whose interfaces tell what moved: who exports a mount is the storage, else the URLs' servers are."""
    in_pool = {machine.host: machine for machine in machines}
    exporters = _exporters(places, machines)
    # Lustre, Ceph and GPFS do not say who has the files: not the door before them. What FUSE mounts may be the door's.
    elsewhere = exporters or any(place.by_network and not place.kind.startswith("fuse") for place in places)
    roles = {server.host: "door" if elsewhere else "storage" for server in servers}
    roles |= dict.fromkeys(exporters, "storage")
    if "storage" not in roles.values():
        roles[UNKNOWN if places or not in_pool else next(iter(in_pool))] = "storage"
    workers = [machine.host for machine in machines if machine.network != SERVERS]
    for number, (host, role) in enumerate(roles.items(), 1):
        yield f"\n[samplers.{role}-{number}]"
        alone = "CHANGE: it is the only worker, too, and reads of itself by lo, which is not counted"
        doubt = "CHANGE: the storage server whose interface is to be counted" if host == UNKNOWN else ""
        yield _line(f'host = "{host}"', doubt or (alone if workers == [host] and servers else ""))
        yield _line('interface = "auto"', "GUESSED: that of the default route")
        guess = "GUESSED: the files are on its own disks; of a redirector name the data servers instead"
        yield _line(f'role = "{role}"', guess if role == "storage" and servers and not doubt else "")
        if host not in in_pool:
            yield _line('via = "ssh"', "GUESSED: not in the pool. No trial is VALID until it joins, by")
            yield _line("", "site-configs/htcondor/50-tierbench-server.conf")
