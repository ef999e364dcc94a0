"""One running testbed host: its files and the commands and daemons in it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template

from tierbench.errors import HostError
from tierbench.testbed import network
from tierbench.testbed.namespaces import FILES, START_SECONDS, Namespaces, wait_until
from tierbench.testbed.topology import USER, Host, Topology

# The file gets its name when it is whole; a link of that name is replaced and not followed.
PUT = 'mkdir -p "${1%/*}"; new=$(mktemp "$1.XXXXXX"); cat >"$new"; chmod "$2" "$new"; mv -fT "$new" "$1"'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTSIDE = "outside"  # the namespace of the card of a host whose network is a process
MTU = 1500


class RunningHost:
    """A host of the topology, and what is of it on this machine: a directory and namespaces."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        self.name = host.name
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
        _write(self._upper / path.lstrip("/"), content, mode)

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
        result = subprocess.run(self.command(argv, user), input=content, capture_output=True, check=False)
        if result.returncode:
            raise HostError(f"{self.name}: {shlex.join(argv[-2:])}: {result.stderr.decode(errors='replace').strip()}")
        return result.stdout

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
        """Run a command in the host; unless told otherwise its failure is an error with its last words."""
        try:
            result = subprocess.run(
                self.command(argv, user), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"{self.name}: {shlex.join(argv)}: no end after {timeout:g} s") from None
        if check and result.returncode:
            said = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-5:]
            raise HostError(f"{self.name}: {shlex.join(argv)}: exit status {result.returncode}\n  " + "\n  ".join(said))
        return result

    def succeeds(self, *argv: str, user: str | None = None, timeout: float = 10.0) -> bool:
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
        self.wait_until(self._has_card, f"{self.name}'s network did not begin", "slirp4netns.log")
        self.script(list(network.inside_lines(self.host, topology.settings)))

    def _has_card(self) -> bool:
        return bool(self.run("ip", "-4", "route", "show", "default", timeout=5).stdout)


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


def _write(path: Path, content: str | bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_bytes(content))
    path.chmod(mode)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
