"""The clients' files: those that come with tierbench, and the users' own."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tierbench.wrappers.clients
from tierbench import files
from tierbench.checked_text import LocalFile, printable, shown
from tierbench.dags.client_apart import load_as_nobody
from tierbench.errors import ConfigError
from tierbench.spec import suggestion
from tierbench.wrappers.child import UsageError
from tierbench.wrappers.client import PACKAGE, Client, client_in

FOLDER = Path(tierbench.wrappers.clients.__file__).parent
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class ClientFile:
    """A client's file, and what it declares."""

    name: str
    path: Path
    client: type[Client]

    @property
    def module(self) -> str:
        """What it is called where it runs."""
        return f"{PACKAGE}.{self.name}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def ships(self) -> list[Path]:
        """The files that travel with it."""
        return [self.path.parent / name for name in self.client.ships]


@cache
def shipped_clients() -> dict[str, ClientFile]:
    """The clients that come with tierbench, by their names."""
    return {path.stem: _loaded(path) for path in sorted(FOLDER.glob("[a-z]*.py"))}


def is_path(client: str) -> bool:
    """Whether a client is a file of the user's and no name."""
    return "/" in client or client.endswith(".py")


def find_client_file(name_or_path: str) -> ClientFile:
    """The client that an experiment names, or that lies where it says."""
    shipped = shipped_clients()
    if not LocalFile.fits(name_or_path):
        raise ConfigError(f"a client must be a name or {LocalFile.must_be}, not {shown(name_or_path)}")
    if not is_path(name_or_path):
        if name_or_path not in shipped:
            meant = suggestion(name_or_path, shipped)
            raise ConfigError(f"there is no client {shown(name_or_path)}{meant}; one of your own is given by its path")
        return shipped[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a client of your own is a Python file (docs/clients.md)")
    if not NAME.fullmatch(path.stem) or path.suffix != ".py":
        raise ConfigError(f"{path}: a client's file is called by small letters, digits and _, like my_client.py")
    if path.stem in shipped:
        raise ConfigError(f'{path}: a client "{path.stem}" comes with tierbench; call this one otherwise')
    file = _loaded(path)
    absent = [shipped for shipped in file.ships if not shipped.is_file() or shipped.parent != path.parent]
    if absent:
        raise ConfigError(f"{path}: ships {absent[0].name}, which is not beside it")
    return file


def as_parts(files: Iterable[ClientFile]) -> dict[str, str]:
    """The clients as parts of a script that is joined."""
    return {file.module: file.text for file in files}


def allowed() -> Path:
    """The file that lists the clients which this user has allowed, by their digests, and folders of clients."""
    return Path(os.environ.get("TIERBENCH_ALLOWED") or Path.home() / ".config/tierbench/allowed")


def digest_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _ask_about(path: Path, text: bytes) -> None:
    """A client is a program, which runs here when it is read: one that nobody has allowed yet is asked about."""
    digest, lines, lists = digest_of(text), [], allowed()
    with contextlib.suppress(FileNotFoundError):
        lines = files.read_text(lists).split("\n")
    folders = map(str, path.resolve().parents)
    if digest in (line.partition(" ")[0] for line in lines) or any(folder in lines for folder in folders):
        return
    who = "nobody" if os.geteuid() == 0 else "you"
    asked = f"{printable(str(path))}: is a program that has not been allowed yet, and would run here as {who} when read"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"{asked}; read it, then allow it at a terminal, or by a line in {lists}: {digest}")
    print(f"{asked}. Allow it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError(f"{path}: was not allowed, so nothing was read of it")
    lists.parent.mkdir(parents=True, exist_ok=True)
    files.replace(lists, "\n".join([*filter(None, lines), f"{digest} {printable(str(path))}", ""]), 0o600)


def _loaded(path: Path) -> ClientFile:
    name = f"{PACKAGE}.{path.stem}"
    if path.parent == FOLDER:
        return ClientFile(path.stem, path, client_in(importlib.import_module(name)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: S101 - of a file called .py there is one
    module = importlib.util.module_from_spec(spec)
    text = files.read_bytes(path)
    _ask_about(path, text)

    def load() -> type[Client]:
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - what was allowed, and no cached other
        return client_in(module)

    try:
        client = load_as_nobody(load, path) if os.geteuid() == 0 else load()
        return ClientFile(path.stem, path, client)
    except ConfigError:
        raise
    except UsageError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:  # whatever a user's own program can run into
        raise ConfigError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from None
