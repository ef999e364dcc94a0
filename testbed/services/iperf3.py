"""iperf3 on the object and the metadata server: the ends of the network, for clients that move no files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import METADATA, STORAGE
from tierbench.testbed.topology import Topology

PORT = 5210  # its usual one is left to those who measure the links
START_SECONDS = 30.0


def start(hosts: Hosts, _: Topology) -> None:
    for host in (hosts[STORAGE], hosts[METADATA]):
        # A client that vanished must not keep the next one out for minutes.
        host.daemon("iperf3", "iperf3", "--server", "--port", str(PORT), "--rcv-timeout", "5000")
        host.wait_until(partial(listens, host), START_SECONDS, f"iperf3 on {host.name} did not listen", "iperf3.log")


def listens(host: RunningHost) -> bool:
    return bool(host.run("ss", "-Hltn", f"sport = :{PORT}", timeout=5).stdout)


def questions(hosts: Hosts, _: Topology) -> Iterator[Question]:
    for host in (hosts[STORAGE], hosts[METADATA]):
        yield Question(host, "iperf3", partial(listens, host), f"listens on port {PORT}")


IPERF3 = Service("", packages=("iperf3",), start=start, questions=questions)
