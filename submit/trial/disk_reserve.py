"""The room on the access point's disk: enough for a trial to begin, and a reserve with which to close its books.

A full disk makes DAGMan lose events, and then it waits for ever; so a trial is ended before, and no other begins
until there is room again. Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from tierbench import names
from tierbench.files import poll, unlink

RESERVE_BYTES = 32 << 20
LOW_BYTES = 64 << 20
PROBE_BYTES = 1 << 14
LOW_FILES = 1000
FULL = errno.EDQUOT, errno.ENOSPC
POLL_SECONDS = 1.0
WRITTEN_SECONDS = 0.2  # by then an event that is being written is there whole
PATIENCE_SECONDS = 86_400.0
HEADS = re.compile(rb"\d{3} \(\d+\.\d+\.\d+\) (\d{4}-|\d\d/)\d\d")  # of HTCondor's events


def free_bytes(directory: Path) -> int:
    """What the user may still write there; nothing where no more files can be made."""
    room = os.statvfs(str(directory))
    # A file system that does not count its files says that it has none.
    return 0 if room.f_files and room.f_favail < LOW_FILES else room.f_bavail * room.f_frsize


def may_write(trial: Path) -> bool:
    """Whether the user may write there, which a quota may end where the file system has room."""
    probe = trial / (names.RESERVE + ".probe")
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    except OSError as error:
        return error.errno not in FULL
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return True


def hold_reserve(trial: Path) -> bool:
    """Take up the room that closing a trial's books needs when there is no other; False where a quota leaves none."""
    reserve = trial / names.RESERVE
    if reserve.exists():
        return True
    try:
        with reserve.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
    except OSError as error:
        give_up_reserve(trial)
        return error.errno not in FULL
    return True


def give_up_reserve(trial: Path) -> None:
    unlink(trial / names.RESERVE)


def close_cut_event(trial: Path) -> None:
    """A full disk has cut off an event of HTCondor's: its end, or DAGMan would take it and the next one for one."""
    log = trial / names.NODES_LOG
    with contextlib.suppress(OSError):
        cut = log.read_bytes()
        time.sleep(WRITTEN_SECONDS)
        if cut and not cut.endswith(b"...\n") and log.read_bytes() == cut:
            with log.open("ab") as file:
                file.write(b"\n" if cut.endswith(b"\n...") else b"\n...\n")


def has_cut_event(trial: Path) -> bool:
    """Whether an event was cut off while the disk was full for a moment: DAGMan missed the one that followed."""

    log = trial / names.NODES_LOG

    def cut() -> bool:
        text = log.read_bytes() if log.exists() else b""
        return len(HEADS.findall(text)) > text.count(b"\n...\n")

    if not cut():
        return False
    time.sleep(WRITTEN_SECONDS)
    return cut()


def wait_for_room(trial: Path, hold: bool = False) -> bool:
    """Whether there is room for a trial, at once or within a day; where it is to hold its reserve, it has it then."""

    def is_there() -> bool:
        needed = LOW_BYTES + (0 if (trial / names.RESERVE).exists() else RESERVE_BYTES)
        return free_bytes(trial) >= needed and (not hold or hold_reserve(trial))

    return poll(is_there, PATIENCE_SECONDS, POLL_SECONDS)
