"""What a sampled host does on the way of the data, also where an earlier version called it otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

FORMERLY = {"xrootd": "door"}  # when no other server was thought of


def role_of(name: str) -> str:
    """The role that a record names."""
    return FORMERLY.get(name, name)


def by_role(stated: Mapping[str, T]) -> dict[str, T]:
    """What a record has by roles, as a site's [links]."""
    return {role_of(name): value for name, value in stated.items()}
