"""What a testbed needs is checked before anything is changed, and its absence is told in one line."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.stand_ins import run, script
from tierbench import names
from tierbench.errors import BusyError, UnmetNeed
from tierbench.site_configs.site import SHIPPED
from tierbench.submit.cli import main
from tierbench.testbed import rootfs
from tierbench.testbed.all_papers import _take_down
from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import Testbed

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, or gives up root's rights")


def bring_up(home, **environment):
    command = [sys.executable, "-m", "tierbench", "testbed", "up"]
    return run(*command, env={**os.environ, "TIERBENCH_HOME": str(home), **environment})


@pytest.fixture
def small_disk(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def only_line(result):
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@root_only
def test_without_root_it_says_so(tmp_path):
    # All is loaded before: whom it becomes may not be let into the folder where Python is.
    code = """if True:
        import email.parser, importlib.metadata, os, pkgutil, tierbench
        for module in pkgutil.walk_packages(tierbench.__path__, "tierbench."):
            if module.name.split(".")[1] in ("submit", "testbed"):
                __import__(module.name)
        importlib.metadata.version("tierbench")
        os.setuid(65534)
        raise SystemExit(tierbench.submit.cli.main(["testbed", "up"]))
    """
    result = run(sys.executable, "-c", code, env={**os.environ, "TIERBENCH_HOME": str(tmp_path)})
    assert result.returncode == 3
    assert "takes root" in only_line(result)


def test_runs_that_a_reboot_left_on_disk_are_not_cleared_away(tmp_path, monkeypatch):
    monkeypatch.setenv("TIERBENCH_HOME", str(tmp_path))
    testbed = Testbed("default")
    run_there = testbed.directory / "hosts/ce/upper/home/bench/runs/three-hours"
    run_there.mkdir(parents=True)
    (run_there / names.SUBMITTED).touch()
    testbed._write_record(Settings(), complete=True)
    for refuses in (testbed.check_up, testbed.check_stranded, partial(_take_down, testbed)):
        with pytest.raises(BusyError, match=r"hosts have ended with runs on disk \(three-hours\)"):
            refuses()
    assert run_there.exists()
    shutil.rmtree(run_there)
    testbed.check_stranded()
    with pytest.raises(BusyError, match="is not up"):
        testbed.check_up()


@root_only
def test_who_could_put_something_into_the_cache_would_be_root(tmp_path):
    folder = tmp_path / "group"
    folder.mkdir()
    rootfs.check_home(folder / "tierbench")
    folder.chmod(0o777)
    with pytest.raises(UnmetNeed, match="would be root in the testbed"):
        rootfs.check_home(folder / "tierbench")
    folder.chmod(0o1777)
    rootfs.check_home(folder / "tierbench")
    os.chown(folder, 12345, -1)
    with pytest.raises(UnmetNeed, match="others than root"):
        rootfs.check_home(folder / "tierbench")


def test_a_package_that_the_hosts_users_may_not_read_is_named(tmp_path):
    (tmp_path / "__init__.py").touch(0o644)
    tmp_path.chmod(0o755)
    rootfs.check_readable(tmp_path)
    tmp_path.chmod(0o750)
    with pytest.raises(UnmetNeed, match="under a tight umask"):
        rootfs.check_readable(tmp_path)


def test_congestion_control_is_set_on_the_routes_of_each_interface(tmp_path):
    routes = {
        "101": "default via 198.18.1.1 dev eth1 table 101 congctl cubic",
        "main": "default dev eth0 congctl cubic",
    }
    for table, route in routes.items():
        (tmp_path / table).write_text(route + "\n")
    script(tmp_path / "ip", f"""#!/bin/sh
        cd {tmp_path}
        case "$*" in *show*all*) cat 101 main ;; *show*) cat main ;;
        *"table 101"*) shift 3; echo "$*" >101 ;; *) shift 3; echo "$*" >main ;; esac
    """)  # fmt: skip
    program = Path(rootfs.__file__).parent / "files/arrange/congestion"
    for arguments in (["set", "bbr"], ["get"]):
        answer = run("sh", program, *arguments, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert answer.stdout == "bbr\n"


@root_only
def test_a_full_disk_is_found_before_anything_is_written(small_disk):
    result = bring_up(small_disk)
    assert result.returncode == 3
    assert "no room to build" in only_line(result)
    assert {path.name for path in small_disk.iterdir()} <= {"locks"}


@root_only
def test_an_unreachable_package_source_leaves_no_half_root_file_system(tmp_path):
    result = bring_up(tmp_path, http_proxy="http://127.0.0.1:9/")
    assert result.returncode == 3
    assert "could not be installed" in result.stderr
    assert "Is a package source within reach?" in result.stderr
    assert list((tmp_path / "cache").glob("rootfs-*/")) == []
    assert list((tmp_path / "testbeds").glob("*")) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--set", "rtt_sm=14"], 'testbed.rtt_sm: unknown key (did you mean "rtt_ms"?)'),
        (["up", "--set", "rtt_ms=fast"], 'testbed.rtt_ms: must be a number, not "fast"'),
        (["up", "--set", "rtt_ms=-1"], "testbed.rtt_ms: must be in 0 … 2000, not -1.0"),
        (["up", "--set", "suite=trixy"], '(did you mean "trixie"?)'),
        (["up", "--set", "rates_mbps.wam=10"], '(did you mean "wan"?)'),
        (["up", "--set", "rtt_ms"], "must be KEY=VALUE"),
        (["up", "--config", str(SHIPPED / "fiu-uf-2014.toml")], "has no [testbed] table"),
        (["status"], "there is no testbed 'default'; `tierbench testbed up` makes one"),
        (["down", "--name", "../x"], "cannot name a testbed"),
    ],
)
def test_what_is_wrong_with_a_setting_name_or_file_is_told_first(tmp_path, monkeypatch, capsys, arguments, complaint):
    monkeypatch.setenv("TIERBENCH_HOME", str(tmp_path))
    assert main(["testbed", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_is_broken_off_leaves_no_process(tmp_path, monkeypatch):
    class Awaited(subprocess.Popen):
        """Says by a file that it is waited for: only then may the interrupt come."""

        def wait(self, timeout=None):
            awaited.touch()
            return super().wait(timeout)

    pid, awaited = tmp_path / "pid", tmp_path / "awaited"
    monkeypatch.setattr(rootfs, "END_SECONDS", 1.0)
    monkeypatch.setattr(rootfs.subprocess, "Popen", Awaited)
    before = signal.signal(signal.SIGALRM, Mock(side_effect=KeyboardInterrupt))
    wait = f"until [ -e {awaited} ]; do sleep 0.01; done"
    begin = ["sh", "-c", f"trap '' TERM; sleep 600 & echo $! > {pid}; {wait}; kill -ALRM {os.getpid()}; wait"]
    with (tmp_path / "log").open("w") as log, pytest.raises(KeyboardInterrupt):
        rootfs.run_logged(begin, log, "nothing")
    signal.signal(signal.SIGALRM, before)
    deadline = time.monotonic() + 60
    while " Z " not in state_of(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_build_does_not_see_this_machines_own_pool(tmp_path, monkeypatch):
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")  # as HTCondor's bindings set it where there is none
    with (tmp_path / "log").open("w") as log:
        rootfs.run_logged(["env"], log, "nothing")
    names = {line.partition("=")[0] for line in (tmp_path / "log").read_text().splitlines()}
    assert "PATH" in names
    assert "CONDOR_CONFIG" not in names


def state_of(pid):
    """What the kernel says of a process, if it is still there."""
    try:
        return Path("/proc", pid.read_text().strip(), "stat").read_text()
    except OSError:
        return " Z "
