#!/usr/bin/env python3
"""Makes a trial's directory as it was written, so that the trial runs whole and from the beginning.

usage: fresh.py [BEFORE]     (in the trial's directory on the access point; DAGMan runs it before each try)

Whatever an earlier try has left is moved to tries/1, tries/2, ... Among it is DAGMan's rescue file,
with which a second try would skip the flush. BEFORE is the trial that has its turn before this one.
Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 the directory is fresh; 1 it could not be made so, for instance since a DAGMan runs the trial;
2 this is not the directory of a trial
"""

import re
import subprocess
import sys
from pathlib import Path

WRITTEN = ("trial.dag", "trial.json", "replicas.txt")
TRIES = "tries"
AFTER = "after"
NOT_NEEDED = "not-needed"


def main(before: "list[str]") -> int:
    trial = Path.cwd()
    missing = [name for name in WRITTEN if not (trial / name).is_file()]
    if missing:
        print(f"fresh: {trial} is not a trial's directory: it has no {missing[0]}", file=sys.stderr)
        return 2
    try:
        if running(trial):
            print(f"fresh: {trial} is being run by another DAG; wait for its end", file=sys.stderr)
            return 1
        # An earlier try may have ended without passing its turn on.
        subprocess.call([str(Path(__file__).resolve().with_name("turn.py")), "pass"])
        leftovers = [path for path in trial.iterdir() if is_left_over(path)]
        if leftovers:
            put_aside(leftovers, trial / TRIES)
        (trial / AFTER).write_text("".join(before))
    except OSError as error:
        print(f"fresh: {error}", file=sys.stderr)
        return 1
    return 0


def is_left_over(path: Path) -> bool:
    """Whether something in the trial's directory comes from an earlier try."""
    return path.name not in (*WRITTEN, TRIES, AFTER, NOT_NEEDED)


def put_aside(leftovers: "list[Path]", tries: Path) -> None:
    """Move what an earlier try has left to a folder of its own."""
    tries.mkdir(exist_ok=True)
    earlier = [int(path.name) for path in tries.iterdir() if path.name.isdigit()]
    aside = tries / str(max(earlier, default=0) + 1)
    aside.mkdir()
    for path in leftovers:
        path.rename(aside / path.name)


def running(trial: Path) -> bool:
    """Whether a DAGMan is at work here, whose process number its lock file tells."""
    lock = trial / "trial.dag.lock"
    pid = re.search(r"^PID = (\d+)$", lock.read_text(), re.MULTILINE) if lock.exists() else None
    return pid is not None and Path("/proc", pid.group(1)).exists()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
