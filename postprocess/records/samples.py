"""Reads what a sampler wrote: a JSON header, fixed-width records, a JSON trailer."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tierbench import files, json_files
from tierbench.errors import TierbenchError
from tierbench.json_files import Damaged
from tierbench.monitors.sources import SOURCES
from tierbench.postprocess.arrays import Booleans, Integers
from tierbench.trials import Clock

FORMAT = 1
CHUNK_RECORDS = 16_384  # a chunk's working set stays in the CPU's cache
LONGEST_TRAILER = 4096
WIDEST = 19  # digits of a 64-bit number
LONGEST_PERIOD_S = 3600
LATEST_NS = 4 * 10**18  # in the year 2096
SPACE, MINUS, ZERO, NEWLINE = b" -0\n"
FOR_A_PERIOD, LEAST_OF_PERIOD = 10, 0.75  # records, and the share of a period by which they are apart at least
ALIKE_NS = 100_000_000  # a header and the first record that tell other times are not of one sampler


class UnreadableSamples(TierbenchError):
    """A sample file holds nothing that could be used."""


@dataclass(frozen=True)
class SampledColumn:
    """One number of each record, how many characters it takes, and what it is."""

    name: str
    width: int
    unit: str = ""
    kind: str = ""
    scope: str = ""
    source: str = ""


@dataclass(frozen=True)
class Card:
    """An interface, and the speed that its driver states."""

    name: str
    link_speed_mbps: int | None = None
    link_speed_real: bool | None = None


@dataclass(frozen=True)
class Header:
    """What a sampler says of itself first."""

    host: str
    role: str
    interface: str
    period_s: float
    clock_wall_ns: int
    clock_mono_ns: int
    columns: list[SampledColumn]
    record_bytes: int
    trial: str = ""
    interfaces: list[Card] = field(default_factory=list)
    boot_id: str | None = None
    link_speed_mbps: int | None = None
    link_speed_real: bool | None = None
    ncpu: int | None = None
    own_cpu_limit_cores: float | None = None
    tuning: dict[str, str | None] | None = None
    packages: dict[str, Any] | None = None
    mounts: dict[str, Any] | None = None
    disks: list[str] | None = None
    kernel: Any = None
    python: Any = None

    @property
    def cards(self) -> list[Card]:
        """The interfaces; where they are not listed, the one."""
        return self.interfaces or [Card(self.interface, self.link_speed_mbps, self.link_speed_real)]


@dataclass(frozen=True)
class Trailer:
    """A sampler's last words."""

    records: int | None = None
    late_ticks: int | None = None
    missed_ticks: int = 0
    clocks: list[Clock] = field(default_factory=list)


@dataclass(frozen=True, eq=False)  # arrays are not equal as a whole
class Samples:
    """One sampler's records as columns of integers, and what the file says of itself.

    Of several interfaces each has columns of its own, tx_bytes.eth0, until they are parted; then it is one's `card`.
    """

    header: Header
    columns: dict[str, Integers]
    trailer: Trailer | None
    damage: str | None
    cut: bool = False  # the damage is only that its last record is not whole, as where a sampler was ended
    card: Card | None = None  # what the header says of the interface

    def __len__(self) -> int:
        return len(self.columns["mono_ns"])

    @property
    def host(self) -> str:
        return self.header.host

    @property
    def role(self) -> str:
        return self.header.role

    @property
    def interface(self) -> str:
        return self.card.name if self.card else ""

    @property
    def named(self) -> str:
        """Whose these are: a host, or one interface of several."""
        return self.host if len(self.header.cards) == 1 else f"{self.host} {self.interface}"

    def by_interface(self) -> list[Samples]:
        """The same for each interface: its counters by their plain names, and the columns that are its host's."""
        cards = self.header.cards
        if len(cards) == 1:
            return [self]
        split = {name: name.partition(".")[::2] for name in self.columns}
        return [
            replace(self, card=card, columns={
                counter: self.columns[name] for name, (counter, of) in split.items() if of in ("", card.name)
            })
            for card in cards
        ]  # fmt: skip

    def reports(self, column: str, least: int = 0) -> bool:
        """Whether the host has ever reported so much there, and not the kernel's -1."""
        return column in self.columns and bool(self.columns[column].max(initial=-1) >= least)

    def until(self, mono_ns: int) -> Samples:
        """Those that were taken until a time of the host's monotonic clock."""
        count = int((self.columns["mono_ns"] <= mono_ns).sum())
        return replace(self, columns={name: values[:count] for name, values in self.columns.items()})

    @property
    def period_s(self) -> float:
        return self.header.period_s

    @property
    def time_ns(self) -> Integers:
        """The wall clock at the sampler's start, carried on by the monotonic clock, which does not step."""
        return self.columns["mono_ns"] + (self.header.clock_wall_ns - self.header.clock_mono_ns)


def read_samples(path: Path) -> Samples:
    """The samples of a file; what follows its last whole record is left out, and said to be."""
    with _opened(path) as (file, header):
        begin = file.tell()
        trailer, end, unread = _trailer(file, begin)
        count, rest = divmod(end - begin, header.record_bytes)
        file.seek(begin)
        columns = _read_records(file, header, count)
    damage = _damage(columns["mono_ns"], count, rest, trailer) or unread or _other_times(header, columns)
    cut = bool(rest) and len(columns["mono_ns"]) == count and trailer is None and not unread
    return Samples(header, columns, trailer, damage, cut, header.cards[0] if len(header.cards) == 1 else None)


def read_header(path: Path) -> Header:
    with _opened(path) as (_, header):
        return header


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, Header]]:
    """A sample file behind its header."""
    where = f"{path.parent.name}/{path.name}"
    try:
        with files.opened(path) as file:
            yield file, _header(file.readline(), where)
    except OSError as error:
        raise UnreadableSamples(f"{where}: cannot be read: {error.strerror}") from None


def plain(column: str) -> str:
    """A column's name without the interface that it is of."""
    return column.partition(".")[0]


def _damage(mono_ns: Integers, count: int, rest: int, trailer: Trailer | None) -> str | None:
    """What is wrong with a file whose records have been read as far as they are sound."""
    if len(mono_ns) < count:
        return f"record {len(mono_ns) + 1} of {count} is damaged; it and what follows are left out"
    if rest:
        return f"the last record is cut off, after {count} whole ones"
    if trailer and trailer.records not in (None, count):
        return f"holds {count} records, but the sampler wrote {trailer.records}"
    return None


def _other_times(header: Header, columns: dict[str, Integers]) -> str | None:
    """Whether the header, by whose clocks and period all samples are judged, has other ones than the records."""
    mono_ns = columns["mono_ns"]
    mean_s = float(mono_ns[-1] - mono_ns[0]) / 1e9 / (len(mono_ns) - 1) if len(mono_ns) >= FOR_A_PERIOD else np.inf
    if mean_s < LEAST_OF_PERIOD * header.period_s:  # a sampler may miss ticks, and has no more of them
        return f"its records are {mean_s:.2g} s apart, and not the {header.period_s:g} s of its header"
    if not len(columns.get("wall_ns", ())):
        return None
    apart = columns["wall_ns"][0] - columns["mono_ns"][0] - (header.clock_wall_ns - header.clock_mono_ns)
    return f"its header's clocks are {apart / 1e9:.1f} s off its records'" if abs(apart) > ALIKE_NS else None


def _read_records(file: BinaryIO, header: Header, count: int) -> dict[str, Integers]:
    """The columns of so many records, or of as many as come before the first damaged one."""
    record = header.record_bytes
    columns = {column.name: np.empty(count, np.int64) for column in header.columns}
    done = 0
    while done < count:
        wanted = min(CHUNK_RECORDS, count - done)
        block = file.read(wanted * record)
        sound = _sound_records(block, header)
        numbers = np.fromstring(block[: sound * record], np.int64, sep=" ").reshape(sound, len(header.columns))
        for column, values in zip(header.columns, numbers.T, strict=True):
            columns[column.name][done : done + sound] = values
        backwards = np.flatnonzero(np.diff(columns["mono_ns"][max(done - 1, 0) : done + sound]) <= 0)
        in_order = int(backwards[0]) + (done == 0) if len(backwards) else sound
        done += in_order
        if in_order < wanted:
            break
    return {name: values[:done] for name, values in columns.items()}


def _sound_records(block: bytes, header: Header) -> int:
    """How many records, from the first, hold right-aligned numbers in their columns and nothing else."""
    width = header.record_bytes
    records = np.frombuffer(block, np.uint8, len(block) // width * width).reshape(-1, width)
    after = np.cumsum([column.width + 1 for column in header.columns])  # what stands behind each column
    blank = records == SPACE
    broken: Booleans = blank[:, 1:] & ~blank[:, :-1]  # a blank behind a digit, which is right behind a column alone
    broken[:, after - 1] = blank[:, after - 1] | ~blank[:, after]
    broken[:, -1] = blank[:, -2] | (records[:, -1] != NEWLINE)
    sound = np.logical_and(blank[:, 0], ~broken.any(axis=1))
    if block.translate(None, b" \n0123456789"):  # damage, or "-1" alone in its column: the kernel's "no such thing"
        fine = blank | ((records >= ZERO) & (records < ZERO + 10))
        fine[:, after - 2] |= (
            (records[:, after - 2] == MINUS) & (records[:, after - 1] == ZERO + 1) & blank[:, np.maximum(after - 3, 0)]
        )
        sound = np.logical_and(sound, fine[:, :-1].all(axis=1))
    return len(sound) if sound.all() else int(sound.argmin())


def _trailer(file: BinaryIO, begin: int) -> tuple[Trailer | None, int, str | None]:
    """The sampler's last words, if it had time for them, where its records end, and what is wrong with the words."""
    end = file.seek(0, os.SEEK_END)
    tail_begin = max(begin, end - LONGEST_TRAILER)
    file.seek(tail_begin)
    tail = file.read()
    brace = tail.find(b"{")
    if brace < 0:
        return None, end, None
    records_end, words = tail_begin + brace, tail[brace:]
    try:
        return json_files.parse_as(Trailer, words, "its trailer"), records_end, None
    except Damaged as error:  # without its end it was killed while it wrote them
        return None, records_end, str(error) if words.endswith(b"\n") else None


def _header(line: bytes, where: str) -> Header:
    if not line.strip():
        raise UnreadableSamples(f"{where}: is empty: the sampler never ran")
    try:
        content = json_files.parse_as(dict[str, Any], line, where)
    except Damaged:
        content = {}
    if content.get("tierbench") != "samples":
        raise UnreadableSamples(f"{where}: does not begin with the header of a sample file")
    if content.get("format") != FORMAT:
        raise UnreadableSamples(f"{where}: has format {content.get('format')}; this tierbench reads format {FORMAT}")
    try:
        header = json_files.typed(Header, content, f"{where}: its header")
    except Damaged as error:
        raise UnreadableSamples(str(error)) from None
    for trouble in _troubles(header):
        raise UnreadableSamples(f"{where}: {trouble}")
    return header


def _troubles(header: Header) -> Iterator[str]:
    """What of its times, or of the columns that must be counted and make up its records, is none."""
    if not 0 < header.period_s <= LONGEST_PERIOD_S:
        yield f"its header is damaged: a period of {header.period_s:g} s"
    if not all(0 <= clock < LATEST_NS for clock in (header.clock_wall_ns, header.clock_mono_ns)):
        yield "its header is damaged: its clocks are no times"
    endings = [""] if len(header.cards) == 1 else [f".{card.name}" for card in header.cards]
    moved = {f"{counter}{ending}" for counter in ("rx_bytes", "tx_bytes") for ending in endings}
    if missing := {"mono_ns", *moved} - {column.name for column in header.columns}:
        yield f"has no column {', '.join(sorted(missing))}"
    for column in header.columns:  # the tables rely on the kinds of our own
        ours = OURS.get(plain(column.name))
        if ours and column.source and column.kind != ours.kind:
            yield f"its header is damaged: {column.name} is a {ours.kind}, and not {column.kind!r}"
    widths = [column.width for column in header.columns]
    if not all(0 < width <= WIDEST for width in widths):
        yield f"its header is damaged: columns of {min(widths)} to {max(widths)} characters"
    if sum(widths) + len(widths) + 1 != header.record_bytes:
        yield f"its columns do not add up to records of {header.record_bytes} bytes"


# Headers of the first samplers say only their columns' names: what those are, the sampler's own sources say.
OURS = {
    column.name: SampledColumn(**column._asdict(), source=source.__name__.lower())
    for source in SOURCES
    for column in source.columns
}


def described(header: Header) -> dict[str, SampledColumn]:
    """The columns of a file by their plain names; one of which nothing is known is left out."""
    columns = {plain(column.name): column for column in header.columns}
    return {
        name: replace(column, name=name) if column.source else OURS[name]
        for name, column in columns.items()
        if column.source or name in OURS
    }


def counters(header: Header) -> dict[str, list[str]]:
    """The counters of each source, which can only begin anew together."""
    by_source: dict[str, list[str]] = defaultdict(list)
    for column in described(header).values():
        if column.kind == "counter":
            by_source[column.source].append(column.name)
    return by_source


def ticks(header: Header) -> set[str]:
    """Counters that the kernel works out afresh each time, so that they may fall by a tick."""
    return {column.name for column in described(header).values() if column.unit == "jiffies"}
