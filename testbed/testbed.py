"""A testbed by its name: find it, bring it up, take it down. All of it lies in one directory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tierbench import files
from tierbench.errors import BusyError, ConfigError, HostError
from tierbench.site_configs import site as sites
from tierbench.spec import build
from tierbench.testbed import assembly, rootfs
from tierbench.testbed.host import Namespaces, RunningHost, UserNetworkHost
from tierbench.testbed.offered import offered
from tierbench.testbed.rootfs import Say
from tierbench.testbed.service import Reply
from tierbench.testbed.services import topology
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import Topology
from tierbench.testbed.virtual import VirtualHost, provide_kernel

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")

SHIPPED = sites.SHIPPED / "testbed.toml"


def home() -> Path:
    """Where testbeds and the cache of root file systems live."""
    return Path(os.environ.get("TIERBENCH_HOME") or "/var/lib/tierbench").absolute()


class Testbed:
    """Two sites of hosts on this machine, or what is left of them."""

    def __init__(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot name a testbed; use small letters, digits and -, a letter first")
        self.name = name
        self.directory = home() / "testbeds" / name
        self._record = self.directory / "testbed.json"

    # -- what there is -------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings that it was brought up with."""
        return build(Settings, self._recorded()["settings"], str(self._record), "settings")

    @property
    def topology(self) -> Topology:
        return topology(self.settings)

    @property
    def site(self) -> Path:
        """The file of what it offers to experiments, as it was brought up."""
        return self.directory / "site.toml"

    @property
    def exists(self) -> bool:
        try:
            return self._record.exists()
        except PermissionError:  # its directory is root's alone
            rootfs.check_privilege()
            raise

    @property
    def is_up(self) -> bool:
        """Whether it was brought up completely and all its hosts still run."""
        if not self.exists or not self._recorded()["complete"]:
            return False
        return all(host.namespaces.pid is not None for host in self.hosts.values())

    @property
    def hosts(self) -> dict[str, RunningHost]:
        """Its hosts, running or not."""
        hosts: dict[str, RunningHost] = {}
        for host in self.topology.hosts:
            place = self.directory / "hosts" / host.name
            kind = UserNetworkHost if host.user_network else RunningHost
            hosts[host.name] = VirtualHost(host, place, home() / "cache") if host.is_virtual else kind(host, place)
        return hosts

    def host(self, name: str) -> RunningHost:
        """One of its hosts."""
        hosts = self.hosts
        if name not in hosts:
            raise ConfigError(f"testbed {self.name!r} has no host {name!r}; it has {', '.join(hosts)}")
        return hosts[name]

    def status(self) -> list[Reply]:
        """What each host and daemon replies when it is asked how it is."""
        return assembly.status(self.hosts, self.topology)

    def _recorded(self) -> dict[str, Any]:
        if not self.exists:
            raise ConfigError(f"there is no testbed {self.name!r}; `tierbench testbed up` makes one")
        recorded: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
        return recorded

    def _write_record(self, settings: Settings, complete: bool) -> None:
        files.replace(self._record, json.dumps({"settings": asdict(settings), "complete": complete}, indent=2))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """See to it that nobody else brings it up or down meanwhile."""
        locks = home() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(files.locked(locks / self.name, gone=True))
            except BlockingIOError:
                raise BusyError(f"testbed {self.name!r} is being brought up or down by another process") from None
            yield

    # -- up ------------------------------------------------------------------------------------------

    def up(self, settings: Settings, say: Say, site: Path = SHIPPED) -> bool:
        """Bring it up, and have it offer what a site file says; False if it was up already.

        If that fails, nothing but logs is left of it.
        """
        rootfs.check_privilege()
        os.umask(0o022)  # what we write are other machines' system files
        with self._locked():
            if self.is_up:
                if self.settings != settings:
                    raise BusyError(
                        f"testbed {self.name!r} is up with other settings; take it down first, "
                        "or give this one another name with --name"
                    )
                return False
            recipe, cache = rootfs.recipe(settings), home() / "cache"
            rootfs.check_kernel()
            if not recipe.path(cache).is_dir():
                rootfs.check_needs(cache)
            rootfs.check_space(self.directory, settings.storage_gb << 30, "hold the testbed's storage")

            self._end()
            rootfs.private(cache)
            base = rootfs.provide(cache, recipe, say)
            if settings.virtual_workers:
                provide_kernel(cache, say)
            rootfs.private(self.directory.parent)
            self.directory.mkdir()
            self._write_record(settings, complete=False)
            try:
                self.site.write_text(offered(site.read_text(encoding="utf-8"), settings), encoding="utf-8")
                assembly.assemble(self.hosts, self.topology, self.site.read_text(encoding="utf-8"), base, say)
            except BaseException as error:
                say("taking down what was started")
                failed = isinstance(error, (HostError, OSError, subprocess.SubprocessError))
                logs = self._end(keep_logs=failed)
                if failed:
                    raise HostError(f"{error}\n  All logs of this attempt are kept in {logs}") from None
                raise
            self._write_record(settings, complete=True)
            return True

    # -- down ----------------------------------------------------------------------------------------

    def down(self) -> bool:
        """Take it down, whatever state it is in; False if there was nothing of it."""
        rootfs.check_privilege()
        with self._locked():
            there = self.directory.exists()
            self._end()
            return there

    def _end(self, keep_logs: bool = False) -> Path:
        """End its hosts and delete its directory, but for the hosts' logs if they are wanted."""
        ended, logs = self.directory / "ended", self.directory / "logs"
        with contextlib.suppress(FileNotFoundError):
            # A host that is just booting records itself in `hosts`, or ends because it no longer can.
            (self.directory / "hosts").rename(ended)
        for host in ended.glob("*"):
            Namespaces(host).kill()
        for host in ended.glob("*"):
            Namespaces(host).cgroup.remove()
        if keep_logs:
            for host in ended.glob("*"):
                (logs / host.name).mkdir(parents=True)
                for of, entry in files.walk(host):
                    if entry.name.endswith(("Log", "log")) and entry.is_file(follow_symlinks=False):
                        (logs / host.name / entry.name).write_bytes(files.read_end(entry.name, of))
            files.remove(ended)
            self._record.unlink()
        elif self.directory.exists():
            files.remove(self.directory)
        return logs
