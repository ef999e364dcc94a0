"""What an experiment demands of a testbed beside the usual one: settings, as data beside it in NAME.testbed.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tierbench.dags.experiment import SHIPPED as EXPERIMENTS
from tierbench.dags.experiment import lineage
from tierbench.errors import BusyError
from tierbench.spec import build, find_definition, read_toml
from tierbench.testbed.settings import Settings

SUFFIX = ".testbed.toml"


def demands(experiment: str) -> dict[str, Any]:
    """The settings that an experiment, or one that it extends, demands; by the nearest one that says so."""
    for path in lineage(find_definition("experiment", EXPERIMENTS, experiment)):
        beside = path.with_name(f"{path.stem}{SUFFIX}")
        if beside.is_file():
            settings = read_toml(beside)
            build(Settings, settings, str(beside))
            return settings
    return {}


def with_demands(settings: Settings, needed: Mapping[str, Any], source: str) -> Settings:
    """The settings with what is demanded."""
    return build(Settings, _merged(asdict(settings), needed), source, "testbed")


def check_demands(settings: Settings, needed: Mapping[str, Any], name: str) -> None:
    """Raise unless a testbed that is up is what is demanded."""
    if with_demands(settings, needed, name) != settings:
        lacking = " ".join(f"--set {key}={value}" for key, value in _flat(needed))
        raise BusyError(
            f"testbed {name!r} is up, and is not what this experiment needs ({lacking}); give --name another one, which"
            f" is brought up so, or take it down first"
        )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    return {**below, **{
        key: _merged(below[key], value) if isinstance(value, Mapping) else value for key, value in above.items()
    }}  # fmt: skip


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    return [
        pair
        for key, value in table.items()
        for pair in (_flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)])
    ]
