"""What workers have beside their network: a disk of their own; and those of the ExTENCI paper that are elsewhere.

Beside the storage there are a plain one and one behind a user's network, and at a third site one with an object server
of its own, behind a delay line of that site's. Where a virtual machine is beside the storage, too, all three have one
and the same file system at one place, by MooseFS' client; the virtual machine has the one by NFS beside it.
"""

from functools import partial

from tierbench.errors import UnmetNeed
from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Bed, Question, Service, delay_line_listens, start_delay_line
from tierbench.testbed.services import filesystem
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FNAL, UF, USER, WAN, Host, Nic

DISK_FOLDER = "/scratch"  # for copies of replicas
PLAIN, BEHIND_A_PROCESS = "wnuf", "unuf"
UNDER = "/moosefs"  # where each of those beside the storage has the mount, whatever else it has
FAR_RTT_MS = 47  # of FNAL to UF, in the ExTENCI paper
FAR_RTT_FILE = "/run/far-rtt"
FAR_QUEUES = {"-o": 90, "-i": 91}  # of netfilter: what goes there, and what comes from there


# -- disks: a part of the one that this machine has, of a rate of its own ----------------------------------


def make_folders(bed: Bed) -> None:
    for worker in bed.where(lambda host: host.is_worker):
        worker.script([f"install -d -o {USER} -g {USER} {DISK_FOLDER}"])


def limit_disks(bed: Bed) -> None:
    """Now that all programs have started once, and are in memory."""
    rate = bed.settings.rates_mbps.disk
    for worker in bed.where(lambda host: host.is_worker) if rate else ():
        if not worker.namespaces.cgroup.limit_disk(rate):
            raise UnmetNeed(
                f"rates_mbps.disk = {rate}: this machine's control groups cannot limit what a host reads from its disk;"
                f" leave it out (0)"
            )


DISKS = Service("", start=make_folders, complete=limit_disks)

# -- beside the storage ------------------------------------------------------------------------------------


def near_machines(settings: Settings) -> tuple[Host, ...]:
    plain, behind = (Nic("eth0", UF, number, settings.rates_mbps.server) for number in (52, 53))
    return (
        Host(PLAIN, (plain,), in_pool=True, mounts=True, is_worker=True),
        Host(BEHIND_A_PROCESS, (behind,), in_pool=True, mounts=True, is_worker=True, user_network=True),
    )


def near_virtual(bed: Bed) -> list[RunningHost]:
    """The virtual machine beside the storage, with which the others there are compared."""
    return bed.where(lambda host: host.is_virtual and host.nic_on(UF))


def stage_near(bed: Bed) -> None:
    for host in near_virtual(bed):
        host.stage(filesystem.MOUNT_COMMAND, filesystem.mount_script(host.host, bed, UNDER), 0o755)


def start_near(bed: Bed) -> None:
    for name in (PLAIN, BEHIND_A_PROCESS):
        links = [f"ln -sfn {path} {UNDER}{path}" for path in (filesystem.MOUNT_POINT, filesystem.WRITES)]
        bed[name].script([f"mkdir -p {UNDER}", *links])
    for host in near_virtual(bed):
        host.script(["modprobe fuse"])
        host.daemon("mount", filesystem.MOUNT_COMMAND)


NEARBY = Service(
    "", more_packages=("slirp4netns",), wanted=lambda settings: settings.near_workers, machines=near_machines,
    after=(filesystem.MOUNTS,), stage=stage_near, start=start_near,
    questions=lambda bed: [filesystem.mount_question(host, UNDER) for host in near_virtual(bed)],
)  # fmt: skip

# -- at a third site ---------------------------------------------------------------------------------------


def far_machines(settings: Settings) -> tuple[Host, ...]:
    rate = settings.rates_mbps
    workers = (
        Host(f"wnf{number}", (Nic("eth0", FNAL, 100 + number, rate.worker),), in_pool=True, mounts=True, is_worker=True)
        for number in range(1, settings.far_workers + 1)
    )
    storage = Host(filesystem.FAR_STORAGE, (Nic("eth0", FNAL, 10, rate.storage),), in_pool=True, principals=("host",))
    return (storage, *workers)


def start_far(bed: Bed) -> None:
    """Put its packets on a line of their own, before that of the other sites takes them."""
    bed[WAN].script([f"echo {FAR_RTT_MS} | tee {FAR_RTT_FILE} >{FAR_RTT_FILE}.now"])
    start_delay_line(bed[WAN], "far-delayline", FAR_RTT_FILE, FAR_QUEUES.values())
    bed[WAN].script([
        f"iptables-legacy -t mangle -I FORWARD {direction} {FNAL.bridge} -j NFQUEUE --queue-num {queue}"
        for direction, queue in FAR_QUEUES.items()
    ])  # fmt: skip


FAR_SITE = Service(
    "", wanted=lambda settings: settings.far_workers, machines=far_machines, after=(filesystem.SERVERS,),
    start=start_far, questions=lambda bed: [
        Question(bed[WAN], "third site's delay", partial(delay_line_listens, bed[WAN], FAR_QUEUES.values()))
    ],
)  # fmt: skip
