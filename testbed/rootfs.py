"""The root file system that all hosts share, Debian's packages and ROOT, and virtual machines' kernel: built once.

Its name is a digest of its recipe, so a changed recipe makes another one and an unchanged recipe
is used again without any network. A build becomes visible only when it is whole.

User and group ids in it are nobody's on this machine: Debian gives its first user and its daemons the ids that the
machine's own have, which could signal the hosts' processes, and read what is theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from tierbench import files
from tierbench.errors import UnmetNeed
from tierbench.testbed.host import KERNEL_SUITE, kernel_path
from tierbench.testbed.services import SERVICES, services
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import USER

DEBIAN_PACKAGES = (  # beside the services' own
    "iproute2", "iptables", "nftables", "iputils-ping", "iperf3", "fio",
    "python3", "python3-numpy", "python3-scipy", "python3-matplotlib", "g++",
    "fuse3", "procps", "sudo", "tini", "util-linux-extra",
    "davix", "python3-aiohttp", "python3-fsspec", "python3-xrootd",  # clients, and by which uproot reads from servers
)  # fmt: skip
NOT_IN = {  # what a suite has given up; testbeds of it lack what is made of that
    "forky": {"rclone", "gfal2-util-scripts", "gfal2-plugin-gridftp", "gfal2-plugin-xrootd", "gfal2-plugin-file"},
}
PYTHON_PACKAGES = (
    "ROOT==0.1a12", "htcondor==25.14.1",
    "uproot==5.7.7", "awkward==2.14.0", "awkward-cpp==57", "cramjam==2.14.0", "xxhash==4.1.0", "fsspec-xrootd==0.5.5",
)  # fmt: skip
# ROOT opens a root:// URL as a local file if the host is this one and the path exists; never here.
ROOTRC = "TFile.ForceRemote: 1\nPath.ForceRemote: 1\n"
CUSTOMIZE = (
    f"useradd --root $1 --create-home --shell /bin/bash {USER}",
    "rm -rf $1/usr/share/doc $1/usr/share/man $1/usr/share/locale $1/var/lib/apt/lists $1/etc/resolv.conf",
    "rm -f $1/etc/condor/config.d/* $1/etc/krb5.conf $1/etc/ssh/ssh_host_*",
    "sed -i 's/^hosts:.*/hosts: files/' $1/etc/nsswitch.conf",
    "test -d $1/var/log/condor",  # HTCondor's package makes it where its configuration says, which may be another's
)
# Above what sssd maps a directory's users to, and what systemd, containers and /etc/subuid give away.
FIRST_ID = 2_100_000_000
SHARED_IDS = (0, 5)  # root; and the group tty, by whose number terminals are mounted
BUILD_SECONDS = 3600.0
END_SECONDS = 20.0  # that a build which is broken off has to tidy up
NEEDED_BYTES = 4 << 30
KERNEL_PACKAGE = "user-mode-linux"
# It binds this machine's own folders into what it makes: apart, they are never met by whoever removes that.
MMDEBSTRAP = ("unshare", "--mount", "mmdebstrap")
# A testing suite's release file is often older than it says it may be.
UNCHECKED = '--aptopt=Acquire::Check-Valid-Until "false"'

PROGRAMS = {**dict.fromkeys(("unshare", "nsenter", "setsid"), "util-linux"), "ip": "iproute2", "tc": "iproute2"}

# Each line prints what is missing; run by sh as first process of fresh namespaces.
TRIALS = """
lacks() { echo "$1 (CONFIG_$2)"; }
cd "$1" && mkdir lower upper work root
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root ||
    lacks "overlay file systems with folders in ${1%/*} (let TIERBENCH_HOME be on ext4 or xfs)" OVERLAY_FS
mount -t tmpfs tmpfs /mnt && cd /mnt
mknod fuse c 10 229 && (: <fuse) || lacks FUSE FUSE_FS
ip link add v0 type veth peer name v1 || lacks 'veth interfaces' VETH
ip link add b0 type bridge || lacks bridges BRIDGE
tc qdisc add dev v0 root tbf rate 1mbit burst 10k limit 10k || lacks 'the token bucket filter' NET_SCH_TBF
[ -e /proc/net/netfilter/nfnetlink_queue ] || modprobe -q nfnetlink_queue ||
    lacks 'a way to delay packets, NFQUEUE' NETFILTER_NETLINK_QUEUE
[ -e /proc/net/ip_tables_names ] || modprobe -q ip_tables || lacks 'NAT by iptables-legacy' IP_NF_IPTABLES
"""

Say = Callable[[str], None]


def recipe(settings: Settings) -> Recipe:
    """What a testbed with these settings needs."""
    own = {package for service in SERVICES for package in service.packages}
    more = {package for service in services(settings) for package in service.more_packages}
    packages = {*own, *more, *DEBIAN_PACKAGES} - NOT_IN.get(settings.suite, set())
    return Recipe(settings.suite, tuple(sorted(packages)))


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in a root file system."""

    suite: str
    debian_packages: tuple[str, ...]
    python_packages: tuple[str, ...] = PYTHON_PACKAGES
    customize: tuple[str, ...] = CUSTOMIZE
    rootrc: str = ROOTRC
    ids: tuple[int, ...] = (FIRST_ID, *SHARED_IDS)

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    def path(self, cache: Path) -> Path:
        return cache / f"rootfs-{self.suite}-{self.key}"


def check_privilege() -> None:
    """Raise unless we are root."""
    if os.geteuid() != 0:
        raise UnmetNeed("a testbed is made of network namespaces and mounts, which takes root: try again with sudo")


def nearest_existing(directory: Path) -> Path:
    """What there is already of where a directory is or will be."""
    return next(place for place in (directory, *directory.parents) if place.exists())


def check_home(home: Path) -> None:
    """Raise if others could put there what root would run."""
    users, groups = ({0, int(os.environ.get(name, 0))} for name in ("SUDO_UID", "SUDO_GID"))
    for place in (nearest_existing(home), *nearest_existing(home).parents):
        status = place.stat()
        writable = status.st_mode & 0o002 or (status.st_mode & 0o020 and status.st_gid not in groups)
        if status.st_uid not in users or (writable and not status.st_mode & stat.S_ISVTX):
            why = "others than root may change what lies in it, and would be root in the testbed"
            raise UnmetNeed(f"{place}: {why}; set TIERBENCH_HOME to another folder")


def check_readable(*folders: Path) -> None:
    """Raise if the hosts' users may not read the package."""
    for folder in folders:
        if folder.stat().st_mode & 0o005 != 0o005 or not (folder / "__init__.py").stat().st_mode & 0o004:
            why = "was made under a tight umask, and the testbed's users must be able to read it"
            raise UnmetNeed(f"{folder}: {why}: chmod -R o+rX {folder}")


def check_kernel(home: Path) -> None:
    """Raise if a program or kernel feature that every testbed needs is missing, also where its files will be."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise UnmetNeed(f"{program} is not installed: apt-get install {package}")
    if "--wdns" not in subprocess.run(["nsenter", "--help"], capture_output=True, text=True, check=False).stdout:
        raise UnmetNeed("nsenter knows no --wdns: util-linux 2.38 or newer is needed")
    with tempfile.TemporaryDirectory(prefix="tierbench-", dir=nearest_existing(home)) as folder:
        trial = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-s", folder],
            input=TRIALS, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if trial.returncode and not trial.stdout:
        raise UnmetNeed(f"this machine does not let root make namespaces: {trial.stderr.strip() or 'unshare failed'}")
    missing = trial.stdout.splitlines()
    if missing:
        raise UnmetNeed("this machine's kernel lacks " + "; ".join(missing))


def check_needs(cache: Path) -> None:
    """Raise if a build cannot succeed here; changes nothing."""
    if shutil.which("mmdebstrap") is None:
        raise UnmetNeed("mmdebstrap is needed to build the testbed's root file system: apt-get install mmdebstrap")
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise UnmetNeed(f"{sys.executable} has no pip, which is needed to fetch ROOT: apt-get install python3-venv")
    check_space(cache, NEEDED_BYTES, "build the root file system")


def check_space(directory: Path, needed: int, purpose: str) -> None:
    """Raise if the file system that holds, or will hold, the directory has not enough room."""
    directory = nearest_existing(directory)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise UnmetNeed(
            f"no room to {purpose}: {needed / 2**30:.1f} GiB are needed under {directory}, "
            f"{free / 2**30:.1f} GiB are free; make room, or set TIERBENCH_HOME to a larger disk"
        )


def provide(cache: Path, recipe: Recipe, say: Say) -> Path:
    """The root file system of the recipe, built now if it is not in the cache."""

    def build(partial: Path, log: TextIO) -> None:
        _bootstrap(recipe, partial, log, say)
        _install_python_packages(recipe, partial, log, say)
        shift_ids(partial)

    return build_once(recipe.path(cache), build, say)


def build_once(final: Path, build: Callable[[Path, TextIO], None], say: Say) -> Path:
    """A folder of the cache, built now if it is not there: what is built gets its name when it is whole."""
    cache = final.parent
    if final.is_dir():
        return final
    make_private(cache)
    with files.locked(cache / "lock", BUILD_SECONDS, lambda: say("waiting for another build of a root file system")):
        if final.is_dir():  # somebody else has built it while we waited
            return final
        for stale in cache.glob("*.partial"):  # only a builder that died leaves one, and we hold the lock
            shutil.rmtree(stale)
        partial = final.with_suffix(".partial")
        log = final.with_suffix(".log")
        try:
            with log.open("w", encoding="utf-8") as output:
                build(partial, output)
            partial.rename(final)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return final


def provide_kernel(cache: Path, say: Say) -> Path:
    """The folder that holds the kernel and its modules, fetched now if it is not in the cache."""

    def build(partial: Path, log: TextIO) -> None:
        say(f"{KERNEL_PACKAGE} of Debian {KERNEL_SUITE}, the kernel of virtual machines")
        whole = partial / "whole"
        partial.mkdir()
        extract = [*MMDEBSTRAP, "--variant=extract", UNCHECKED, f"--include={KERNEL_PACKAGE}"]
        run_logged([*extract, KERNEL_SUITE, str(whole)], log, KERNEL_PACKAGE)
        (whole / "usr/bin/linux.uml").rename(partial / "linux")
        (whole / "usr/lib/uml/modules").rename(partial / "modules")
        shutil.rmtree(whole)

    return build_once(kernel_path(cache), build, say)


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can look into: hosts' secrets lie below, and programs that become root."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)


def _bootstrap(recipe: Recipe, target: Path, log: TextIO, say: Say) -> None:
    options = [f"--customize-hook={hook}" for hook in recipe.customize]
    if recipe.suite == "forky":
        options.append(UNCHECKED)
    options.append('--aptopt=Acquire::Languages "none"')
    options += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    say(f"Debian {recipe.suite} with {len(recipe.debian_packages)} packages and what they need")
    command = [*MMDEBSTRAP, "--variant=apt", f"--include={','.join(recipe.debian_packages)}",
               *options, recipe.suite, str(target)]  # fmt: skip
    run_logged(command, log, "the packages of Debian " + recipe.suite)


def _install_python_packages(recipe: Recipe, target: Path, log: TextIO, say: Say) -> None:
    """Install wheels for the Python in there with the pip out here, which knows this machine's package index."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = ["chroot", str(target), "python3", "-c", ask]
    python = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    site = target / f"usr/local/lib/python{python}/dist-packages"
    platforms = [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in (34, 28, 17)]
    say(f"{' and '.join(recipe.python_packages)} for Python {python}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--pre", "--no-compile", "--no-deps",
               "--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *platforms,
               f"--target={site}", *recipe.python_packages]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="pip-", suffix=".partial") as scratch:
        run_logged(["env", f"TMPDIR={scratch}", *command], log, "the Python packages")  # where room was checked
    with (site / "ROOT/etc/system.rootrc").open("a", encoding="utf-8") as rootrc:
        rootrc.write(recipe.rootrc)


def run_logged(command: list[str], log: TextIO, what: str) -> None:
    """Run a command into the log; its failure is an error with what it complained of."""
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    # HTCondor's bindings set this for their own process; its package would make the folders of such a pool.
    own = {name: value for name, value in os.environ.items() if name != "CONDOR_CONFIG"}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=own
    ) as process:
        try:
            if process.wait() == 0:
                return
        except BaseException:  # what it has started would go on writing into what is removed then
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
            raise
    lines = Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("E:", "ERROR:"))] or lines
    raise UnmetNeed(
        f"{what} could not be installed for the testbed; nothing was kept.\n"
        + "\n".join(f"  {line}" for line in errors[-4:])
        + f"\n  The whole log is {log.name}. Is a package source within reach?"
    )


def shifted_id(identity: int) -> int:
    """The id that takes the place of one of Debian's."""
    return identity if identity in SHARED_IDS else identity + FIRST_ID


def shift_ids(root: Path) -> None:
    """Give all users and groups of a root file system, and what is theirs, ids of their own."""
    for name, fields in (("passwd", (2, 3)), ("group", (2,))):
        file = root / "etc" / name
        lines = [line.split(":") for line in file.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            for field in fields:
                line[field] = str(shifted_id(int(line[field])))
        file.write_text("".join(":".join(line) + "\n" for line in lines), encoding="utf-8")
    for folder, folders, names in os.walk(root):
        for path in (Path(folder) / name for name in (*folders, *names)):
            status = path.lstat()
            owner = (shifted_id(status.st_uid), shifted_id(status.st_gid))
            if owner != (status.st_uid, status.st_gid):
                os.lchown(path, *owner)
                if not stat.S_ISLNK(status.st_mode):
                    path.chmod(stat.S_IMODE(status.st_mode))  # a new owner takes setuid and setgid away
