"""Definitions that come with the package, or lie in files of the user's: how they are found and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tierbench.checked_text import Key, printable, shown
from tierbench.errors import ConfigError
from tierbench.spec import suggestion

NAMED = "a name (see `tierbench list`), or the path of a TOML file of your own"


def find(kind: str, folder: Path, name_or_path: str) -> Path:
    """The file that comes with tierbench under this name; what looks like a path is one."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    known = shipped(folder)
    if name_or_path not in known:
        raise ConfigError(
            f'there is no {kind} "{name_or_path}"{suggestion(name_or_path, known)};'
            " a file of your own is given by its path"
        )
    return folder / f"{name_or_path}.toml"


def shipped(folder: Path) -> list[str]:
    """The names of the definitions in a folder of the package; what lies beside one has a dot in its name."""
    return sorted(path.stem for path in folder.glob("*.toml") if "." not in path.stem)


def misnamed(key: str, names: Iterable[str]) -> Iterator[str]:
    """What is wrong with names that have to serve in file names, DAG nodes and CSV columns."""
    for name in names:
        if not Key.fits(name):
            yield f"{key}.{printable(name)}: must be {Key.must_be}"


def unknown(key: str, name: str, known: Iterable[str]) -> str:
    """What is wrong with a reference to something that is not there."""
    return f"{key}: there is no {shown(name)}{suggestion(name, known)}"
