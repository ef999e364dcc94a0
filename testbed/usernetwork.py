"""A host whose network is a process of a user: all that it sends goes through a TCP/IP stack that is a program.

Hypervisors do the same for their guests (the NAT of VirtualBox and VMware's player). The card and its address are the
outside's, in a network namespace beside the host's own; what runs in the host has the program's card, and no other.
"""

from __future__ import annotations

from tierbench.testbed import network
from tierbench.testbed.host import RunningHost
from tierbench.testbed.topology import Topology

OUTSIDE = "outside"
MTU = 1500
START_SECONDS = 60.0


class UserNetworkHost(RunningHost):
    """A host of the topology behind slirp4netns."""

    def wire(self, topology: Topology) -> None:
        """Leave the card to the outside, and start the program between that and the host."""
        device = self.host.nics[0].device
        outside = ["nsenter", f"--net=/run/netns/{OUTSIDE}"]
        self.script([f"ip netns add {OUTSIDE}", f"ip link set {device} netns {OUTSIDE}", *network.TUN])
        self.run(*outside, "sh", "-eu", stdin="\n".join(network.host_lines(self.host, topology)) + "\n")
        self.script(["ip link set lo up", *network.buffer_lines(topology.settings)])
        program = ["slirp4netns", "--configure", f"--mtu={MTU}", "--disable-host-loopback", "--netns-type=path"]
        self.daemon("slirp4netns", *outside, *program, "/proc/1/ns/net", device)
        self.wait_until(self._has_card, START_SECONDS, f"{self.name}'s network did not begin", "slirp4netns.log")
        self.script(list(network.inside_lines(self.host, topology.settings)))

    def _has_card(self) -> bool:
        return bool(self.run("ip", "-4", "route", "show", "default", timeout=5).stdout)
