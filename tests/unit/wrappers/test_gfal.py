"""What the client makes of gfal-copy's words, recorded with real servers, and what it asks it for."""

from pathlib import Path

import pytest

from tests.unit.client_process import client_of, run_of
from tests.unit.stand_ins import script
from tierbench.wrappers.clients.gfal import Gfal

URL = "gsiftp://vmuf.uf.test:2813/extenci/t/f1.dat"
COPYING = f"Copying 8000 bytes {URL} => file:///tmp/nowhere\n"
ABSENT = "gfal-copy error: 2 (No such file or directory) - Could not stat the source: Failed to stat file\n"


def client(folder, **options):
    return client_of(Gfal, folder, URL, 8000, **options)


@pytest.mark.parametrize(
    ("options", "run", "status", "read"),
    [
        ({}, run_of(COPYING), "ok", 8000),  # what it wrote beside it were words to the server
        ({}, run_of(COPYING, written=4000), "short-read", 4000),
        ({}, run_of(COPYING.replace("8000", "9000")), "failed", 9000),
        ({}, run_of(ABSENT, 2, 3000), "open-failed", 0),
        ({"to": "gsiftp://dgt.fiu.test:2813/in"}, run_of(COPYING, written=78_377), "ok", 8000),  # with OpenSSL 3.5
        ({"to": "davs://se.test/in"}, run_of(COPYING, written=300_000), "wrong-protocol", 8000),
        ({"to": "gsiftp://dgt.fiu.test:2813/in"}, run_of(COPYING, 70, 3000), "open-failed", 0),
        ({"to": "gsiftp://dgt.fiu.test:2813/in"}, run_of("", written=3000), "failed", None),
    ],
)
def test_a_file_counts_as_gfal_and_its_process_tell(tmp_path, options, run, status, read):
    end = client(tmp_path, **options).outcome(run)
    assert (end["status"], end["bytes_app"]) == (status, read)


def test_what_was_written_to_the_workers_disk_is_no_read(tmp_path):
    copying = client(tmp_path)
    (tmp_path / "nowhere").write_bytes(bytes(8000))  # as gfal2 makes it by protocols of which it copies to no file
    assert copying.outcome(run_of("", written=8100))["status"] == "failed"


def test_what_it_may_remove_is_never_the_device_itself_and_what_is_copied_goes_where_the_way_leads(tmp_path):
    copying = client(tmp_path)
    copying.prepare()
    target = Path(copying.command()[-1].removeprefix("file://"))
    assert target.is_symlink()
    assert target.parent == tmp_path
    assert client(tmp_path, to="root://se.test:1094//in").command()[-2:] == [URL, "root://se.test:1094//in/f1.dat"]


def test_a_plugin_that_is_missing_is_named(tmp_path, monkeypatch):
    said = "gfal2-util version 1.9.0 (gfal2 2.23.2)\\n\\tfile-2.23.2\\n\\txrootd-2.23.2\\n"
    script(tmp_path / "gfal-copy", f"printf '{said}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Gfal.missing_by("xrootd") == ""
    assert Gfal.missing_by("webdav") == "gfal2 has no plugin http"
