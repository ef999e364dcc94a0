"""The wires of the testbed as command lines: links, addresses, rates, routes, NAT and the WAN's delay."""

from collections.abc import Iterator, Mapping

from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, NETWORKS, PRIVATE, SITES, UF, Host, Nic, Topology

# The NFQUEUE numbers of the two directions through the delay line.
QUEUES = {UF: 0, FIU: 1}
RTT_FILE = "/run/wan-rtt"
DATA_TAP, COMMAND_TAP = "tap0", "tap1"  # of a virtual machine, on the host that runs it
OUTSIDE, INSIDE = "169.254.99.1", "169.254.99.2"  # where its commands come from and go to
FIRST_TABLE = 100  # of routes, for interfaces that have some of their own
TUN = ("mkdir -p /dev/net", "mknod -m 600 /dev/net/tun c 10 200")
SWITCHED = 200_000  # bytes that a switch port buffers beyond the bandwidth-delay product


def port(host: Host, nic: Nic) -> str:
    """The name of the switch port that a host's interface is plugged into."""
    return f"{host.name}-{nic.device}"


def links(topology: Topology, pids: Mapping[str, int]) -> Iterator[str]:
    """`ip -batch` lines that plug every interface of every host into its switch (on the wan host)."""
    for host in topology.hosts:
        for nic in host.nics:
            yield f"link add {port(host, nic)} type veth peer name {nic.device} netns {pids[host.name]}"


def wan_lines(topology: Topology) -> Iterator[str]:
    """Shell lines for the wan host: one switch a network, and the routed, capped line between the sites."""
    settings = topology.settings
    # Switched frames are none of our packet filter's business.
    yield "for call in /proc/sys/net/bridge/bridge-nf-call-*; do [ ! -e $call ] || echo 0 >$call; done"
    yield "ip link set lo up"
    yield "echo 1 >/proc/sys/net/ipv4/ip_forward"
    for network in NETWORKS:
        yield f"ip link add {network.bridge} type bridge forward_delay 0"
        yield f"ip link set {network.bridge} up"
    for host in topology.hosts:
        for nic in host.nics:
            yield f"ip link set {port(host, nic)} master {nic.network.bridge} up"
            yield rate_limit(port(host, nic), nic.rate_mbps, settings.rtt_ms)
    for network in SITES:
        yield f"ip addr add {network.prefix}.1/24 dev {network.bridge}"
        yield rate_limit(network.bridge, settings.rates_mbps.wan, settings.rtt_ms)


def delay_lines(settings: Settings) -> Iterator[str]:
    """Shell lines for the wan host: what crosses it waits in our delay line.

    netem would take the place of the rate limit's queue, and delay once more what comes from a third site.
    """
    if settings.rtt_ms == 0:
        return
    yield f"echo {settings.rtt_ms:g} | tee {RTT_FILE} >{RTT_FILE}.now"
    for network, queue in QUEUES.items():
        yield f"iptables-legacy -t mangle -A FORWARD -i {network.bridge} -j NFQUEUE --queue-num {queue}"


def host_lines(host: Host, topology: Topology) -> Iterator[str]:
    """Shell lines for any other host: its interfaces, routes and TCP tuning."""
    settings = topology.settings
    yield "ip link set lo up"
    yield from buffer_lines(settings)
    first = host.nics[0]
    for number, nic in enumerate(host.nics):
        beside = host.nic_on(nic.network) != nic
        yield f"ip addr add {nic.address}/24 dev {nic.device}" + (" noprefixroute" if beside else "")
        yield f"ip link set {nic.device} up"
        yield rate_limit(nic.device, nic.rate_mbps, settings.rtt_ms)
        if beside:
            yield from own_routes(nic, FIRST_TABLE + number, settings)
        else:
            yield route(nic.network.cidr, nic, settings, f"src {nic.address} scope link")
    router = f"{first.network.prefix}.1"
    yield route("default", first, settings, f"via {router}")
    inner = host.nic_on(PRIVATE)
    for other in topology.sited_hosts if inner and first.network == PRIVATE else ():
        leg = other.nic_on(PRIVATE)  # by which a public host is reached, and not by NAT
        if inner and leg and other.nics[0].network != PRIVATE:
            yield route(other.address, inner, settings, f"via {leg.address}")
    if host.name == PRIVATE.router:
        yield "echo 1 >/proc/sys/net/ipv4/ip_forward"
        yield f"iptables-legacy -t nat -A POSTROUTING -s {PRIVATE.cidr} -o {first.device} -j MASQUERADE"


def buffer_lines(settings: Settings) -> Iterator[str]:
    """How TCP is set up in any network namespace."""
    largest = settings.tcp_buffer_mb << 20
    yield f"echo '4096 131072 {largest}' >/proc/sys/net/ipv4/tcp_rmem"
    yield f"echo '4096 65536 {largest}' >/proc/sys/net/ipv4/tcp_wmem"
    yield "echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save"


def own_routes(nic: Nic, table: int, settings: Settings) -> Iterator[str]:
    """What is sent from the address of an interface beside another one on its network leaves by that interface."""
    for call, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 0)):
        yield f"echo {value} >/proc/sys/net/ipv4/conf/all/{call}"
    yield f"echo 0 >/proc/sys/net/ipv4/conf/{nic.device}/rp_filter"
    yield f"ip rule add from {nic.address} lookup {table}"
    yield route(nic.network.cidr, nic, settings, f"src {nic.address} scope link table {table}")
    yield route("default", nic, settings, f"via {nic.network.prefix}.1 table {table}")


def virtual_lines(host: Host) -> Iterator[str]:
    """Shell lines for what is around a virtual machine: taps on the host's own wire and on one for commands."""
    yield "ip link set lo up"
    yield from TUN
    yield "ip link add br0 type bridge forward_delay 0"
    for tap in (DATA_TAP, COMMAND_TAP):
        yield f"ip tuntap add dev {tap} mode tap"
        # The virtual machine's network card takes frames as they are on a wire.
        yield f"ethtool -K {tap} tx off tso off gso off gro off sg off"
        yield f"ip link set {tap} up"
    (nic,) = host.nics
    for port_ in (nic.device, DATA_TAP):
        yield f"ip link set {port_} master br0 up"
    yield "ip link set br0 up"
    yield f"ip addr add {OUTSIDE}/30 dev {COMMAND_TAP}"


def route(destination: str, nic: Nic, settings: Settings, how: str) -> str:
    # Congestion control by route: a namespace may not choose its own unless the whole machine allows it.
    return f"ip route replace {destination} dev {nic.device} {how} congctl {settings.congestion_control}"


def rate_limit(device: str, rate_mbps: int, rtt_ms: float) -> str:
    """A token bucket whose queue holds at least the bandwidth-delay product of the WAN."""
    in_flight = int(rate_mbps * 1e6 / 8 * rtt_ms / 1e3)
    burst = max(65536, int(rate_mbps * 1e6 / 8 * 0.002))
    return (
        f"tc qdisc add dev {device} root handle 1: "
        f"tbf rate {rate_mbps}mbit burst {burst} limit {in_flight + burst + SWITCHED}"
    )
