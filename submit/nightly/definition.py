"""A nightly: which experiment is measured when at which site, beside which control, and who is told."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tierbench import json_files, names
from tierbench.checked_text import Key
from tierbench.definitions import unknown
from tierbench.errors import ConfigError
from tierbench.submit.nightly.calendar import Calendar, calendar

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
        return calendar(self.terms.at, self.terms.days)

    @property
    def experiment(self) -> Path:
        return self.directory / names.NIGHTLY_EXPERIMENT

    @property
    def starter(self) -> Path:
        return self.directory / names.NIGHTLY_STARTER

    def change(self, terms: Terms) -> None:
        """Write the terms, whole or not at all."""
        unfinished = self.directory / f".{names.NIGHTLY}.{os.getpid()}"
        unfinished.write_text(json.dumps({"format": 1, **dataclasses.asdict(terms)}, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.directory / names.NIGHTLY)
        self.__dict__.pop("terms", None)


def home() -> Path:
    """Where the nightlies of this user are."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / "tierbench-nights").absolute()


def all_nightlies() -> Iterator[Nightly]:
    for path in sorted(home().glob(f"*/{names.NIGHTLY}")):
        yield Nightly(path.parent)


def find_nightly(name: str) -> Nightly:
    known = {nightly.name: nightly for nightly in all_nightlies()}
    if name not in known:
        raise ConfigError(f"{unknown('nightly', name, known)}; they are in {home()} (${HOME_VARIABLE})")
    return known[name]


def new_nightly(name: str) -> Nightly:
    """A directory for one that is not there yet."""
    if not Key.fits(name):
        raise ConfigError(f"--name {name}: must be {Key.must_be}")
    nightly = Nightly(home() / name)
    if (nightly.directory / names.NIGHTLY).exists():
        raise ConfigError(f"{name}: is there already, in {nightly.directory}; `tierbench nightly remove {name}` first")
    nightly.directory.mkdir(parents=True, exist_ok=True)
    return nightly
