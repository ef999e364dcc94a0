"""NFS with as much of Kerberos' protection as is asked for: a server on vmuf, mounted by the virtual workers.

One on dgt is the CHEP paper's first bridge, without Kerberos: the Tier-3's virtual worker has it beside that.

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
from tierbench.testbed.topology import FIU, GATEWAY, UF, USER, Host, Nic

PORT = 2049
CONFIGURATION = "/etc/ganesha/ganesha.conf"
MOUNT_COMMAND = "/usr/local/sbin/mount-nfs"
BRIDGED = "/bridge"  # below which the Tier-3's virtual worker has what the gateway mounts
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
    """Start the servers, then mount."""
    at_once(serve, [bed[BESIDE_STORAGE], bed[GATEWAY]])
    at_once(mount, clients(bed))
    gateway, path = bed[GATEWAY].fqdn, BRIDGED + MOUNT_POINT
    for client in bridged(bed):
        client.script([
            f"mkdir -p {path}",
            f"mount -t nfs4 -o vers=4.2,sec=sys {gateway}:{MOUNT_POINT} {path}",
            f'echo {bed.settings.read_ahead_kb} >"/sys/class/bdi/$(mountpoint -d {path})/read_ahead_kb"',
        ])  # fmt: skip


def bridged(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.is_virtual and host.nic_on(FIU))


def serve(host: RunningHost) -> None:
    uid, kerberos = host.run("id", "-u", USER).stdout.strip(), "nfs" in host.host.principals
    host.put(CONFIGURATION, filled(
        "ganesha.conf", port=PORT, mount_point=MOUNT_POINT, user=USER, uid=uid, kerberos=str(kerberos).lower(),
        flavours="sys, krb5, krb5i, krb5p" if kerberos else "sys",
    ))  # fmt: skip
    host.script([
        "mkdir -p /run/ganesha /var/lib/nfs/ganesha",
        "ln -sfn /proc/mounts /etc/mtab",  # in which it looks for what it exports
    ])  # fmt: skip
    host.daemon("ganesha", "ganesha.nfsd", "-F", "-f", CONFIGURATION, "-L", "STDOUT", "-p", "/run/ganesha/pid")
    host.wait_until(partial(listens, host, [PORT]), "the NFS server did not start", "ganesha.log")


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


def protection(host: RunningHost) -> str:
    """How the mount is protected, once the server has answered."""
    if not host.succeeds("stat", f"{MOUNT_POINT}/{WRITABLE}"):
        return ""
    return f"{MOUNT_POINT} answers, by {host.run(MOUNT_COMMAND, 'get').stdout.strip()}"


def questions(bed: Bed) -> Iterator[Question]:
    for client in clients(bed):
        yield Question(client, "mount", partial(protection, client))
    for client in bridged(bed):
        yield Question(client, "bridge", ("ls", f"{BRIDGED}{MOUNT_POINT}/{WRITABLE}"))
    for server in (bed[BESIDE_STORAGE], bed[GATEWAY]):
        yield Question(server, "NFS", partial(listens, server, [PORT]), f"listens on port {PORT}")


NFS = Service(
    "", wanted=lambda settings: settings.virtual_workers, machines=machines, after=(MOUNTS,), stage=stage, start=start,
    more_packages=("nfs-ganesha", "nfs-ganesha-vfs", "nfs-common", "ethtool", "kmod", "tcpdump"), questions=questions,
)  # fmt: skip
