"""A third site: an object server of the storage and a worker, with a delay line of their own to both other sites."""

from functools import partial

from tierbench.testbed.host import RunningHost
from tierbench.testbed.service import Hosts, Question, Service
from tierbench.testbed.services.filesystem import FAR_STORAGE, SERVERS
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FNAL, WAN, Host, Nic, Topology

RTT_MS = 47  # of FNAL to UF, in the ExTENCI paper
RTT_FILE = "/run/far-rtt"
QUEUES = (90, 91)  # of netfilter: what goes there, and what comes from there
LINE = "/usr/local/lib/tierbench/delayline.py"
START_SECONDS = 30.0
WORKER = "wnf"


def machines(settings: Settings) -> tuple[Host, ...]:
    if not settings.far_site:
        return ()
    rate = settings.rates_mbps
    return (
        Host(FAR_STORAGE, (Nic("eth0", FNAL, 10, rate.storage),), in_pool=True, principals=("host",)),
        Host(WORKER, (Nic("eth0", FNAL, 101, rate.worker),), in_pool=True, mounts=True, is_worker=True),
    )


def start(hosts: Hosts, topology: Topology) -> None:
    """Put its packets on a line of their own, before that of the other sites takes them."""
    if not topology.settings.far_site:
        return
    wan = hosts[WAN]
    wan.script([f"echo {RTT_MS} | tee {RTT_FILE} >{RTT_FILE}.now"])
    wan.daemon("far-delayline", "chrt", "-f", "20", "python3", LINE, RTT_FILE, *map(str, QUEUES))
    wan.wait_until(
        partial(listens, wan), START_SECONDS, "the third site's delay line did not start", "far-delayline.log"
    )
    ways = zip(("-o", "-i"), QUEUES, strict=True)
    wan.script(
        [f"iptables-legacy -t mangle -I FORWARD {way} {FNAL.bridge} -j NFQUEUE --queue-num {q}" for way, q in ways]
    )


def listens(wan: RunningHost) -> bool:
    """Whether somebody takes the packets out of both queues."""
    queues = wan.run("cat", "/proc/net/netfilter/nfnetlink_queue").stdout
    return {line.split()[0] for line in queues.splitlines()} >= set(map(str, QUEUES))


def questions(hosts: Hosts, topology: Topology) -> list[Question]:
    return (
        [Question(hosts[WAN], "third site's delay", partial(listens, hosts[WAN]))] if topology.settings.far_site else []
    )


FAR_SITE = Service("", machines=machines, after=(SERVERS,), start=start, questions=questions)
