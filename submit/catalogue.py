"""The list of a set's replicas beside them: a line of JSON for each, appended when it is made.

What is not in it does not count as made. A line that is damaged, as by a full disk, is passed over and counted.
"""

import contextlib
import dataclasses
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tierbench import files, json_files, names
from tierbench.dags.credentials import variables
from tierbench.dags.experiment import Experiment
from tierbench.dags.replicas import Entry
from tierbench.errors import BusyError
from tierbench.json_files import Damaged
from tierbench.site_configs.site import Access, Site
from tierbench.wrappers.child import run_program

FETCH_SECONDS = 20


@dataclass(frozen=True)
class Catalogue:
    entries: dict[str, Entry] = field(default_factory=dict)
    damaged_lines: int = 0

    def add(self, entry: Entry, file: IO[str]) -> None:
        """A replica that has been made, also to the catalogue's file."""
        file.write(json.dumps(dataclasses.asdict(entry)) + "\n")
        file.flush()
        self.entries[entry.name] = entry


def parse(text: str) -> Catalogue:
    entries, damaged = {}, 0
    for line in text.splitlines():
        try:
            entry = json_files.parse_as(Entry, line, "a line")
        except Damaged:
            damaged += 1
        else:
            entries[entry.name] = entry  # made anew, it has another line further down
    return Catalogue(entries, damaged)


def read(directory: Path) -> Catalogue:
    """The catalogue of the set in this directory; an empty one where there is none."""
    try:
        return parse(files.read_text(directory / names.CATALOGUE, errors="replace"))
    except FileNotFoundError:
        return Catalogue()


@contextlib.contextmanager
def adding(directory: Path) -> Iterator[tuple[Catalogue, IO[str]]]:
    """Hold the catalogue of the set in this directory, and its file, to add to it; nobody else makes the set then."""
    path, above = directory / names.CATALOGUE, directory.stat()
    lock = path.with_name(f".{path.name}.lock")
    busy = BusyError(f"{path}: another `tierbench replicas` makes this set; wait for its end")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.locked(lock, gone=True, held=busy))
            if os.geteuid() == 0:  # should this process be killed, the owner can go on
                os.chown(lock, above.st_uid, above.st_gid, follow_symlinks=False)
        except OSError as error:
            if error.errno not in files.NO_LOCKS:
                raise
            lock.unlink(missing_ok=True)
        file = stack.enter_context(open(path, "a+", encoding="utf-8", errors="replace", opener=_no_link))
        hand_over(path)
        file.seek(0)
        text = file.read()
        if text and not text.endswith("\n"):  # cut off; what follows begins anew
            file.write("\n")
        yield parse(text), file


def catalogues(site: Site, experiment: Experiment) -> dict[str, dict[str, Entry]]:
    """For each set of replicas whose catalogue can be read from here, by its folder: what is known of its files."""
    readable = {folder: fetch(site, folder) for folder in experiment.used_replicas}
    return {folder: catalogue.entries for folder, catalogue in readable.items() if catalogue is not None}


def fetch(site: Site, folder: str) -> Catalogue | None:
    """The catalogue of a set by the first access that works from this host; None where it cannot be read."""
    path = f"{site.storage.replicas}/{folder}/{names.CATALOGUE}"
    accesses: dict[str, Access] = {}
    for access in site.access.values():
        accesses.setdefault(access.url(path), access)
    for url, access in accesses.items():
        # A mount whose server is gone keeps whoever reads there for ever, but for a process that can be killed.
        command = ["cat", "--", url] if url.startswith("/") else ["xrdcp", "--silent", url, "-"]
        environment = {**os.environ, **variables(access)}
        with contextlib.suppress(OSError):  # no xrdcp: others may do
            answer = run_program(*command, patience_s=FETCH_SECONDS, stderr=subprocess.DEVNULL, env=environment)
            if answer.status == 0:
                return parse(answer.output)
    return None


def _no_link(path: str, flags: int) -> int:
    """Whoever may write in the folder can put a link to anything there, which root must neither fill nor give away."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def hand_over(path: Path) -> None:
    """Let those read what was made whom the folder above lets, whatever our umask, and its owner go on after root."""
    here = _no_link(str(path), os.O_RDONLY | os.O_NONBLOCK)
    try:
        above, made = path.parent.stat(), os.fstat(here)
        readable = above.st_mode & (0o555 if stat.S_ISDIR(made.st_mode) else 0o444)
        os.fchmod(here, stat.S_IMODE(made.st_mode) | readable)
        if os.geteuid() == 0:
            os.fchown(here, above.st_uid, above.st_gid)
    finally:
        os.close(here)
