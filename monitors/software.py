"""What a host runs that stores, carries or reads data, and what it has mounted, both of which may change by night."""

import subprocess
from pathlib import Path

ASKING_S = 5
SYSTEM = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C"}  # HTCondor may give a job another one
PACKAGES = (
    *("xrootd-" + name for name in ("server", "client", "server-libs", "client-libs", "fuse", "libs")),
    *("condor", "htcondor", "minicondor", "squid", "nginx", "nginx-light", "curl", "root", "root-core", "cvmfs"),
    *("globus-gridftp-server-progs", "globus-gass-copy-progs", "nfs-ganesha", "nfs-common", "nfs-utils", "krb5-libs"),
    *("libkrb5-3", "lustre-client", "kmod-lustre-client", "ceph-common", "ceph-osd", "moosefs-client"),
    *("moosefs-chunkserver", "moosefs-master"),
)
QUERIES = (
    ("dpkg-query", "-W", "-f", "${Package} ${Version}\\n"),
    ("rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"),
)
FARAWAY = ("nfs", "lustre", "ceph", "gpfs", "beegfs", "afs", "cvmfs2", "glusterfs", "9p", "cifs", "fuse.")


def packages() -> "dict[str, str]":
    """The versions of those that are installed; none where neither dpkg nor rpm is there."""
    for query in QUERIES:
        try:
            asked = subprocess.run(
                [*query, *PACKAGES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASKING_S, env=SYSTEM
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        pairs = [line.split() for line in asked.stdout.decode(errors="replace").splitlines()]
        found = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        if found:
            return found
    return {}


def mounts(proc: Path) -> "dict[str, str]":
    """File systems that come over a network, or from a program: their type and options, by where they are."""
    try:
        text = (proc / "self/mounts").read_text(errors="replace")
    except OSError:
        return {}
    lines = [line.split() for line in text.splitlines()]
    faraway = [line for line in lines if len(line) >= 4 and line[2].startswith(FARAWAY) and line[2] != "fuse.lxcfs"]
    return {line[1]: line[2] + " " + line[3] for line in faraway}
