"""Which night a run directory is: the night.json that the nightly leaves in it. Loads neither numpy nor scipy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tierbench import json_files, names

FORMAT = 1


@dataclass(frozen=True)
class OfNight:
    """night.json of a run directory: which night it is, and what is its control."""

    nightly: str
    planned_wall_ns: int
    format: int = FORMAT
    rerun: bool = False
    control: str = ""


def leave(run: Path, of: OfNight) -> None:
    """Say in the run directory which night it is."""
    (run / names.NIGHT).write_text(json.dumps(asdict(of), indent=1) + "\n", encoding="utf-8")


def night_mark(run: Path, nightly: str, control: str) -> OfNight:
    try:
        return json_files.read_as(OfNight, run / names.NIGHT)
    except FileNotFoundError:
        return OfNight(nightly, 0, control=control)
