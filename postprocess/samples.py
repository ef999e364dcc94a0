"""Reads what a sampler wrote: a JSON header, fixed-width records, a JSON trailer."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tierbench.errors import TierbenchError
from tierbench.postprocess.digits import Integers, integers

FORMAT = 1
CHUNK_RECORDS = 16_384  # a chunk's working set stays in the CPU's cache
LONGEST_TRAILER = 4096
NEEDED = {"host", "role", "interface", "period_s", "clock_wall_ns", "clock_mono_ns", "columns", "record_bytes"}


class UnreadableSamples(TierbenchError):
    """A sample file holds nothing that could be used."""


@dataclass(frozen=True)
class Samples:
    """One sampler's records as columns of integers, and what the file says of itself."""

    header: dict[str, Any]
    columns: dict[str, Integers]
    trailer: dict[str, Any] | None
    damage: str | None
    cut: bool = False  # the damage is only that its last record is not whole, as where a sampler was ended

    def __len__(self) -> int:
        return len(self.columns["mono_ns"])

    @property
    def host(self) -> str:
        return str(self.header["host"])

    @property
    def role(self) -> str:
        return str(self.header["role"])

    @property
    def period_s(self) -> float:
        return float(self.header["period_s"])

    @property
    def time_ns(self) -> Integers:
        """The wall clock at the sampler's start, carried on by the monotonic clock, which does not step."""
        start_ns: int = self.header["clock_wall_ns"] - self.header["clock_mono_ns"]
        return self.columns["mono_ns"] + start_ns


def read_samples(path: Path, only: Collection[str] | None = None) -> Samples:
    """The samples of a file, of all or some columns; what follows its last whole record is left out, and said to be."""
    with path.open("rb") as file:
        header = _header(file.readline(), f"{path.parent.name}/{path.name}")
        begin = file.tell()
        trailer, end = _trailer(file, begin)
        count, rest = divmod(end - begin, header["record_bytes"])
        file.seek(begin)
        columns = _read_records(file, header, count, only)
    sound = len(columns["mono_ns"])
    damage = None
    if sound < count:
        damage = f"record {sound + 1} of {count} is damaged; it and what follows are left out"
    elif rest:
        damage = f"the last record is cut off, after {count} whole ones"
    elif trailer and trailer.get("records", count) != count:
        damage = f"holds {count} records, but the sampler wrote {trailer['records']}"
    cut = sound == count and bool(rest) and trailer is None
    return Samples(header, columns, trailer, damage, cut)


def _read_records(
    file: BinaryIO, header: dict[str, Any], count: int, only: Collection[str] | None
) -> dict[str, Integers]:
    """The columns of so many records, or of as many as come before the first damaged one."""
    record = header["record_bytes"]
    names = [column["name"] for column in header["columns"]]
    columns = {name: np.empty(count, np.int64) for name in names if only is None or name in only or name == "mono_ns"}
    done = 0
    while done < count:
        wanted = min(CHUNK_RECORDS, count - done)
        block = file.read(wanted * record)
        sound = _sound_records(block, record)
        block = block[: sound * record]
        start = 1  # a space stands before each column
        for column in header["columns"]:
            if sound and column["name"] in columns:
                columns[column["name"]][done : done + sound] = integers(block, record, start, column["width"])
            start += column["width"] + 1
        done += sound
        if sound < wanted:
            break
    return {name: values[:done] for name, values in columns.items()}


def _sound_records(block: bytes, record: int) -> int:
    """How many records, from the first, begin and end as a record does."""
    records = np.frombuffer(block, np.uint8, len(block) // record * record).reshape(-1, record)
    sound = (records[:, 0] == ord(" ")) & (records[:, -1] == ord("\n"))
    return len(sound) if sound.all() else int(sound.argmin())


def _trailer(file: BinaryIO, begin: int) -> tuple[dict[str, Any] | None, int]:
    """The sampler's last words, if it had time for them, and where its records end."""
    end = file.seek(0, os.SEEK_END)
    tail_begin = max(begin, end - LONGEST_TRAILER)
    file.seek(tail_begin)
    tail = file.read()
    brace = tail.find(b"{")
    if brace < 0:
        return None, end
    try:
        trailer = json.loads(tail[brace:])
    except ValueError:  # killed while it wrote them
        trailer = None
    return trailer if isinstance(trailer, dict) else None, tail_begin + brace


def _header(line: bytes, where: str) -> dict[str, Any]:
    if not line.strip():
        raise UnreadableSamples(f"{where}: is empty; the sampler never ran")
    try:
        header: dict[str, Any] = json.loads(line)
    except ValueError:
        header = {}
    if not isinstance(header, dict) or header.get("tierbench") != "samples":
        raise UnreadableSamples(f"{where}: does not begin with the header of a sample file")
    if header.get("format") != FORMAT:
        raise UnreadableSamples(f"{where}: has format {header.get('format')}; this tierbench reads format {FORMAT}")
    missing = sorted(NEEDED - header.keys())
    if missing:
        raise UnreadableSamples(f"{where}: its header lacks {', '.join(missing)}")
    lacking = {"mono_ns", "tx_bytes"} - {column["name"] for column in header["columns"]}
    if lacking:
        raise UnreadableSamples(f"{where}: has no column {', '.join(sorted(lacking))}")
    widths = [column["width"] for column in header["columns"]]
    if sum(widths) + len(widths) + 1 != header["record_bytes"]:
        raise UnreadableSamples(f"{where}: its columns do not add up to records of {header['record_bytes']} bytes")
    return header
