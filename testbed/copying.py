"""Bring folders home from a host: read there by the host's own user, and made here of nothing but files and folders.

Nothing that the host's user has put there can lead anywhere else: links, devices and strange names stay behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from tierbench import files
from tierbench.errors import HostError
from tierbench.testbed.host import RunningHost

DEEPEST, LONGEST = 30, 3000  # of paths in a run, far beyond any that a run has
SPARE_BYTES = 1 << 28  # that a disk keeps, whatever comes home
UNREADABLE = re.compile(r"^tar: (.+?): Warning: Cannot ", re.MULTILINE)
CHANGED = 1  # tar's exit status where a file has changed as it was read: the run may be going on


def bring_home(host: RunningHost, there: str, into: Path, user: str, anew: bool = False) -> list[str]:
    """Copy a folder of a host's user to a new one here; the names of what is no file or folder and was left there.

    It has its name when it is whole: what was broken off is not taken for the run.
    Anew, it takes the place of what it was.
    """
    make_parents(into)
    unfinished = into.with_name(f".{into.name}.{os.getpid()}")
    unfinished.mkdir()
    try:
        left = _copied(host, there, unfinished, user)
        before = into.with_name(f".{into.name}.before")
        if anew and into.exists():
            into.rename(before)
        unfinished.rename(into)
        if before.exists():
            files.remove(before)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove(unfinished)
        raise
    return left


def _copied(host: RunningHost, there: str, into: Path, user: str) -> list[str]:
    command = host.command(["tar", "--ignore-failed-read", "-C", there, "-cf", "-", "."], user)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as sending:
        assert sending.stdout  # noqa: S101 - a pipe, as asked for
        assert sending.stderr  # noqa: S101
        try:
            left = _unpacked(sending.stdout, into)
        except (tarfile.TarError, OSError) as error:
            sending.kill()
            raise HostError(f"{host.name}: {there} could not be copied to {into}: {error}") from None
        complaint = sending.stderr.read().decode(errors="replace").strip()
        left += UNREADABLE.findall(complaint)
    if sending.returncode not in (0, CHANGED):
        raise HostError(f"{host.name}: {there} could not be read whole: {complaint}")
    return left


def _unpacked(stream: IO[bytes], into: Path) -> list[str]:
    left = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isdir() or member.isreg()):
                left.append(member.name)
            elif len(path.parts) > DEEPEST or len(os.fsencode(into / path)) > LONGEST:
                left += [member.name] if len(path.parts) == DEEPEST + 1 else []
            elif member.size > shutil.disk_usage(into).free - SPARE_BYTES:
                raise HostError(f"{member.name}: has {member.size / 1e9:.1f} GB, for which {into.parent} has no room")
            elif member.isdir():
                (into / path).mkdir(exist_ok=True)
            elif content := archive.extractfile(member):
                access = 0o777 if member.mode & 0o100 else 0o666  # and what our umask leaves of that
                with os.fdopen(os.open(into / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, access), "wb") as file:
                    shutil.copyfileobj(content, file)
                os.utime(into / path, (member.mtime, member.mtime))
    return left


def make_parents(folder: Path) -> None:
    """Make the folders that a folder will lie in."""
    missing = [parent for parent in reversed(folder.absolute().parents) if not parent.exists()]
    for parent in missing:
        parent.mkdir()
    for outermost in missing[:1]:
        give_to_caller(outermost)


def give_to_caller(folder: Path) -> None:
    """What root has made here belongs to who has called it by sudo."""
    if os.geteuid() != 0 or "SUDO_UID" not in os.environ:
        return
    owner, group = int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", -1))
    os.chown(folder, owner, group, follow_symlinks=False)
    for here, entry in files.walk(folder):
        os.chown(entry.name, owner, group, dir_fd=here, follow_symlinks=False)
