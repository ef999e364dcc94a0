"""The sampler's sources, in the order of their columns: a new one is its file, and comes last here."""

from tierbench.monitors.sources.flows import Flows
from tierbench.monitors.sources.machine import Cpu, Disk, Memory, OwnCpu, OwnDisk
from tierbench.monitors.sources.net import Net, Tcp
from tierbench.monitors.sources.squid import Squid
from tierbench.monitors.sources.xrootd import XRootD

SOURCES = (Net, Tcp, Cpu, Memory, Disk, OwnCpu, Squid, OwnDisk, Flows, XRootD)
