"""Which mount a file is on, as a process sees it: a job has a copy of all mounts from its begin.

The kernel's own list is read, and links are followed up to the first mount only, so that no file system is asked for
anything: one that does not answer would hold up whoever asks.
"""

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from tierbench.host import read_text

LIST = "/proc/self/mountinfo"
KERNELS_OWN = ("/proc", "/sys", "/dev")
TRIGGER = "autofs"  # is no file system yet, and mounts one when it is asked for a file
MOST_LINKS = 40
ESCAPED = re.compile(r"\\([0-7]{3})")


class Place(NamedTuple):
    """The mount that a file is on, and the device number of its file system: mounted anew it has another."""

    path: str  # of the file, without the links that lead to its mount
    point: str
    device: str


def mounts() -> "dict[str, str]":
    """The file systems' device numbers by the folders where they are mounted, as this process sees them."""
    return mounts_in(read_text(LIST))


def mounts_in(text: str) -> "dict[str, str]":
    """The same by the kernel's list; the last one of a folder hides those before it."""
    devices = {}
    for line in text.splitlines():
        fields, _, kind = line.partition(" - ")
        device, point = (*fields.split(" "), "", "", "", "", "")[2:5:2]
        point = ESCAPED.sub(lambda code: chr(int(code.group(1), 8)), point)
        if point and not kind.startswith(TRIGGER) and not any(is_in(point, folder) for folder in KERNELS_OWN):
            devices[point] = device
    return devices


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder's or leads below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def point_of(path: str, points: "Mapping[str, str]") -> str:
    """The folder where the file system of a file is mounted."""
    return max((point for point in points if is_in(path, point)), key=len, default="")


def place_of(path: str, points: "Mapping[str, str]") -> "Place | None":
    """Where a file is; none where the mounts are not known."""
    at, rest, followed = PurePosixPath("/"), list(PurePosixPath(path).parts[1:]), 0
    while rest and point_of(str(at), points) == "/":
        target = "" if followed > MOST_LINKS or str(at / rest[0]) in points else target_of(at / rest[0])
        if target:
            there = PurePosixPath(os.path.normpath(str(at / target)))
            at, rest, followed = PurePosixPath("/"), [*there.parts[1:], *rest[1:]], followed + 1
        else:
            at, rest = at / rest[0], rest[1:]
    whole = str(at.joinpath(*rest))
    point = point_of(whole, points)
    return Place(whole, point, points[point]) if point else None


def target_of(path: PurePosixPath) -> str:
    """Where a link leads to; nothing of what is none."""
    try:
        return os.readlink(str(path))  # noqa: PTH115  Path's own came with Python 3.9
    except OSError:
        return ""


def places_of(paths: "list[str]") -> "list[Place]":
    """The mounts that files are on, each with the first one that is on it."""
    points, places = mounts(), {}  # type: dict[str, str], dict[tuple[str, str], Place]
    for path in paths:
        place = place_of(path, points)
        if place:
            places.setdefault(place[1:], place)
    return list(places.values())
