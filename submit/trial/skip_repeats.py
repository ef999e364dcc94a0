"""Which repetitions of a trial need not be run, as enough of them have been measured.

Looked at whenever one of them has its tables, each time for all that have not begun: one that was at work when enough
seemed to be known may show that it is not. Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import math
import shutil
import subprocess
from pathlib import Path

from tierbench import names
from tierbench.files import locked, unlink
from tierbench.submit.trial.dagman import at_work


def tierbench() -> "str | None":
    """The command, where it is installed; without it there are no tables here, and each repetition is run."""
    return shutil.which("tierbench")


def look_again(trial: Path, whole_run: bool = False) -> None:
    """Mark what has not begun as not needed, or as needed after all: the repetitions of a trial that has its tables.

    Of a run that goes on until its question is answered, all of its trials.
    """
    run, command = trial.parent.parent, tierbench()
    alike = trial.parent.iterdir() if whole_run else other_repetitions(trial)
    to_come = [other for other in alike if not (other / names.BEGUN).exists()]
    with locked(run / names.ENOUGH_LOCK, math.inf):  # who looks last has seen the tables of all
        if to_come and command:
            call = [command, "enough", str(run)] + ([] if whole_run else [to_come[0].name])
            enough = subprocess.run(call, stdout=subprocess.PIPE, check=False)
            spared = enough.stdout.decode().split() if whole_run else [other.name for other in to_come]
            with locked(run / names.LOCK_LOOK, math.inf):
                for other in to_come:
                    mark(other, not_needed=enough.returncode == 0 and other.name in spared)
        (trial / names.COUNTED).touch()


def mark(trial: Path, not_needed: bool) -> None:
    """Of a trial that has come to measure meanwhile it is decided."""
    if (trial / names.BEGUN).exists() or (trial / names.SERVED).exists():
        return
    if not_needed:
        (trial / names.NOT_NEEDED).touch()
    else:
        unlink(trial / names.NOT_NEEDED)


def is_spared(trial: Path) -> bool:
    """Whether a trial is marked; that may change as long as some of its repetitions are at work."""
    return (trial / names.NOT_NEEDED).exists() and not any(map(is_awaited, other_repetitions(trial)))


def is_awaited(trial: Path) -> bool:
    """Whether a trial will yet be looked at."""
    return (trial / names.BEGUN).exists() and not (trial / names.COUNTED).exists() and at_work(trial)


def awaits_look(trial: Path) -> bool:
    """Whether repetitions before a trial's are still to be looked at."""
    return any(repeat(other)[1] < repeat(trial)[1] and is_awaited(other) for other in trial.parent.iterdir())


def other_repetitions(trial: Path) -> "list[Path]":
    """The other repetitions of a trial, the earlier ones first."""
    alike = [path for path in trial.parent.iterdir() if path != trial and repeat(path)[0] == repeat(trial)[0]]
    return sorted(alike, key=lambda path: repeat(path)[1])


def repeat(trial: Path) -> "tuple[str, int]":
    """What the names of a trial's repetitions have in common, and which of them it is."""
    stem, _, number = trial.name.rpartition(".r")
    return (stem, int(number)) if number.isdigit() else (trial.name, 0)
