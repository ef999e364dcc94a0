"""The writer: what it tells is what is on the disk, and what goes wrong has a status."""

import zlib

import pytest

from tests.unit.client_process import SIZE


@pytest.fixture
def job(job):
    job.offer(job.folder / "written", SIZE)
    return job


def test_what_it_tells_is_what_is_on_the_disk_and_fsync_is_in_its_time_unless_told_otherwise(job):
    end = job.end("writer")
    content = (job.folder / "written").read_bytes()
    assert (end["status"], end["bytes_app"], len(content)) == ("ok", SIZE, SIZE)
    assert end["bytes_client"] == pytest.approx(SIZE, abs=1000)  # by its process
    assert end["detail"]["adler32"] == f"{zlib.adler32(content):08x}"
    assert end["detail"]["fsync_s"] > 0
    (job.folder / "written").unlink()
    assert job.end("writer", options={"fsync": False})["detail"]["fsync_s"] == 0


def test_no_block_is_like_another(job):
    job.end("writer", options={"block_kb": 1})
    content = (job.folder / "written").read_bytes()
    blocks = {content[at : at + 1024] for at in range(0, SIZE, 1024)}
    assert len(blocks) == -(-SIZE // 1024)
    assert len(zlib.compress(content)) > 0.99 * SIZE  # of random bytes, but for a number in each
    (job.folder / "written").unlink()
    job.end("writer")  # nor is a page of a larger one
    content = (job.folder / "written").read_bytes()
    assert len({content[at : at + 4096] for at in range(0, SIZE, 4096)}) == -(-SIZE // 4096)


def test_parts_of_one_file_lie_where_they_belong(job):
    for part in (1, 0):
        job.offer(job.folder / "written", f"1000\t\t{part * 1000}")
        assert job.end("writer")["status"] == "ok"
    content = (job.folder / "written").read_bytes()
    assert [int.from_bytes(content[at : at + 8], "big") for at in (0, 1000)] == [0, 1000]
    assert len(content) == 2000


def test_who_has_nothing_to_write_is_done(job):
    job.offer(job.folder / "written", 0)
    end = job.end("writer")
    assert (end["status"], end["bytes_app"]) == ("ok", 0)
    assert not (job.folder / "written").exists()  # another one makes it


@pytest.mark.parametrize(("url", "words"), [("/dev/full", "No space left"), ("/nowhere/file", "No such file")])
def test_what_cannot_be_written_is_told(job, url, words):
    job.offer(url, SIZE)
    end = job.end("writer")
    assert end["status"] == "open-failed"
    assert words in end["message"]


def test_no_link_in_the_place_of_its_file_is_followed(job):
    (job.folder / "written").symlink_to(job.folder / "kept")
    (job.folder / "kept").write_text("kept")
    assert job.end("writer")["status"] == "open-failed"
    assert (job.folder / "kept").read_text() == "kept"


def fake_xrdcp(job, *lines):
    job.script("bin/xrdcp", *lines)
    job.offer("root://server:1094//writes/file", SIZE)
    return job.end("writer")


def test_to_an_xrootd_server_it_writes_by_xrdcp_which_fails_at_its_close_or_takes_nothing(job):
    end = fake_xrdcp(job, f'cat >{job.folder}/arrived; echo "$@" >{job.folder}/arguments')
    assert (end["status"], end["bytes_app"]) == ("ok", SIZE)
    assert end["detail"]["adler32"] == f"{zlib.adler32((job.folder / 'arrived').read_bytes()):08x}"
    assert (job.folder / "arguments").read_text() == "--nopbar - root://server:1094//writes/file\n"
    end = fake_xrdcp(job, "cat >/dev/null; echo '[FATAL] no room' >&2; exit 54")
    assert (end["status"], end["message"], end["exit_status"]) == ("short-write", "[FATAL] no room", 54)
    assert fake_xrdcp(job, "echo '[FATAL] refused' >&2; exit 52")["status"] in ("open-failed", "short-write")
