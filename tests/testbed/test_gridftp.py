"""The GridFTP client between real servers: what a file costs, and that a copy goes past the worker that steers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tierbench.dags import names
from tierbench.dags.clients import shipped_clients
from tierbench.dags.shipping import scripts
from tierbench.testbed.services.filesystem import DATA
from tierbench.testbed.services.gridftp import FAR_AWAY, PORT, servers
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import GATEWAY, USER

FILES, SIZE = 20, 8000
WORKER, SET, HERE = "wn03", f"{DATA}/gridftp-test", f"/home/{USER}/gridftp"


class Steering:
    """The client, run by hand on a worker."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed, self.worker = testbed, testbed.host(WORKER)
        make = f"mkdir -p {SET}; cd {SET}; for n in $(seq {FILES}); do head -c {SIZE} /dev/urandom >f$n.dat; done"
        testbed.host(BESIDE_STORAGE).run("sh", "-euc", make, user=USER)
        shipped = dict(scripts([shipped_clients()["gridftp"]]))
        self.worker.put(f"{HERE}/client.py", shipped[f"{names.SCRIPTS}/client.py"])

    def end(self, far: bool = False, third_party: bool = True, **options: Any) -> dict[str, Any]:
        """The record's end of a job that has them all, with how long it took."""
        source, destination = servers(self.testbed.topology)
        away = self.testbed.host(FAR_AWAY).host.fqdn
        whence = f"ftp://{away}:{source.far_port}" if far else f"ftp://{source.host.fqdn}:{PORT}"
        whither = f"ftp://{away}:{destination.far_port}" if far else f"ftp://{destination.host.fqdn}:{PORT}"
        listed = "".join(f"{whence}{SET}/f{number}.dat\t{SIZE}\n" for number in range(1, FILES + 1))
        self.worker.put(f"{HERE}/replicas.txt", listed)
        to = f"{whither}{destination.folder}" if third_party else ""
        task = {"options": {**options, "to": to}, "work": {"files_per_job": FILES}}
        command = ["python3", f"{HERE}/client.py", "--trial", "t", "--index", "0", "--client", "gridftp"]
        command += ["--replicas", f"{HERE}/replicas.txt", "--options", json.dumps(task)]
        said = self.worker.run(*command, user=USER, timeout=300).stdout
        events = {event["event"]: event for event in map(json.loads, said.splitlines())}
        end: dict[str, Any] = events["end"]
        end["seconds"] = (end["mono_ns"] - events["go"]["mono_ns"]) / 1e9
        return end

    def received(self, host: str) -> int:
        return int(self.testbed.host(host).read("/sys/class/net/eth0/statistics/rx_bytes"))


@pytest.fixture(scope="module")
def steering(testbed: Testbed) -> Iterator[Steering]:
    yield Steering(testbed)
    testbed.host(BESIDE_STORAGE).run("rm", "-rf", SET, user=USER)


@pytest.fixture(scope="module")
def listed(steering: Steering) -> dict[str, Any]:
    return steering.end()


def test_a_copy_between_servers_takes_the_four_commands_of_the_100g_paper(listed: dict[str, Any]) -> None:
    counts = listed["detail"]["counts"]
    assert (listed["status"], listed["bytes_app"]) == ("ok", FILES * SIZE)
    assert [counts[verb] for verb in ("SIZE", "ALLO", "STOR", "RETR")] == [FILES] * 4


def test_each_file_waits_for_round_trips(steering: Steering, listed: dict[str, Any]) -> None:
    assert listed["seconds"] > FILES * 2 * steering.testbed.settings.rtt_ms / 1000


def test_pipelining_a_directory_spares_them(steering: Steering, listed: dict[str, Any]) -> None:
    pipelined = steering.end(directory=True, pipelining=True)
    assert (pipelined["status"], "SIZE" in pipelined["detail"]["counts"]) == ("ok", False)
    assert pipelined["seconds"] < listed["seconds"] / 1.5


def test_steered_from_far_away_a_file_waits_for_that_distance(steering: Steering) -> None:
    far = steering.end(far=True)
    assert far["status"] == "ok"
    assert far["seconds"] > FILES * 2 * 0.15


def test_a_copy_goes_past_the_worker_and_what_is_fetched_does_not(steering: Steering) -> None:
    before = steering.received(WORKER), steering.received(GATEWAY)
    steering.end(sessions=4)
    after = steering.received(WORKER), steering.received(GATEWAY)
    assert after[1] - before[1] > FILES * SIZE > after[0] - before[0]
    fetched = steering.end(third_party=False)
    assert (fetched["status"], fetched["bytes_client"]) == ("ok", FILES * SIZE)
    assert steering.received(WORKER) - after[0] > FILES * SIZE
