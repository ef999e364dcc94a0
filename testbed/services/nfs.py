"""NFS with as much of Kerberos' protection as is asked for: a server on vmuf, mounted by the virtual workers.

Only a kernel is an NFS client, and not every machine's knows how; a virtual worker brings its own.
"""

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost, filled
from tierbench.testbed.service import Bed, Question, Service, at_once, listens
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.filesystem import MOUNT_POINT, MOUNTS, WRITABLE, WRITES
from tierbench.testbed.services.kerberos import JOB_KEYTAB, user_principal
from tierbench.testbed.services.xrootd import BESIDE_STORAGE
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, UF, USER, Host, Nic

PORT = 2049
CONFIGURATION = "/etc/ganesha/ganesha.conf"
MOUNT_COMMAND = "/usr/local/sbin/mount-nfs"
PIPES = "/run/rpc_pipefs"
TICKETS = "/tmp/krb5cc_"  # noqa: S108 - where the kernel's helper looks for a user's
USUAL = "krb5"  # as protected as all else on the testbed: who mounts has shown a ticket


def machines(settings: Settings) -> tuple[Host, ...]:
    """As the paper's clients: with 10 Gb/s beside the storage, and with 1 Gb/s at the Tier-3."""
    rate = settings.rates_mbps
    near, far = Nic("eth0", UF, 51, rate.server), Nic("eth0", FIU, 51, rate.worker)
    return tuple(
        Host(name, (nic,), in_pool=True, principals=("host",), is_worker=True, is_virtual=True)
        for name, nic in (("vwuf", near), ("vwfiu", far))
    )


def clients(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.is_virtual)


def stage(bed: Bed) -> None:
    server, read_ahead = bed[BESIDE_STORAGE].fqdn, bed.settings.read_ahead_kb
    script = filled("mount-nfs", mount_point=MOUNT_POINT, server=server, read_ahead_kb=read_ahead)
    for client in clients(bed):
        client.stage(MOUNT_COMMAND, script, 0o755)
        offer(client, "nfs-flavour")


def start(bed: Bed) -> None:
    """Start the server, then mount."""
    host = bed[BESIDE_STORAGE]
    uid = host.run("id", "-u", USER).stdout.strip()
    host.put(CONFIGURATION, filled("ganesha.conf", port=PORT, mount_point=MOUNT_POINT, user=USER, uid=uid))
    host.script([
        "mkdir -p /run/ganesha /var/lib/nfs/ganesha",
        "ln -sfn /proc/mounts /etc/mtab",  # in which it looks for what it exports
    ])  # fmt: skip
    host.daemon("ganesha", "ganesha.nfsd", "-F", "-f", CONFIGURATION, "-L", "STDOUT", "-p", "/run/ganesha/pid")
    host.wait_until(partial(listens, host, [PORT]), "the NFS server did not start", "ganesha.log")
    at_once(mount, clients(bed))


def mount(host: RunningHost) -> None:
    """Mount by the host's ticket; jobs are the user's, who needs one where the kernel's helper looks."""
    host.script([
        f"mkdir -p {MOUNT_POINT} {PIPES}",
        # Its newest operation is unknown to the server, which the client takes for a broken directory.
        "modprobe nfsv4 directory_delegations=0",
        "modprobe rpcsec_gss_krb5",
        f"mount -t rpc_pipefs pipes {PIPES}",
        f"ln -sfn {MOUNT_POINT}/{WRITABLE} {WRITES}",
    ])  # fmt: skip
    host.daemon("gssd", "rpc.gssd", "-f", "-p", PIPES)
    uid = host.run("id", "-u", USER).stdout.strip()
    host.run("kinit", "-k", "-t", JOB_KEYTAB, "-c", f"{TICKETS}{uid}", str(user_principal(host.host)), user=USER)
    mounts = partial(host.succeeds, MOUNT_COMMAND, "set", USUAL, timeout=20)
    host.wait_until(mounts, f"{host.name} did not mount {MOUNT_POINT}", "gssd.log")


def mounted(host: RunningHost) -> str:
    """How the mount is protected, once the server has answered."""
    if not host.succeeds("stat", f"{MOUNT_POINT}/{WRITABLE}"):
        return ""
    return f"{MOUNT_POINT} answers, by {host.run(MOUNT_COMMAND, 'get').stdout.strip()}"


def questions(bed: Bed) -> Iterator[Question]:
    for client in clients(bed):
        yield Question(client, "mount", partial(mounted, client))
    yield Question(bed[BESIDE_STORAGE], "NFS", partial(listens, bed[BESIDE_STORAGE], [PORT]), f"listens on port {PORT}")


NFS = Service(
    "", wanted=lambda settings: settings.virtual_workers, machines=machines, after=(MOUNTS,), stage=stage, start=start,
    more_packages=("nfs-ganesha", "nfs-ganesha-vfs", "nfs-common", "ethtool", "kmod", "tcpdump"), questions=questions,
)  # fmt: skip
