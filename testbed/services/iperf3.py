"""iperf3 on the object and the metadata server: the ends of the network, for clients that move no files."""

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.service import Bed, Question, Service, listens
from tierbench.testbed.services.filesystem import METADATA, STORAGE

PORTS = range(5210, 5220)  # a server takes one client at a time; the usual port is left to those who measure the links


def start(bed: Bed) -> None:
    for host in (bed[STORAGE], bed[METADATA]):
        for port in PORTS:
            # A client that vanished must not keep the next one out for minutes.
            host.daemon(f"iperf3-{port}", "iperf3", "--server", "--port", str(port), "--rcv-timeout", "5000")


def questions(bed: Bed) -> Iterator[Question]:
    yes, log = f"listens on ports {PORTS[0]} to {PORTS[-1]}", f"iperf3-{PORTS[0]}.log"
    for host in (bed[STORAGE], bed[METADATA]):
        yield Question(host, "iperf3", partial(listens, host, PORTS), yes, log)


IPERF3 = Service("", packages=("iperf3",), start=start, questions=questions)
