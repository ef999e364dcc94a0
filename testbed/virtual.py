"""A host that is a virtual machine: a Linux kernel of its own that runs as a process, with the host around it.

What is told the host is told the machine in it, over a wire that carries commands alone. Only its files before
it boots, its logs and its CPU time are the host's own. The kernel is user-mode-linux, of a Debian newer than the hosts'
own, whose user-mode-linux dies on recent kernels.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tierbench.testbed import network
from tierbench.testbed.host import RunningHost, become, filled, home, verbatim
from tierbench.testbed.rootfs import Say, built, logged
from tierbench.testbed.topology import Host, Topology

SUITE, PACKAGE = "forky", "user-mode-linux"
KERNEL, MODULES = "/opt/kernel", "/usr/lib/modules"
INIT = "/usr/local/sbin/virtual-machine"
KEY = "/etc/tierbench/commands.key"
MEMORY_MB = 768


class VirtualHost(RunningHost):
    """A host of the topology whose programs run on a kernel of their own."""

    def __init__(self, host: Host, directory: Path, cache: Path) -> None:
        super().__init__(host, directory)
        self._around = RunningHost(host, directory)
        self._kernel = kernel_path(cache)

    @property
    def binds(self) -> list[tuple[Path, str]]:
        return [(self._kernel / "linux", KERNEL), (self._kernel / "modules", MODULES)]

    def wire(self, topology: Topology) -> None:
        """Plug its network card in, boot it, then do inside what is done on any host."""
        around = self._around
        around.script([*network.virtual_lines(self.host), f"ssh-keygen -q -t ed25519 -N '' -f {KEY}"])
        around.put(INIT, verbatim("virtual-machine"), 0o755)
        around.put("/etc/tierbench/commands.sshd_config", filled("commands.sshd_config", inside=network.INSIDE))
        around.daemon(
            "machine", "env", "TMPDIR=/dev/shm", "HOME=/run", KERNEL, f"mem={MEMORY_MB}M",
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", f"init={INIT}",
            f"name={self.name}", f"inside={network.INSIDE}", "con=null", "con0=null,fd:1", "ssl=null", "loglevel=3",
            f"vec0:transport=tap,ifname={network.DATA_TAP},depth=128",
            f"vec1:transport=tap,ifname={network.COMMAND_TAP},depth=64",
        )  # fmt: skip
        self.wait_until(self.answers, f"the virtual machine of {self.name} did not boot", "machine.log")
        super().wire(topology)

    def answers(self) -> bool:
        """Whether the machine takes commands."""
        return self.succeeds("true", timeout=5)

    def command(self, argv: Sequence[str], user: str | None = None, *, terminal: bool = False) -> list[str]:
        options = {
            "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "LogLevel": "ERROR", "BatchMode": "yes",
            "ConnectTimeout": "5",
        }  # fmt: skip
        told = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        line = f"cd {home(user)} && exec {shlex.join([*become(user), *argv])}"
        ssh = ["ssh", *(["-t"] if terminal else []), "-F", "none", "-i", KEY, *told, f"root@{network.INSIDE}", line]
        return self._around.command(ssh, terminal=terminal)


def kernel_path(cache: Path) -> Path:
    """Where the kernel lies."""
    return cache / f"kernel-{SUITE}"


def provide_kernel(cache: Path, say: Say) -> Path:
    """The folder that holds the kernel and its modules, fetched now if it is not in the cache."""

    def build(partial: Path, log: TextIO) -> None:
        say(f"{PACKAGE} of Debian {SUITE}, the kernel of virtual machines")
        whole = partial / "whole"
        partial.mkdir()
        # A testing suite's release file is often older than it says it may be.
        unchecked = '--aptopt=Acquire::Check-Valid-Until "false"'
        logged(["mmdebstrap", "--variant=extract", unchecked, f"--include={PACKAGE}", SUITE, str(whole)], log, PACKAGE)
        (whole / "usr/bin/linux.uml").rename(partial / "linux")
        (whole / "usr/lib/uml/modules").rename(partial / "modules")
        shutil.rmtree(whole)

    return built(kernel_path(cache), build, say)
