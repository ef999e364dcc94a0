"""A mount that reads ahead in vain makes the storage send more, and no job faster: staged, and measured."""

import contextlib

import pytest

from tests.testbed.runs import sent_again
from tierbench.testbed.services import filesystem
from tierbench.testbed.services.filesystem import MOUNT_POINT

pytestmark = pytest.mark.quiet

EXPERIMENT = """
access = ["wan-xrootd-public"]
batches = [8]
workloads.root = { client = "root", replicas = "tree" }
replicas.tree = { kind = "tree", count = 8, size_mb = 64 }
"""
LARGER_CACHE = """
workloads.larger-cache = { client = "root", replicas = "tree", options = { cache_mb = 30 } }
"""
KEPT_FROM_BEGINNING = "mfsreadaheadtrigger=4294967295"
MOOSEFS_OWN = "mfsreadaheadtrigger=1048576,mfsreadaheadleng=262144"  # which it throws away within moments
WASTEFUL, USUAL = 1.1, 1.07  # sent over taken in


@contextlib.contextmanager
def throwing_away(host):
    """A mount where MooseFS's own read-ahead is at work, as it is unless it is kept from beginning."""
    usual = host.run("cat", filesystem.MOUNT_COMMAND).stdout
    assert KEPT_FROM_BEGINNING in usual
    eager = "".join(line for line in usual.splitlines(keepends=True) if not line.lstrip().startswith("echo "))
    mount_by(host, eager.replace(KEPT_FROM_BEGINNING, MOOSEFS_OWN))
    try:
        yield
    finally:
        mount_by(host, usual)


def mount_by(host, script):
    host.put(filesystem.MOUNT_COMMAND, script, 0o755)
    host.run("umount", "-l", MOUNT_POINT)
    filesystem.mount(host)


@pytest.fixture(scope="module")
def runs(testbed, access_point):
    """The same trial over a wasteful mount under the server, there with a larger cache as well, and over the usual."""
    access_point.define("eager", EXPERIMENT + LARGER_CACHE)
    access_point.define("usual", EXPERIMENT)
    access_point.make_replicas("usual")
    with throwing_away(testbed.host("vmuf")):
        eager = access_point.run("eager")
    return {"eager": eager, "usual": access_point.run("usual")}


def amplification(run):
    """Without what TCP sent again after drops at a worker's port, which depends on how busy this machine is."""
    return {row["workload"]: float(row["amplification"]) - sent_again(run, row) for row in run.rows("trials.csv")}


def test_the_mount_alone_makes_the_storage_send_in_vain(runs):
    eager, usual = (amplification(runs[name]) for name in ("eager", "usual"))
    print(eager, usual)
    assert eager["root"] > WASTEFUL
    assert max(usual.values()) < USUAL


def test_a_larger_cache_of_the_clients_avoids_most_of_it(runs):
    eager = amplification(runs["eager"])
    assert eager["larger-cache"] - 1 < (eager["root"] - 1) / 2


def test_the_server_was_asked_for_what_the_jobs_asked_for(runs):
    for row in [row for run in runs.values() for row in run.rows("trials.csv")]:
        assert float(row["bytes_per_server_read"]) == pytest.approx(float(row["bytes_per_read"]), rel=0.05)


def test_when_it_came_is_told_by_the_workers_cards(runs):
    for row in runs["eager"].rows("trials.csv"):
        assert row["steady_from"] in ("delivered", "")  # the latter where no slice is steady
        assert not row["all_active_delivered_mbps"] or float(row["all_active_delivered_mbps"]) < 2 * 100
