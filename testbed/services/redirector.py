"""An XRootD redirector: a cluster's manager, which sends clients on to the data server that has the file, here vmuf.

It has no file itself. Each open there costs a client a connection and a login more, and the manager's question to its
servers, as a front end does that sends the client on for each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import MOUNT_POINT
from tierbench.testbed.services.xrootd import BESIDE_STORAGE, PORT, REDIRECTOR, XROOTD, clustered
from tierbench.testbed.settings import Settings
from tierbench.testbed.templates import filled
from tierbench.testbed.topology import UF, Host, Nic, Topology

START_SECONDS = 60.0
CONFIGURATION = "/etc/xrootd/redirector.cfg"
DATA_SERVER = "/etc/xrootd/xrootd.cfg"


def machines(settings: Settings) -> tuple[Host, ...]:
    nic = Nic("eth0", UF, 14, settings.rates_mbps.server)
    return (Host(REDIRECTOR, (nic,), in_pool=True),) if settings.redirector else ()


def stage(hosts: Hosts, topology: Topology) -> None:
    if topology.settings.redirector:
        lines = clustered("manager")
        hosts[REDIRECTOR].stage(CONFIGURATION, filled("redirector.cfg", port=PORT, mount_point=MOUNT_POINT, role=lines))


def start(hosts: Hosts, topology: Topology) -> None:
    """Start the manager, and the part of the data server that answers it; return when a file is found through it."""
    if not topology.settings.redirector:
        return
    redirector, server = hosts[REDIRECTOR], hosts[BESIDE_STORAGE]
    redirector.script(["install -d -o xrootd -g xrootd /run/xrootd /var/spool/xrootd /var/log/xrootd"])
    for host, program, configuration in (
        (redirector, "xrootd", CONFIGURATION),
        (redirector, "cmsd", CONFIGURATION),
        (server, "cmsd", DATA_SERVER),
    ):
        host.daemon(
            program, "setpriv", "--reuid=xrootd", "--regid=xrootd", "--init-groups",
            program, "-n", "xrootd", "-c", configuration, "-k", "fifo",
        )  # fmt: skip
    redirector.wait_until(partial(sends_on, redirector), START_SECONDS, "the redirector found no server", "cmsd.log")


def sends_on(redirector: RunningHost) -> bool:
    """Whether it finds the storage's folder at the data server."""
    ask = f"xrdfs {redirector.host.fqdn}:{PORT} locate -r {MOUNT_POINT} | grep -q ':{PORT} Server '"
    return redirector.succeeds("sh", "-c", ask, timeout=10)


def questions(hosts: Hosts, topology: Topology) -> Iterator[Question]:
    if topology.settings.redirector:
        host = hosts[REDIRECTOR]
        yield Question(host, "redirector", partial(sends_on, host), f"sends clients on from root://{host.host.fqdn}/")


REDIRECTION = Service("", machines=machines, after=(XROOTD,), stage=stage, start=start, questions=questions)
