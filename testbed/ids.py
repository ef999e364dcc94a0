"""User and group ids for the hosts that are nobody's on this machine, whose processes theirs are in the end.

Debian gives its first user and its daemons the ids that the machine's own have (www-data and nobody are the same
everywhere): they could signal the hosts' processes, and read what is theirs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

# Above what sssd maps a directory's users to, and what systemd, containers and /etc/subuid give away.
BASE = 2_100_000_000
KEPT = (0, 5)  # root; and the group tty, by whose number terminals are mounted


def moved(identity: int) -> int:
    """The id that takes the place of one of Debian's."""
    return identity if identity in KEPT else identity + BASE


def move(root: Path) -> None:
    """Give all users and groups of a root file system, and what is theirs, ids of their own."""
    for name, fields in (("passwd", (2, 3)), ("group", (2,))):
        file = root / "etc" / name
        lines = [line.split(":") for line in file.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            for field in fields:
                line[field] = str(moved(int(line[field])))
        file.write_text("".join(":".join(line) + "\n" for line in lines), encoding="utf-8")
    for path in _all(root):
        status = path.lstat()
        if (moved(status.st_uid), moved(status.st_gid)) != (status.st_uid, status.st_gid):
            os.lchown(path, moved(status.st_uid), moved(status.st_gid))
            if not stat.S_ISLNK(status.st_mode):
                path.chmod(stat.S_IMODE(status.st_mode))  # a new owner takes setuid and setgid away


def _all(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        yield from (Path(folder) / name for name in (*folders, *files))
