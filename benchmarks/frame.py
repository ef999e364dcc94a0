"""What benchmarks share: their options, steps in processes of their own, and experiments on a testbed."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER

HOME = f"/home/{USER}"


def options(doc: str | None, *positional: str, **defaults: Any) -> argparse.Namespace:
    """What the command line says, whose options have these defaults; a benchmark's first lines tell what they are."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in positional:
        parser.add_argument(name)
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default, help="default: %(default)s")
    return parser.parse_args()


def step(name: str, *command: str | Path) -> tuple[float, float, float]:
    """Run a process to its end: seconds, those of CPU, which other load touches less, and its peak memory in GB."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{name}: failed; does {command[0]} have what it needs?")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


@contextmanager
def own_testbed(kind: str, settings: Settings) -> Iterator[Testbed]:
    """A testbed that goes at the end, also at that of a polite kill."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bed = Testbed(f"{kind}-{os.getpid()}")
    try:
        bed.up(settings, lambda words: print(words, file=sys.stderr))
        yield bed
    finally:
        bed.down()


def run_on_testbed(testbed: str, experiment: str, run: Path) -> None:
    """Run an experiment from this machine, if the run's directory is not there."""
    if not run.exists():
        with tempfile.TemporaryDirectory() as folder:
            definition = Path(folder) / "experiment.toml"
            definition.write_text(experiment, encoding="utf-8")
            command = ["tierbench", "testbed", "run", "-q", definition, "--name", testbed, "--into", run]
            subprocess.run(command, check=False)


def offer(bed: Testbed, name: str, experiment: str, site: str = "testbed") -> list[str]:
    """Define an experiment on a testbed's access point and make its replicas; what commands are told of it."""
    definition = f"{HOME}/{name}.toml"
    writer = bed.host(bed.topology.writer.name)
    for host in (bed.host("ce"), writer):
        host.put(definition, experiment, user=USER)
    writer.run("tierbench", "replicas", definition, "--site", site, user=USER, timeout=300)
    return [definition, "--site", site]
