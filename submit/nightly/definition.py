"""A nightly: which experiment is measured when at which site, beside which control, who is notified; and its lock."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tierbench import files, json_files, names
from tierbench.checked_text import Key
from tierbench.errors import BusyError, ConfigError
from tierbench.spec import unknown_name
from tierbench.submit.nightly.schedule import Calendar, parse_calendar

HOME_VARIABLE = "TIERBENCH_NIGHTS"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Terms:
    """nightly.json: what `tierbench nightly add` was asked for, and whether it is paused."""

    site: str
    at: str
    days: str
    by: str  # "condor" or "systemd"
    control: str  # a configuration's name, or "" where only the links are
    since_wall_s: float  # nights before that are not expected
    paused: bool = False
    webhook: str = ""  # its host; the URL is in a file of its own
    mail: str = ""
    textfile: str = ""
    history: str = ""  # the database of whoever has added it
    patience_s: float = 1800.0  # how long a night waits for a pool that does not answer
    size_pct: float = 5.0  # what is less is no change
    floors: dict[str, float] = dataclasses.field(default_factory=dict)  # the least rate of a configuration


class Nightly:
    """A nightly by its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def name(self) -> str:
        return self.directory.name

    @cached_property
    def terms(self) -> Terms:
        return json_files.read_as(Terms, self.directory / names.NIGHTLY)

    @property
    def calendar(self) -> Calendar:
        return parse_calendar(self.terms.at, self.terms.days)

    @property
    def experiment(self) -> Path:
        return self.directory / names.NIGHTLY_EXPERIMENT

    @property
    def starter(self) -> Path:
        return self.directory / names.NIGHTLY_STARTER

    def change(self, terms: Terms) -> None:
        """Write the terms, whole or not at all."""
        content = {"format": 1, **dataclasses.asdict(terms)}
        files.replace(self.directory / names.NIGHTLY, json.dumps(content, indent=1) + "\n")
        self.__dict__.pop("terms", None)


def duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.0f} h" if minutes >= 120 else f"{minutes:.0f} min"


def home() -> Path:
    """Where the nightlies of this user are."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / "tierbench-nights").absolute()


def all_nightlies() -> Iterator[Nightly]:
    for path in sorted(home().glob(f"*/{names.NIGHTLY}")):
        yield Nightly(path.parent)


def find_nightly(name: str) -> Nightly:
    nightlies = {nightly.name: nightly for nightly in all_nightlies()}
    if name not in nightlies:
        raise ConfigError(f"{unknown_name('nightly', name, nightlies)}; they are in {home()} (${HOME_VARIABLE})")
    return nightlies[name]


def new_nightly(name: str) -> Nightly:
    """A directory for one that is not there yet."""
    if not Key.fits(name):
        raise ConfigError(f"--name {name}: must be {Key.must_be}")
    nightly = Nightly(home() / name)
    if (nightly.directory / names.NIGHTLY).exists():
        raise ConfigError(f"{name}: is there already, in {nightly.directory}; `tierbench nightly remove {name}` first")
    nightly.directory.mkdir(parents=True, exist_ok=True)
    return nightly


@contextmanager
def locked(place: Path, patience_s: float = 30.0) -> Iterator[None]:
    """The lock of a nightly's directory, so that one process at a time starts, finishes or changes a night; or of all.

    That of all nightlies of this user, in `home()`, is held for a moment as a night is put on record.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(place / names.NIGHTLY_LOCK, patience_s))
        except BlockingIOError:
            raise BusyError(f"{place.name}: another `tierbench nightly` is starting or finishing a night") from None
        yield
