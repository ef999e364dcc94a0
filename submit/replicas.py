"""Make and verify the unique files that an experiment's clients read, on a host that may write the storage."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tierbench.wrappers
from tierbench.dags import names
from tierbench.dags.replicas import CopiedReplicas, HiggsReplicas, RandomReplicas, Replicas, TreeReplicas
from tierbench.errors import TierbenchError
from tierbench.submit import programs

MAKE_TREE = Path(tierbench.wrappers.__file__).with_name("make_tree.C")
BLOCK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """What the catalogue says of one replica."""

    name: str
    bytes: int
    sha256: str
    events: int | None = None


class Catalogue:
    """The list of a set's replicas beside them; what is not in it does not count as made."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self._path = directory / names.CATALOGUE
        self.entries: dict[str, Entry] = {}
        if self._path.exists():
            content = json.loads(self._path.read_text(encoding="utf-8"))
            self.entries = {entry["name"]: Entry(**entry) for entry in content["files"]}

    def add(self, entry: Entry) -> None:
        self.entries[entry.name] = entry
        files = [dataclasses.asdict(self.entries[name]) for name in sorted(self.entries)]
        unfinished = self._path.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps({"format": 1, "set": self.name, "files": files}, indent=1) + "\n")
            unfinished.replace(self._path)
        except OSError as error:
            raise TierbenchError(f"{self._path}: cannot be written: {error.strerror}") from None

    def lacks(self, name: str) -> bool:
        """Whether a replica still has to be made: not listed, gone, or of another size than listed."""
        entry, path = self.entries.get(name), self.directory / name
        return entry is None or not path.is_file() or path.stat().st_size != entry.bytes


def make(replicas: Replicas, parent: Path, processes: int, say: Callable[[str], None]) -> Catalogue:
    """Make what is missing of a set; what an interrupted call has finished is kept."""
    directory = parent / replicas.folder
    here = "run this where the storage is mounted and may be written"
    if not parent.parent.is_dir():  # never to be made: it would hide that the storage is not mounted
        raise TierbenchError(f"{parent.parent} is not there; {here}")
    try:
        parent.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise TierbenchError(f"cannot make {directory}: {error.strerror}; {here}") from None
    catalogue = Catalogue(directory, replicas.name)
    missing = [(number, file) for number, file in enumerate(replicas.files, 1) if catalogue.lacks(file)]
    _check_space(directory, len(missing) * replicas.nominal_bytes)
    say(f"{replicas.name}: {replicas.count - len(missing)} of {replicas.count} files are there, in {directory}")
    if missing and isinstance(replicas, TreeReplicas | HiggsReplicas):
        programs.command(MAKE_TREE, [])  # compiled now, and not by each of the many
    with ThreadPoolExecutor(processes) as pool:
        made = pool.map(lambda numbered: _make_one(replicas, directory / numbered[1], numbered[0]), missing)
        try:
            for count, entry in enumerate(made, 1):
                catalogue.add(entry)
                if count % max(1, len(missing) // 10) == 0 or count == len(missing):
                    say(f"{replicas.name}: made {count} of {len(missing)}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return catalogue


def verify(replicas: Replicas, parent: Path, processes: int) -> Iterator[str]:
    """Read a whole set; whatever is wrong with it, in words."""
    catalogue = Catalogue(parent / replicas.folder, replicas.name)
    with ThreadPoolExecutor(processes) as pool:
        yield from filter(None, pool.map(lambda file: _complaint(catalogue, file), replicas.files))


def _complaint(catalogue: Catalogue, name: str) -> str | None:
    path = catalogue.directory / name
    if name not in catalogue.entries:
        return f"{path}: not in the catalogue"
    entry = catalogue.entries[name]
    if not path.is_file():
        return f"{path}: is not there"
    if path.stat().st_size != entry.bytes:
        return f"{path}: has {path.stat().st_size} bytes, not {entry.bytes}"
    try:
        intact = _sha256(path) == entry.sha256
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    if not intact:
        return f"{path}: its contents have changed (other checksum than in the catalogue)"
    return None


def _check_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise TierbenchError(
            f"{directory}: {needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free; "
            "make room, or the experiment's files smaller or fewer"
        )


def _make_one(replicas: Replicas, path: Path, number: int) -> Entry:
    """Make one replica; it gets its name when it is whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        events = _write(replicas, unfinished, number)
        entry = Entry(path.name, unfinished.stat().st_size, _sha256(unfinished), events)
        unfinished.rename(path)
    except OSError as error:
        raise TierbenchError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return entry


def _write(replicas: Replicas, path: Path, number: int) -> int | None:
    match replicas:
        case TreeReplicas():
            return _make_tree(replicas, path, number, [str(replicas.branches), str(replicas.leaves)])
        case HiggsReplicas():
            return _make_tree(replicas, path, number, ["0", "0"])
        case CopiedReplicas():
            sources = sorted(glob.glob(replicas.source))  # noqa: PTH207 - an absolute pattern, which Path cannot take
            if not sources:
                raise TierbenchError(f"{replicas.source}: no file matches, so there is nothing to copy")
            shutil.copyfile(sources[(number - 1) % len(sources)], path)
        case RandomReplicas():
            _write_random(path, replicas.nominal_bytes)
    return None


def _make_tree(replicas: TreeReplicas | HiggsReplicas, path: Path, seed: int, shape: list[str]) -> int:
    arguments = [replicas.kind, str(path), f"{replicas.size_mb:g}", str(seed), *shape]
    command = programs.command(MAKE_TREE, [*arguments, str(replicas.basket_kb), replicas.codec])
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise TierbenchError(f"{path}: could not be made: {result.stderr.strip() or result.stdout.strip()}")
    return int(json.loads(result.stdout.splitlines()[-1])["events"])


def _write_random(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            file.write(os.urandom(min(BLOCK, size - start)))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
