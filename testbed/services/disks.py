"""Each worker's own disk, for copies of replicas: a part of the one that this machine has, of a rate of its own."""

from tierbench.errors import UnmetNeed
from tierbench.testbed.service import Hosts, Service
from tierbench.testbed.topology import USER, Topology

FOLDER = "/scratch"


def start(hosts: Hosts, topology: Topology) -> None:
    for worker in topology.workers:
        hosts[worker.name].script([f"install -d -o {USER} -g {USER} {FOLDER}"])


def complete(hosts: Hosts, topology: Topology) -> None:
    """Now that all programs have started once, and are in memory."""
    rate = topology.settings.rates_mbps.disk
    for worker in topology.workers if rate else ():
        if not hosts[worker.name].namespaces.cgroup.limit_disk(rate):
            raise UnmetNeed(
                f"rates_mbps.disk = {rate}: this machine's control groups cannot limit what a host reads from its disk;"
                f" leave it out (0)"
            )


DISKS = Service("", start=start, complete=complete)
