"""Jobs of several files and processes, once and for a given time, by HTTP from the web server and through Squid."""

import pytest

EXPERIMENT = """
access = ["wan-http", "lan-squid"]
batches = [2]
retries = 1
files_per_job = 8
workloads.fetch = { client = "http", replicas = "plain" }
replicas.plain = { kind = "random", count = 48, size_mb = 0.5 }

[axes.how.values]
once = { processes = 4 }
again = { processes = 16, for_s = 4 }

[[except]]
where = { access = "lan-squid", how = "once" }
because = "what Squid does for it is seen when files are fetched again"
"""


@pytest.fixture(scope="module")
def ran(access_point):
    return access_point.measured("fetched", EXPERIMENT)


def trial(ran, access, how):
    return next(row for row in ran.rows("trials.csv") if (row["access"], row["how"]) == (access, how))


def test_all_jobs_have_done_their_work(ran):
    assert {row["status"] for row in ran.rows("jobs.csv")} == {"ok"}


def test_each_file_of_a_list_is_read_once_and_its_bytes_are_the_storages(ran):
    once = trial(ran, "wan-http", "once")
    assert (once["fetches"], once["fetch_failures"], once["bytes_app"]) == ("16", "0", "8000000")
    assert -0.05 <= float(once["closure"]) < 0.3, once["verdict_reasons"]


@pytest.mark.parametrize("access", ["wan-http", "lan-squid"])
def test_files_that_are_read_again_and_again_come_from_caches_and_that_is_no_fault(ran, access):
    again = trial(ran, access, "again")
    assert int(again["fetches"]) > 16
    assert float(again["cached_share"]) > 0.5
    assert "missing" not in again["verdict_reasons"]
    assert "a cache was warm" not in again["verdict_reasons"]


def test_jobs_work_until_the_given_time_is_over_also_those_that_began_late(ran):
    again = trial(ran, "wan-http", "again")
    jobs = [row for row in ran.rows("jobs.csv") if row["trial"] == again["trial"]]
    assert len(jobs) == 2
    for job in jobs:
        ended_s = float(job["begin_after_go_ms"]) / 1e3 + float(job["run_s"])
        assert 4 <= ended_s < 60  # a busy machine only adds to it


def test_no_process_is_left(ran, testbed):
    assert ran.ended_well
    for host in ("wn01", "wn02", "wn03", "wn04"):
        assert testbed.host(host).run("pgrep", "-x", "curl", check=False).stdout == ""
