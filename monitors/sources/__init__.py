"""The sampler's sources, one file each, in the order of their columns: a new one is its file, and comes last here."""

from tierbench.monitors.sources.cpu import Cpu, OwnCpu
from tierbench.monitors.sources.disk import Disk, OwnDisk
from tierbench.monitors.sources.memory import Memory
from tierbench.monitors.sources.net import Net, Tcp
from tierbench.monitors.sources.squid import Squid

SOURCES = (Net, Tcp, Cpu, Memory, Disk, OwnCpu, Squid, OwnDisk)
