#!/usr/bin/env python3
"""A trial's write area, a folder of its own on the storage: made before its clients write, checked after, removed.

Shipped to a worker as one file. Needs Python 3.6, and where that is a server's xrdfs and xrdadler32. Standard
output is one JSON object: docs/runs.md tells what it holds. `make` removes what an earlier try has left, and refuses
where there is no room; `clear` compares what is there with what the clients were to write, and removes all of it.
Nothing outside it is ever touched but the run's folder around it, when that is empty.

Exit codes:
    0  done; of clear: all was looked at and nothing is left, or the report says what is
    1  it could not be made, and why is in the report
    2  called wrongly, or the list of what is expected cannot be read; nothing was done
"""

import argparse
import concurrent.futures
import contextlib
import errno
import functools
import json
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench import names
from tierbench.wrappers.child import Failure, run_program
from tierbench.wrappers.credentials import Credentials, add_arguments

FORMAT = 1
BLOCK = 1 << 20
AT_ONCE = 16  # questions to a server, which may be a WAN away
MOST_NAMED = 20  # of files that are wrong or left
SPARE = 1.05  # of what is to be written, for what the file system itself takes
LIST_S = 180  # for a server's list of all that is in a write area; clear asks for three
ABSENT = re.compile(r"\[3011\]|no such file", re.IGNORECASE)  # a server's answer about what it does not have


def main() -> int:
    arguments = command_line()
    try:
        writes = writes_of(arguments.trial)
        expected = expected_files(arguments.expected) if arguments.expected else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"write area: {error}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    report = {"format": FORMAT, "host": socket.getfqdn(), "url": writes["url"]}  # type: dict[str, Any]
    with tempfile.TemporaryDirectory(prefix="tierbench-", dir=os.environ.get("_CONDOR_SCRATCH_DIR")) as scratch:
        try:
            os.environ.update(Credentials(arguments, Path.cwd()).obtain(Path(scratch)))
            area = (ServedArea if "://" in writes["url"] else MountedArea)(writes["under"], writes["url"])
            if arguments.step == "make":
                make(area, writes["bytes"], writes.get("entries", 0))
            else:
                report.update(clear(area, expected, writes["check"]))
            report.update(status="ok", message="")
        except Failure as failure:
            report.update(status=failure.status, message=str(failure))
        except OSError as error:
            report.update(status="failed", message=str(error))
    report["seconds"] = round(time.monotonic() - begin, 3)
    print(json.dumps(report))
    return 1 if arguments.step == "make" and report["status"] != "ok" else 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("make", "clear"))
    parser.add_argument("--trial", type=Path, default=Path(names.TRIAL), metavar="FILE", help='where it is: "writes"')
    parser.add_argument("--expected", type=Path, metavar="FILE", help="clear: lines of URL TAB BYTES TAB ADLER32")
    add_arguments(parser)
    return parser.parse_args()


def writes_of(trial: Path) -> "dict[str, Any]":
    """What a trial's trial.json says of its write area."""
    writes = json.loads(trial.read_text(encoding="utf-8"))["writes"]  # type: dict[str, Any]
    below = writes["url"][len(writes["under"]) :]
    if not writes["url"].startswith(writes["under"] + "/") or ".." in below.split("/") or below.count("/") < 2:
        raise ValueError(f"{writes['url']} does not lie in a run's folder below {writes['under']}")
    return writes


def expected_files(path: Path) -> "dict[str, tuple[int, str]]":
    """By its URL, how large each file has to be, and its checksum where that is known."""
    expected = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        url, size, adler32 = [*line.split("\t"), "", ""][:3]
        expected[url] = int(size), adler32
    return expected


def make(area: "MountedArea | ServedArea", size: int, entries: int) -> None:
    """Make it, empty and with room enough for so many bytes, and files and folders."""
    area.check_there()
    left = area.remove()
    if left:
        raise Failure("not-empty", f"what an earlier try has left cannot be removed: {', '.join(left[:MOST_NAMED])}")
    free, free_entries = area.free()
    if free is not None and free < SPARE * size:
        raise Failure("no-room", f"{size / 1e6:.0f} MB are to be written and {free / 1e6:.0f} MB are free")
    if free_entries is not None and free_entries < entries:
        raise Failure("no-room", f"{entries} files and folders are to be made, and there is room for {free_entries}")
    area.make()


def clear(area: "MountedArea | ServedArea", expected: "dict[str, tuple[int, str]]", check: str) -> "dict[str, Any]":
    """What of the files is not as it was to be, and what is left after the removal; raises where that is not known."""
    area.check_there()
    sizes = area.sizes()

    def complaint(url: str) -> str:
        """What is wrong with a file; nothing is an empty text."""
        size, adler32 = expected[url]
        if url not in sizes:
            return f"{url} is not there"
        if sizes[url] != size:
            return f"{url} has {sizes[url]} bytes, not the {size} that were written"
        try:
            actual = area.adler32(url) if check == "adler32" and adler32 else adler32
        except OSError as error:
            return f"{url} could not be compared: {error.strerror}"
        return "" if actual == adler32 else f"{url} has the adler32 {actual}, not the {adler32} of what was written"

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        wrong = [words for words in threads.map(complaint, sorted(expected)) if words]
    left = area.remove()
    area.check_there()  # where it has gone away meanwhile nothing seems to be left
    return {
        "files": len(sizes), "bytes": sum(sizes.values()), "checked": len(expected),
        "check": check if all(adler32 for _, adler32 in expected.values()) else "size",
        "wrong": wrong[:MOST_NAMED], "wrong_files": len(wrong), "left": left[:MOST_NAMED], "left_files": len(left),
    }  # fmt: skip


def adler32(path: Path) -> str:
    """A file's checksum as XRootD tells it."""
    value = 1
    with path.open("rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            value = zlib.adler32(block, value)
    return f"{value:08x}"


class MountedArea:
    """A folder of a mount, or of a disk."""

    def __init__(self, under: str, url: str) -> None:
        self.under, self.url = under.rstrip("/"), url

    def check_there(self) -> None:
        """That the storage is there: what trials write below is never made, or it might hide a missing mount."""
        missing = f"there is no folder {self.under}, in which trials may write"
        try:
            if not stat.S_ISDIR(Path(self.under).stat().st_mode):
                raise Failure("absent", missing)
        except OSError as error:
            raise Failure("absent", f"{missing}: {error.strerror}") from None

    def free(self) -> "tuple[int | None, int | None]":
        """How many bytes may be written, and files and folders made; a server or file system need not tell."""
        status = os.statvfs(self.under)
        return status.f_bavail * status.f_frsize, status.f_favail if status.f_files else None

    def make(self) -> None:
        own, run = Path(self.url), Path(self.url).parent
        run.mkdir(0o755, exist_ok=True)
        own.mkdir(0o755)
        above, mine = run.lstat(), own.lstat()
        # Whoever has made the run's folder, or may write in it, could put links to our files in the place of ours.
        if above.st_uid != mine.st_uid or above.st_mode & ~mine.st_mode & 0o022:
            own.rmdir()
            raise Failure("refused", f"{run} is user {above.st_uid}'s, or others may write in it; have it removed")

    def sizes(self) -> "dict[str, int]":
        return {
            f"{folder}/{name}": os.stat(name, dir_fd=opened, follow_symlinks=False).st_size
            for folder, _, names, opened in self._folders() for name in names
        }  # fmt: skip

    def adler32(self, url: str) -> str:
        with Path(url).open("rb") as file:  # it may be in its writer's memory
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return adler32(Path(url))

    def remove(self) -> "list[str]":
        """Remove all of it; what could not be removed."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
            for _, _, names, opened in self._folders():
                list(threads.map(functools.partial(unlink, opened), names))
        shutil.rmtree(self.url, ignore_errors=True)
        left = list(self.sizes())
        if not left and self._is_there():
            left = [self.url]
        with contextlib.suppress(OSError):  # other trials of the run have theirs in it, or it is not there
            Path(self.url).parent.rmdir()
        return left

    def _folders(self) -> "Iterator[tuple[str, list[str], list[str], int]]":
        """All in it, by opened folders: nobody can put a link to another's files in the place of one."""
        for place in (Path(self.url).parent, Path(self.url)):
            if place.is_symlink():
                raise Failure("refused", f"{place} is a link, and what it leads to is not the trial's to remove")
        with contextlib.suppress(FileNotFoundError):
            yield from os.fwalk(self.url, onerror=unless_gone)

    def _is_there(self) -> bool:
        try:
            Path(self.url).lstat()
        except FileNotFoundError:
            return False
        return True


def unless_gone(error: OSError) -> None:
    """What cannot be looked into may hold files; what is not there does not."""
    if not isinstance(error, FileNotFoundError):
        raise error


def unlink(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):  # what is left is looked at afterwards
        os.unlink(name, dir_fd=folder)


class ServedArea:
    """The same behind an xrootd server; URLs are as the clients have them."""

    def __init__(self, under: str, url: str) -> None:
        parts = re.match(r"(roots?://[^/]+/)(/.*)", url)
        if not parts:
            raise Failure("failed", f"{url}: is no URL like root://host:1094//path")
        self.server, self.path = parts.groups()
        self.door, self.under = self.server.split("/")[2], under.rstrip("/")[len(self.server) :]

    def check_there(self) -> None:
        self._ask("stat", self.under)

    def free(self) -> "tuple[int | None, int | None]":
        answer = run_program("xrdfs", self.door, "query", "space", self.under)
        free = re.search(r"oss\.free=(\d+)", answer.output)
        return int(free.group(1)) if free and answer.status == 0 else None, None

    def make(self) -> None:
        self._ask("mkdir", "-p", self.path)

    def sizes(self) -> "dict[str, int]":
        return {self.server + path: size for path, size, folder in self._entries() if not folder}

    def adler32(self, url: str) -> str:
        answer = run_program("xrdadler32", url, patience_s=600)
        if answer.status or not answer.output.split():
            raise OSError(errno.EIO, answer.last_words)
        return answer.output.split()[0]

    def remove(self) -> "list[str]":
        entries = list(self._entries())
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda entry: self._try("rm", entry[0]), [entry for entry in entries if not entry[2]]))
        for path, _, folder in sorted(entries, reverse=True):  # the deepest first
            if folder:
                self._try("rmdir", path)
        self._try("rmdir", self.path)
        left = [path for path, _, folder in self._entries() if not folder]
        if not left and self._is_there():
            left = [self.path]
        self._try("rmdir", str(Path(self.path).parent))  # other trials of the run may have theirs in it
        return left

    def _entries(self) -> "Iterator[tuple[str, int, bool]]":
        """Path and size of all that is in it, and whether it is a folder; nothing where there is no such write area."""
        answer = run_program("xrdfs", self.door, "ls", "-l", "-R", self.path, patience_s=LIST_S)
        if answer.status != 0 and self._is_there():
            raise Failure("refused", f"xrdfs {self.door} ls -l -R {self.path}: {answer.last_words}")
        for line in answer.output.splitlines():
            # "-rw-r--r-- user group 32000000 2026-11-21 21:47:38 /path", of older versions in another order;
            # a user whom the server cannot name is a number before it
            fields = line.split()
            sizes = [field for field in fields[:-1] if field.isdigit()]
            if len(fields) > 3 and sizes and fields[-1].startswith(self.path + "/"):
                yield fields[-1], int(sizes[-1]), fields[0].startswith("d")

    def _is_there(self) -> bool:
        return self._ask("stat", self.path, may_be_absent=True)

    def _try(self, *question: str) -> bool:
        return run_program("xrdfs", self.door, *question).status == 0

    def _ask(self, *question: str, may_be_absent: bool = False) -> bool:
        answer = run_program("xrdfs", self.door, *question)
        if answer.status != 0 and not (may_be_absent and ABSENT.search(answer.output)):
            raise Failure("refused", f"xrdfs {self.door} {' '.join(question)}: {answer.last_words}")
        return answer.status == 0


if __name__ == "__main__":
    sys.exit(main())
