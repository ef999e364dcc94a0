"""Two nights of a nightly on the testbed's pool: one while the scheduler is killed, one for which there is no room."""

import json
import time
from collections.abc import Callable

import pytest

from tests.testbed.runs import HOME, Ran, content
from tierbench import names

Nightly = Callable[..., tuple[int, str]]
NIGHTS = f"{HOME}/nights"
PATIENCE_S = 900
EXPERIMENT = """
access = ["wan-xrootd-private"]
batches = [2]
retries = 1
workloads.copy = { client = "xrdcp", replicas = "nightly" }
replicas.nightly = { kind = "random", count = 4, size_mb = 48 }
"""


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.5)
    return found


@pytest.fixture(scope="module")
def nightly(access_point):
    """The command `tierbench nightly` of the access point's user, who has one that is due at night."""
    access_point.define("watched", EXPERIMENT)
    access_point.make_replicas("watched")
    place = (f"TIERBENCH_NIGHTS={NIGHTS}", f"TIERBENCH_HISTORY={NIGHTS}/history.sqlite")

    def command(*words):
        return access_point.command("env", *place, "tierbench", "nightly", *words, check=False)

    assert command("add", f"{HOME}/watched.toml", "--site", "testbed", "--at", "02:30")[0] == 0
    return command


@pytest.fixture(scope="module")
def folder(access_point):
    return access_point.there("nights/watched")


@pytest.fixture(scope="module")
def night(nightly, folder, testbed):
    """The record of a night in whose middle the scheduler was killed, and another one was asked for and refused."""
    assert nightly("run", "watched")[0] == 0
    until(lambda: list(folder.glob(f"{names.NIGHTS}/*/run/{names.CEILINGS}")), "the links were not measured")
    assert nightly("run", "watched")[0] == 4
    testbed.host("ce").run("sh", "-c", "kill -KILL $(pgrep -x condor_schedd)")

    def ended():
        nights = [content(path) for path in sorted(folder.glob(f"{names.NIGHTS}/*/{names.NIGHT_RECORD}"))]
        return nights if all(one["deliveries"] for one in nights) else None

    (only,) = until(ended, "the night did not end")
    return dict(only)


def test_a_night_is_measured_though_the_scheduler_is_killed_in_its_middle(night, folder):
    """Whether what was measured can be believed depends on how busy this machine was."""
    (table,) = folder.glob(f"{names.NIGHTS}/*/run/{names.TRIALS_CSV}")
    rows = Ran(0, table.parent).rows(names.TRIALS_CSV)
    assert "complete" in {row["state"] for row in rows}, night["reason"]
    assert sum(night["counts"].values()) == len(rows)
    assert night["outcome"] == ("measured" if night["counts"].get("VALID") else "failed"), night["reason"]


def test_it_has_a_control_of_another_way_beside_what_is_watched(night, folder):
    control = content(folder / names.NIGHTLY)["control"]
    (plan,) = [content(path) for path in folder.glob(f"{names.NIGHTS}/*/run/{names.PLAN}")]
    assert night["counts"]
    assert control.split("/")[0] in {trial["id"].split(".")[0] for trial in plan["trials"]} - {"wan-xrootd-private"}


@pytest.mark.usefixtures("night")
def test_the_crontab_job_waits_for_the_next_night(access_point):
    mine = ["-constraint", 'TierbenchNightly == "watched"']  # and not the night's DAG, which may just be leaving
    _, job = access_point.command("condor_q", *mine, "-af", "CronHour", "CronMinute", "JobStatus")
    assert job.split() in (["2", "30", "1"], ["2", "30", "2"])


@pytest.mark.usefixtures("night")
def test_a_night_for_which_the_disk_has_no_room_is_refused_and_told(nightly, folder, testbed):
    ce = testbed.host("ce")
    ce.run("mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", f"{NIGHTS}/watched/{names.NIGHTS}")
    try:
        terms = content(folder / names.NIGHTLY)
        ce.put(f"{NIGHTS}/watched/{names.NIGHTLY}", json.dumps({**terms, "patience_s": 0.0}))
        status, _ = nightly("run", "watched")
        (record,) = [content(path) for path in folder.glob(f"{names.NIGHTS}/*/{names.NIGHT_RECORD}")]
    finally:
        ce.run("umount", f"{NIGHTS}/watched/{names.NIGHTS}")
    assert (status, record["outcome"]) == (1, "failed")
    assert "make room" in record["sentences"][0]


@pytest.mark.usefixtures("night")
def test_removed_it_leaves_no_job_and_all_that_was_measured(nightly, folder, access_point):
    nightly("remove", "watched")
    mine = ["-constraint", 'TierbenchNightly == "watched"', "-af", "ClusterId"]
    until(lambda: not access_point.command("condor_q", *mine)[1].strip(), "its job is in the queue still")
    assert list(folder.glob(f"{names.NIGHTS}/*/run/{names.TRIALS_CSV}"))
