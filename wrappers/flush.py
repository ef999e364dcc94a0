#!/usr/bin/env python3
"""Empty this host's caches of the replicas, then measure how much of them is still in memory.

Shipped to a worker as one file. Needs Python 3.6; the strategies drop_caches and lustre need root's helper, which an
admin installs with one line for sudo. Standard output is one JSON object; docs/clients.md tells what it holds.
Files that do not exist here, as on a worker that reads by XRootD only, have no pages here, and are not counted.
Only root and a file's owner can see its pages: of others' files, and of what may not even be looked at, the report does
not say what is resident.

Exit codes:
    0  what was found is reported, whatever its status: a warm cache is for the trial's verdict to judge
    1  only with --strict: reported, and the status is not "ok"
    2  called wrongly, or the directory cannot be read; nothing was reported
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import mmap
import os
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tierbench.host import as_root
from tierbench.host import mounts as all_mounts
from tierbench.wrappers.child import Failure, run_program, total
from tierbench.wrappers.mounts import mounts

FORMAT = 1
PRIVILEGED = ("drop_caches", "lustre")
HELPER = "/usr/local/sbin/tierbench-flush"
HELPER_TIMEOUT_S = 300
AT_ONCE = 32  # a file's metadata may be a round trip of a WAN away, and there are hundreds of files
WINDOW = 1 << 30  # of a file's pages looked at in one go
ARC = "/proc/spl/kstat/zfs/arcstats"  # ZFS' own cache: what it has of a server's files is not seen by their names
WARM_SHARE = 0.01  # more than this still in memory is a warm cache

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong
)  # fmt: skip
LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
MAP_FAILED = ctypes.c_void_p(-1).value


class Pages(NamedTuple):
    """A file, and what of it is in memory, which the kernel does not tell everybody."""

    bytes: int
    resident: "int | None"


def main() -> int:
    arguments = command_line()
    try:
        paths = list(files_of(arguments.directory))
    except OSError as error:
        print(f"flush: {error}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    status, message = "ok", ""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        try:
            flush(arguments.strategy, arguments.helper, paths, threads)
        except Failure as failure:
            status, message = failure.status, str(failure)
        after = list(filter(None, threads.map(pages_of, paths, [with_own_cache()] * len(paths))))
    whole, left = sum(file.bytes for file in after), total(file.resident for file in after)
    at_least = sum(file.resident or 0 for file in after)
    if not after and arguments.strategy in PRIVILEGED and Path(ARC).exists():  # a server's, which nobody empties
        left = None
    if left is None and at_least > WARM_SHARE * whole:
        left = at_least  # which is enough to know
    if status == "ok" and left is None:
        status, message = (
            "unmeasured",
            "what of some files is in memory cannot be seen: they are another's, or on ZFS or GPFS",
        )
    elif status == "ok" and left and left > WARM_SHARE * whole:
        status, message = "still-warm", f"{100 * left / whole:.1f} % of the files are still in memory"
    report = {
        "format": FORMAT, "host": socket.getfqdn(), "strategy": arguments.strategy,
        "files": len(after), "bytes": whole,
        **({} if left is None else {"resident_after_bytes": left}),
        "mounts": mounts(), "wall_ns": int(time.time() * 1e9), "seconds": round(time.monotonic() - begin, 3),
        "status": status, "message": message,
    }  # fmt: skip
    print(json.dumps(report))
    return 1 if arguments.strict and status != "ok" else 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", required=True, choices=(*PRIVILEGED, "fadvise", "none"), help="how to flush")
    parser.add_argument("--helper", default=HELPER, help=f"root's helper, called through sudo (default {HELPER})")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless the status is ok")
    parser.add_argument("--directory", required=True, metavar="DIR", help="of which all files; empty: none is here")
    return parser.parse_args()


def files_of(directory: str) -> "Iterator[str]":
    """The files directly in a directory; none where it is not here."""
    if directory:
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            yield from (entry.path for entry in entries)


def flush(strategy: str, helper: str, paths: "Iterable[str]", threads: concurrent.futures.Executor) -> None:
    """By the kernel, or by the helper, which only root may have written and sudo lets us call without a password."""
    if strategy == "fadvise":
        list(threads.map(forget, paths))
    if strategy not in PRIVILEGED:
        return
    if not Path(helper).exists():
        raise Failure("no-helper", f"there is no {helper} here; site-configs/tierbench-flush is what an admin installs")
    command = as_root(helper, strategy)
    try:
        result = run_program(*command, patience_s=HELPER_TIMEOUT_S)
    except OSError as error:
        raise Failure("refused", f"{' '.join(command)}: {error}") from None
    if result.status != 0:
        raise Failure("refused", f"{' '.join(command)}: {result.output.strip() or result.last_words}")


def forget(path: str) -> None:
    """Have the kernel drop one file's clean pages."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def with_own_cache() -> "set[int]":
    """The devices of what is mounted as ZFS or GPFS, whose caches are not made of pages that mincore shows."""
    devices = set()
    for mount in all_mounts():
        if mount.kind in ("zfs", "gpfs"):
            with contextlib.suppress(OSError):  # a container's, at which nobody else may look
                devices.add(os.stat(mount.point).st_dev)  # noqa: PTH116
    return devices


def pages_of(path: str, unseen: "set[int]") -> "Pages | None":
    """A regular file's size and how much of it is in memory, if it is here; looking does not read any of it."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of many files
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # a folder that nobody may look into can hold a file that is in memory
        return Pages(0, None)
    if stat.S_ISDIR(status.st_mode):  # what is in it was not emptied, nor is it looked at
        return Pages(0, None)
    if not stat.S_ISREG(status.st_mode):
        return None
    # Of anybody else's file the kernel says that all of it is in memory.
    if status.st_dev in unseen or (os.geteuid() not in (0, status.st_uid) and not os.access(path, os.W_OK)):
        return Pages(status.st_size, None)
    windows = range(0, status.st_size, WINDOW)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return Pages(status.st_size, None)
    try:
        resident = sum(resident_part(descriptor, offset, min(WINDOW, status.st_size - offset)) for offset in windows)
        return Pages(status.st_size, resident)
    except OSError:
        return Pages(status.st_size, None)  # its file system has no pages to show
    finally:
        os.close(descriptor)


def resident_part(descriptor: int, offset: int, length: int) -> int:
    """How much of a part of a file is in memory, page by page."""
    address = LIBC.mmap(None, length, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, offset)
    if address == MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap failed")
    try:
        pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        if LIBC.mincore(address, length, pages):
            raise OSError(ctypes.get_errno(), "mincore failed")
        resident = sum(byte & 1 for byte in pages.raw)
    finally:
        LIBC.munmap(address, length)
    return min(resident * mmap.PAGESIZE, length)


if __name__ == "__main__":
    sys.exit(main())
