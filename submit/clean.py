"""`tierbench clean`: runs and sets of replicas that are not needed any more, their sizes, and their end."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tierbench import files, names
from tierbench.dags.records import read_outcome
from tierbench.errors import BusyError, ConfigError, TierbenchError, UnmetNeed
from tierbench.site_configs.site import find_site
from tierbench.spec import NAMED
from tierbench.submit import catalogue
from tierbench.submit.catalogue import adding
from tierbench.submit.console import add_command, say, show
from tierbench.submit.progress import BY_HAND, Run, measuring
from tierbench.trials import read_trial
from tierbench.wrappers.child import run_program

DESCRIPTION = """\
Show what run directories and sets of replicas take, and with --yes remove them. Nothing else is ever removed. These
are refused: a folder that is neither, and a set whose catalogue lists nothing; a run that is still in the queue, or
at work though it was submitted by hand; a run of another access point, where alone can be seen whether it is over;
a set that is being made, or that a run of this access point reads.
"""
EXAMPLES = """\
  tierbench clean runs/*                  what each run takes
  tierbench clean runs/quick-2026* --yes  remove those
  tierbench clean --site my-site.toml     what each set of replicas at the site takes, where its storage is mounted
"""


def register(subcommands: Any) -> None:
    text = "Show what runs and sets of replicas take, and with --yes remove them"
    parser = add_command(subcommands, "clean", _clean, text, DESCRIPTION, EXAMPLES)
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, help="a run directory, or a set of replicas")
    parser.add_argument("--site", help=f"all sets of replicas of this site: {NAMED}")
    parser.add_argument("--yes", action="store_true", help="remove them; else they are only shown")


MARKS = (names.SITE, names.PLAN, names.CATALOGUE)


@dataclass(frozen=True)
class Removable:
    """A folder of ours, known by files in it that go last: an interrupted removal can be repeated."""

    folder: Path
    mark: str
    status: os.stat_result  # whoever may write beside it can put something else in its place

    @property
    def bytes(self) -> int:
        each = (os.stat(entry.name, dir_fd=of, follow_symlinks=False) for of, entry in files.walk(self.folder))
        return sum(status.st_blocks * 512 for status in each)

    def remove(self) -> None:
        try:
            with _idle(self):
                self._empty()
            self.folder.rmdir()  # not before: NFS keeps in it what is removed while it is open, such as the lock
        except OSError as error:
            raise TierbenchError(f"{error.filename or self.folder}: cannot be removed: {error.strerror}") from None

    def _empty(self) -> None:
        here = os.open(self.folder, files.FOLDER)
        try:
            if not os.path.samestat(os.fstat(here), self.status):
                raise TierbenchError(f"{self.folder}: has just become another folder, and is left alone")
            inside = Path(f"/proc/self/fd/{here}")  # wherever its name leads by now
            for path in sorted(inside.iterdir(), key=lambda path: path.name in MARKS):
                if path.is_dir() and not path.is_symlink():
                    files.remove(path)
                else:
                    path.unlink()
        finally:
            os.close(here)


def removable(folder: Path) -> Removable:
    status = folder.stat() if folder.is_dir() else None
    marks = [mark for mark in (names.PLAN, names.CATALOGUE) if (folder / mark).is_file()]
    if status is None or folder.is_symlink() or not marks:
        raise ConfigError(f"{folder}: is neither a run directory nor a set of replicas, and is left alone")
    if marks[0] == names.CATALOGUE and not catalogue.read(folder).entries:
        why = f"its {names.CATALOGUE} lists no replica, so nothing tells that these are any"
        raise ConfigError(f"{folder}: {why}: it is left alone; if it is the rest of a set, remove it yourself")
    return Removable(folder, marks[0], status)


def _clean(arguments: argparse.Namespace) -> int:
    folders = [folder for folder in arguments.folders if not _is_page(folder)]
    if arguments.site:
        replicas = Path(find_site(arguments.site).storage.replicas)
        if not replicas.is_dir():
            raise UnmetNeed(f"{replicas}: is not there, or not yet; call this where the storage is mounted")
        sets = sorted(replicas.glob(f"*/{names.CATALOGUE}"))
        folders += [path.parent for path in sets if catalogue.read(path.parent).entries]
    items = [removable(folder) for folder in dict.fromkeys(map(Path.absolute, folders))]
    if not items:
        show("there is nothing to remove")
        return 0
    sizes = {item.folder: item.bytes for item in items}
    for folder, size in sizes.items():
        show(f"{size / 1e6:10,.1f} MB  {folder}")
        for words in _left_on_storage(folder):
            show(f"    {words}")
    if len(sizes) > 1:
        show(f"{sum(sizes.values()) / 1e6:10,.1f} MB  in all")
    if not arguments.yes:
        show("nothing was removed; --yes does that")
        return 0
    status = 0
    for item in items:
        try:
            item.remove()
            show(f"removed {item.folder}")
        except TierbenchError as error:  # the others make room all the same
            say(str(error))
            status = max(status, error.exit_status)
    return status


def _is_page(path: Path) -> bool:
    """Whether it is a page that lies beside runs, or its figures."""
    return path.is_file() or (path.name.endswith("-plots") and not (path / names.PLAN).exists())


def _left_on_storage(folder: Path) -> Iterator[str]:
    """In words, what only a run's records say to have stayed on the storage: whoever removes them looks there first."""
    for trial in sorted(folder.glob(names.trial_directory("*"))):
        with contextlib.suppress(OSError, ValueError, TierbenchError):
            if outcome := read_outcome(trial):
                yield from (f"{trial.name} has left on the storage: {left}" for left in outcome.left)
            elif (trial / names.BEGUN).exists() and (writes := read_trial(trial).writes):
                yield f"{trial.name} has no outcome: see whether anything is left below {writes['url']}"


@contextlib.contextmanager
def _idle(item: Removable) -> Iterator[None]:
    """Nobody measures in this run, or makes replicas in this set, while it goes."""
    if item.mark == names.CATALOGUE:
        for there, job in measuring():
            plans = str(there / names.PLAN), str(there / names.NIGHT_RUN / names.PLAN)
            # By a process that can be killed: their mount may be dead. What is not ours to read is passed over.
            answer = run_program("grep", "-sqF", "-Dskip", "-e", item.folder.name, *plans, patience_s=5)
            if answer.status in (0, None):
                reads = "is read by" if answer.status == 0 else f"{answer.last_words} to whether it is read by"
                raise BusyError(f"{item.folder}: {reads} {there} ({job})")
        with adding(item.folder):
            yield
        return
    run = Run(item.folder)
    if not run.copy_of:
        run.check_here()
    if run.goes_on:
        by_tierbench = f"is being run; `tierbench stop {item.folder}` ends it"
        raise BusyError(f"{item.folder}: {by_tierbench if run.submission and not run.copy_of else BY_HAND}")
    yield
