"""The site file of a testbed as it was brought up: what its links carry is what it was told to make them carry."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tierbench.errors import ConfigError
from tierbench.spec import build
from tierbench.testbed.settings import Settings

INSTALLED = "/etc/tierbench/testbed.toml"  # on each host: there the name `testbed` means this file
TABLE = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_-]+)[^\n]*\]\s*(#.*)?$")
SCALE = re.compile(r"^(scale\s*=\s*)[0-9.]+", re.MULTILINE)
ARRANGED = ("testbed", "links")


def offered(site: str, settings: Settings) -> str:
    """A site file's text in which the testbed's settings, and the links that follow from them, are these."""
    kept, arranged = [], False
    for line in site.splitlines():
        table = TABLE.match(line)
        arranged = table[1] in ARRANGED if table else arranged
        kept += [] if arranged else [line]
    text = "\n".join([*kept, "", *_table("testbed", asdict(settings)), *_table("links", links(settings))]) + "\n"
    if _rest(text) != _rest(site):
        raise ConfigError(
            "the testbed's site file: write [testbed] and [links] as tables, with a line for each setting"
        )
    return SCALE.sub(lambda found: f"{found[1]}{scale(site, settings):g}", text, count=1)


def scale(site: str, settings: Settings) -> float:
    """The scale of its rates, which goes with them: the file's own is that of the storage's rate in the file."""
    tables = tomllib.loads(site)
    of_file = build(Settings, tables.get("testbed", {}), "the testbed's site file", "testbed").rates_mbps.storage
    return float(tables["scale"]) * settings.rates_mbps.storage / of_file


def _rest(text: str) -> dict[str, Any] | None:
    """All of a site file that a testbed does not arrange; None if it is no TOML."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    return {name: table for name, table in tables.items() if name not in ARRANGED}


def links(settings: Settings) -> dict[str, Any]:
    """What the links of such a testbed can carry, in Mb/s, and its round-trip time."""
    rate = settings.rates_mbps
    return {
        "wan": rate.wan, "storage": rate.storage, "gateway": rate.server, "door": rate.server,
        "worker": rate.worker, "rtt_ms": settings.rtt_ms,
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
