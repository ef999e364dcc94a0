#!/usr/bin/env python3
"""Makes a trial's directory as it was written, so that the trial runs whole and from the beginning.

usage: fresh.py       (in the trial's directory on the access point; DAGMan runs it before each try)

Whatever an earlier try has left is moved to tries/1, tries/2, ... Among it is DAGMan's rescue file,
with which a second try would skip the flush. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 the directory is fresh; 1 it could not be made so; 2 this is not the directory of a trial
"""

import sys
from pathlib import Path

WRITTEN = ("trial.dag", "trial.json", "replicas.txt")
FILLED = ("clients", "samples", "flush")
TRIES = "tries"


def main() -> int:
    trial = Path.cwd()
    missing = [name for name in WRITTEN if not (trial / name).is_file()]
    if missing:
        print(f"fresh: {trial} is not a trial's directory: it has no {missing[0]}", file=sys.stderr)
        return 2
    try:
        leftovers = [path for path in trial.iterdir() if is_left_over(path)]
        if leftovers:
            put_aside(leftovers, trial / TRIES)
        for folder in FILLED:
            (trial / folder).mkdir(exist_ok=True)
    except OSError as error:
        print(f"fresh: {error}", file=sys.stderr)
        return 1
    return 0


def is_left_over(path: Path) -> bool:
    """Whether something in the trial's directory comes from an earlier try."""
    if path.name in FILLED:
        return any(path.iterdir())
    return path.name not in WRITTEN and path.name != TRIES


def put_aside(leftovers: "list[Path]", tries: Path) -> None:
    """Move what an earlier try has left to a folder of its own."""
    tries.mkdir(exist_ok=True)
    earlier = [int(path.name) for path in tries.iterdir() if path.name.isdigit()]
    aside = tries / str(max(earlier, default=0) + 1)
    aside.mkdir()
    for path in leftovers:
        path.rename(aside / path.name)


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    sys.exit(main())
