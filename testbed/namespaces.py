"""The life of one host: an init process in network, mount, UTS, IPC and process namespaces of its own.

A host's directory records its init, so any later process can find it or end it, and ending it ends
all that ever ran in the host, with its mounts and interfaces: the kernel sees to that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from tierbench.errors import HostError
from tierbench.testbed.cgroups import ACCOUNT, Cgroup

FILES = resources.files("tierbench.testbed") / "files"  # the configuration files and programs that hosts are given
START_SECONDS = 60.0  # on a busy machine; an idle one takes three at the most


class Namespaces:
    """A host's namespaces, known by the directory that records them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cgroup = Cgroup(directory)

    def boot(self, name: str, rootfs: Path, binds: Sequence[tuple[Path, str]] = ()) -> None:
        """Start the init; return once it has laid out its file system and runs."""
        for part in ("upper", "work", "root"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        log = self.directory / "boot.log"
        accounts = [(file, f"{ACCOUNT}/{file.name}") for file in self.cgroup.account]
        pairs = [str(word) for bind in [*binds, *accounts] for word in bind]
        init = ["sh", str(FILES / "boot.sh"), str(self.directory), str(rootfs), name, *pairs]
        with log.open("wb") as output:
            subprocess.run(
                ["setsid", "--fork", "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--",
                 *self.cgroup.entering(init)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True,
            )  # fmt: skip
        wait_until(self._booted, START_SECONDS, f"host {name} did not boot", log)

    def _booted(self) -> bool:
        with contextlib.suppress(OSError):
            return self.pid is not None and Path(f"/proc/{self.pid}/comm").read_text() == "tini\n"
        return False

    @property
    def pid(self) -> int | None:
        """The init's process number on this machine, if it is still that very process."""
        try:
            pid, started = (self.directory / "init").read_text().split()
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        state, start_time = stat[0], stat[19]
        return int(pid) if start_time == started and state not in "ZX" else None

    def kill(self) -> None:
        """End all that runs there at once, as pulling the plug would, and wait until it has ended."""
        pid = self.pid
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [])
            finally:
                os.close(handle)


def wait_until(ready: Callable[[], bool], seconds: float, complaint: str, log: Path) -> None:
    """Poll until `ready`, or fail with the complaint and the log's last lines."""
    deadline = time.monotonic() + seconds
    while not _yes(ready):
        if time.monotonic() > deadline:
            raise HostError(f"{complaint} within {seconds:g} s; {_last_words(log)}")
        time.sleep(0.05)


def _yes(ready: Callable[[], bool]) -> bool:
    """Whether it is ready; who cannot be asked is not."""
    try:
        return ready()
    except HostError:
        return False


def _last_words(log: Path, count: int = 5) -> str:
    lines: list[str] = []
    with contextlib.suppress(OSError), os.fdopen(os.open(log, os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as file:
        lines = file.read().splitlines()[-count:]
    return "\n  ".join([f"its log {log.name} ends:", *lines]) if lines else f"its log {log.name} is empty"
