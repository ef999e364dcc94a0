"""One running testbed host: its namespaces, its files and the commands and daemons in it.

A host is an init process in network, mount, UTS, IPC and process namespaces of its own. Its directory records that, so
any later process can find it or end it, and ending it ends all that ever ran in the host, with its mounts and
interfaces: the kernel sees to that.
"""

import contextlib
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template

from tierbench.errors import HostError
from tierbench.testbed import network
from tierbench.testbed.cgroups import ACCOUNT, Cgroup
from tierbench.testbed.topology import BEHIND_ROUTER, USER, Host, Topology

FILES = resources.files("tierbench.testbed") / "files"  # the configuration files and programs that hosts are given
EXCHANGE_SECONDS = 60.0  # for a file: what a user's path leads to may be a pipe
ANSWER_SECONDS = 30.0  # of a daemon that is well, on a machine with twenty times as much to do as it has cores
START_SECONDS = 60.0  # on a busy machine; an idle one takes three at the most
# The file gets its name when it is whole; a link of that name is replaced and not followed.
PUT = 'mkdir -p "${1%/*}"; new=$(mktemp "$1.XXXXXX"); cat >"$new"; chmod "$2" "$new"; mv -fT "$new" "$1"'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTSIDE = "outside"  # the namespace of the card of a host whose network is a process
MTU = 1500
# A virtual machine's kernel is user-mode-linux, of a Debian newer than the hosts' own, whose dies on recent kernels.
KERNEL_SUITE = "forky"
KERNEL, MODULES = "/opt/kernel", "/usr/lib/modules"
INIT = "/usr/local/sbin/virtual-machine"
KEY = "/etc/tierbench/commands.key"
MEMORY_MB = 768


class Namespaces:
    """A host's namespaces, known by the directory that records them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cgroup = Cgroup(directory)

    def boot(self, name: str, layers: Sequence[Path], binds: Sequence[tuple[Path, str]] = ()) -> None:
        """Start the init; return once it has laid out its file system and runs."""
        for part in ("upper", "work", "root"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        log = self.directory / "boot.log"
        accounts = [(file, f"{ACCOUNT}/{file.name}") for file in self.cgroup.account]
        pairs = [str(word) for bind in [*binds, *accounts] for word in bind]
        init = ["sh", str(FILES / "boot.sh"), str(self.directory), ":".join(map(str, layers)), name, *pairs]
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
    while time.monotonic() < deadline:
        with contextlib.suppress(HostError):  # who cannot be asked is not ready
            if ready():
                return
        time.sleep(0.05)
    lines: list[str] = []
    with contextlib.suppress(OSError), os.fdopen(os.open(log, os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as file:
        lines = file.read().splitlines()[-5:]
    tail = "\n  ".join(["ends:", *lines]) if lines else "is empty"
    raise HostError(f"{complaint} within {seconds:g} s; its log {log.name} {tail}")


class RunningHost:
    """A host of the topology, and what is of it on this machine: a directory and namespaces."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        self.name, self.fqdn = host.name, host.fqdn
        self.namespaces = Namespaces(directory)
        self._upper = directory / "upper"

    @property
    def pid(self) -> int:
        """The process number of its init on this machine."""
        pid = self.namespaces.pid
        if pid is None:
            raise HostError(f"host {self.name} is not running; `tierbench testbed status` tells more")
        return pid

    def wire(self, topology: Topology) -> None:
        """Give its network cards their addresses, rates and routes."""
        self.script(list(network.host_lines(self.host, topology)))

    @property
    def binds(self) -> list[tuple[Path, str]]:
        """What of this machine lies in its file system, beside what lies in every host's."""
        return []

    # -- files ---------------------------------------------------------------------------------------

    def stage(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file of the host before it boots."""
        file = self._upper / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(_bytes(content))
        file.chmod(mode)

    def stage_link(self, path: str, target: str) -> None:
        """Make a symbolic link of the host before it boots."""
        link = self._upper / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def put(self, path: str, content: str | bytes, mode: int = 0o644, user: str | None = None) -> None:
        """Write a file of the running host, as one of its users: what lies in a user's folders may be a link."""
        self._exchange(["sh", "-euc", PUT, "sh", path, f"{mode:o}"], _bytes(content), user)

    def read(self, path: str, user: str | None = None) -> bytes:
        """What a file of the running host holds, as one of its users sees it."""
        return self._exchange(["cat", "--", path], b"", user)

    def _exchange(self, argv: Sequence[str], content: bytes, user: str | None) -> bytes:
        what, command = f"{self.name}: {shlex.join(argv[-2:])}", self.command(argv, user)
        try:
            result = subprocess.run(command, input=content, capture_output=True, timeout=EXCHANGE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise HostError(f"{what}: no end after {EXCHANGE_SECONDS:g} s") from None
        if result.returncode:
            raise HostError(f"{what}: {result.stderr.decode(errors='replace').strip()}")
        return result.stdout

    def copy_out(self, folder: str, target: Path) -> None:
        """Copy what has been written below one of its folders, with its owners and the folders above."""
        subprocess.run(["cp", "-a", "--parents", folder, str(target)], cwd=self._upper, check=True)

    def log(self, name: str) -> Path:
        """Where this machine finds a log of the host, running or not."""
        return self._upper / "var/log" / name

    # -- commands ------------------------------------------------------------------------------------

    def command(self, argv: Sequence[str], user: str | None = None, *, terminal: bool = False) -> list[str]:
        """The command line that runs `argv` in the host, apart from our terminal; or with the one that its stdin is."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "-n", "-u", "-i", "-p", f"--wdns={home(user)}"]
        apart = ["setsid", "--wait", *(["--ctty"] if terminal else [])]
        return self.namespaces.cgroup.entering([*enter, *apart, *become(user), *argv])

    def run(
        self, *argv: str, user: str | None = None, stdin: str = "", check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the host; unless the caller says otherwise its failure is an error with its last words."""
        command = self.command(argv, user)
        try:
            result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise HostError(f"{self.name}: {shlex.join(argv)}: no end after {timeout:g} s") from None
        if check and result.returncode:
            tail = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-5:]
            raise HostError(f"{self.name}: {shlex.join(argv)}: exit status {result.returncode}\n  " + "\n  ".join(tail))
        return result

    def succeeds(self, *argv: str, user: str | None = None, timeout: float = ANSWER_SECONDS) -> bool:
        """Whether a command ends well; a host that is down, or no answer in time, is a no."""
        try:
            return self.run(*argv, user=user, check=False, timeout=timeout).returncode == 0
        except HostError:
            return False

    def script(self, lines: Sequence[str]) -> None:
        """Run shell lines in the host as root, in one go, up to the first that fails."""
        self.run("sh", "-eu", stdin="\n".join(lines) + "\n")

    def daemon(self, name: str, *argv: str) -> None:
        """Start a process that goes on in the host, with its output in the host's /var/log/NAME.log."""
        start = f'setsid "$@" >>/var/log/{name}.log 2>&1 </dev/null & echo $! >/run/{name}.pid'
        self.run("sh", "-c", start, "sh", *argv)

    def wait_until(self, ready: Callable[[], bool], complaint: str, log: str, seconds: float = START_SECONDS) -> None:
        """Poll until `ready`, or fail with the complaint and the last lines of one of the host's logs."""
        wait_until(ready, seconds, complaint, self.log(log))


class UserNetworkHost(RunningHost):
    """A host whose network is a process of a user, slirp4netns: all that it sends goes through a TCP/IP stack in there.

    Hypervisors do the same for their guests (the NAT of VirtualBox and VMware's player). The card and its address are
    in a network namespace beside the host's own; what runs in the host has the program's card, and no other.
    """

    def wire(self, topology: Topology) -> None:
        """Leave the card to the outside, and start the program between that and the host."""
        device = self.host.nics[0].device
        outside = ["nsenter", f"--net=/run/netns/{OUTSIDE}"]
        self.script([f"ip netns add {OUTSIDE}", f"ip link set {device} netns {OUTSIDE}", *network.TUN])
        self.run(*outside, "sh", "-eu", stdin="\n".join(network.host_lines(self.host, topology)) + "\n")
        self.script(["ip link set lo up", *network.buffer_lines(topology.settings)])
        program = ["slirp4netns", "--configure", f"--mtu={MTU}", "--disable-host-loopback", "--netns-type=path"]
        self.daemon("slirp4netns", *outside, *program, "/proc/1/ns/net", device)
        has_card = partial(self.run, "ip", "-4", "route", "show", "default", timeout=ANSWER_SECONDS)
        self.wait_until(lambda: bool(has_card().stdout), f"{self.name}'s network did not begin", "slirp4netns.log")
        route = network.route("default", self.host.nics[0], topology.settings, f"via {BEHIND_ROUTER}")
        self.script([route])  # its one, as others have theirs


CLOCK_LIMIT_S = 60.0
CLOCK_ASKED = 20  # times; what counts is the quickest answer
CLOCK = """
import sys, time
for later in map(int, sys.stdin):
    if later:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + later)
    print(time.time_ns(), flush=True)
"""


class VirtualHost(RunningHost):
    """A host that is a virtual machine: a Linux kernel of its own that runs as a process, with the host around it.

    A command for the host is one for the machine in it, over a wire that carries commands alone. Only its files before
    it boots, its logs and its CPU time are the host's own.
    """

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
        answers = partial(self.succeeds, "true")
        self.wait_until(answers, f"the virtual machine of {self.name} did not boot", "machine.log")
        self._set_clock()
        super().wire(topology)

    def _set_clock(self) -> None:
        """Set its clock by ours: while it boots it counts ticks, and loses those at which it does not run."""
        command = self.command(["python3", "-c", CLOCK])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as clock:
            limit = threading.Timer(CLOCK_LIMIT_S, clock.kill)
            limit.daemon = True
            limit.start()
            with contextlib.suppress(OSError):  # it has ended
                _, behind = min(_ask(clock) for _ in range(CLOCK_ASKED))
                _ask(clock, behind)
            clock.communicate()
            limit.cancel()
        if clock.returncode:
            raise HostError(f"the clock of {self.name} could not be set: exit status {clock.returncode}")

    def command(self, argv: Sequence[str], user: str | None = None, *, terminal: bool = False) -> list[str]:
        options = {
            "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "LogLevel": "ERROR", "BatchMode": "yes",
            "ConnectTimeout": "5",
        }  # fmt: skip
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        line = f"cd {home(user)} && exec {shlex.join([*become(user), *argv])}"
        ssh = ["ssh", *(["-t"] if terminal else []), "-F", "none", "-i", KEY, *given, f"root@{network.INSIDE}", line]
        return self._around.command(ssh, terminal=terminal)


def _ask(clock: subprocess.Popen[bytes], later_ns: int = 0) -> tuple[int, int]:
    """How long it took to set a clock so much later and to ask for its time, and by how much that is behind ours."""
    before = time.time_ns()
    if clock.stdin and clock.stdout:
        clock.stdin.write(f"{later_ns}\n".encode())
        its_time = int(clock.stdout.readline() or 0)
    after = time.time_ns()
    return after - before, (before + after) // 2 - its_time


def kernel_path(cache: Path) -> Path:
    return cache / f"kernel-{KERNEL_SUITE}"


def verbatim(name: str) -> str:
    """A file of files/ as it is."""
    return (FILES / name).read_text(encoding="utf-8")


def filled(name: str, **values: object) -> str:
    """A file of files/ with its $names replaced."""
    return Template(verbatim(name)).substitute(values)


def home(user: str | None) -> str:
    """Where a user's commands begin."""
    return {None: "/root", "root": "/root", USER: f"/home/{USER}"}.get(user, "/")


def become(user: str | None) -> list[str]:
    """The words before a command that make it that user's, and its environment a plain one."""
    run_as = ["runuser", "-u", user, "--"] if user else []
    terminal = os.environ.get("TERM", "dumb")
    return [*run_as, "env", "-i", f"PATH={PATH}", f"HOME={home(user)}", f"TERM={terminal}", "LANG=C.UTF-8"]


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
