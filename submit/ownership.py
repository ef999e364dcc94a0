"""Whose the files on the storage are, and who may read them: as with the folder above, whoever made them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def hand_over(path: Path) -> None:
    """Let those read what was made whom the folder above lets, whatever our umask, and its owner go on after root."""
    above, made = path.parent.stat(), path.stat()
    readable = above.st_mode & (0o555 if path.is_dir() else 0o444)
    path.chmod(stat.S_IMODE(made.st_mode) | readable)
    if os.geteuid() == 0:
        os.chown(path, above.st_uid, above.st_gid)
