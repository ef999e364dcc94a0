"""The site file of a testbed as it was brought up: what its links carry is what it was told to make them carry."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from tierbench.errors import ConfigError
from tierbench.spec import build
from tierbench.testbed.services import topology
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import NETWORKS

INSTALLED = "/etc/tierbench/testbed.toml"  # on each host: there the name `testbed` means this file
TABLE = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_.-]+)[^\n]*\]\s*(#.*)?$")
SCALE = re.compile(r"^(scale\s*=\s*)[0-9.]+", re.MULTILINE)
ARRANGED = ("testbed", "links")


def offered(site: str, settings: Settings) -> str:
    """A site file's text in which the testbed's settings, and the links that follow from them, are these.

    A way is left out where such a testbed lacks one of the servers that it leads to.
    """
    closed = [f"access.{name}" for name in _closed(site, settings)]
    kept, left_out = [], False
    for line in site.splitlines():
        table = TABLE.match(line)
        if table:
            left_out = any(table[1] == name or table[1].startswith(f"{name}.") for name in (*ARRANGED, *closed))
        kept += [] if left_out else [line]
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
    hosts = topology(settings).hosts
    there = {f"{name}.{nic.network.zone}" for host in hosts for nic, name in host.names.items()}
    closed = []
    for way, access in tomllib.loads(site).get("access", {}).items():
        doors = {urlsplit(prefix).hostname for prefix in (access.get("prefix", ""), *access.get("further", ()))}
        own = {door for door in doors if door and door.endswith(tuple(f".{network.zone}" for network in NETWORKS))}
        closed += [way] if own - there else []
    return closed


def _rest(text: str, settings: Settings) -> dict[str, Any] | None:
    """All of a site file that a testbed does not arrange; None if it is no TOML."""
    try:
        tables = tomllib.loads(text)
        closed = _closed(text, settings)
    except tomllib.TOMLDecodeError:
        return None
    ways = {way: access for way, access in tables.get("access", {}).items() if way not in closed}
    return {name: table for name, table in tables.items() if name not in ARRANGED} | {"access": ways}


def links(settings: Settings) -> dict[str, Any]:
    """What the links of such a testbed can carry, in Mb/s, and its round-trip time."""
    rate = settings.rates_mbps
    return {
        "wan": rate.wan, "storage": rate.storage, "metadata": rate.metadata, "gateway": rate.server,
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
