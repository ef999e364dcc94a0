"""Workers of several kinds beside the storage, as the ExTENCI paper's: a plain one and one behind a user's network.

With a virtual machine there, all three have one and the same file system at one place, by MooseFS' client; the
virtual machine has the one by NFS beside it.
"""

from __future__ import annotations

from functools import partial

from tierbench.testbed.service import Hosts, Service
from tierbench.testbed.services.filesystem import (
    MOUNT_COMMAND,
    MOUNT_POINT,
    MOUNTS,
    START_SECONDS,
    WRITES,
    mount_script,
)
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import UF, Host, Nic, Topology

PLAIN, BEHIND_A_PROCESS = "wnuf", "unuf"
UNDER = "/moosefs"  # where each of them has the mount, whatever else it has


def machines(settings: Settings) -> tuple[Host, ...]:
    if not settings.near_workers:
        return ()
    plain, behind = (Nic("eth0", UF, number, settings.rates_mbps.server) for number in (52, 53))
    return (
        Host(PLAIN, (plain,), in_pool=True, mounts=True, is_worker=True),
        Host(BEHIND_A_PROCESS, (behind,), in_pool=True, mounts=True, is_worker=True, user_network=True),
    )


def virtual(topology: Topology) -> list[Host]:
    """The virtual machine beside the storage, where there are others for it to be compared with."""
    near = [host for host in topology.workers if host.is_virtual and host.nic_on(UF)]
    return near if topology.settings.near_workers else []


def stage(hosts: Hosts, topology: Topology) -> None:
    for host in virtual(topology):
        hosts[host.name].stage(MOUNT_COMMAND, mount_script(host, topology, UNDER), 0o755)


def start(hosts: Hosts, topology: Topology) -> None:
    for host in topology.workers:
        if host.name in (PLAIN, BEHIND_A_PROCESS):
            links = [f"ln -sfn {path} {UNDER}{path}" for path in (MOUNT_POINT, WRITES)]
            hosts[host.name].script([f"mkdir -p {UNDER}", *links])
    for host in virtual(topology):
        machine = hosts[host.name]
        machine.script(["modprobe fuse"])
        machine.daemon("mount", MOUNT_COMMAND)
        there = partial(machine.succeeds, "stat", f"{UNDER}{MOUNT_POINT}/.masterinfo", timeout=5)
        machine.wait_until(there, START_SECONDS, f"{machine.name} did not mount {UNDER}{MOUNT_POINT}", "mount.log")


NEARBY = Service(
    "",
    machines=machines,
    more_packages=lambda settings: ("slirp4netns",) if settings.near_workers else (),
    after=(MOUNTS,),
    stage=stage,
    start=start,
)
