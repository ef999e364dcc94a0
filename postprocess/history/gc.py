"""Removes the samples of old nights, which are nearly all of what they take on the disk; their tables stay for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tierbench import names
from tierbench.postprocess.history.rows import MEASURED, Night

LARGE = (f"{names.TRIALS}/*/{names.SAMPLES}/*.samples", f"{names.TRIALS}/*/{names.SAMPLES_CSV}", names.SAMPLES_CSV)


@dataclass(frozen=True)
class Old:
    """A night whose samples can go."""

    night: Night
    files: tuple[Path, ...]
    bytes: int


def old_nights(nights: list[Night], before_ns: int) -> Iterator[Old]:
    """The measured nights that ended before a time, with what is left of their samples."""
    for night in nights:
        directory = Path(night.directory)
        ended = night.ended_ns or night.planned_ns
        whole = (directory / names.NIGHT).is_file() and (directory / names.TRIALS_CSV).is_file()
        if night.outcome != MEASURED or ended >= before_ns or not night.directory or not whole:
            continue
        files = tuple(path for pattern in LARGE for path in directory.glob(pattern) if path.is_file())
        if files:
            yield Old(night, files, sum(path.stat().st_size for path in files))


def collect(old: Old) -> None:
    """Remove them; the run says first that it has none, so that nobody makes its tables anew of nothing."""
    (Path(old.night.directory) / names.NO_SAMPLES).touch()
    for path in old.files:
        path.unlink(missing_ok=True)
