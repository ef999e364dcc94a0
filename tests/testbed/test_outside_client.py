"""A user's own client in a real trial: one file beside the experiment, and nothing of the package is touched."""

import pytest

from tests.testbed.conftest import say
from tests.testbed.runs import Ran, content, whole
from tierbench import names
from tierbench.testbed.run import run

pytestmark = pytest.mark.long

CLIENT = """
from tierbench.wrappers.client import Client


class Cat(Client):
    protocols = ("file",)
    kinds = ("random",)
    reads_whole = True
    usual_excess = 0.01
    programs = ("cat",)

    def command(self):
        return ["sh", "-c", 'exec cat "$0" > /dev/null', self.job.path]

    def outcome(self, run):
        return {**self.judged(run, run.written_bytes, 65536), "bytes_client": run.written_bytes}
"""
EXPERIMENT = """
access = ["direct"]
batches = [2]
retries = 1
workloads.own = { client = "./cat_it.py", replicas = "plain" }
replicas.plain = { kind = "random", count = 2, size_mb = 24 }
"""
REFERENCE = """
paper = "Somebody"

[[claims]]
says = "two jobs fill a link"
source = "Table 1"
kind = "at_least"
metric = "delivered_mbps"
unit = "Mb/s"
at = { access = "direct", workload = "own", jobs = 2 }
values = [90]
"""


@pytest.fixture(scope="module")
def ran(testbed, tmp_path_factory):
    """A run of the experiment, which is brought to the testbed with what is beside it."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "cat_it.py").write_text(CLIENT)
    (folder / "outside.toml").write_text(whole("outside", EXPERIMENT.replace("./cat_it.py", f"{folder}/cat_it.py")))
    (folder / "outside.reference.toml").write_text(REFERENCE)
    return Ran(run(testbed, str(folder / "outside.toml"), folder / "run", say), folder / "run")


def test_its_jobs_read_their_replicas(ran):
    assert [(row["program"], row["status"]) for row in ran.rows(names.JOBS_CSV)] == [("cat_it", "ok")] * 2


def test_its_bytes_are_closed_with_the_storages(ran):
    (trial,) = ran.rows(names.TRIALS_CSV)
    assert -0.02 <= float(trial["closure"]) < 0.2  # headers, and what TCP sends again


def test_what_a_paper_found_goes_along(ran):
    assert [claim["paper"] for claim in content(ran.directory / names.EXPERIMENT)["claims"]] == ["Somebody"]
