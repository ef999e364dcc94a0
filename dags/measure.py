"""What the rates of a trial are of, and which way its bytes go: it follows from what its client does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Direction = Literal["sent", "received"]

SENT: Direction = "sent"
RECEIVED: Direction = "received"
COUNTERS: dict[str, str] = {SENT: "tx_bytes", RECEIVED: "rx_bytes"}  # of an interface
OF_DISKS: dict[str, str] = {SENT: "disk_read_bytes", RECEIVED: "disk_written_bytes"}  # of a machine
OF_OWN_DISKS: dict[str, str] = {SENT: "disk_own_read_bytes", RECEIVED: "disk_own_written_bytes"}  # of a host of several
OTHER_WAY: dict[str, Direction] = {SENT: RECEIVED, RECEIVED: SENT}


@dataclass(frozen=True)
class Measure:
    """What the storage's interfaces, or disks, do with a trial's bytes, who has them at the other end, what counts."""

    did: str  # what a client has done, in words
    direction: Direction = SENT
    far_end: Literal["workers", "storage", "none"] = "workers"  # third-party copies go from storage to storage
    of: Literal["bytes", "operations"] = "bytes"
    by: Literal["interfaces", "disks", "own disks"] = "interfaces"  # what of the storage counts them

    @property
    def counters(self) -> dict[str, str]:
        """What counts the bytes of each direction."""
        return {"interfaces": COUNTERS, "disks": OF_DISKS, "own disks": OF_OWN_DISKS}[self.by]

    @property
    def counter(self) -> str:
        """Of the storage's interfaces, or disks."""
        return self.counters[self.direction]

    @property
    def on_disks(self) -> Measure:
        """The same where the workers' own disks are the storage: their counters tell, and nothing is on a wire."""
        return replace(self, by="disks", far_end="none")

    @property
    def on_own_disks(self) -> Measure:
        """That where hosts share a machine, whose disks tell of each host what it had of them."""
        return replace(self.on_disks, by="own disks")

    @property
    def far_direction(self) -> Direction:
        return OTHER_WAY[self.direction]

    @property
    def far_counter(self) -> str:
        """Of the interfaces at the other end."""
        return self.counters[self.far_direction]


# By what a client declares to do; trial.json has its declaration.
MEASURES = {
    "reads": Measure("read"),
    "writes": Measure("wrote", direction=RECEIVED),
    "copies": Measure("copied", far_end="storage"),
    "metadata": Measure("did", of="operations"),
}
