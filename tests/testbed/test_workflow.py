"""A run within a workflow of the user's own, by docs/workflow.py."""

import re
from pathlib import Path

import pytest

from tests.testbed.runs import HOME, Ran, outcome
from tierbench import names

pytestmark = pytest.mark.long

WORKFLOW = Path(__file__).parents[2] / "docs/workflow.py"
WAYS = ("wan-xrootd-public", "wan-xrootd-private")
COPIES = """
access = ["wan-xrootd-public", "wan-xrootd-private"]
workloads.copy = { client = "xrdcp", replicas = "short" }
replicas.short = { kind = "random", count = 1, size_mb = 1 }
"""


def test_the_trials_come_between_the_steps(access_point):
    access_point.define("workflow", COPIES)
    access_point.make_replicas("workflow")
    access_point.write("workflow")
    access_point.put("workflow.py", WORKFLOW.read_text())
    folder = f"{HOME}/of-my-own"
    status, _ = access_point.command("python3", f"{HOME}/workflow.py", f"{HOME}/workflow", folder, check=False)
    run = Ran(status, access_point.copy("workflow"))
    assert ([outcome(trial)["state"] for trial in run.trials], run.status) == (["complete"] * len(WAYS), 0)
    log = (access_point.there("of-my-own") / "workflow.dag.dagman.out").read_text()
    done = re.findall(r"Node (\S+) job completed|Node (\S+) job proc \S+ completed successfully", log)
    first, *trials, last = dict.fromkeys(one or other for one, other in done)
    assert (first, last) == ("prepare:0", "tables:0")
    assert sorted(trials) == sorted(f"{way}.copy:0" for way in WAYS)
    assert [row["state"] for row in run.rows(names.TRIALS_CSV)] == ["complete"] * len(WAYS)
