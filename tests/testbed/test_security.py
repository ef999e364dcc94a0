"""The testbed's hosts keep their hands off this machine, and this machine's users theirs off the testbed."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tierbench.errors import HostError
from tierbench.testbed import filesystem, ids, rootfs
from tierbench.testbed.copying import bring_home
from tierbench.testbed.host import RunningHost
from tierbench.testbed.run import _taken_along
from tierbench.testbed.testbed import Testbed, home
from tierbench.testbed.topology import FIRST_PORT, LAST_PORT, MOUNT_POINT, USER

from .conftest import SETTINGS

SOMEBODY = 1000  # the machine's first user, whether there is one or not
PLANTED = f"/home/{USER}/planted"


@pytest.fixture
def ce(testbed: Testbed) -> RunningHost:
    return testbed.host("ce")


# -- links that the testbed's user has planted ---------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of this machine that nobody on the testbed has any business with."""
    path = tmp_path / "outside"
    path.write_text("secret")
    return path


def test_a_file_taken_along_is_not_written_through_a_link(ce: RunningHost, outside: Path, tmp_path: Path) -> None:
    definition = tmp_path / "planted.toml"
    definition.write_text("mine")
    ce.run("ln", "-sfn", str(outside), f"{PLANTED}.toml", user=USER)
    assert _taken_along(definition, ce) == f"{PLANTED}.toml"
    assert outside.read_text() == "secret"
    assert ce.read(f"{PLANTED}.toml", USER) == b"mine"


def test_a_folder_that_is_a_link_leads_nowhere_here(ce: RunningHost, outside: Path) -> None:
    ce.run("ln", "-sfn", str(outside.parent), PLANTED, user=USER)
    with pytest.raises(HostError):
        ce.put(f"{PLANTED}/new", "mine", user=USER)
    assert sorted(outside.parent.iterdir()) == [outside]


def test_links_in_a_run_directory_stay_on_the_testbed(ce: RunningHost, outside: Path, tmp_path: Path) -> None:
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


# -- who is who ------------------------------------------------------------------------------------------


def test_what_runs_there_belongs_to_nobody_here(testbed: Testbed, ce: RunningHost) -> None:
    owners = {int(line) for host in testbed.hosts.values() for line in host.run("ps", "-eo", "uid=").stdout.split()}
    owners |= {int(ce.run("id", "-u", user=USER).stdout)}
    assert len(owners) > 3  # root, condor, mfs, xrootd and the user
    known = {user.pw_uid for user in pwd.getpwall() if user.pw_uid != 0}
    assert owners & known == set()
    assert min(owners - {0}) > ids.BASE


def as_somebody(*command: str) -> subprocess.CompletedProcess[str]:
    become = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"]
    return subprocess.run([*become, *command], capture_output=True, text=True, check=False, cwd="/")


def test_users_of_this_machine_cannot_run_what_becomes_root_there() -> None:
    su = rootfs.recipe(SETTINGS).path(home() / "cache") / "usr/bin/su"
    assert su.stat().st_mode & 0o4000
    assert "Permission denied" in as_somebody("sh", "-c", f"exec {su} --version").stderr


def test_users_of_this_machine_cannot_read_what_hosts_keep_secret(testbed: Testbed) -> None:
    for host, path in (("mds", "etc/mfs/mfsexports.cfg"), ("ce", f"home/{USER}/.condor/tokens.d/pool")):
        file = testbed.directory / "hosts" / host / "upper" / path
        assert file.is_file()
        assert as_somebody("cat", str(file)).returncode
    commands = as_somebody("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "mfsmount" in commands
    assert "mfspassword" not in commands


def test_jobs_cannot_read_the_file_systems_secrets(testbed: Testbed) -> None:
    for host, path in (
        ("mds", "/etc/mfs/mfsmaster.cfg"),
        ("mds", "/etc/mfs/mfsexports.cfg"),
        ("oss", "/etc/mfs/mfschunkserver.cfg"),
        ("wn03", "/run/mount.password"),
    ):
        with pytest.raises(HostError, match="Permission denied"):
            testbed.host(host).read(path, USER)


def test_no_program_there_becomes_root(testbed: Testbed) -> None:
    for host in testbed.hosts.values():
        root = next(line for line in host.read("/proc/self/mounts").decode().splitlines() if line.split()[1] == "/")
        assert "nosuid" in root.split()[3].split(",")


# -- the file system's doors -----------------------------------------------------------------------------


@pytest.mark.parametrize("port", range(FIRST_PORT, LAST_PORT + 1))
@pytest.mark.parametrize("server", ["mds", "oss"])
def test_a_private_worker_does_not_go_in_by_the_gateways_ticket(testbed: Testbed, server: str, port: int) -> None:
    address = testbed.host(server).host.address
    refused = testbed.host("wn01").run("bash", "-c", f": </dev/tcp/{address}/{port}", check=False, timeout=10)
    assert "refused" in refused.stderr


def test_the_gateway_itself_still_does(testbed: Testbed) -> None:
    assert filesystem.mounted(testbed.host("dgt"))
    assert testbed.host("dgt").succeeds("bash", "-c", f": </dev/tcp/mds.uf.test/{LAST_PORT - 1}")
    assert testbed.host("wn03").succeeds("ls", MOUNT_POINT)
