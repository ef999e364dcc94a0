"""`tierbench replicas`: the unique files that clients read are made on the storage, copied elsewhere, or verified."""

import argparse
import contextlib
import glob
import os
import random
import re
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from tierbench import files, json_files, names
from tierbench.dags.replicas import CopiedReplicas, Entry, HiggsReplicas, Replicas, TreeReplicas
from tierbench.errors import ConfigError, TierbenchError, UnmetNeed
from tierbench.host import mount_of, mounts, own_name, read_text
from tierbench.site_configs.site import find_site
from tierbench.spec import unknown_name
from tierbench.submit import catalogue, programs
from tierbench.submit.catalogue import Catalogue, adding, hand_over
from tierbench.submit.console import add_command, experiment_at_site, say
from tierbench.submit.planning import asked_experiment
from tierbench.wrappers.write_area import SPARE, adler32

BLOCK = 1 << 20

Write = Callable[[int, Path], int | None]  # a replica by its number, into a file; the number of its events


class Made(TypedDict):
    """What the program that makes ROOT files says of one."""

    bytes: int
    events: int


def register(subcommands: Any) -> None:
    text = "Make, or verify, the unique files that an experiment's clients read"
    parser = add_command(subcommands, "replicas", _replicas, text)
    experiment_at_site(parser)
    parser.add_argument("--verify", action="store_true", help="read all that is there and compare checksums")
    parser.add_argument("--processes", type=int, default=4 * (os.cpu_count() or 1), help="at once (%(default)s)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--directory", type=Path, help="where, if not at the site's storage.replicas")
    where.add_argument("--access", help="copy them, or verify the copies, where this access method has its own")


def _replicas(arguments: argparse.Namespace) -> int:
    site, experiment = find_site(arguments.site), asked_experiment(arguments.experiment)
    if arguments.processes < 1:
        raise ConfigError(f"--processes {arguments.processes}: must be at least 1")
    parent, sets = arguments.directory or Path(site.storage.replicas), list(experiment.used_replicas.values())
    anywhere, hosts, remedy = arguments.directory is not None, [site.server.host], f"say --directory {parent}"
    if arguments.access:
        if arguments.access not in site.access:
            raise ConfigError(unknown_name("--access", arguments.access, site.access))
        access = site.access[arguments.access]
        if access.replicas is None:
            raise ConfigError(f"--access {arguments.access}: reads what is in storage.replicas, and has no copies")
        read = {use.replicas.folder for use in experiment.uses() if use.access == arguments.access}
        parent, sets = Path(access.replicas), [replicas for replicas in sets if replicas.folder in read]
        named = [own for own in site.samplers.values() if own.role == "storage" and own.is_of({arguments.access})]
        anywhere, hosts = access.on_disk, [*access.servers] or [own.host for own in named]
        remedy = f"name this host in access.{arguments.access}.servers"
    if arguments.verify:
        if not parent.is_dir():
            raise UnmetNeed(f"{parent}: is not there, or not yet; call this where the storage is mounted")
        complaints = [line for replicas in sets for line in verify(replicas, parent, arguments.processes)]
        print("\n".join(complaints) or "all replicas are there and intact")
        return 1 if complaints else 0
    if not (anywhere or {socket.gethostname(), own_name()} & {*hosts}):
        _refuse_own_disk(parent, " and ".join(hosts), remedy)
    for replicas in sets:
        if arguments.access:
            copy(replicas, Path(site.storage.replicas), parent, arguments.processes)
        else:
            make(replicas, parent, arguments.processes)
    return 0


def make(replicas: Replicas, parent: Path, processes: int) -> None:
    """Make what is missing of a set; what an interrupted call has finished is kept."""
    directory = parent / replicas.folder
    is_root = isinstance(replicas, TreeReplicas | HiggsReplicas)
    if is_root and any(missing(replicas, directory, catalogue.read(directory))):
        programs.command(programs.MAKE_TREE, [])  # compiled now, and not by each of the many

    _complete(replicas, parent, processes, partial(_write, replicas))


def copy(replicas: Replicas, storage: Path, parent: Path, processes: int) -> None:
    """Copy what is missing of a set from the storage, each file compared with the storage's catalogue."""
    source = storage / replicas.folder
    listed = catalogue.read(source).entries
    if unlisted := [name for name in replicas.files if name not in listed]:
        remedy = "make the replicas first, and call this where the storage is mounted"
        raise TierbenchError(f"{source}: has no {unlisted[0]} to be copied; {remedy}")

    def write(number: int, path: Path) -> int | None:
        entry = listed[replicas.files[number - 1]]
        shutil.copyfile(source / entry.name, path)
        with path.open("rb+") as file:
            os.fsync(file.fileno())  # so that no cache has to keep it
        return entry.events

    _complete(replicas, parent, processes, write, listed)


def _refuse_own_disk(parent: Path, server: str, remedy: str) -> None:
    """UnmetNeed where another host's storage is not mounted: a later mount would hide what is below its mount point."""
    if mount_of(parent).point == "/":
        why = f"{parent} is on this host's own disk, with nothing mounted there, and the storage is {server}"
        raise UnmetNeed(f"{why}; mount it, or {remedy} if that is right")


def not_mounted(path: Path, table: str = "/etc/fstab") -> str:
    """The place above a path where something is to be mounted and is not, or nothing."""
    there = {os.path.realpath(mount.point) for mount in mounts()}
    lines = [line.split() for line in read_text(table).splitlines() if not line.lstrip().startswith("#")]
    points = [words[1] for words in lines if len(words) > 2 and path.is_relative_to(words[1])]
    return next((point for point in points if os.path.realpath(point) not in there), "")


def _complete(
    replicas: Replicas, parent: Path, processes: int, write: Write, expected: Mapping[str, Entry] | None = None
) -> None:
    """Write the files of a set that are missing in its folder, and list each there."""
    here = "run this where it is mounted and may be written"
    directory = parent / replicas.folder
    point = not_mounted(parent)
    if point or not parent.parent.is_dir():  # never to be made: it would hide that the storage is not mounted
        why = f"{point} is in /etc/fstab, and nothing is mounted" if point else f"{parent.parent} is not"
        raise UnmetNeed(f"{why} there; {here}")
    try:
        for folder in (parent, directory):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                hand_over(folder)
        if not any(missing(replicas, directory, catalogue.read(directory), expected)):
            say(f"{replicas.name}: all {replicas.count} files are there, in {directory}")
            return
        with adding(directory) as (listed, file), ThreadPoolExecutor(processes) as pool:
            _clear_away(replicas, directory)
            absent = list(missing(replicas, directory, listed, expected))
            sizes = [expected[name].bytes for name in replicas.files] if expected else _sizes(replicas)
            needed = sum(sizes[(number - 1) % len(sizes)] for number, _ in absent)
            disk = shutil.disk_usage(directory)
            room = f"{needed / 1e9:.1f} GB are to be written"
            room += f" and {disk.free / 1e9:.1f} GB are free" if disk.total else ""  # a mount need not tell
            if disk.total and SPARE * needed > disk.free:
                remedy = "make room, 5 % more, or the experiment's files smaller or fewer"
                raise TierbenchError(f"{directory}: {room}; {remedy}")
            done = f"{replicas.count - len(absent)} of {replicas.count} files are there, in {directory}"
            say(f"{replicas.name}: {done}; {room}")
            try:
                for count, entry in enumerate(pool.map(lambda numbered: _whole(write, expected, *numbered), absent), 1):
                    listed.add(entry, file)
                    if count % max(1, len(absent) // 10) == 0 or count == len(absent):
                        say(f"{replicas.name}: made {count} of {len(absent)}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    except OSError as error:
        there = [at for at in (error.filename or directory, directory) if os.access(str(at), os.F_OK)]
        denied = isinstance(error, PermissionError) and there
        whose = f"; {there[0]} belongs to {_owner(Path(there[0]))}" if denied else ""
        raise TierbenchError(f"{directory}: cannot be written: {error.strerror}{whose}; {here}") from None


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # of a host that has an account more
        return f"uid {path.stat().st_uid}"


def _sizes(replicas: Replicas) -> list[int]:
    if isinstance(replicas, CopiedReplicas):
        return [Path(source).stat().st_size for source in _sources(replicas)]
    return replicas.sizes


def missing(
    replicas: Replicas, directory: Path, listed: Catalogue, expected: Mapping[str, Entry] | None = None
) -> Iterator[tuple[int, Path]]:
    """The replicas that still have to be made: not listed, gone, of another size than listed, or not as expected."""
    for number, name in enumerate(replicas.files, 1):
        entry, path = listed.entries.get(name), directory / name
        stale = expected and entry != expected[name]
        if entry is None or stale or not path.is_file() or path.stat().st_size != entry.bytes:
            yield number, path


UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}(\.d|\.partial)?")  # make_tree's, now and in earlier versions
LEFT_BEHIND_SECONDS = 3600.0  # no file takes that long


def _clear_away(replicas: Replicas, directory: Path) -> None:
    """Remove what calls that were killed have left of this set; where there are no locks, another may be at work."""
    for path in directory.glob(".*"):
        if (name := UNFINISHED.fullmatch(path.name)) and name[1] in replicas.files:
            with contextlib.suppress(FileNotFoundError):
                left = path.lstat()
                if time.time() - left.st_mtime > LEFT_BEHIND_SECONDS:
                    (files.remove if stat.S_ISDIR(left.st_mode) else os.unlink)(path)


def _whole(write: Write, expected: Mapping[str, Entry] | None, number: int, path: Path) -> Entry:
    """Write one replica; it gets its name when it is whole."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # where nobody can have put a link
    try:
        events = write(number, unfinished)
        entry = Entry(path.name, unfinished.stat().st_size, adler32(unfinished), events)
        if expected and entry != expected[path.name]:
            raise TierbenchError(f"{path.name}: is not what its catalogue says; see `tierbench replicas --verify`")
        hand_over(unfinished)
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return entry


def verify(replicas: Replicas, parent: Path, processes: int) -> Iterator[str]:
    """Read a whole set; whatever is wrong with it, in words."""
    directory = parent / replicas.folder
    listed = catalogue.read(directory)
    if listed.damaged_lines and not listed.entries.keys() >= set(replicas.files):  # else each has a sound line, too
        damage = f"{listed.damaged_lines} lines are damaged; `tierbench replicas` makes again what they listed"
        yield f"{directory / names.CATALOGUE}: {damage}"
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
    changed = "its contents have changed (other checksum than in the catalogue)"
    return None if intact else f"{path}: {changed}; remove it, and `tierbench replicas` makes it again"


def _write(replicas: Replicas, number: int, path: Path) -> int | None:
    match replicas:
        case TreeReplicas():
            amount = (replicas.events or 0, replicas.cluster_events or 0)
            return _make_tree(replicas, path, number, (replicas.branches, replicas.leaves), amount)
        case HiggsReplicas():
            return _make_tree(replicas, path, number, (0, 0))
        case CopiedReplicas():
            sources = _sources(replicas)
            shutil.copyfile(sources[(number - 1) % len(sources)], path)
        case _:
            _write_random(path, replicas.sizes[(number - 1) % len(replicas.sizes)], f"{replicas.folder} {number}")
    return None


def _sources(replicas: CopiedReplicas) -> list[str]:
    sources = sorted(glob.glob(replicas.source))  # noqa: PTH207 - an absolute pattern, which Path cannot take
    if not sources:
        raise TierbenchError(f"{replicas.source}: no file matches, so there is nothing to copy")
    return sources


def _make_tree(
    replicas: TreeReplicas | HiggsReplicas, path: Path, seed: int, shape: Sequence[int], amount: Sequence[int] = ()
) -> int:
    with _own_folder(path) as here:
        output = f"/proc/self/fd/{here}/{path.name}"
        more = [f"{replicas.size_mb:g}", seed, *shape, replicas.basket_kb, replicas.codec, *amount]
        command = programs.command(programs.MAKE_TREE, [replicas.kind, output, *map(str, more)])
        result = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[here])
        if result.returncode:
            raise TierbenchError(f"{path}: could not be made: {result.stderr.strip() or result.stdout.strip()}")
        os.rename(path.name, path, src_dir_fd=here)
    report = next((line for line in result.stdout.splitlines() if line.startswith("{")), "")  # as a macro it says more
    made = json_files.parse_as(Made, report, "what make_tree says")
    if (size := path.stat().st_size) != made["bytes"]:
        raise TierbenchError(f"{path}: has {size} of the {made['bytes']} bytes that make_tree wrote; is the disk full?")
    return made["events"]


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[int]:
    """An open folder for what becomes this file: all can read where a program writes, and ROOT follows links."""
    with path.open("xb") as file:
        ours = os.fstat(file.fileno()).st_uid  # as this mount shows it
    path.unlink()
    folder = path.with_name(f"{path.name}.d")
    folder.mkdir(0o700)
    here = os.open(folder, files.FOLDER)
    try:
        if os.fstat(here).st_uid != ours:
            raise TierbenchError(f"{folder}: somebody has put another folder there; see who may write beside it")
        yield here
    finally:
        for left in os.listdir(here):  # noqa: PTH208 - a descriptor
            os.unlink(left, dir_fd=here)
        os.close(here)
        folder.rmdir()


def _write_random(path: Path, size: int, seed: str) -> None:
    """Bytes that nothing compresses, and the same ones each time."""
    bits = random.Random(seed)  # noqa: S311 - nobody has to be unable to guess them
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            file.write(bits.randbytes(min(BLOCK, size - start)))
