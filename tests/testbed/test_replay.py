"""A job of ROOT is recorded, and replayed on another worker: the same bytes in the same vector reads."""

import json
import re

import pytest

from tests.testbed.runs import HOME
from tierbench import names
from tierbench.submit.trial.joblog import last_record
from tierbench.testbed.topology import USER

pytestmark = pytest.mark.long

RECORD = f"/home/{USER}/recorded.csv"
SENT = re.compile(r'id="link".*?<out>(\d+)</out>', re.DOTALL)
RECORDED = f"""
access = ["wan-xrootd-private"]
sample_period_s = 1.0
placement = {{ hosts = ["wn01.private.fiu.test"] }}
replicas.columns = {{ kind = "tree", count = 1, size_mb = 60, branches = 40, leaves = 1 }}

[workloads.root]
client = "root"
replicas = "columns"
options = {{ branches = 0.6, cache_mb = 2 }}
environment = {{ XRD_PLUGIN = "libXrdClRecorder.so", XRD_RECORDERPATH = "{RECORD}" }}
"""
REPLAYED = """
access = ["wan-xrootd-private"]
sample_period_s = 1.0
placement = { hosts = ["wn02.private.fiu.test"] }
workloads.again = { client = "replay", replicas = "others", options = { record = "recorded.csv" } }
replicas.others = { kind = "random", count = 1, size_mb = 64 }
"""


def sent(testbed):
    """What the storage's XRootD has sent to clients that have left, by its own count."""
    statistics = testbed.host("vmuf").run("xrdfs", "vmuf.uf.test:1094", "query", "stats", "l", user=USER).stdout
    match = SENT.search(statistics)
    assert match, statistics
    return int(match.group(1))


@pytest.fixture(scope="module")
def recorded(testbed, access_point):
    """How the client ended that read by ROOT; its record lies beside the experiment that replays it."""
    run = access_point.measured("recorded", RECORDED)
    record = testbed.host("wn01").run("cat", RECORD).stdout
    for host in ("ce", "vmuf"):  # where replicas are made, the experiment is read as well
        testbed.host(host).put(f"{HOME}/recorded.csv", record, user=USER)
    return last_record(run.trials[0] / names.client_output(0))


@pytest.fixture(scope="module")
def replayed(testbed, access_point, recorded):
    """The run that replayed it, and what the server sent meanwhile."""
    assert recorded["status"] == "ok"
    access_point.define("replayed", REPLAYED)
    access_point.make_replicas("replayed")
    before = sent(testbed)
    return access_point.run("replayed"), sent(testbed) - before


def test_a_replay_reads_what_the_job_read(recorded, replayed):
    (job,) = replayed[0].rows(names.JOBS_CSV)
    assert (job["status"], job["message"]) == ("ok", "")
    assert int(job["bytes_app"]) == recorded["bytes_app"]
    assert int(job["bytes_client"]) == pytest.approx(recorded["bytes_app"], rel=0.001)


def test_the_servers_xrootd_sent_that_much(recorded, replayed):
    assert replayed[1] == pytest.approx(recorded["bytes_app"], rel=0.001)


def test_it_asks_for_it_in_the_same_vector_reads(recorded, replayed):
    (job,) = replayed[0].rows(names.JOBS_CSV)
    detail = json.loads(job["detail"])
    assert recorded["detail"]["vector_reads"] > 3
    for calls in ("read_calls", "vector_reads"):
        assert detail[calls] == recorded["detail"][calls]
    (stderr,) = replayed[0].trials[0].glob("clients/*.err")
    assert f"vec:{detail['vector_reads']} " in stderr.read_text()  # xrdreplay's own count
