"""The kernel of virtual machines: user-mode-linux, which runs as a process, with the modules that go with it.

It comes from a Debian newer than the hosts' own, whose user-mode-linux dies on recent kernels.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TextIO

from tierbench.testbed.rootfs import Say, built, logged

SUITE, PACKAGE = "forky", "user-mode-linux"
PROGRAM, MODULES = "usr/bin/linux.uml", "usr/lib/uml/modules"


def path(cache: Path) -> Path:
    """Where the kernel lies."""
    return cache / f"kernel-{SUITE}"


def provide(cache: Path, say: Say) -> Path:
    """The folder that holds the kernel and its modules, fetched now if it is not in the cache."""

    def build(partial: Path, log: TextIO) -> None:
        say(f"{PACKAGE} of Debian {SUITE}, the kernel of virtual machines")
        whole = partial / "whole"
        partial.mkdir()
        # A testing suite's release file is often older than it says it may be.
        unchecked = '--aptopt=Acquire::Check-Valid-Until "false"'
        logged(["mmdebstrap", "--variant=extract", unchecked, f"--include={PACKAGE}", SUITE, str(whole)], log, PACKAGE)
        (whole / PROGRAM).rename(partial / "linux")
        (whole / MODULES).rename(partial / "modules")
        shutil.rmtree(whole)

    return built(path(cache), build, say)
