"""What a trial's last step says of it, as whoever reads its folder finds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tierbench import json_files, names
from tierbench.dags.repeats import SKIPPED
from tierbench.json_files import Damaged

DAMAGED = "damaged"


@dataclass(frozen=True)
class Outcome:
    """outcome.json: complete or not, and why."""

    state: str = "complete"
    reasons: list[str] = field(default_factory=list)
    again: bool = False  # it will be tried once more
    left: list[str] = field(default_factory=list)  # of what it wrote, what could not be removed

    @property
    def well(self) -> bool:
        """Whether the trial has been measured, or need not be."""
        return self.state in ("complete", SKIPPED)


def read_outcome(trial: Path) -> Outcome | None:
    """The outcome of the trial in this folder; None where it has none yet."""
    try:
        return json_files.read_as(Outcome, trial / names.OUTCOME, names.OUTCOME)
    except FileNotFoundError:
        return None
    except Damaged as error:
        return Outcome(DAMAGED, [str(error)])
