"""What the rates of a trial are of, and which way its bytes go: it follows from what its client does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["sent", "received"]

SENT: Direction = "sent"
RECEIVED: Direction = "received"
COUNTERS: dict[str, str] = {SENT: "tx_bytes", RECEIVED: "rx_bytes"}
OTHER_WAY: dict[str, Direction] = {SENT: RECEIVED, RECEIVED: SENT}


@dataclass(frozen=True)
class Measure:
    """What the interfaces of the storage do with a trial's bytes, who has them at the other end, and what counts."""

    did: str  # what a client has done, in words
    direction: Direction = SENT
    far_end: Literal["workers", "storage"] = "workers"  # third-party copies go from storage to storage
    of: Literal["bytes", "operations"] = "bytes"

    @property
    def counter(self) -> str:
        """Of the storage's interfaces."""
        return COUNTERS[self.direction]

    @property
    def far_direction(self) -> Direction:
        return OTHER_WAY[self.direction]

    @property
    def far_counter(self) -> str:
        """Of the interfaces at the other end."""
        return COUNTERS[self.far_direction]


# By what a client declares to do; trial.json has its declaration.
MEASURES = {
    "reads": Measure("read"),
    "writes": Measure("wrote", direction=RECEIVED),
    "copies": Measure("copied", far_end="storage"),
    "metadata": Measure("did", of="operations"),
}
