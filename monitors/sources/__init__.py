"""The sampler's sources, one file each, in the order of their columns: a new one is its file, and comes last here."""

from tierbench.monitors.sources.cpu import Cpu
from tierbench.monitors.sources.disk import Disk
from tierbench.monitors.sources.memory import Memory
from tierbench.monitors.sources.net import Net
from tierbench.monitors.sources.own_cpu import OwnCpu
from tierbench.monitors.sources.own_disk import OwnDisk
from tierbench.monitors.sources.squid import Squid
from tierbench.monitors.sources.tcp import Tcp

SOURCES = (Net, Tcp, Cpu, Memory, Disk, OwnCpu, Squid, OwnDisk)
