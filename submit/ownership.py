"""Whose the files are that root makes where others have to go on."""

from __future__ import annotations

import os
from pathlib import Path


def hand_over(path: Path) -> None:
    """Give what root has made to the owner of the folder that it lies in."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
