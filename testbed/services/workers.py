"""What workers have beside their network: a disk of their own; and those of the ExTENCI paper that are elsewhere.

Beside the storage there are a plain one and one behind a user's network, and at a third site one with an object server
of its own, behind a delay line of that site's. Where a virtual machine is beside the storage, too, all three have one
and the same file system at one place, by MooseFS' client; the virtual machine has the one by NFS beside it.
"""

from __future__ import annotations

from functools import partial

from tierbench.errors import UnmetNeed
from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service, delay_line_listens, start_delay_line
from tierbench.testbed.services.filesystem import (
    FAR_STORAGE,
    MOUNT_COMMAND,
    MOUNT_POINT,
    MOUNTS,
    SERVERS,
    WRITES,
    mount_question,
    mount_script,
)  # fmt: skip
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FNAL, UF, USER, WAN, Host, Nic, Topology

DISK_FOLDER = "/scratch"  # for copies of replicas
PLAIN, BEHIND_A_PROCESS = "wnuf", "unuf"
UNDER = "/moosefs"  # where each of those beside the storage has the mount, whatever else it has
FAR_WORKER = "wnf"
FAR_RTT_MS = 47  # of FNAL to UF, in the ExTENCI paper
FAR_RTT_FILE = "/run/far-rtt"
FAR_QUEUES = {"-o": 90, "-i": 91}  # of netfilter: what goes there, and what comes from there


# -- disks: a part of the one that this machine has, of a rate of its own ----------------------------------


def workers(hosts: Hosts) -> list[RunningHost]:
    return [host for host in hosts.values() if host.host.is_worker]


def make_folders(hosts: Hosts, _: Topology) -> None:
    for worker in workers(hosts):
        worker.script([f"install -d -o {USER} -g {USER} {DISK_FOLDER}"])


def limit_disks(hosts: Hosts, topology: Topology) -> None:
    """Now that all programs have started once, and are in memory."""
    rate = topology.settings.rates_mbps.disk
    for worker in workers(hosts) if rate else ():
        if not worker.namespaces.cgroup.limit_disk(rate):
            raise UnmetNeed(
                f"rates_mbps.disk = {rate}: this machine's control groups cannot limit what a host reads from its disk;"
                f" leave it out (0)"
            )


DISKS = Service("", start=make_folders, complete=limit_disks)

# -- beside the storage ------------------------------------------------------------------------------------


def near_machines(settings: Settings) -> tuple[Host, ...]:
    if not settings.near_workers:
        return ()
    plain, behind = (Nic("eth0", UF, number, settings.rates_mbps.server) for number in (52, 53))
    return (
        Host(PLAIN, (plain,), in_pool=True, mounts=True, is_worker=True),
        Host(BEHIND_A_PROCESS, (behind,), in_pool=True, mounts=True, is_worker=True, user_network=True),
    )


def near_virtual(hosts: Hosts) -> list[RunningHost]:
    """The virtual machine beside the storage, where there are others for it to be compared with."""
    return [host for host in workers(hosts) if host.host.is_virtual and host.host.nic_on(UF) and PLAIN in hosts]


def stage_near(hosts: Hosts, topology: Topology) -> None:
    for host in near_virtual(hosts):
        host.stage(MOUNT_COMMAND, mount_script(host.host, topology, UNDER), 0o755)


def start_near(hosts: Hosts, _: Topology) -> None:
    for name in (PLAIN, BEHIND_A_PROCESS) if PLAIN in hosts else ():
        links = [f"ln -sfn {path} {UNDER}{path}" for path in (MOUNT_POINT, WRITES)]
        hosts[name].script([f"mkdir -p {UNDER}", *links])
    for host in near_virtual(hosts):
        host.script(["modprobe fuse"])
        host.daemon("mount", MOUNT_COMMAND)


NEARBY = Service(
    "", machines=near_machines, after=(MOUNTS,), stage=stage_near, start=start_near,
    more_packages=lambda settings: ("slirp4netns",) if settings.near_workers else (),
    questions=lambda hosts, _: [mount_question(host, UNDER) for host in near_virtual(hosts)],
)  # fmt: skip

# -- at a third site ---------------------------------------------------------------------------------------


def far_machines(settings: Settings) -> tuple[Host, ...]:
    if not settings.far_site:
        return ()
    rate = settings.rates_mbps
    return (
        Host(FAR_STORAGE, (Nic("eth0", FNAL, 10, rate.storage),), in_pool=True, principals=("host",)),
        Host(FAR_WORKER, (Nic("eth0", FNAL, 101, rate.worker),), in_pool=True, mounts=True, is_worker=True),
    )


def start_far(hosts: Hosts, topology: Topology) -> None:
    """Put its packets on a line of their own, before that of the other sites takes them."""
    if not topology.settings.far_site:
        return
    wan = hosts[WAN]
    wan.script([f"echo {FAR_RTT_MS} | tee {FAR_RTT_FILE} >{FAR_RTT_FILE}.now"])
    start_delay_line(wan, "far-delayline", FAR_RTT_FILE, FAR_QUEUES.values())
    wan.script([
        f"iptables-legacy -t mangle -I FORWARD {direction} {FNAL.bridge} -j NFQUEUE --queue-num {queue}"
        for direction, queue in FAR_QUEUES.items()
    ])  # fmt: skip


def ask_far(hosts: Hosts, topology: Topology) -> list[Question]:
    listens = partial(delay_line_listens, hosts[WAN], FAR_QUEUES.values())
    return [Question(hosts[WAN], "third site's delay", listens)] if topology.settings.far_site else []


FAR_SITE = Service("", machines=far_machines, after=(SERVERS,), start=start_far, questions=ask_far)
