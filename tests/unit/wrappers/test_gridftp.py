"""What the client makes of globus-url-copy's own words, recorded with real servers: four files of 1 to 4 kB."""

from itertools import islice
from pathlib import Path

import pytest

from tests.unit.client_process import run_of
from tierbench.wrappers.child import Failure, UsageError
from tierbench.wrappers.client import Job
from tierbench.wrappers.clients import gridftp
from tierbench.wrappers.clients.gridftp import Gridftp
from tierbench.wrappers.pool_process import PoolProcess
from tierbench.wrappers.work import Fetch, Replica

SAID = Path(__file__).parents[1] / "data/gridftp"
SOURCE, TO = "ftp://vmuf.uf.test:2811/extenci/tierbench/t", "ftp://dgt.fiu.test:2811/gridftp"
FILES = [Replica(f"{SOURCE}/f{number}.dat", 1000 * number, None) for number in (1, 2, 3, 4)]


def client(folder, files=FILES, **options):
    first, *others = files
    return Gridftp(Job(*first, Gridftp.with_defaults(options), folder, tuple(others)))


def outcome(folder, said, exit_status=0, files=FILES, **options):
    (folder / "stderr").write_text((SAID / f"{said}.txt").read_text())
    return client(folder, files, **options).outcome(run_of("", exit_status))


def per_file(end):
    return {verb: end["detail"]["counts"].get(verb, 0) for verb in ("SIZE", "ALLO", "STOR", "RETR")}


def test_a_third_party_copy_takes_four_commands_a_file_and_pipelining_does_without_two_of_them(tmp_path):
    end = outcome(tmp_path, "list", to=TO)
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == ("ok", 10_000, None)
    assert per_file(end) == {"SIZE": 4, "ALLO": 4, "STOR": 4, "RETR": 4}  # as the 100G paper saw by tcpdump
    end = outcome(tmp_path, "list-pp", to=TO, pipelining=True)
    assert per_file(end) == {"SIZE": 0, "ALLO": 0, "STOR": 4, "RETR": 4}  # the paper, section IV B


@pytest.mark.parametrize(("said", "waits"), [("list-pp", True), ("directory-pp-cc2", False)])
def test_only_in_a_directory_is_a_command_sent_before_the_file_before_has_come(said, waits):
    lines = (SAID / f"{said}.txt").read_text().split("debug: ")
    stored = [number for number, line in enumerate(lines) if "\nSTOR " in line]
    came = [number for number, line in enumerate(lines) if line.startswith(f"response from {TO}") and "\n226 " in line]
    assert (stored[1] > came[0]) is waits  # the paper's Figures 10 and 11


def test_the_files_of_a_directory_are_told_by_several_sessions(tmp_path):
    end = outcome(tmp_path, "directory-pp-cc2", to=TO, directory=True, sessions=2, pipelining=True)
    assert (end["status"], end["bytes_app"]) == ("ok", 10_000)
    assert [fetch["bytes"] for fetch in end["fetches"]] == [1000, 2000, 3000, 4000]


def test_a_url_that_was_reported_whole_once_is_one_file(tmp_path):
    assert len(outcome(tmp_path, "list", files=[FILES[0]] * 2, to=TO)["fetches"]) == 1


def test_of_a_stripe_the_last_marker_counts(tmp_path):
    end = outcome(tmp_path, "list", to=TO)
    log = tmp_path / "stderr"
    last = next(gridftp.MARKER.finditer(log.read_text()))
    log.write_text(f"{last[0].removesuffix(last[3])}1\n{log.read_text()}")
    assert client(tmp_path, to=TO).outcome(run_of()) == end


def test_a_directory_that_would_go_to_the_workers_disk_or_has_more_files_than_the_jobs_is_refused(tmp_path):
    with pytest.raises(Failure, match=r"where \[access.NAME.to\] leads"):
        client(tmp_path, to="", directory=True).prepare()
    end = outcome(tmp_path, "directory-pp-cc2", files=FILES[:2], to=TO, directory=True)
    assert end["status"] == "failed"
    assert "the directory has 4 files, and 2 were planned" in end["message"]


def test_a_file_that_is_not_there_is_told_in_the_servers_words(tmp_path):
    files = [*FILES[:2], Replica(f"{SOURCE}/fnone.dat", 3000, None), FILES[3]]
    end = outcome(tmp_path, "missing", 1, files)
    assert (end["status"], len(end["fetches"])) == ("short-read", 2)
    assert "Unable to open file /extenci/tierbench/t/fnone.dat" in end["message"]


def test_another_size_than_planned_is_no_success(tmp_path):
    longer = [FILES[0]._replace(bytes=1500), *FILES[1:]]
    end = outcome(tmp_path, "list", files=longer, to=TO)
    assert (end["status"], end["fetches"][0]["status"]) == ("short-read", "short-read")
    assert end["message"] == f"{TO}/f1.dat has 1000 of 1500 bytes"


def test_what_is_fetched_goes_nowhere_and_what_is_copied_where_the_way_leads(tmp_path):
    assert client(tmp_path).command()[-2:] == ["-f", str(tmp_path / "pairs")]
    assert (tmp_path / "pairs").read_text().splitlines()[1] == f"{FILES[1].url} file:///dev/null"
    client(tmp_path, to=TO).command()
    assert (tmp_path / "pairs").read_text().splitlines()[1] == f"{FILES[1].url} {TO}/f2.dat"
    assert client(tmp_path, to=TO, directory=True).command()[-2:] == [f"{SOURCE}/", f"{TO}/t/"]


@pytest.mark.parametrize(
    ("protection", "asked"),
    [("nodcau", ["-nodcau"]), ("authenticated", []), ("safe", ["-dcsafe"]), ("private", ["-dcpriv"])],
)
def test_the_data_are_protected_as_asked(tmp_path, protection, asked):
    said = client(tmp_path, protection=protection).command()
    assert [word for word in said if word in ("-nodcau", "-dcsafe", "-dcpriv")] == asked


@pytest.mark.parametrize(
    ("options", "under_way"),
    [({"sessions": 3}, 3), ({"sessions": 64}, 4), ({"sessions": 4, "together": False}, 1)],
    ids=["three", "more-than-files", "a-program-each"],
)
def test_each_session_has_a_file_under_way_if_there_is_one_for_it(tmp_path, options, under_way):
    files = iter(list(enumerate(FILES)))
    hand = PoolProcess(client(tmp_path, **options), files, None, 0.0)
    hand.places = [place for place, _ in islice(files, hand.at_once)]
    hand.begin = 10.0
    assert hand.under_way_s([], 12.0) == 2.0 * under_way


def test_of_files_without_times_nobody_knows_what_the_one_had_that_was_cut(tmp_path):
    hand = PoolProcess(client(tmp_path), iter([]), None, 0.0)
    hand.was_cut = True
    whole, cut = Fetch(0, "ok", "", 1000, None), Fetch(1, "cut", "", 0, None)
    assert hand.under_way_s([whole, cut], 12.0) is None
    assert hand.under_way_s([cut], 12.0) == 0.0


def test_what_is_wrong_with_all_files_together_is_wrong_with_the_last(tmp_path):
    """Files that are a little shorter than catalogued: none has a marker, so each alone looks whole."""
    hand = PoolProcess(client(tmp_path), iter([]), None, 0.0)
    hand.places, hand.begin = [0, 1], 0.0
    hand.stderr.touch()
    each = [{"file": n, "status": "ok", "message": "", "bytes": 1000, "seconds": None} for n in (0, 1)]
    end = {"status": "short-read", "message": "1990 of 2000 bytes", "bytes_app": 1990, "fetches": each}
    assert [fetch.status for fetch in hand.fetches(end, 2.0, 0)] == ["ok", "short-read"]


def test_another_protection_is_refused():
    with pytest.raises(UsageError, match="must be one of nodcau, authenticated, safe, private, not secret"):
        Gridftp.with_defaults({"protection": "secret"})


def test_a_job_of_many_files_has_what_was_told_of_each_and_of_no_time_that_nobody_knows(job):
    job.script("bin/globus-url-copy", f"cat {SAID}/list.txt >&2")
    (job.folder / "replicas.txt").write_text("".join(f"{file.url}\t{file.bytes}\n" for file in FILES))
    end = job.end("gridftp", options={"to": TO}, files_per_job=4)
    assert (end["status"], end["work"]["fetches"], end["bytes_app"]) == ("ok", 4, 10_000)
    assert (per_file(end)["STOR"], end["work"]["latency_s"]["p50"]) == (4, None)
