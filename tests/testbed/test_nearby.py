"""Workers of three kinds beside the storage: a plain one, a virtual machine, one whose network is a user's process.

Needs a testbed with virtual workers, so CI leaves it out: pytest -m virtual tests/testbed/test_nearby.py
"""

import json
from dataclasses import replace

import pytest

from tests.testbed.conftest import SETTINGS, brought_up
from tests.testbed.runs import AccessPoint
from tierbench import names
from tierbench.testbed.services.filesystem import DATA
from tierbench.testbed.services.iperf3 import PORTS
from tierbench.testbed.services.workers import BEHIND_A_PROCESS, PLAIN, UNDER
from tierbench.testbed.topology import BEHIND, USER

pytestmark = pytest.mark.virtual

KINDS = {"near": PLAIN, "near-user-network": BEHIND_A_PROCESS, "virtual-near": "vwuf"}
SIZE_MB = 40
EXPERIMENT = f"""
extends = "extenci-virtual-scaled"
access = ["network-storage"]
repeats = 1
workloads.to-server = {{ access = ["network-storage"] }}
workloads.from-server = {{ access = ["network-storage"] }}
replicas.bytes = {{ size_mb = {SIZE_MB} }}
replicas.plain = {{ count = 1, size_mb = 16 }}
replicas.out = {{ size_mb = 16 }}
"""


@pytest.fixture(scope="module")
def testbed():
    near = replace(SETTINGS, private_workers=1, public_workers=1, virtual_workers=1, near_workers=1)
    with brought_up("nearby", near) as bed:
        yield bed


@pytest.fixture(scope="module")
def ran(testbed, tmp_path_factory):
    return AccessPoint(testbed, tmp_path_factory.mktemp("runs")).measured("machines", EXPERIMENT)


def test_who_is_behind_a_process_has_no_other_network_and_is_seen_as_its_host(testbed):
    worker, server = testbed.host(BEHIND_A_PROCESS), testbed.host("oss")
    cards = json.loads(worker.run("ip", "-json", "-4", "address").stdout)
    assert {address["local"] for card in cards for address in card["addr_info"]} == {"127.0.0.1", BEHIND}
    worker.daemon("held", "iperf3", "--client", server.host.fqdn, "--port", str(PORTS[0]), "--time", "5")
    peers = ["ss", "-Htn", "state", "established", f"( sport = :{PORTS[0]} )"]
    of_host = worker.host.address
    server.wait_until(lambda: of_host in server.run(*peers).stdout, "nobody came from its host's address", "iperf3.log")


def test_all_kinds_have_one_file_system_at_one_place(testbed):
    testbed.host("vmuf").run("sh", "-c", f"echo one and the same >{DATA}/told", user=USER)
    contents = [testbed.host(name).run("cat", f"{UNDER}{DATA}/told", user=USER).stdout for name in KINDS.values()]
    assert contents == ["one and the same\n"] * len(KINDS)


def test_each_trials_client_was_of_the_kind_that_the_axis_says(ran):
    kinds = {row["trial"]: row["machine"] for row in ran.rows(names.TRIALS_CSV)}
    assert len(kinds) == 4 * len(KINDS)
    hosts = {(kinds[row["trial"]], row["host"].partition(".")[0]) for row in ran.rows(names.JOBS_CSV)}
    assert hosts == set(KINDS.items())


def test_what_each_moved_went_through_the_object_server(ran):
    for row in ran.rows(names.TRIALS_CSV):
        assert row["jobs_ok"] == "1", row["reasons"]
        moved, by_server = int(row["bytes_app"]), json.loads(row["bytes_by_server"])
        assert moved < 1.02 * by_server["oss.uf.test"] < 1.3 * moved, row["trial"]
