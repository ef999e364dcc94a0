"""Replays of recorded jobs: which records are refused, what xrdreplay is given, and what becomes of its end.

xrdreplay is a stand-in that reads what it is told to; tests/testbed/test_replay.py has the real one.
"""

import pytest

from tests.unit.client_process import SIZE, URL, record
from tierbench.errors import ConfigError
from tierbench.wrappers.clients.replay import Record

BYTES = 300 + 1_000_000 + 300
EXPERIMENT = """
name = "again"
question = "How fast?"
access = ["lan-xrootd"]
batches = [1]
repeats = 1

[workloads.again]
client = "replay"
replicas = "plain"
options = { record = "record.csv" }

[replicas.plain]
kind = "random"
count = 1
size_mb = 3
"""
REFUSED = (
    "echo '[Warning] We were expecting status: [SUCCESS], but received: [ERROR]Nosuchfile from: Open' >&2",
    "echo 'Error: replay job failed with IO errors!' >&2; exit 251",
)


def stand_in(job, *reads):
    """It keeps what it was given and how much it may have under way, then reads."""
    keeps = [f'cat "$1" >> {job.folder}/given', f"echo $XRD_MAXBUFFERSIZE > {job.folder}/limit"]
    job.script("bin/xrdreplay", '[ "$1" = --print ] && exec cat "$2"', *keeps, *reads)


@pytest.fixture
def replayed(job):
    """Replays the record that is there, and says how that ended."""
    job.offer(URL, SIZE)
    (job.folder / "record.csv").write_text(record())
    stand_in(job, f"head -c {BYTES} /dev/zero")
    return lambda **work: job.end("replay", options={"record": "record.csv"}, **work)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "options.record: .*record.csv: no such file"),
        ("", "record.csv: holds no read; docs/clients.md"),
        (record(reads=[]), "holds no read"),
        (record().replace("[SUCCESS]", "[ERROR] Connection error"), "holds no read"),
        ("job,seconds\n1,2\n", "is no record of XRootD's libXrdClRecorder"),
        (record()[:-400], "is no record"),
        (record(reads=[("VectorRead", ("many", 1))], answered=1), "is no record"),
        (record(urls=["root://a//1", "root://a//2"]), "is of 2 files"),
        (record(reads=[("Read", (0, 300)), ("Write", (0, 300))]), "of a job that writes"),
    ],
    ids=["missing", "empty", "no read", "only failures", "another table", "cut", "no numbers", "two", "writes"],
)
def test_a_record_that_cannot_be_replayed_is_refused_before_anything_runs(tmp_path, load, text, words):
    if text is not None:
        (tmp_path / "record.csv").write_text(text)
    with pytest.raises(ConfigError, match=words):
        load(EXPERIMENT)


def test_what_is_recorded_is_asked_of_the_replica_without_pauses(job, replayed):
    end = replayed()
    assert (end["status"], end["message"], end["bytes_app"]) == ("ok", "", BYTES)
    assert BYTES <= end["bytes_client"] < BYTES * 1.01
    detail = {key: end["detail"][key] for key in ("opens", "read_calls", "vector_reads", "recorded_calls_s")}
    assert detail == {"opens": 1, "read_calls": 3, "vector_reads": 1, "recorded_calls_s": 1.7}
    given = (job.folder / "given").read_text()
    assert given.startswith(f'"7","Open","1000000000.000000000","{URL};16;0;0"')
    assert "secret" not in given
    assert given.count("1000000000.0") == 2 * len(given.splitlines())


@pytest.mark.parametrize(("took_s", "most"), [(0.5, 1_000_000), (1.5, 1_000_600)], ids=["in turn", "overlapping"])
def test_no_more_is_under_way_at_once_than_the_job_had(job, replayed, took_s, most):
    (job.folder / "record.csv").write_text(record(took_s=took_s))
    replayed()
    assert int((job.folder / "limit").read_text()) == most


def test_what_a_file_that_was_opened_twice_had_under_way_adds_up(tmp_path):
    (tmp_path / "record.csv").write_text(record() + record().replace('"7"', '"8"'))
    assert Record(tmp_path / "record.csv").under_way == 2_000_000


def test_a_record_of_a_larger_file_than_the_replica_is_not_begun(job, replayed):
    job.offer(URL, SIZE - 1)
    end = replayed()
    assert end["status"] == "failed"
    assert end["message"] == f"the record reads up to byte {SIZE}, and {URL} has {SIZE - 1}: choose larger replicas"
    assert not (job.folder / "given").exists()


@pytest.mark.parametrize(
    ("does", "status", "message"),
    [
        (REFUSED, "open-failed", "Open: [ERROR]Nosuchfile"),
        ((f"head -c {BYTES // 2} /dev/zero", *REFUSED), "short-read", "Open: [ERROR]Nosuchfile"),
        ((f"head -c {BYTES // 2} /dev/zero",), "short-read", f"of {BYTES} bytes"),
        (("kill -9 $$",), "killed", "SIGKILL"),
    ],
    ids=["refused", "broken off", "too little", "killed"],
)
def test_an_end_with_errors_or_less_than_recorded_is_told(job, replayed, does, status, message):
    stand_in(job, *does)
    end = replayed()
    assert end["status"] == status
    assert message in end["message"]


def test_a_record_that_xrdreplay_cannot_use_is_told(job, replayed):
    job.script("bin/xrdreplay", "echo Invalid input file format. >&2; exit 1")
    assert "Invalid input file format." in replayed()["message"]


def test_each_file_of_a_job_is_asked_for_what_was_recorded(job, replayed):
    others = [f"root://server:1094//store/{number}.root" for number in (1, 2)]
    (job.folder / "replicas.txt").write_text("".join(f"{url}\t{SIZE}\n" for url in others))
    end = replayed(files_per_job=2)
    assert (end["status"], end["bytes_app"]) == ("ok", 2 * BYTES)
    opened = [line for line in (job.folder / "given").read_text().splitlines() if "Open" in line]
    assert [url in line for url, line in zip(others, opened, strict=True)] == [True, True]
