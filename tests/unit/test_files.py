"""What is no ordinary file, folder or lock holds nobody up, and leads nowhere."""

import errno
import fcntl
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.stand_ins import full_disk, run
from tierbench import files, json_files, names
from tierbench.errors import TierbenchError
from tierbench.postprocess.schema.columns import Column, read_rows
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.write import _field
from tierbench.submit.clean import removable
from tierbench.submit.console import coloured

NESTED = 3000
HOLD = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH); print('has it')"


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(str(path))


def a_large_one(path):
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    "plant",
    [
        os.mkfifo,
        a_socket,
        a_large_one,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/dev/tty"),
        Path.mkdir,
    ],
    ids=["pipe", "socket", "large", "zero", "terminal", "folder"],
)
def test_what_cannot_be_read_whole_is_damaged_at_once(tmp_path, plant):
    path = tmp_path / names.TRIALS_CSV
    plant(path)
    open_files = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(json_files.Damaged, match="cannot be read"):
        json_files.read(path)
    with pytest.raises((TierbenchError, OSError)):
        read_rows(TrialRow, tmp_path) if not path.is_file() else files.read_bytes(path)
    assert len([*Path("/proc/self/fd").iterdir()]) == open_files


@pytest.mark.parametrize("text", ["1e999", "NaN", "9223372036854775808", r'{"name": "\uD800"}', "[" * 100_000])
def test_what_no_table_can_hold_is_damage(text):
    assert json_files.parse(r'["\ud83d\ude00", -9223372036854775807, 1e308]', "it")[1] == -json_files.LARGEST
    with pytest.raises(json_files.Damaged, match="it is damaged: "):
        json_files.parse(text, "it")


def test_no_link_in_an_open_folder_is_followed(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    folder = os.open(tmp_path, files.FOLDER)
    try:
        assert files.read_end("file", folder) == b""
        with pytest.raises(OSError, match="link"):
            files.read_end("link", folder)
    finally:
        os.close(folder)


def nested(top):
    here = os.open(top, os.O_RDONLY)
    for number in range(NESTED):
        name = f"n{number}"
        os.mkdir(name, dir_fd=here)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        os.symlink(top.parent / "outside", "link", dir_fd=here)
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)


def test_folders_within_folders_are_measured_and_removed_and_no_link_is_followed(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    for folder in (outside, run):
        folder.mkdir()
        (folder / names.CATALOGUE).write_text('{"name": "file", "bytes": 0, "adler32": "00000001"}')
    nested(run)
    assert sum(1 for _ in files.walk(run)) == 3 * NESTED + 1
    assert removable(run).bytes > 0
    removable(run).remove()
    assert sorted(tmp_path.rglob("*")) == [outside, outside / names.CATALOGUE]


def test_what_is_written_takes_the_place_of_a_link(tmp_path):
    mine, page = tmp_path / "mine", tmp_path / "report.html"
    mine.write_text("mine")
    page.symlink_to(mine)
    files.replace(page, "page")
    assert (mine.read_text(), page.read_text(), page.is_symlink()) == ("mine", "page", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "report.html"]


def test_what_a_full_disk_did_not_take_is_named_and_what_was_there_stays(tmp_path):
    path = tmp_path / "precious"
    path.write_text("before")
    with full_disk(), pytest.raises(OSError, match=str(path)):
        files.replace(path, "more than it takes")
    assert [(left.name, left.read_text()) for left in tmp_path.iterdir()] == [("precious", "before")]


def test_who_may_only_read_cannot_hold_a_lock(tmp_path):
    lock = tmp_path / "lock"
    lock.touch()  # by an earlier version
    with files.locked(lock):
        pass
    assert lock.stat().st_mode & 0o044 == 0
    if os.geteuid() == 0:
        tmp_path.chmod(0o755)
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        assert "has it" not in run(*become, sys.executable, "-c", HOLD, lock).stdout


def test_a_lock_is_waited_for_in_time_and_said_so(tmp_path):
    waits = []
    again = files.locked(tmp_path / "lock", 0.0, lambda: waits.append(True))
    with files.locked(tmp_path / "lock"), pytest.raises(BlockingIOError), again:
        pytest.fail("two hold it")
    assert waits == [True]
    with pytest.raises(KeyboardInterrupt), files.locked(tmp_path / "lock", gone=True):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_was_removed_meanwhile_is_nobodys(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_try_lock", lambda _: (tmp_path / "lock").unlink() or True)
    with pytest.raises(BlockingIOError), files.locked(tmp_path / "lock"):
        pytest.fail("another one has another file")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, "Function not implemented")))
    with pytest.raises(OSError, match=f"has no locks .*{tmp_path}/lock"), files.locked(tmp_path / "lock"):
        pass


def test_a_lock_that_is_waited_for_without_a_limit_comes_without_a_delay(tmp_path, monkeypatch):
    monkeypatch.setattr(files.time, "sleep", lambda _: pytest.fail("it is asked for now and then"))
    lock = tmp_path / "lock"
    with subprocess.Popen(["flock", lock, "sh", "-c", "echo; sleep 0.2"], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()  # it has it
        with files.locked(lock, math.inf):
            assert holder.wait() == 0


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_lock_is_a_file(tmp_path, kind):
    lock = tmp_path / "lock"
    os.mkfifo(lock) if kind == "pipe" else lock.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="lock"), files.locked(lock):
        pytest.fail("it is none")


@pytest.mark.parametrize("text", ["=HYPERLINK()", "+1+cmd", "-x", "@SUM(1)", "\t=1"])
def test_no_text_of_a_table_is_computed_by_a_spreadsheet(text):
    assert _field(Column("host", "text", "", ""), text) == f"'{text}"
    assert _field(Column("host", "text", "", ""), f"'{text}") == f"'{text}"


def test_no_name_moves_a_terminals_cursor():
    assert coloured("a\033[2Jb\nc\u202e", sys.stdout) == "a\\u001b[2Jb\nc\\u202e"
