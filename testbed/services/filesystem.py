"""The stand-in for Kerberized Lustre: MooseFS behind a Kerberos gate.

As Lustre it has a metadata server, an object server and a client mount on each host, and it
re-reads nothing that a client has cached. MooseFS knows no Kerberos; the gate admits a host's
address to the servers' ports, and tells it the mount password, once it has logged in by ticket.
"""

import secrets
import shutil
from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import ANSWER_SECONDS, RunningHost, filled, verbatim
from tierbench.testbed.service import Bed, Question, Service, at_once
from tierbench.testbed.services.kerberos import KERBEROS, REALM, principals
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, FNAL, GATEWAY, PRIVATE, UF, USER, Host, Nic

METADATA, STORAGE, FAR_STORAGE = "mds", "oss", "osf"
LABELS = {STORAGE: "A", FAR_STORAGE: "B"}  # by which a storage class tells the pools apart
POOLS = {"near": STORAGE, "far": FAR_STORAGE}  # folders of which all files are in one, where there are two
MOUNT_POINT = "/extenci"
WRITABLE = "writes"  # the folder in it where trials write
WRITES = f"{MOUNT_POINT}-{WRITABLE}"  # and where hosts that else may only read mount that folder alone
DATA = f"{MOUNT_POINT}/tierbench"
FIRST_PORT, LAST_PORT = 9419, 9422  # of the servers
CHUNKS = "/var/lib/mfs/chunks"
MOUNT_COMMAND = "/usr/local/sbin/mount-remote"


def machines(settings: Settings) -> tuple[Host, ...]:
    rate = settings.rates_mbps
    numbers = (10, *range(21, 20 + settings.storage_nics))
    nics = tuple(Nic(f"eth{index}", UF, number, rate.storage) for index, number in enumerate(numbers))
    # With several interfaces it serves by them itself what it mounts.
    several = settings.storage_nics > 1
    return (
        Host(STORAGE, nics, in_pool=True, mounts=several, principals=("host",)),
        Host(METADATA, (Nic("eth0", UF, 11, rate.metadata),), in_pool=True, principals=("host",)),
    )


def object_servers(bed: Bed) -> list[RunningHost]:
    """That of the Tier-2 first."""
    return [bed[name] for name in LABELS if name in bed.hosts]


def stage(bed: Bed) -> None:
    """Configure the servers, their gates and every host that may mount."""
    mds, storages = bed[METADATA], object_servers(bed)
    auth_code, password = secrets.token_hex(16), secrets.token_hex(16)

    mds.stage("/etc/mfs/mfsmaster.cfg", filled("mfsmaster.cfg", auth_code=auth_code), 0o600)
    exports = "".join(
        filled("mfsexports.cfg", writers=UF.cidr, readers=network.cidr, writable=WRITABLE, password=password)
        for network in (FIU, FNAL)
    )
    mds.stage("/etc/mfs/mfsexports.cfg", exports, 0o600)
    mds.stage("/etc/mfs/mfstopology.cfg", "")
    # Told what to leave of the disk, not what to use: it would count each small file as a chunk of 64 MiB.
    free = shutil.disk_usage(mds.namespaces.directory.parent).free
    leave = max(0, free - (bed.settings.storage_gb << 30))
    for storage in storages:
        label = LABELS[storage.name]
        chunkserver = filled("mfschunkserver.cfg", auth_code=auth_code, metadata_server=mds.fqdn, label=label)
        storage.stage("/etc/mfs/mfschunkserver.cfg", chunkserver, 0o600)
        storage.stage("/etc/mfs/mfshdd.cfg", f"{CHUNKS} -{leave >> 20}MiB\n")

    by_ticket = bed.where(lambda host: host.comes_by_ticket)
    admitted = [f"{name}@{REALM}\n" for host in by_ticket for name in principals(host.host)]
    own = ", ".join(server.host.address for server in (mds, *storages))
    for server in (mds, *storages):
        server.stage("/etc/tierbench-gate.nft", filled("gate.nft", servers=own, ports=f"{FIRST_PORT}-{LAST_PORT}"))
        server.stage("/etc/ssh/sshd_config", verbatim("sshd_config"))
        server.stage("/usr/local/sbin/kerberos-gate", verbatim("kerberos-gate"), 0o755)
        server.stage("/etc/mfs/mount.password", password + "\n", 0o600)
        server.stage("/root/.k5login", "".join(admitted), 0o600)

    for host in mounting(bed):
        host.stage(MOUNT_COMMAND, mount_script(host.host, bed), 0o755)


def mounting(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.mounts)


def mount_script(host: Host, bed: Bed, under: str = "") -> str:
    return filled(
        "mount-remote", mount_point=f"{under}{MOUNT_POINT}", writes=f"{under}{WRITES}", writable=WRITABLE,
        fqdn=host.fqdn, metadata_server=bed[METADATA].fqdn, read_ahead_kb=bed.settings.read_ahead_kb,
        object_servers=" ".join(storage.fqdn for storage in object_servers(bed)),
        access="rw" if host.nic_on(UF) else "ro",
    )  # fmt: skip


def start_servers(bed: Bed) -> None:
    """Start the metadata and the object servers and their gates."""
    mds, storages = bed[METADATA], object_servers(bed)
    mds.script([
        "chown mfs:mfs /etc/mfs/mfsmaster.cfg /etc/mfs/mfsexports.cfg",
        "cp /var/lib/mfs/metadata.mfs.empty /var/lib/mfs/metadata.mfs",
        "chown -R mfs:mfs /var/lib/mfs",
    ])  # fmt: skip
    mds.daemon("mfsmaster", "mfsmaster", "-f", "start")
    for oss in storages:
        oss.script([f"mkdir {CHUNKS}", "chown -R mfs:mfs /var/lib/mfs /etc/mfs/mfschunkserver.cfg"])
        oss.daemon("mfschunkserver", "mfschunkserver", "-f", "start")
    # The gateway's ticket opens the servers to the gateway, not to those whose address it lends its own.
    inner = next(nic.device for nic in bed[GATEWAY].host.nics if nic.network == PRIVATE)
    ports = f"--dport {FIRST_PORT}:{LAST_PORT}"
    reject = f"iptables-legacy -A FORWARD -i {inner} -p tcp {ports} -j REJECT --reject-with tcp-reset"
    bed[GATEWAY].script([reject])
    known_hosts = ""
    for server in (mds, *storages):
        server.script([
            "nft -f /etc/tierbench-gate.nft",
            "mkdir -p /run/sshd",
            "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key",
        ])  # fmt: skip
        server.daemon("sshd", "/usr/sbin/sshd", "-D", "-e")
        key = server.read("/etc/ssh/ssh_host_ed25519_key.pub").decode()
        known_hosts += f"{server.fqdn} {key}"
    for host in bed.where(lambda host: host.comes_by_ticket):
        host.put("/etc/ssh/ssh_known_hosts", known_hosts)


def mount(host: RunningHost) -> None:
    """Mount the remote file system on one host, by its own ticket."""
    host.daemon("mount", MOUNT_COMMAND)
    mount_question(host).wait()


def mount_question(host: RunningHost, under: str = "") -> Question:
    """Whether the mount is there and its metadata server answers."""
    ask = ("stat", f"{under}{MOUNT_POINT}/.masterinfo")
    return Question(host, "mount", ask, f"{under}{MOUNT_POINT} answers", "mount.log")


def start_mounts(bed: Bed) -> None:
    """Mount wherever it may be mounted; make the places for the benchmark's files, and for those that trials write."""
    writer = bed[bed.topology.writer.name]
    mount(writer)
    writer.script([
        # one copy of each file, since there is one object server
        f"mfscreatesclass -M {MOUNT_POINT} -K A single >/dev/null",
        f"mfssetsclass single {MOUNT_POINT} >/dev/null",
        f"chmod 755 {MOUNT_POINT}",
        f"install -d -o {USER} -g {USER} {DATA}",
        f"install -d -m 1777 {MOUNT_POINT}/{WRITABLE}",
        f"mfssettrashretention 0 {MOUNT_POINT}/{WRITABLE} >/dev/null",  # what is removed there gives its room back
        *(pools() if len(object_servers(bed)) > 1 else ()),
    ])  # fmt: skip
    at_once(mount, [host for host in mounting(bed) if host is not writer])


def pools() -> Iterator[str]:
    """Shell lines for a folder of each pool, for replicas and for what trials write; no other pool will do instead."""
    for pool, server in POOLS.items():
        written = f"{MOUNT_POINT}/{WRITABLE}/{pool}"
        yield f"mfscreatesclass -M {MOUNT_POINT} -m S -K {LABELS[server]} {pool} >/dev/null"
        for folder, mode in ((f"{MOUNT_POINT}/{pool}", f"755 -o {USER} -g {USER}"), (written, "1777")):
            yield f"install -d -m {mode} {folder}"
            yield f"mfssetsclass {pool} {folder} >/dev/null"
        yield f"mfssettrashretention 0 {written} >/dev/null"


def metadata_server_lists(metadata: RunningHost, section: str, words: str, count: int = 1) -> bool:
    """Whether the metadata server answers its own command-line tool, and with these words so often."""
    answer = metadata.run("mfscli", "-p", "-H", metadata.fqdn, section, check=False, timeout=ANSWER_SECONDS)
    return answer.stdout.count(words) >= count


def admitted_hosts(server: RunningHost) -> str:
    """How many addresses the Kerberos gate has let in, if its ssh daemon says who it is."""
    if not server.run("ssh-keyscan", "-T", f"{ANSWER_SECONDS:g}", server.fqdn, check=False).stdout:
        return ""
    listing = server.run("nft", "list", "set", "ip", "gate", "admitted", timeout=ANSWER_SECONDS).stdout
    return f"answers; {listing.count('expires')} hosts admitted"


def questions_to_servers(bed: Bed) -> Iterator[Question]:
    metadata, storages = bed[METADATA], object_servers(bed)
    answers = partial(metadata_server_lists, metadata, "-SIN", "master version")
    yield Question(metadata, "mfsmaster", answers, log="mfsmaster.log")
    for storage in storages:
        joined = partial(metadata_server_lists, metadata, "-SCS", "Normal", len(storages))
        yield Question(storage, "mfschunkserver", joined, "has joined the master", "mfschunkserver.log")
    for server in (metadata, *storages):
        yield Question(server, "Kerberos gate", partial(admitted_hosts, server), log="sshd.log")


SERVERS = Service(
    "file system servers",
    machines=machines,
    packages=(
        "moosefs-master", "moosefs-chunkserver", "moosefs-client", "moosefs-cli",
        "openssh-server-gssapi", "openssh-client-gssapi",
    ),
    stage=stage, start=start_servers, questions=questions_to_servers,
)  # fmt: skip
MOUNTS = Service(
    "mounts, by Kerberos ticket", after=(KERBEROS, SERVERS), start=start_mounts,
    questions=lambda bed: map(mount_question, mounting(bed)),
)  # fmt: skip
