"""The client, run as the process it is in a job. ROOT, CMSSW, Kerberos and HTCondor are stand-ins: small scripts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.shipped import PYTHON, ship

URL = "root://server:1094//store/replica.root"
PATIENCE_S = 120  # of a busy machine's; nothing takes a tenth of it elsewhere
SIZE = 3_000_001


class Job:
    """A job's scratch directory with what was shipped into it, and clients run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "_CONDOR_SCRATCH_DIR": str(folder),
        }
        (folder / "bin").mkdir()
        ship(folder, "client.py")
        self.replica = folder / "replica"
        self.replica.write_bytes(os.urandom(SIZE))
        self.offer(self.replica, SIZE)

    def offer(self, url: str | Path, size: int | str) -> None:
        (self.folder / "replicas.txt").write_text(f"{url}\t{size}\n")

    def script(self, name: str, *lines: str) -> Path:
        """Put a stand-in beside the client, or into bin/ on the PATH."""
        script = self.folder / name
        script.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
        script.chmod(0o755)
        return script

    def start(self, client: str, *more: str) -> subprocess.Popen[str]:
        command = [PYTHON, "client.py", "--trial", "t", "--index", "0", "--replicas", "replicas.txt"]
        return subprocess.Popen(
            [*command, "--client", client, *more], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, client: str, *more: str, options: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """The events of a client's record, by their names; its exit status is 0."""
        process = self.start(client, *more, *(["--options", json.dumps(options)] if options else []))
        return events(process)

    def end(self, client: str, *more: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.run(client, *more, options=options)["end"]


def events(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return {line["event"]: line for line in map(json.loads, output.splitlines())}


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_running(pid: str) -> bool:
    """Whether a process is more than an entry that nobody has looked at yet."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
