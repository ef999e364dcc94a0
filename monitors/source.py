"""What a source of the sampler is: some columns of a record, and how to read them afresh from the kernel."""

import argparse
import os
from pathlib import Path
from typing import Any, NamedTuple

PIECE = 1 << 16
SHORT = 2048  # the kernel hands out about a page a time, less a line at most: what is shorter than this is the rest


class Refusal(Exception):
    """Carries the exit code."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Column(NamedTuple):
    """One number of a record: how wide it is written, and what it counts for whom."""

    name: str
    width: int
    unit: str
    kind: str  # a counter rises; a gauge is what it is; a clock is neither
    scope: str  # whose it is: machine, namespace, interface, host


class Source:
    """Derived from in each file of sources/: a file is opened once, and looked at for each record."""

    columns = ()  # type: tuple[Column, ...]
    file_name = ""  # of what is looked at, below /proc; a source that looks at something else opens that itself

    def __init__(self, options: argparse.Namespace) -> None:
        """Open what is to be read; options.proc, options.sys and options.interface say where."""
        self.file = ProcFile(options.proc / self.file_name)

    def header(self) -> "dict[str, Any]":
        """What the file's header is to say of it."""
        return {}

    def look(self) -> Any:
        """What is there now: a value for each column, -1 where it is not known, or what values() makes them of."""
        return self.file.read()

    def values(self, look: Any) -> "tuple[int, ...]":
        """The values in what a look has seen; several looks are worked out together, for less."""
        return look  # type: ignore[no-any-return]


class ProcFile:
    """A file under /proc, kept open; each read gives its present content, or nothing where it cannot."""

    def __init__(self, path: Path) -> None:
        try:
            self.fd = os.open(str(path), os.O_RDONLY)
        except OSError:
            self.fd = -1

    def read(self) -> bytes:
        if self.fd < 0:
            return b""
        try:
            text = piece = os.pread(self.fd, PIECE, 0)
            while len(piece) >= SHORT:  # a host has many interfaces or disks
                piece = os.pread(self.fd, PIECE, len(text))
                text += piece
        except OSError:
            return b""
        return text


def first_line(path: Path) -> "str | None":
    """A kernel setting as text, or None where this kernel, or this namespace, does not show it."""
    try:
        return " ".join(path.read_text().split())
    except OSError:
        return None
