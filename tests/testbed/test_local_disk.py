"""A trial whose storage is the worker's own disk: read cold, as counters and kernel tell, and from nowhere else."""

import json

import pytest

from tests.testbed.runs import HOME, fed, whole
from tierbench import names
from tierbench.testbed.topology import USER

SIZE_MB = 64
DISK_MBPS = 100  # for a window of some seconds, which this machine's disk is too fast for
LOCAL = f"""
access = ["local-disk"]
sample_period_s = 0.1
placement = "one-worker"
workloads.dd = {{ client = "dd", replicas = "plain" }}
replicas.plain = {{ kind = "random", count = 1, size_mb = {SIZE_MB} }}
"""


@pytest.fixture(scope="module")
def local(testbed, access_point):
    access_point.define("local", LOCAL)
    access_point.make_replicas("local")
    workers = [testbed.host(host.name) for host in testbed.topology.workers if host.network_kind == "public"]
    for there in workers:
        there.run("mkdir", "-p", HOME, user=USER)
        there.put(f"{HOME}/local.toml", whole("local", LOCAL), user=USER)
        copy = ("tierbench", "replicas", f"{HOME}/local.toml", "--site", "testbed", "--access", "local-disk")
        there.run(*copy, user=USER)
        assert there.namespaces.cgroup.limit_disk(DISK_MBPS)
    yield access_point.run("local")
    for there in workers:
        there.namespaces.cgroup.limit_disk(None)


def test_what_was_read_its_disk_has_told_and_no_server_has_sent(local):
    [row] = local.rows(names.TRIALS_CSV)
    assert (row["state"], row["counted_by"]) == ("complete", "own disks")
    read = json.loads(row["bytes_by_server"])
    assert 0.99 * SIZE_MB * 10**6 < read["wn03.fiu.test"] < 1.2 * SIZE_MB * 10**6
    assert read["oss.uf.test"] < 0.1 * SIZE_MB * 10**6
    assert "does not lead to" not in row["verdict_reasons"]


def test_the_kernel_fetched_it_all_for_the_client(local):
    [job] = local.rows(names.JOBS_CSV)
    assert SIZE_MB * 10**6 <= int(job["bytes_disk"]) <= 1.02 * SIZE_MB * 10**6


def test_its_rate_is_no_more_than_the_disk_is_allowed(local):
    [row] = local.rows(names.TRIALS_CSV)
    assert 0 < float(row["delivered_mbps"]) < 1.05 * DISK_MBPS


@pytest.mark.quiet
def test_a_machine_that_has_the_time_calls_it_valid(local, machine):
    [row] = fed(local.rows(names.TRIALS_CSV), machine)
    assert row["verdict"] == "VALID", row["verdict_reasons"]
