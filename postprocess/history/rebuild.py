"""The history made again from run directories: what they say takes the place of what was there of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.json_files import Damaged
from tierbench.postprocess.history.of_run import night_of
from tierbench.postprocess.history.rows import Night
from tierbench.postprocess.history.store import DamagedHistory, History
from tierbench.postprocess.tables.load_run import Say


def add(history: History, run: Path, say: Say, nightly: str = "", control: str = "") -> Night:
    """One run's night; as often as one likes."""
    night, measured = night_of(run, nightly, control, say)
    history.record(night, measured)
    return night


def rebuild(place: Path, directories: Sequence[Path], say: Say, nightly: str = "", control: str = "") -> int:
    """Put all runs at or below these directories into the history; one that is damaged is put aside first.

    What only the history knows (missed nights, acknowledgements, what was sent) stays, unless it was damaged.
    """
    runs = [run for directory in directories for run in _runs(directory)]
    if not runs:
        raise ConfigError(f"{', '.join(map(str, directories))}: no run directory there (none has a {names.PLAN})")
    count = 0
    with _opened(place, say) as history:
        for run in sorted(runs):
            try:
                night = add(history, run, say, nightly, control)
            except (ConfigError, Damaged) as error:
                say(f"left out: {error}")
            else:
                count += 1
                say(f"{run}: {night.outcome}, {night.nightly} of {night.day}")
    return count


def _runs(directory: Path) -> Iterator[Path]:
    if (directory / names.PLAN).is_file():
        yield directory
    else:
        yield from (path.parent for path in directory.glob(f"*/{names.PLAN}"))


def _opened(place: Path, say: Say) -> History:
    try:
        history = History(place)
        if (said := history.rows("PRAGMA quick_check(1)")) != [("ok",)]:
            history.database.close()
            raise DamagedHistory(f"{place}: {said[0][0]}")
    except DamagedHistory as error:
        aside = put_aside(place)
        say(f"{error}; it is {aside} now")
        return History(place)
    return history


def put_aside(place: Path) -> Path:
    """Give a damaged database another name, with what SQLite keeps beside it."""
    aside = place.with_name(f"{place.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        place.rename(aside)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                place.with_name(place.name + suffix).rename(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise TierbenchError(f"{place}: cannot be put aside: {error.strerror}") from None
    return aside
