"""The site file of a testbed as it was brought up: what its links carry is what it was told to make them carry."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from tierbench.spec import build
from tierbench.testbed.services import topology
from tierbench.testbed.services.xrootd import served
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import NETWORKS

INSTALLED = "/etc/tierbench/testbed.toml"  # on each host: there the name `testbed` means this file


def offered(site: str, settings: Settings) -> str:
    """A site file's text in which the testbed's settings, and the links that follow from them, are these.

    An access method is left out where such a testbed lacks one of the servers that it leads to, with what is sampled
    for it alone, and no host that it lacks is told to change anything. The scale goes with the storage's rate.
    """
    tables = tomllib.loads(site)
    hosts = topology(settings).hosts
    there = {f"{name}.{nic.network.zone}" for host in hosts for nic, name in host.names.items()}
    of_file = build(Settings, tables.get("testbed", {}), "the testbed's site file", "testbed").rates_mbps.storage
    tables["scale"] = float(f"{tables['scale'] * settings.rates_mbps.storage / of_file:g}")
    tables |= {"testbed": asdict(settings), "links": links(settings)}
    ports, methods, samplers = served(topology(settings)), tables.get("access", {}), tables.get("samplers", {})
    closed = {name for name, access in methods.items() if not _is_open(access, there, ports)}
    tables["access"] = {name: access for name, access in methods.items() if name not in closed}
    sampled_for = {name: set(sampler.get("access", ())) for name, sampler in samplers.items()}
    tables["samplers"] = {name: samplers[name] for name, own in sampled_for.items() if not own or own - closed}
    for condition in tables.get("conditions", {}).values():
        present = [host for host in condition.get("hosts", ()) if _is_there(host, there)]
        condition.update({"hosts": present} if present else {})  # where none is there, nothing asks for it
    return "\n".join(_toml(tables)) + "\n"


def _is_there(host: str, there: set[str]) -> bool:
    """Whether a host is one of these, or none of the testbed's."""
    return host in there or not host.endswith(tuple(f".{network.zone}" for network in NETWORKS))


def _is_open(access: Mapping[str, Any], there: set[str], ports: Mapping[str, set[int]]) -> bool:
    """Whether the testbed has all servers that an access method leads to: hosts of these names, and their ports."""
    doors = [urlsplit(prefix) for prefix in (access.get("prefix", ""), *access.get("further", ()))]
    proxies = [proxy.partition(":")[0] for proxy in (access.get("proxy", ""), *access.get("further_proxies", ()))]
    listening = all(
        door.port in ports[door.hostname]
        for door in doors
        if door.scheme in ("root", "https") and door.hostname in ports
    )
    return listening and all(_is_there(host, there) for host in (*(door.hostname or "" for door in doors), *proxies))


def links(settings: Settings) -> dict[str, Any]:
    """What the links of such a testbed can carry, in Mb/s, and its round-trip time."""
    rate = settings.rates_mbps
    return {
        "wan": rate.wan, "storage": rate.storage, "metadata": rate.metadata, "gateway": rate.gateway,
        "door": rate.server, "worker": rate.worker, "rtt_ms": settings.rtt_ms,
    }  # fmt: skip


def _toml(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The lines of a table, with its tables after it."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ("", f"[{prefix}{_key(key)}]")
            yield from _toml(value, f"{prefix}{_key(key)}.")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(own)}' for key, own in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
