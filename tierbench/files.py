"""Files that others may have made, or may open: read, written, locked, walked and removed in this one way.

A run comes from somewhere, and lies where others may write: what should be a file may be a pipe that nobody writes
to, a device without an end or a link, a folder may hold three thousand in each other, and who may read a lock may hold
it. Stdlib only, Python 3.6 or newer: it is shipped with what a trial's DAG runs.
"""

import contextlib
import errno
import fcntl
import io
import math
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

LARGEST = 1 << 28  # bytes of a file that is held in memory as a whole
POLL_S = 0.2
NO_LOCKS = errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP  # of a file system that has none


def opened(path: "str | Path", of: "int | None" = None) -> "io.BufferedReader":
    """A regular file, to be read; OSError where it is anything else, at once. In an open folder no link is followed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if of is None else os.O_NOFOLLOW)
    number = os.open(str(path), flags, dir_fd=of)
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return open(number, "rb")  # noqa: PTH123 - a descriptor
    except BaseException:
        os.close(number)
        raise


def opened_text(path: "str | Path", newline: "str | None" = None) -> io.TextIOWrapper:
    return io.TextIOWrapper(opened(path), encoding="utf-8", newline=newline)


def read_bytes(path: "str | Path") -> bytes:
    """The whole of a regular file; OSError where it is larger than anything that we write."""
    with opened(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"is larger than {LARGEST >> 20} MB", str(path))
    return content


def read_text(path: "str | Path", errors: str = "strict") -> str:
    """The whole of a regular file of text."""
    text = read_bytes(path).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_of(path: "str | Path") -> str:
    """What a file of text holds; nothing where it is not there."""
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        return ""


def read_end(path: "str | Path", of: "int | None" = None, bytes_: int = 1 << 20) -> bytes:
    """The last of a regular file, as of a log."""
    with opened(path, of) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - bytes_))
        return file.read(bytes_)


@contextlib.contextmanager
def replacing(path: "str | Path", access: int = 0o666) -> "Iterator[BinaryIO]":
    """A file that gets its name when it is whole, in place of what has it; a link is replaced and not followed."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unlink(unfinished)  # of a process that had our number
    number = os.open(str(unfinished), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, access)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
            yield file
        unfinished.replace(path)
    except BaseException as error:
        unlink(unfinished)
        if isinstance(error, OSError) and error.filename is None:  # of a write, which does not say where
            error.filename = str(path)
        raise


def replace(path: "str | Path", content: "str | bytes", access: int = 0o666) -> None:
    with replacing(path, access) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def unlink(path: "str | Path") -> None:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()


def refuse_links(*folders: Path) -> None:
    """OSError where a folder that will be written to is a link, and leads elsewhere."""
    for folder in folders:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "is a link, and is not written through; put a folder in its place", str(folder))


def poll(ready: "Callable[[], Any]", limit_s: float, every_s: float = POLL_S) -> bool:
    """Whether something has become so in time."""
    deadline = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


@contextlib.contextmanager
def locked(
    path: "str | Path", limit_s: float = 0.0, waits: "Callable[[], object]" = lambda: None, gone: bool = False,
    held: "Exception | None" = None,
) -> "Iterator[None]":  # fmt: skip
    """Hold a lock; BlockingIOError, or what is given as `held`, if somebody else does for so long.

    The kernel frees it when this process ends.

    Its file can be opened by those alone who may write it, so who may only read holds nobody up; `gone` removes it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    number = os.open(str(path), flags, 0o622)
    try:
        lock = os.fstat(number)
        if not stat.S_ISREG(lock.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if lock.st_mode & 0o044 and lock.st_uid == os.geteuid():  # made by an earlier version
            os.fchmod(number, lock.st_mode & 0o622)
        if not _try_lock(number):
            waits()
            if limit_s == math.inf:
                fcntl.flock(number, fcntl.LOCK_EX)  # without a delay: trials pass their lock on many times a second
            elif not poll(lambda: _try_lock(number), limit_s):
                raise held or BlockingIOError(errno.EAGAIN, "somebody else holds it", str(path))
        if not _leads_to(path, lock):  # who had it has removed it
            raise held or BlockingIOError(errno.EAGAIN, "somebody else has just held it", str(path))
        try:
            yield
        finally:
            if gone:
                unlink(path)  # unless its folder is gone, too
    finally:
        os.close(number)


def _try_lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        why = "its file system has no locks (of Lustre: mount it with -o flock): put the run on another one"
        raise OSError(error.errno, why, os.readlink(f"/proc/self/fd/{number}")) from None  # noqa: PTH115 - Python 3.6
    return True


def walk(top: "str | Path") -> "Iterator[tuple[int, os.DirEntry[str]]]":
    """All that lies below a folder, whatever its depth, with the descriptor of the folder that it is in.

    A folder comes after what is in it. No link is followed, and no path has to be short enough for the kernel.
    """
    here = os.open(str(top), FOLDER)
    above = []  # type: list[tuple[os.stat_result, list[os.DirEntry[str]]]]
    try:
        waiting = _entries(here)
        while waiting or above:
            if not waiting:  # back in the folder that this one is in
                status, waiting = above.pop()
                here, before = os.open("..", FOLDER, dir_fd=here), here
                os.close(before)
                if not os.path.samestat(os.fstat(here), status):
                    raise OSError(errno.EAGAIN, "somebody moves folders in it", str(top))
            elif waiting[-1].is_dir(follow_symlinks=False):
                above.append((os.fstat(here), waiting))
                here, before = os.open(waiting[-1].name, FOLDER, dir_fd=here), here
                os.close(before)
                waiting = _entries(here)
                continue
            yield here, waiting.pop()
    finally:
        os.close(here)


def remove(folder: "str | Path") -> None:
    """Remove a folder with all that is in it, and nothing that a link in it leads to."""
    for here, entry in walk(folder):
        (os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.name, dir_fd=here)
    Path(folder).rmdir()


FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _entries(folder: int) -> "list[os.DirEntry[str]]":
    with os.scandir(folder) as entries:
        return list(entries)


def _leads_to(path: "str | Path", status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(str(path)), status)
    except FileNotFoundError:
        return False
