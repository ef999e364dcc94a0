"""The scripts of a run directory, as they are shipped; `make unit` has an old Python run them."""

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from tierbench import names
from tierbench.dags.shipping import scripts as shipped_scripts

PYTHON = os.environ.get("TIERBENCH_OLD_PYTHON", sys.executable)


@cache
def texts():
    """All of them, by their names."""
    return {str(Path(target).relative_to(names.SCRIPTS)): content for target, content in shipped_scripts()}


def ship(folder, *only):
    """Lay them out, or only some; the folder, or the script that was asked for alone."""
    for name in only or texts():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(texts()[name])
        copy.chmod(0o755)
    return folder / only[0] if len(only) == 1 else folder


def outlive(command, folder, made, meanwhile):
    """Kill a script's DAGMan when it has made a file and waits, then do what it waits for; returns at its end."""
    made.unlink(missing_ok=True)
    with subprocess.Popen(
        ["sh", "-c", '"$@"; true', "sh", *map(str, command)], cwd=folder, stdout=subprocess.PIPE
    ) as dagman:
        wait_until(made.exists)
        dagman.kill()
        dagman.wait()
        meanwhile()
        dagman.stdout.read()


def wait_until(ready, patience_s=600):
    deadline = time.monotonic() + patience_s
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
