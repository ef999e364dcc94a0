"""How the clients of a trial begin: at one instant, as HTCondor starts them, one by one, or one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tierbench.starts import EVERY, NATURAL

# What these are is said where those that run on the access point and on workers read it, too: tierbench/starts.py
Kind = Literal["together", "natural", "in-turn"]


@dataclass(frozen=True, kw_only=True)
class Every:
    """Client k begins so many seconds after client k - 1, whatever has become of that."""

    every_s: float = field(metadata={"bounds": (0.05, 86_400)})

    @property
    def kind(self) -> str:
        return EVERY


Start = Kind | Every


def kind_of(start: Start) -> str:
    return start.kind if isinstance(start, Every) else start


def has_gate(start: Start) -> bool:
    """Whether clients wait until they are told to begin."""
    return start != NATURAL


def start_record(start: Start) -> dict[str, Any]:
    """What trial.json says of it."""
    return {"kind": kind_of(start), "every_s": start.every_s if isinstance(start, Every) else 0.0}
