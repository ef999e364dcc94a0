"""What caches of software held before and after a trial, as told by the hosts that were to empty or to fill them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tierbench.condition_state import ConditionState

COLD, WARM = "cold", "warm"


@dataclass(frozen=True)
class SoftwareCache:
    """A host's cache, that was to be cold or warm; None where nothing was told."""

    host: str
    value: str
    folder: str  # what is read through it
    bytes_before: int | None
    bytes_after: int | None

    @property
    def fetched(self) -> int | None:
        """What it took in meanwhile."""
        if self.bytes_before is None or self.bytes_after is None:
            return None
        return self.bytes_after - self.bytes_before


def software_caches(conditions: Iterable[ConditionState]) -> list[SoftwareCache]:
    """Those of a trial's conditions that are about a cache."""
    return [
        SoftwareCache(
            one.condition.host,
            one.condition.value,
            str(one.cache_before.get("folder") or ""),
            _number(one.cache_before.get("bytes")),
            _number(one.cache_after.get("bytes")),
        )
        for one in conditions
        if one.condition.value in (COLD, WARM)
    ]


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
