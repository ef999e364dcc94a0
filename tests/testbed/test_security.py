"""The testbed's hosts keep their hands off this machine, and this machine's users theirs off the testbed."""

import contextlib
import hashlib
import os
import pty
import pwd
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import classad2
import pytest

from tests.testbed.runs import HOME, outcome
from tierbench.errors import HostError
from tierbench.site_configs.site import SHIPPED
from tierbench.testbed import rootfs
from tierbench.testbed.run import _take_along, bring_home, give_to_caller, make_parents
from tierbench.testbed.services.filesystem import FIRST_PORT, LAST_PORT
from tierbench.testbed.testbed import home
from tierbench.testbed.topology import USER

from .conftest import SETTINGS

Sudo = Callable[..., subprocess.CompletedProcess[str]]
SOMEBODY = 1000  # the machine's first user, whether there is one or not
PLANTED = f"/home/{USER}/planted"


@pytest.fixture
def ce(testbed):
    return testbed.host("ce")


# -- links that the testbed's user has planted ---------------------------------------------------------


@pytest.fixture
def outside(tmp_path):
    """A file of this machine that nobody on the testbed has any business with."""
    path = tmp_path / "outside"
    path.write_text("secret")
    return path


def test_a_file_taken_along_is_not_written_through_a_link(ce, outside, tmp_path):
    definition = tmp_path / "planted.toml"
    mine = 'extends = "quick"\nname = "planted"\n'
    definition.write_text(mine)
    copy = f"{PLANTED}/planted.toml"
    ce.run("mkdir", "-p", PLANTED, user=USER)
    ce.run("ln", "-sfn", str(outside), copy, user=USER)
    assert _take_along(definition, ce) == copy
    assert outside.read_text() == "secret"
    assert ce.read(copy, USER) == mine.encode()


def test_a_folder_that_is_a_link_leads_nowhere_here(ce, outside):
    folder = f"{PLANTED}-folder"
    ce.run("ln", "-sfn", str(outside.parent), folder, user=USER)
    with pytest.raises(HostError):
        ce.put(f"{folder}/new", "mine", user=USER)
    assert sorted(outside.parent.iterdir()) == [outside]


def test_links_in_a_run_directory_stay_on_the_testbed(ce, outside, tmp_path):
    run = ce.run("mktemp", "-d", user=USER).stdout.strip()
    plant = f"cd {run}; mkdir sub; echo it >sub/file; chmod 700 sub/file; mkfifo pipe"
    plant += f"; ln -s {outside} stolen; ln -s {outside.parent} sub/folder; ln -s /etc/shadow shadow"
    ce.run("sh", "-euc", plant, user=USER)
    into = tmp_path / "home" / "run"
    assert sorted(bring_home(ce, run, into, USER)) == ["./pipe", "./shadow", "./stolen", "./sub/folder"]
    assert sorted(path.relative_to(into) for path in into.rglob("*")) == [Path("sub"), Path("sub/file")]
    assert (into / "sub/file").read_text() == "it\n"
    assert os.access(into / "sub/file", os.X_OK)
    assert {path.stat().st_uid for path in [into, *into.rglob("*")]} == {os.geteuid()}


def test_what_was_brought_home_belongs_to_who_called(tmp_path, monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setenv("SUDO_GID", str(SOMEBODY))
    runs, into = tmp_path / "runs", tmp_path / "runs" / "run"
    make_parents(into)
    (into / "sub").mkdir(parents=True)
    (into / "sub/file").touch()
    (into / "sub/link").symlink_to(tmp_path)
    give_to_caller(into)
    assert {path.lstat().st_uid for path in [runs, *runs.rglob("*")]} == {SOMEBODY}
    assert tmp_path.stat().st_uid == os.geteuid()


# -- the terminal of who calls ----------------------------------------------------------------------------

LEGACY = Path("/proc/sys/dev/tty/legacy_tiocsti")
TYPES = """
import fcntl, os, termios
for place in (0, 1, 2, "/dev/tty"):
    try:
        terminal = place if isinstance(place, int) else os.open(place, os.O_RDWR)
        [fcntl.ioctl(terminal, termios.TIOCSTI, bytes([letter])) for letter in b"id\\n"]
    except OSError:
        pass
print("said")
"""
SHELL = """
import fcntl, struct, subprocess, sys, termios
status = subprocess.run(sys.argv[1:], check=False).returncode
print("status", status, "typed", *struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4))))
"""


def at_a_terminal(*command, typed=b""):
    """All that stands on the terminal of a shell that has run a command, with what was typed into it meanwhile."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", SHELL, *command])  # noqa: S606
    os.write(terminal, typed)
    output = b""
    with contextlib.suppress(OSError):  # the shell has ended
        while read := os.read(terminal, 4096):
            output += read
    os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode(errors="replace")


@pytest.mark.skipif(not LEGACY.exists() or LEGACY.read_text() != "1\n", reason="nobody can type on this kernel")
@pytest.mark.parametrize("inside", ["exec", "_inside", "run"])
def test_nobody_there_types_into_the_shell_that_called(testbed, ce, inside):
    ce.put(f"{PLANTED}.py", TYPES, user=USER)
    host = f"import sys; from tierbench.testbed.testbed import Testbed; ce = Testbed({testbed.name!r}).host('ce'); "
    calls = {
        "exec": ["-m", "tierbench", "testbed", "exec", "--name", testbed.name, "--user", USER, "ce", "--"],
        "_inside": ["-c", f"{host}from tierbench.testbed import terminal; terminal.run(ce, sys.argv[1:], {USER!r})"],
        "run": ["-c", f"{host}print(ce.run(*sys.argv[1:], user={USER!r}).stdout)"],
    }
    output = at_a_terminal(sys.executable, *calls[inside], "python3", f"{PLANTED}.py")
    assert "said" in output
    assert "status 0 typed 0" in output


def test_a_shell_there_takes_what_is_typed(testbed):
    command = [sys.executable, "-m", "tierbench", "testbed", "shell", "--name", testbed.name, "--user", USER, "ce"]
    output = at_a_terminal(*command, typed=b"echo $((6 * 7)) is it; exit 3\n")
    assert "42 is it" in output
    assert "status 3 typed 0" in output


# -- who is who ------------------------------------------------------------------------------------------


def test_what_runs_there_belongs_to_nobody_here(testbed, ce):
    owners = {int(line) for host in testbed.hosts.values() for line in host.run("ps", "-eo", "uid=").stdout.split()}
    owners |= {int(ce.run("id", "-u", user=USER).stdout)}
    assert len(owners) > 3  # root, condor, mfs, xrootd and the user
    here = {user.pw_uid for user in pwd.getpwall() if user.pw_uid != 0}
    assert owners & here == set()
    assert min(owners - {0}) > rootfs.FIRST_ID


def as_somebody(*command):
    become = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"]
    return subprocess.run([*become, *command], capture_output=True, text=True, check=False, cwd="/")


def test_users_of_this_machine_cannot_run_what_becomes_root_there():
    su = rootfs.recipe(SETTINGS).path(home() / "cache") / "usr/bin/su"
    assert su.stat().st_mode & 0o4000
    assert "Permission denied" in as_somebody("sh", "-c", f"exec {su} --version").stderr


def test_users_of_this_machine_cannot_read_what_hosts_keep_secret(testbed):
    for host, path in (("mds", "etc/mfs/mfsexports.cfg"), ("ce", f"home/{USER}/.condor/tokens.d/pool")):
        file = testbed.directory / "hosts" / host / "upper" / path
        assert file.is_file()
        assert as_somebody("cat", str(file)).returncode
    commands = as_somebody("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "mfsmount" in commands
    assert "mfspassword" not in commands


def test_jobs_cannot_read_the_file_systems_secrets(testbed):
    for host, path in (
        ("mds", "/etc/mfs/mfsmaster.cfg"),
        ("mds", "/etc/mfs/mfsexports.cfg"),
        ("oss", "/etc/mfs/mfschunkserver.cfg"),
        ("wn03", "/run/mount.password"),
    ):
        with pytest.raises(HostError, match="Permission denied"):
            testbed.host(host).read(path, USER)


def test_no_program_there_becomes_root(testbed):
    for host in testbed.hosts.values():
        root = next(line for line in host.read("/proc/self/mounts").decode().splitlines() if line.split()[1] == "/")
        assert "nosuid" in root.split()[3].split(",")


# -- the file system's doors -----------------------------------------------------------------------------


@pytest.mark.parametrize("port", range(FIRST_PORT, LAST_PORT + 1))
@pytest.mark.parametrize("server", ["mds", "oss"])
def test_a_private_worker_does_not_go_in_by_the_gateways_ticket(testbed, server, port):
    address = testbed.host(server).host.address
    refused = testbed.host("wn01").run("bash", "-c", f": </dev/tcp/{address}/{port}", check=False, timeout=60)
    assert "refused" in refused.stderr


# -- a run that tells nobody anything ----------------------------------------------------------------------

TOLD_TO_NOBODY = "not-to-be-told"
CHECK = f'test "$(printf %s "$TOKEN" | sha256sum)" = "{hashlib.sha256(TOLD_TO_NOBODY.encode()).hexdigest()}  -"'
SITE = (SHIPPED / "testbed.toml").read_text(encoding="utf-8")
PUBLIC = """requirements = 'TierbenchNetwork == "public"'"""
# All that DAGMan and condor_submit could trip over in an expression: it has to arrive as it is.
PECULIAR = PUBLIC[:-1] + """ && regexp("^wn[0-9]+[.]fiu", Machine) && "a, $c # d" != "" || (false)'"""
ROOT_BIN = "/usr/local/lib/python3*/dist-packages/ROOT/bin"
QUIET = f"""
access = ["direct"]
batches = [2]
sample_period_s = 1.0
time_limit_s = 300
replicas.tree = {{ kind = "tree", count = 2, size_mb = 2 }}

[workloads.root]
client = "root"
replicas = "tree"
environment = {{ TOKEN = {{ from_file = "{HOME}/token" }}, WHERE = {{ from_env = "_CONDOR_SCRATCH_DIR" }} }}
options = {{ setup = '{CHECK} && test -d "$WHERE" && PATH="$PATH:$(echo {ROOT_BIN})"' }}
"""


def test_a_run_under_a_tight_umask_with_a_secret_is_complete_and_tells_nobody(access_point, ce):
    access_point.define("quiet", QUIET)
    ce.put(f"{HOME}/quiet-site.toml", SITE.replace(PUBLIC, PECULIAR), user=USER)
    ce.put(f"{HOME}/token", f"{TOLD_TO_NOBODY}\n", 0o600, USER)
    access_point.make_replicas("quiet")
    run = f"{HOME}/quiet"
    command = f"umask 077; tierbench run {run}.toml --site {run}-site.toml --no-links --into {run}"
    access_point.command("sh", "-c", command, check=False)
    record = outcome(access_point.copy("quiet") / "trials/direct.root.x002.r1")
    assert record["state"] == "complete", record
    assert ce.run("stat", "-c", "%a", run, user=USER).stdout == "700\n"
    assert ce.run("grep", "-rlF", TOLD_TO_NOBODY, run, user=USER, check=False).stdout == ""
    assert TOLD_TO_NOBODY not in ce.run("condor_history", "-l", user=USER).stdout
    requirements = ce.run("condor_history", "-af:r", "Requirements", user=USER).stdout
    assert str(classad2.ExprTree(f"({tomllib.loads(PECULIAR)['requirements']})")) in requirements


# -- sudo --------------------------------------------------------------------------------------------------

HELPER = "/usr/local/sbin/tierbench-flush"
SUDOERS = "/etc/sudoers.d/tierbench-flush"
# Hosts have no setuid but where a test asks for it: in a mount namespace of its own.
WITH_SETUID = 'mount -o remount,bind,suid / && exec runuser -u "$0" -- sudo -n "$@"'


@pytest.fixture
def sudo(testbed):
    """Run the helper by real sudo, as an account; a stand-in for it tells who it is, and empties no caches."""
    worker = testbed.host("wn03")
    worker.put(HELPER, '#!/bin/sh\necho "$(id -u) $*"\n', 0o755)

    def run(account, *command, line):
        worker.put(SUDOERS, line, 0o440)
        worker.run("visudo", "-cf", SUDOERS)
        return worker.run("unshare", "--mount", "sh", "-euc", WITH_SETUID, account, *command, check=False)

    yield run
    worker.run("rm", "-f", HELPER, SUDOERS)


SHIPPED_LINE = (SHIPPED / "sudoers.d/tierbench-flush").read_text(encoding="utf-8")
FILLED_IN = SHIPPED_LINE.replace("nobody-yet", USER)


@pytest.mark.parametrize("word", ["drop_caches", "lustre"])
def test_sudo_lets_the_account_of_the_jobs_do_this_alone(sudo, word):
    assert sudo(USER, HELPER, word, line=FILLED_IN).stdout == f"0 {word}\n"


@pytest.mark.parametrize("command", [[HELPER], [HELPER, "drop_caches", "more"], [HELPER, "--help"], ["/bin/true"]])
def test_sudo_lets_it_do_nothing_else(sudo, command):
    assert "password is required" in sudo(USER, *command, line=FILLED_IN).stderr


def test_sudo_lets_no_other_account_do_it(sudo):
    assert "password is required" in sudo("xrootd", HELPER, "drop_caches", line=FILLED_IN).stderr


def test_the_line_as_it_is_shipped_lets_nobody_do_anything(sudo):
    assert "password is required" in sudo(USER, HELPER, "drop_caches", line=SHIPPED_LINE).stderr
