"""Makes, verifies and copies the unique files that clients read: on the storage, or where an access has its own."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

import tierbench.wrappers
from tierbench import json_files, names
from tierbench.dags.experiment import Experiment
from tierbench.dags.replicas import (
    CopiedReplicas,
    DoublingReplicas,
    Entry,
    HiggsReplicas,
    RandomReplicas,
    Replicas,
    TreeReplicas,
)
from tierbench.errors import ConfigError, TierbenchError
from tierbench.site_configs.site import Access, Site
from tierbench.spec import unknown_name
from tierbench.submit import catalogue, programs
from tierbench.submit.catalogue import Additions, Catalogue, adding, hand_over

MAKE_TREE = Path(tierbench.wrappers.__file__).with_name("make_tree.C")
BLOCK = 1 << 20


class Made(TypedDict):
    """What the program that makes ROOT files says of one."""

    events: int


def make(replicas: Replicas, parent: Path, processes: int, say: Callable[[str], None]) -> None:
    """Make what is missing of a set; what an interrupted call has finished is kept."""
    directory = parent / replicas.folder
    here = "run this where the storage is mounted and may be written"
    if not parent.parent.is_dir():  # never to be made: it would hide that the storage is not mounted
        raise TierbenchError(f"{parent.parent} is not there; {here}")
    try:
        for folder in (parent, directory):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                hand_over(folder)
        if any(missing(replicas, directory, catalogue.read(directory))):
            with adding(directory) as additions:
                _make_missing(replicas, directory, additions, processes, say)
        else:
            say(f"{replicas.name}: all {replicas.count} files are there, in {directory}")
    except OSError as error:
        denied = isinstance(error, PermissionError) and directory.is_dir()
        whose = f"; it belongs to {directory.owner()}" if denied else ""
        raise TierbenchError(f"{directory}: cannot be written: {error.strerror}{whose}; {here}") from None


def missing(replicas: Replicas, directory: Path, listed: Catalogue) -> Iterator[tuple[int, Path]]:
    """The replicas that still have to be made: not listed, gone, or of another size than listed."""
    for number, name in enumerate(replicas.files, 1):
        entry, path = listed.entries.get(name), directory / name
        if entry is None or not path.is_file() or path.stat().st_size != entry.bytes:
            yield number, path


def _make_missing(
    replicas: Replicas, directory: Path, additions: Additions, processes: int, say: Callable[[str], None]
) -> None:
    absent = list(missing(replicas, directory, additions.catalogue))
    check_space(directory, len(absent) * replicas.nominal_bytes)
    say(f"{replicas.name}: {replicas.count - len(absent)} of {replicas.count} files are there, in {directory}")
    if isinstance(replicas, TreeReplicas | HiggsReplicas):
        programs.command(MAKE_TREE, [])  # compiled now, and not by each of the many
    with ThreadPoolExecutor(processes) as pool:
        made = pool.map(lambda numbered: _make_one(replicas, numbered[1], numbered[0]), absent)
        try:
            for count, entry in enumerate(made, 1):
                additions.add(entry)
                if count % max(1, len(absent) // 10) == 0 or count == len(absent):
                    say(f"{replicas.name}: made {count} of {len(absent)}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def verify(replicas: Replicas, parent: Path, processes: int) -> Iterator[str]:
    """Read a whole set; whatever is wrong with it, in words."""
    directory = parent / replicas.folder
    listed = catalogue.read(directory)
    if listed.damaged_lines:
        yield f"{directory / names.CATALOGUE}: {listed.damaged_lines} lines are damaged"
    with ThreadPoolExecutor(processes) as pool:
        complaints = pool.map(lambda name: _complaint(directory / name, listed.entries.get(name)), replicas.files)
        yield from filter(None, complaints)


def _complaint(path: Path, entry: Entry | None) -> str | None:
    if entry is None:
        return f"{path}: not in the catalogue"
    if not path.is_file():
        return f"{path}: is not there"
    if path.stat().st_size != entry.bytes:
        return f"{path}: has {path.stat().st_size} bytes, not {entry.bytes}"
    try:
        intact = adler32(path) == entry.adler32
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return None if intact else f"{path}: its contents have changed (other checksum than in the catalogue)"


def check_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise TierbenchError(
            f"{directory}: {needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free; "
            "make room, or the experiment's files smaller or fewer"
        )


def _make_one(replicas: Replicas, path: Path, number: int) -> Entry:
    """Make one replica; it gets its name when it is whole."""
    unfinished = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        events = _write(replicas, unfinished, number)
        entry = Entry(path.name, unfinished.stat().st_size, adler32(unfinished), events)
        hand_over(unfinished)
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
        case DoublingReplicas():
            _write_random(path, replicas.sizes[(number - 1) % len(replicas.sizes)])
    return None


def _make_tree(replicas: TreeReplicas | HiggsReplicas, path: Path, seed: int, shape: list[str]) -> int:
    arguments = [replicas.kind, str(path), f"{replicas.size_mb:g}", str(seed), *shape]
    command = programs.command(MAKE_TREE, [*arguments, str(replicas.basket_kb), replicas.codec])
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise TierbenchError(f"{path}: could not be made: {result.stderr.strip() or result.stdout.strip()}")
    return json_files.parse_as(Made, (result.stdout.splitlines() or [""])[-1], "what make_tree says")["events"]


def _write_random(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            file.write(os.urandom(min(BLOCK, size - start)))


def adler32(path: Path) -> str:
    """A file's checksum as XRootD tells it."""
    value = 1
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            value = zlib.adler32(block, value)
    return f"{value:08x}"


def copied(site: Site, experiment: Experiment, access: str) -> tuple[Access, list[Replicas]]:
    """A way of access with copies of its own, and the sets that an experiment reads by it."""
    if access not in site.access:
        raise ConfigError(unknown_name("--access", access, site.access))
    if site.access[access].replicas is None:
        raise ConfigError(f"--access {access}: reads what is in storage.replicas, and has no copies of its own")
    read = {use.replicas.folder for use in experiment.uses() if use.access == access}
    return site.access[access], [sets for folder, sets in experiment.used_replicas.items() if folder in read]


def verify_copies(access: Access, replicas: Replicas, processes: int) -> list[str]:
    """Read a whole set of copies; whatever is wrong with it, in words."""
    return list(verify(replicas, Path(access.replicas or ""), processes))


def copy(site: Site, access: Access, replicas: Replicas, processes: int, say: Callable[[str], None]) -> None:
    """Copy what is missing of a set from the storage, each file compared with the storage's catalogue."""
    source, directory = Path(site.storage.replicas, replicas.folder), Path(access.replicas or "", replicas.folder)
    listed = catalogue.read(source).entries
    unlisted = [name for name in replicas.files if name not in listed]
    if unlisted:
        raise TierbenchError(
            f"{source}: has no {unlisted[0]} to be copied; make the replicas first, and call this where the storage is"
            f" mounted"
        )
    if not directory.parent.parent.is_dir():
        raise TierbenchError(f"{directory.parent.parent} is not there; run this where the copies are to be")
    try:
        for folder in (directory.parent, directory):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                hand_over(folder)
        with adding(directory) as additions, ThreadPoolExecutor(processes) as pool:
            absent = [path for _, path in missing(replicas, directory, additions.catalogue)]
            check_space(directory, sum(listed[path.name].bytes for path in absent))
            for entry in pool.map(lambda path: _copy_one(source / path.name, path, listed[path.name]), absent):
                additions.add(entry)
    except OSError as error:
        raise TierbenchError(f"{directory}: cannot be written: {error.strerror}") from None
    say(f"{replicas.name}: {len(absent)} of {replicas.count} files were copied to {directory}, the others were there")


def _copy_one(source: Path, path: Path, entry: Entry) -> Entry:
    """Copy a file; it gets its name when it is whole, and on the disk, so that no cache has to keep it."""
    unfinished = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        shutil.copyfile(source, unfinished)
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        if unfinished.stat().st_size != entry.bytes or adler32(unfinished) != entry.adler32:
            raise TierbenchError(f"{source}: is not what its catalogue says; `tierbench replicas --verify` tells more")
        hand_over(unfinished)
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return entry
