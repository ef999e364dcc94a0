"""iperf3 as a client: bytes that lie nowhere, to the metadata server and back from the object server."""

import json

import pytest

from tests.testbed.runs import fed
from tierbench import names

SIZE_MB = 40
EXPERIMENT = f"""
access = ["network-storage"]
retries = 1
workloads.to = {{ client = "iperf3", replicas = "bytes", access = ["network-metadata"] }}
workloads.from = {{ client = "iperf3", replicas = "bytes", options = {{ back = true }} }}
replicas.bytes = {{ kind = "streamed", size_mb = {SIZE_MB} }}
"""
ENDS = {"to": ("mds.uf.test", "received"), "from": ("oss.uf.test", "sent")}


@pytest.fixture(scope="module")
def ran(access_point):
    access_point.define("streamed", EXPERIMENT)
    return access_point.run("streamed")


@pytest.mark.parametrize("workload", ENDS)
def test_what_iperf3_tells_went_through_the_server_that_its_way_names(ran, workload):
    server, direction = ENDS[workload]
    (trial,) = (row for row in ran.rows(names.TRIALS_CSV) if row["workload"] == workload)
    moved, by_server = int(trial["bytes_app"]), json.loads(trial["bytes_by_server"])
    assert trial["direction"] == direction
    assert SIZE_MB * 1e6 <= moved < 1.01 * SIZE_MB * 1e6
    assert moved < by_server[server] < 1.3 * moved  # headers, and what TCP sends again
    assert all(of_host < 0.1 * moved for host, of_host in by_server.items() if host != server)


@pytest.mark.quiet
@pytest.mark.parametrize("workload", ENDS)
def test_such_a_trial_can_be_believed(ran, machine, workload):
    (trial,) = fed([row for row in ran.rows(names.TRIALS_CSV) if row["workload"] == workload], machine)
    assert trial["verdict"] != "INVALID", trial["verdict_reasons"]
    assert "bytes" not in trial["verdict_reasons"], trial["verdict_reasons"]
    assert "cache" not in trial["verdict_reasons"], trial["verdict_reasons"]
