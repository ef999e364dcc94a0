"""The site file of a testbed as it was brought up: what its links carry is what it was told to make them carry."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from tierbench.errors import ConfigError
from tierbench.spec import build
from tierbench.testbed.services import topology
from tierbench.testbed.services.xrootd import served
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import NETWORKS

INSTALLED = "/etc/tierbench/testbed.toml"  # on each host: there the name `testbed` means this file
TABLE = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_.-]+)[^\n]*\]\s*(#.*)?$")
SCALE = re.compile(r"^(scale\s*=\s*)[0-9.]+", re.MULTILINE)
HOSTS = re.compile(r"^hosts\s*=\s*(\[.*\])")
ARRANGED = ("testbed", "links")


def offered(site: str, settings: Settings) -> str:
    """A site file's text in which the testbed's settings, and the links that follow from them, are these.

    A way is left out where such a testbed lacks one of the servers that it leads to, and no host that it lacks is told
    to change anything.
    """
    closed = [*(f"access.{name}" for name in _closed(site, settings)), *_unsampled(site, settings)]
    kept, left_out, arranged, there = [], False, False, _hosts(settings)
    for line in site.splitlines():
        table = TABLE.match(line)
        if table:
            left_out = any(table[1] == name or table[1].startswith(f"{name}.") for name in (*ARRANGED, *closed))
            arranged = table[1].startswith("conditions.")
        hosts = HOSTS.match(line) if arranged else None
        kept += [] if left_out else [_those_of(hosts[1], there) if hosts else line]
    text = "\n".join([*kept, "", *_table("testbed", asdict(settings)), *_table("links", links(settings))]) + "\n"
    if _rest(text, settings) != _rest(site, settings):
        raise ConfigError(
            "the testbed's site file: write [testbed] and [links] as tables, with a line for each setting"
        )
    return SCALE.sub(lambda found: f"{found[1]}{scale(site, settings):g}", text, count=1)


def scale(site: str, settings: Settings) -> float:
    """The scale of its rates, which goes with them: the file's own is that of the storage's rate in the file."""
    tables = tomllib.loads(site)
    of_file = build(Settings, tables.get("testbed", {}), "the testbed's site file", "testbed").rates_mbps.storage
    return float(tables["scale"]) * settings.rates_mbps.storage / of_file


def _closed(site: str, settings: Settings) -> list[str]:
    """The ways to servers of the testbed's that it has not, with such settings."""
    there, closed, ports = _hosts(settings), [], served(topology(settings))

    def shut(prefix: str) -> bool:
        door = urlsplit(prefix)
        known = ports.get(door.hostname or "") if door.scheme == "root" else None
        return known is not None and door.port not in known

    for way, access in tomllib.loads(site).get("access", {}).items():
        doors = {urlsplit(prefix).hostname for prefix in (access.get("prefix", ""), *access.get("further", ()))}
        proxies = [access.get("proxy", ""), *access.get("further_proxies", ())]
        doors |= {proxy.partition(":")[0] for proxy in proxies}
        absent = any(door and _is_ours(door) and door not in there for door in doors)
        closed += [way] if absent or any(map(shut, (access.get("prefix", ""), *access.get("further", ())))) else []
    return closed


def _unsampled(site: str, settings: Settings) -> list[str]:
    """The tables of what is sampled for such ways alone."""
    closed, samplers = set(_closed(site, settings)), tomllib.loads(site).get("samplers", {})
    ways = {name: set(one.get("access", ())) for name, one in samplers.items()}
    return [f"samplers.{name}" for name, served in ways.items() if served and served <= closed]


def _hosts(settings: Settings) -> set[str]:
    """All interfaces' names."""
    return {f"{name}.{nic.network.zone}" for host in topology(settings).hosts for nic, name in host.names.items()}


def _is_ours(host: str) -> bool:
    return host.endswith(tuple(f".{network.zone}" for network in NETWORKS))


def _those_of(hosts: str, there: set[str]) -> str:
    """A condition's line of hosts, with those that are there; where none is it stays, for nothing asks for it."""
    named = tomllib.loads(f"hosts = {hosts}")["hosts"]
    found = [host for host in named if not _is_ours(host) or host in there] or named
    return f"hosts = {json.dumps(found)}"


def _rest(text: str, settings: Settings) -> dict[str, Any] | None:
    """All of a site file that a testbed does not arrange; None if it is no TOML."""
    try:
        tables = tomllib.loads(text)
        closed, unsampled = _closed(text, settings), _unsampled(text, settings)
    except tomllib.TOMLDecodeError:
        return None
    ways = {way: access for way, access in tables.get("access", {}).items() if way not in closed}
    sampled = {name: one for name, one in tables.get("samplers", {}).items() if f"samplers.{name}" not in unsampled}
    words = {name: {**one, "hosts": None} for name, one in tables.get("conditions", {}).items()}
    changed = {"access": ways, "samplers": sampled, "conditions": words}
    return {name: table for name, table in tables.items() if name not in ARRANGED} | changed


def links(settings: Settings) -> dict[str, Any]:
    """What the links of such a testbed can carry, in Mb/s, and its round-trip time."""
    rate = settings.rates_mbps
    return {
        "wan": rate.wan, "storage": rate.storage, "metadata": rate.metadata, "gateway": rate.gateway,
        "door": rate.server, "worker": rate.worker, "rtt_ms": settings.rtt_ms,
    }  # fmt: skip


def _table(name: str, values: dict[str, Any]) -> Iterator[str]:
    """A table of numbers and plain words as TOML, its tables after it."""
    yield f"[{name}]"
    for key, value in values.items():
        if not isinstance(value, dict):
            yield f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
    yield ""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _table(f"{name}.{key}", value)
