"""Copies of replica sets for the ways of access that have their own: on a worker's disk, in a pool of the storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tierbench.dags.experiment import Experiment
from tierbench.dags.replicas import Entry, Replicas
from tierbench.definitions import unknown
from tierbench.errors import ConfigError, TierbenchError
from tierbench.site_configs.site import Access, Site
from tierbench.submit import catalogue
from tierbench.submit.catalogue import adding
from tierbench.submit.ownership import hand_over
from tierbench.submit.replication import adler32, check_space, missing, verify


def copied(site: Site, experiment: Experiment, access: str) -> tuple[Access, list[Replicas]]:
    """A way of access with copies of its own, and the sets that an experiment reads by it."""
    if access not in site.access:
        raise ConfigError(unknown("--access", access, site.access))
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
    known = catalogue.read(source).entries
    lacking = [name for name in replicas.files if name not in known]
    if lacking:
        raise TierbenchError(
            f"{source}: has no {lacking[0]} to be copied; make the replicas first, and call this where the storage is"
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
            absent = [path for _, path in missing(replicas, directory, additions.known)]
            check_space(directory, sum(known[path.name].bytes for path in absent))
            for entry in pool.map(lambda path: _copy_one(source / path.name, path, known[path.name]), absent):
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
