"""Trials that need not be computed again: what a trial's tables were made of, and the row that came out, unrounded.

A trial is taken as it was only if every byte of it is: its own files, the tables in its folder, what it takes from the
run beside it (definitions, ceilings, the other trials' pools, the run's columns), and the code that made them. Times of
files say nothing here, so neither a copy nor a clock can make an old number pass for a new one.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tierbench
from tierbench import files, json_files, names
from tierbench.dags.levels import Factor
from tierbench.postprocess.records.load_trial import pools_of_run
from tierbench.postprocess.schema.columns import Column, places, row_of
from tierbench.postprocess.schema.rows import TRIAL_FILES, TrialRow

OF_RUN = (names.PLAN, names.SITE, names.EXPERIMENT, names.CEILINGS)
TRIAL_TABLES = (
    *TRIAL_FILES, names.RESOURCES_CSV, names.JOBS_CSV, names.SAMPLES_CSV, names.CONDITIONS, names.OVER_TIME,
)  # fmt: skip
# The code that makes tables; folders of reports, figures and commands do not.
CODE = (
    "*.py", "postprocess/*.py",
    *(f"{folder}/**/*.py" for folder in ("site_configs", "dags", "monitors", "wrappers")),
    *(f"postprocess/{folder}/**/*.py" for folder in ("schema", "records", "measures", "verdict", "tables")),
)  # fmt: skip


def shared_digest(run: Path, axes: Sequence[Factor], further: Sequence[Column]) -> bytes:
    """Of what all trials' tables are made of beside what is in their own folders."""
    of_run = [list(axes), list(further), pools_of_run(run)]
    return _digest([_code(), *(_file(run / name) for name in OF_RUN), *(repr(each).encode() for each in of_run)])


def row_as_it_was(folder: Path, shared: bytes) -> TrialRow | None:
    """The row of a trial whose tables are there already, if nothing that they are made of has changed."""
    try:
        stored = json_files.read_table(folder / names.MADE_OF)
        if stored["of"] != made_of(folder, shared) or stored["made"] != _tables_digest(folder):
            return None
        return row_of(TrialRow, stored["row"])
    except (FileNotFoundError, json_files.Damaged, KeyError, TypeError, ValueError):
        return None


def keep(folder: Path, shared: bytes, of: str, row: TrialRow) -> None:
    """Remember what a trial's tables were made of, unless that has changed in the meantime."""
    path = folder / names.MADE_OF
    if of != made_of(folder, shared):
        return
    values = {name: row[name] for name in (*places(TrialRow), *row.levels)}
    content = {"of": of, "made": _tables_digest(folder), "row": values}
    # It spares work and no more, so a disk that is full, or may not be written, costs nothing but that.
    with contextlib.suppress(OSError):
        files.replace(path, json.dumps(content, ensure_ascii=False, default=lambda number: number.item()))  # of numpy's


def made_of(folder: Path, shared: bytes) -> str:
    """A digest of all that a trial's tables are made of."""
    return _digest([shared, *_content(folder)]).hex()


def _content(folder: Path) -> Iterator[bytes]:
    """All that is in a trial's folder but its tables: names, and what the files hold."""
    for path, folders, inside_it in os.walk(folder):
        folders.sort()
        inside = Path(path)
        yield os.fsencode(inside.relative_to(folder))
        for name in sorted(inside_it):
            if inside == folder and (name in (*TRIAL_TABLES, names.MADE_OF) or name.startswith(".")):
                continue
            yield os.fsencode(name)
            yield _file(inside / name)


def _tables_digest(folder: Path) -> str:
    return _digest([_file(folder / name) for name in TRIAL_TABLES]).hex()


def _file(path: Path) -> bytes:
    """What a file holds; what cannot be read is as good as its error."""
    try:
        with files.opened(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return f"{error.errno}".encode()


def _digest(pieces: Iterable[bytes]) -> bytes:
    """Of several pieces, none of which can pass for a part of its neighbour."""
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "big"))
        whole.update(piece)
    return whole.digest()


def _code() -> bytes:
    """The code that makes tables, and what computes for it."""
    pieces = [sys.version.encode()]
    for library in ("numpy", "scipy"):
        with contextlib.suppress(PackageNotFoundError):
            pieces.append(version(library).encode())
    for root, path in code_files():
        pieces += [os.fsencode(path.relative_to(root)), _file(path)]
    return _digest(pieces)


def code_files() -> Iterator[tuple[Path, Path]]:
    """Tierbench's folder, with each of its files that a trial's tables may come from."""
    root = Path(tierbench.__file__).parent
    for pattern in CODE:
        for path in sorted(root.glob(pattern)):
            yield root, path
