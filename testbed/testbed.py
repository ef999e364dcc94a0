"""A testbed by its name: find it, bring it up, take it down. All of it lies in one directory.

To bring it up is to stage files, boot hosts, wire them, and start the daemons in their order. The site file that it
offers says what its links carry: what they were set to carry.
"""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import tierbench
from tierbench import files, json_files, names
from tierbench.errors import BusyError, ConfigError, HostError
from tierbench.json_files import Damaged
from tierbench.site_configs import site as sites
from tierbench.spec import build
from tierbench.submit.programs import shipped
from tierbench.testbed import network, rootfs
from tierbench.testbed.cgroups import means
from tierbench.testbed.host import Namespaces, RunningHost, UserNetworkHost, VirtualHost
from tierbench.testbed.rootfs import Say
from tierbench.testbed.service import DELAY_LINE, Bed, Question, Reply, at_once, delay, start_delay_line, waves
from tierbench.testbed.services import services, topology
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.web import tls_ports
from tierbench.testbed.services.xrootd import BESIDE_STORAGE, server_ports
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import NETWORKS, UF, USER, WAN, Topology

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")

SHIPPED = sites.SHIPPED / "testbed.toml"
SOURCE = "/opt/tierbench"
INSTALLED = "/etc/tierbench/testbed.toml"  # on each host: there the name `testbed` means this file
# The hosts' Python is another one than this, and may not write beside the package: it would compile it each time.
COMPILE = """
mount -t tmpfs tmpfs "$0/mnt"
for part; do
    mkdir "$0/mnt/$#" && mount --bind "$part" "$0/mnt/$#" && shift
done
exec chroot "$0" python3 -m compileall -q /mnt >/dev/null
"""
COMPILE_PROGRAMS = "from tierbench.submit.programs import compile_shipped; compile_shipped()"
COMPILE_SECONDS = 300.0
STAGES = ("dags", "submit", "wrappers", "monitors", "postprocess", "testbed", "site_configs")


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
        hosts = self.hosts
        if name not in hosts:
            raise ConfigError(f"testbed {self.name!r} has no host {name!r}; it has {', '.join(hosts)}")
        return hosts[name]

    def check_up(self) -> None:
        """Raise if there is something of it that does not run."""
        if self.exists and not self.is_up:
            self.check_stranded()
            why = "its hosts have ended, or its `up` did not end"
            raise BusyError(f"testbed {self.name!r} is not up: {why}; {self._clear}")

    def check_stranded(self) -> None:
        """Raise if its hosts have ended, as by a reboot, and left runs on disk that nobody but us would still find."""
        runs = self.directory / "hosts" / ACCESS_POINT / f"upper/home/{USER}/runs"
        runs_left = ", ".join(sorted(path.parent.name for path in runs.glob(f"*/{names.SUBMITTED}")))
        if runs_left and not self.is_up:
            remedy = f"copy what you want of them from {runs}; {self._clear}"
            raise BusyError(f"testbed {self.name!r}: its hosts have ended with runs on disk ({runs_left}); {remedy}")

    @property
    def _clear(self) -> str:
        return f"`tierbench testbed down --name {self.name}` clears it"

    def status(self) -> list[Reply]:
        """What each host and daemon replies when it is asked how it is, host by host in the topology's order."""
        bed = Bed(self.topology, self.hosts)
        questions = [Question(bed[WAN], "delay", partial(delay, bed))]
        questions += [Question(host, "host", partial(_running, host)) for host in bed.hosts.values()]
        questions += [question for service in services(bed.settings) for question in service.questions(bed)]
        with ThreadPoolExecutor(8) as pool:
            return sorted(pool.map(Question.put, questions), key=lambda reply: list(bed.hosts).index(reply.host))

    def _recorded(self) -> dict[str, Any]:
        if not self.exists:
            records = (home() / "testbeds").glob(f"*/{self._record.name}")
            others = ", ".join(sorted(path.parent.name for path in records))
            hint = f", but {others}" if others else ""
            raise ConfigError(f"there is no testbed {self.name!r}{hint}; `tierbench testbed up` makes one")
        try:
            return json_files.read_table(self._record)
        except Damaged as error:
            raise ConfigError(f"{error}; {self._clear}") from None

    def _write_record(self, settings: Settings, complete: bool) -> None:
        files.replace(self._record, json.dumps({"settings": asdict(settings), "complete": complete}, indent=2))

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        """See to it that nobody else brings it up or down meanwhile."""
        locks = home() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        busy = BusyError(f"testbed {self.name!r} is being brought up or down by another process")
        return files.locked(locks / self.name, gone=True, held=busy)

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
            rootfs.check_home(home())
            rootfs.check_kernel(home())
            rootfs.check_readable(*(place for place, _ in _package()))
            if not recipe.path(cache).is_dir():
                rootfs.check_needs(cache)
            rootfs.check_space(self.directory, settings.storage_gb << 30, "hold the testbed's storage")

            self.check_stranded()
            self._end()
            rootfs.make_private(cache)
            base, programs = rootfs.provide(cache, recipe, say), programs_layer(cache, recipe)
            layers = [programs, base] if programs.is_dir() else [base]
            if settings.virtual_workers:
                rootfs.provide_kernel(cache, say)
            rootfs.make_private(self.directory.parent)
            self.directory.mkdir()
            self._write_record(settings, complete=False)
            try:
                self.site.write_text(offered(site.read_text(encoding="utf-8"), settings), encoding="utf-8")
                assemble(Bed(self.topology, self.hosts), self.site.read_text(encoding="utf-8"), layers, say)
                if not programs.is_dir():
                    keep_programs(self.host(ACCESS_POINT), programs, say)
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
        ended_hosts, logs = self.directory / "ended", self.directory / "logs"
        with contextlib.suppress(FileNotFoundError):
            # A host that is just booting records itself in `hosts`, or ends because it no longer can.
            (self.directory / "hosts").rename(ended_hosts)
        for host in ended_hosts.glob("*"):
            Namespaces(host).kill()
        for host in ended_hosts.glob("*"):
            Namespaces(host).cgroup.remove()
        if keep_logs:
            for host in ended_hosts.glob("*"):
                (logs / host.name).mkdir(parents=True)
                for folder, entry in files.walk(host):
                    if entry.name.endswith(("Log", "log")) and entry.is_file(follow_symlinks=False):
                        (logs / host.name / entry.name).write_bytes(files.read_end(entry.name, folder))
            files.remove(ended_hosts)
            self._record.unlink()
        elif self.directory.exists():
            files.remove(self.directory)
        return logs


def programs_layer(cache: Path, recipe: rootfs.Recipe) -> Path:
    """The layer of the hosts' file systems that has ROOT's programs compiled, by what decides on them."""
    texts = [source.read_bytes() for sources in shipped() for source in sources]
    return cache / f"programs-{hashlib.sha256(b''.join([recipe.key.encode(), *texts])).hexdigest()[:12]}"


def keep_programs(access_point: RunningHost, layer: Path, say: Say) -> None:
    """Compile ROOT's programs before any job runs here, and keep them for later testbeds."""
    say("ROOT's programs")
    command = ["env", f"PYTHONPATH={SOURCE}", "python3", "-c", COMPILE_PROGRAMS]
    if access_point.succeeds(*command, user=USER, timeout=COMPILE_SECONDS):  # else each run has them compiled

        def build(partial: Path, _: TextIO) -> None:
            partial.mkdir()
            access_point.copy_out(f"home/{USER}/.cache", partial)

        with contextlib.suppress(OSError, subprocess.SubprocessError):  # as on a full disk
            rootfs.build_once(layer, build, say)


def assemble(bed: Bed, site: str, layers: Sequence[Path], say: Say) -> None:
    """Bring all hosts and their daemons up; return when each of them answers."""
    say(f"{len(bed.hosts)} hosts")
    stage(bed, site)
    binds = _package()
    folders = [folder for folder, _ in binds]
    subprocess.run(["unshare", "--mount", "sh", "-c", COMPILE, layers[-1], *folders], check=False)
    for host in bed.where(lambda host: host.nics):  # the wan's delay line needs the root group's real-time priority
        host.namespaces.cgroup.make()
    if means().missing:
        say(means().missing)
    at_once(lambda host: host.namespaces.boot(host.name, layers, [*binds, *host.binds]), bed.hosts.values())

    say("networks, and the WAN between the sites")
    _wire(bed)

    for wave in waves(services(bed.settings)):
        say(", ".join(service.name for service in wave if service.name))
        at_once(lambda service: service.bring_up(bed), wave)

    say("waiting for the pool to be complete")
    at_once(lambda service: service.complete(bed), services(bed.settings))


def _package() -> list[tuple[Path, str]]:
    """The folders of this package, and where hosts have them."""
    parts = {"root": tierbench, **{stage: import_module(f"tierbench.{stage}") for stage in STAGES}}
    return [(Path(part.__file__ or "").parent, f"{SOURCE}/parts/{name}") for name, part in parts.items()]


def stage(bed: Bed, site: str) -> None:
    etc_hosts = "\n".join(bed.topology.etc_hosts()) + "\n"
    # The command `tierbench` of a host runs this very package, whose parts are bound to it.
    command = f'#!/bin/sh\nPYTHONPATH={SOURCE} exec python3 -m tierbench "$@"\n'
    for host in bed.hosts.values():
        host.stage("/etc/hosts", etc_hosts)
        host.stage("/etc/hostname", host.name + "\n")
        host.stage(INSTALLED, site)
        host.stage("/usr/local/bin/tierbench", command, 0o755)
        for file in Path(tierbench.__file__).parent.glob("*.py"):
            host.stage_link(f"{SOURCE}/tierbench/{file.name}", f"../parts/root/{file.name}")
        for stage in STAGES:
            host.stage_link(f"{SOURCE}/tierbench/{stage}", f"../parts/{stage}")
    bed[WAN].stage(DELAY_LINE, Path(__file__).with_name("delayline.py").read_bytes())
    for service in services(bed.settings):
        service.stage(bed)


def _wire(bed: Bed) -> None:
    wan, pids = bed[WAN], {name: host.pid for name, host in bed.hosts.items()}
    # From inside the wan's network, but with this machine's process numbers.
    subprocess.run(
        ["nsenter", "-t", str(wan.pid), "-n", "ip", "-batch", "-"],
        input="\n".join(network.links(bed.topology, pids)), text=True, check=True,
    )  # fmt: skip
    wan.script([*network.wan_lines(bed.topology), *network.delay_lines(bed.settings)])
    at_once(lambda host: host.wire(bed.topology), bed.where(lambda host: host.nics))
    if bed.settings.rtt_ms:
        start_delay_line(wan, "delayline", network.RTT_FILE, network.QUEUES.values())


def _running(host: RunningHost) -> str:
    interfaces = ", ".join(f"{nic.address} {nic.rate_mbps} Mb/s" for nic in host.host.nics)
    if not interfaces:
        return f"running as process {host.pid}; switches and the WAN between them"
    cgroup = host.namespaces.cgroup
    cpu = "counted apart, can be limited" if cgroup.limited else "counted apart" if cgroup.account else means().missing
    return f"running as process {host.pid}; {interfaces}; CPU: {cpu}"


# -- what it offers --------------------------------------------------------------------------------


def offered(site: str, settings: Settings) -> str:
    """A site file's text in which the testbed's settings, and the links that follow from them, are these.

    An access method is left out where such a testbed lacks one of the servers that it leads to, with what is sampled
    for it alone, and no host that it lacks is asked to change anything. The scale goes with the storage's rate.
    """
    tables = tomllib.loads(site)
    hosts = topology(settings).hosts
    host_names = {f"{name}.{nic.network.zone}" for host in hosts for nic, name in host.names.items()}
    of_file = build(Settings, tables.get("testbed", {}), "the testbed's site file", "testbed").rates_mbps.storage
    tables["scale"] = float(f"{tables['scale'] * settings.rates_mbps.storage / of_file:g}")
    tables |= {"testbed": asdict(settings), "links": links(settings)}
    ports, methods, samplers = server_ports(topology(settings)), tables.get("access", {}), tables.get("samplers", {})
    ports[f"{BESIDE_STORAGE}.{UF.zone}"] |= tls_ports(settings)
    closed = {name for name, access in methods.items() if not _is_open(access, host_names, ports)}
    tables["access"] = {name: access for name, access in methods.items() if name not in closed}
    sampled_for = {name: set(sampler.get("access", ())) for name, sampler in samplers.items()}
    tables["samplers"] = {name: samplers[name] for name, own in sampled_for.items() if not own or own - closed}
    for condition in tables.get("conditions", {}).values():
        present = [host for host in condition.get("hosts", ()) if _is_there(host, host_names)]
        condition.update({"hosts": present} if present else {})  # where none is there, nothing asks for it
    return "\n".join(_toml(tables)) + "\n"


def _is_there(host: str, host_names: set[str]) -> bool:
    """Whether a host is one of these, or none of the testbed's."""
    return host in host_names or not host.endswith(tuple(f".{network.zone}" for network in NETWORKS))


def _is_open(access: Mapping[str, Any], host_names: set[str], ports: Mapping[str, set[int]]) -> bool:
    """Whether the testbed has all servers that an access method leads to: hosts of these names, and their ports."""
    prefixes = (access.get("prefix", ""), *access.get("further", ()), access.get("to", {}).get("prefix", ""))
    doors = [urlsplit(prefix) for prefix in prefixes]
    proxies = [proxy.partition(":")[0] for proxy in (access.get("proxy", ""), *access.get("further_proxies", ()))]
    hosts = [*(door.hostname or "" for door in doors), *proxies]
    listening = all(
        door.port in ports[door.hostname]
        for door in doors
        if door.scheme in ("root", "https") and door.hostname in ports
    )
    return listening and all(_is_there(host, host_names) for host in hosts)


def links(settings: Settings) -> dict[str, Any]:
    """What the links of such a testbed can carry, in Mb/s, and its round-trip time."""
    rate = settings.rates_mbps
    return {
        "wan": rate.wan, "storage": rate.storage, "metadata": rate.metadata, "gateway": rate.gateway,
        "door": rate.server, "worker": rate.worker, "rtt_ms": settings.rtt_ms,
    }  # fmt: skip


def _toml(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The lines of a table, with its tables after it."""
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ("", f"[{prefix}{_key(key)}]")
            yield from _toml(value, f"{prefix}{_key(key)}.")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(own)}' for key, own in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)
