"""A trial's outbox, made and removed by the shipped script, run as a process."""

import json
import os
import stat
import zlib
from unittest.mock import ANY, Mock

import pytest

from tests.unit.shipped import PYTHON, ship
from tests.unit.stand_ins import run, script
from tierbench.wrappers import write_area
from tierbench.wrappers.child import Failure

CONTENT = b"what a client has written"
AS_ANY_USER = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []  # root without its powers: modes bind it


class Worker:
    """A job's folder, and a storage in which trials may write."""

    def __init__(self, folder):
        self.folder, self.under = folder, folder / "storage/writes"
        self.outbox = self.under / "run-1/trial"
        self.under.mkdir(parents=True)
        ship(folder, "write_area.py")
        self.about()

    def about(self, **changes):
        writes = {"under": str(self.under), "url": str(self.outbox), "bytes": 1000, "check": "size", **changes}
        (self.folder / "trial.json").write_text(json.dumps({"writes": writes}))

    def run(self, *arguments):
        done = run(*AS_ANY_USER, PYTHON, "write_area.py", *arguments, cwd=self.folder)
        return done.returncode, json.loads(done.stdout or '{"message": ""}') | {"errors": done.stderr}

    def written(self, name, content=CONTENT, told=None):
        (self.outbox / name).write_bytes(content)
        adler32 = f"{zlib.adler32(CONTENT):08x}"
        with (self.folder / "expected.txt").open("a") as file:
            file.write(f"{self.outbox / name}\t{len(content) if told is None else told}\t{adler32}\n")

    def try_to_clear(self):
        (self.folder / "expected.txt").touch()
        return self.run("clear", "--expected", "expected.txt")

    def clear(self):
        status, report = self.try_to_clear()
        assert (status, report["status"]) == (0, "ok"), report
        return report


@pytest.fixture
def worker(tmp_path):
    return Worker(tmp_path)


@pytest.mark.parametrize("left", [False, True])
def test_it_is_made_below_where_trials_may_write_without_what_an_earlier_try_has_left(worker, left):
    if left:
        (worker.outbox / "deep").mkdir(parents=True)
        (worker.outbox / "deep/file").touch()
    assert worker.run("make")[0] == 0
    assert list(worker.outbox.iterdir()) == []


def test_no_room_or_no_storage_is_told_before_anything_is_written(worker):
    worker.about(bytes=10**18)
    status, report = worker.run("make")
    assert (status, report["status"]) == (1, "no-room"), report
    assert not worker.outbox.exists()
    worker.about(entries=10**18)
    if os.statvfs(worker.under).f_files:  # not all file systems have so many and no more
        assert "1000000000000000000 files and folders are to be made" in worker.run("make")[1]["message"]
    worker.under.rmdir()
    assert worker.run("make")[1]["status"] == "absent"
    assert not worker.under.exists()


@pytest.mark.parametrize("free", [(1040, None), (10**9, 49)])  # the file system itself takes some
def test_there_has_to_be_room_for_all_of_it(free):
    with pytest.raises(Failure, match=r"are free|there is room for"):
        write_area.make(Mock(remove=list, free=lambda: free), 1000, 50)


def test_a_runs_folder_in_which_others_may_write_is_refused_and_none_is_made(worker):
    """They could put links to our files in the place of ours."""
    mask = os.umask(0)
    try:
        assert worker.run("make")[0] == 0
        worker.about(url=f"{worker.outbox}2")
        assert worker.run("make")[0] == 0  # beside it
        (worker.under / "run-1").chmod(0o777)
        worker.about(url=f"{worker.outbox}3")
        _, report = worker.run("make")
    finally:
        os.umask(mask)
    assert (report["status"], "others may write in it" in report["message"]) == ("refused", True)
    assert {path.name for path in worker.outbox.parent.iterdir()} == {"trial", "trial2"}


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else may write in another's folder that is not for all")
def test_so_is_one_of_another_user(worker):
    (worker.under / "run-1/other").mkdir(parents=True)
    os.chown(worker.under / "run-1", 65534, 65534)
    report = json.loads(run(PYTHON, "write_area.py", "make", cwd=worker.folder).stdout)
    assert (report["status"], "is user 65534's" in report["message"]) == ("refused", True)


@pytest.mark.parametrize("elsewhere", ["/", "", "/run", "/../run/trial", "/run/../../trial", "2/run/trial"])
def test_a_place_elsewhere_is_refused(worker, elsewhere):
    worker.about(url=f"{worker.under}{elsewhere}")
    for step in ("make", "clear"):
        assert worker.run(step)[0] == 2


@pytest.mark.parametrize("others", [[], ["other"]])
def test_it_is_removed_with_all_that_was_written_and_other_trials_keep_theirs(worker, others):
    worker.run("make")
    for name in others:
        worker.outbox.with_name(name).mkdir()
    worker.written("one")
    worker.written("two")
    report = worker.clear()
    assert (report["checked"], report["wrong_files"], report["left_files"]) == (2, 0, 0)
    assert [path.name for path in worker.under.rglob("*")] == (["run-1", *others] if others else [])


def test_files_of_another_size_or_that_are_gone_are_told(worker):
    worker.run("make")
    worker.written("whole")
    worker.written("short", told=1_000)
    worker.written("gone")
    (worker.outbox / "gone").unlink()
    report = worker.clear()
    assert report["wrong_files"] == 2
    assert "gone is not there" in report["wrong"][0]
    assert f"has {len(CONTENT)} bytes, not the 1000" in report["wrong"][1]


def test_what_cannot_be_read_is_told_and_all_is_removed(worker):
    worker.about(check="adler32")
    worker.run("make")
    worker.written("whole")
    worker.written("odd", b"")
    (worker.outbox / "odd").unlink()
    os.mknod(worker.outbox / "odd", stat.S_IFSOCK | 0o600)  # which cannot be opened
    report = worker.clear()
    assert (report["wrong_files"], "odd could not be compared: " in report["wrong"][0]) == (1, True)
    assert not worker.outbox.exists()


@pytest.mark.parametrize(("check", "wrong"), [("size", 0), ("adler32", 1)])
def test_other_bytes_of_the_right_size_are_seen_by_their_checksum(worker, check, wrong):
    worker.about(check=check)
    worker.run("make")
    worker.written("changed", CONTENT[:-1] + b"!")
    assert worker.clear()["wrong_files"] == wrong


def test_a_checksum_is_not_of_what_this_hosts_memory_has(tmp_path, monkeypatch):
    forgets = Mock()
    monkeypatch.setattr(write_area.os, "posix_fadvise", forgets)
    (tmp_path / "file").write_bytes(CONTENT)
    assert write_area.MountedArea("", "").adler32(str(tmp_path / "file")) == f"{zlib.adler32(CONTENT):08x}"
    forgets.assert_called_once_with(ANY, 0, 0, os.POSIX_FADV_DONTNEED)


def test_what_cannot_be_removed_is_told(worker):
    worker.run("make")
    worker.written("kept")
    worker.outbox.chmod(0o555)
    report = worker.clear()
    assert (report["left_files"], report["left"]) == (1, [str(worker.outbox / "kept")])


def test_a_place_that_was_never_made_is_no_trouble(worker):
    assert worker.clear()["left_files"] == 0


def test_a_storage_that_has_gone_away_is_not_taken_for_an_empty_one(worker):
    worker.run("make")
    worker.written("one")
    worker.under.rename(worker.under.with_name("elsewhere"))
    assert worker.try_to_clear()[1]["status"] == "absent"


@pytest.mark.parametrize("closed", ["run-1", "run-1/trial"])
def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_an_empty_one(worker, closed):
    worker.run("make")
    worker.written("one")
    (worker.under / closed).chmod(0)
    _, report = worker.try_to_clear()
    (worker.under / closed).chmod(0o755)
    assert report["status"] == "failed"
    assert f"Permission denied: '{worker.outbox}'" in report["message"]


LISTING = """
case "$*" in
    *" ls "*) test -e gone || echo "$LISTED"; exit 0 ;;
    *" rm "*) touch gone ;;
    *" rmdir "*) echo "$3" >>removed ;;
esac
"""


SERVER = "root://door.test:1094//"


def serve(worker, monkeypatch, xrdfs):
    """Put the storage behind a server, which answers by a script."""
    worker.about(under=f"{SERVER}w", url=f"{SERVER}w/run-1/trial")
    (worker.folder / "bin").mkdir()
    script(worker.folder / "bin/xrdfs", xrdfs)
    monkeypatch.setenv("PATH", f"{worker.folder}/bin:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "listed",
    [
        "-rw-r--r-- bench bench 25 2026-11-21 21:47:38 /w/run-1/trial/0",
        "-rw-r--r-- 1000 1000 25 2026-11-21 21:47:38 /w/run-1/trial/0",  # no such user where the server runs
        "-rw- 2026-11-21 21:47:38 25 /w/run-1/trial/0",
    ],
)
def test_a_servers_list_tells_sizes_whoever_owns_the_files(worker, monkeypatch, listed):
    serve(worker, monkeypatch, LISTING)
    folders = [f"drwxr-xr-x bench bench 0 2026-11-21 21:47:38 /w/run-1/trial/{name}" for name in ("a", "a/b")]
    monkeypatch.setenv("LISTED", "\n".join([listed, *folders]))
    (worker.folder / "expected.txt").write_text(f"{SERVER}w/run-1/trial/0\t25\t\n")
    report = worker.clear()
    assert (report["wrong"], report["bytes"]) == ([], 25)
    removed = (worker.folder / "removed").read_text().split()
    assert removed == ["/w/run-1/trial/a/b", "/w/run-1/trial/a", "/w/run-1/trial", "/w/run-1"]


# What xrdfs prints, and the status with which it ends.
ANSWERS = """
error() { echo; echo "[ERROR] Server responded with an error: $1"; echo; exit 54; }
gone() { error "[3011] Unable to locate $1; no such file or directory"; }
denied() { error "[3010] Unable to locate $1; permission denied"; }
away() { echo "[FATAL] Connection error"; exit 51; }
case "$*" in
    %s
    *" /w") exit 0 ;;
    *"stat /w/run-1/trial" | *"ls -l -R /w/run-1/trial") gone /w/run-1/trial ;;
esac
"""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("*) away ;;", "stat /w: [FATAL] Connection error"),
        ('*" stat /w/run-1/trial" | *" ls "*) away ;;', "stat /w/run-1/trial: [FATAL] Connection error"),
        ('*" ls "*) denied /w/run-1/trial ;; *" stat "*) exit 0 ;;', "ls -l -R /w/run-1/trial: [ERROR] Server"),
        ('*" ls "*) exit 0 ;; *" stat /w/run-1/trial") away ;;', "stat /w/run-1/trial: [FATAL] Connection error"),
        ('*" stat /w") test ! -e asked || away; touch asked; exit 0 ;;', "stat /w: [FATAL] Connection error"),
    ],
    ids=["no door", "lost before the list", "no list", "lost after the removal", "lost at the end"],
)
def test_a_server_that_does_not_say_what_is_left_is_not_taken_for_an_empty_one(worker, monkeypatch, answer, message):
    serve(worker, monkeypatch, ANSWERS % answer)
    _, report = worker.try_to_clear()
    assert report["status"] == "refused"
    assert message in report["message"]


def test_an_outbox_that_the_server_does_not_have_is_no_trouble(worker, monkeypatch):
    serve(worker, monkeypatch, ANSWERS % "")
    assert worker.clear()["left_files"] == 0


@pytest.mark.parametrize("linked", ["run-1", "run-1/trial"])
@pytest.mark.parametrize("step", ["make", "clear"])
def test_a_link_in_its_place_leads_to_nothing_that_is_removed(worker, linked, step):
    """Where all may write, somebody else may have put one there."""
    others = worker.folder / "others"
    (others / "trial").mkdir(parents=True)
    files = (others / "file", others / "trial/file")
    for file in files:
        file.touch()
    place = worker.under / linked
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(others)
    _, report = worker.run(step)
    assert (report["status"], "is a link" in report["message"]) == ("refused", True)
    assert all(file.exists() for file in files)


def test_a_link_among_what_was_written_is_removed_and_what_it_leads_to_stays(worker):
    worker.run("make")
    others = worker.folder / "others"
    others.mkdir()
    (others / "file").touch()
    (worker.outbox / "link").symlink_to(others)
    assert worker.clear()["left_files"] == 0
    assert (others / "file").exists()
