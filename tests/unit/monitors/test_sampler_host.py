"""What the sampler reads of a host: its interfaces and routes, and made-up /proc trees."""

import itertools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.sampler_process import Samples, finish, read, records_in, until
from tests.unit.shipped import PYTHON, ship
from tests.unit.stand_ins import run
from tierbench.host import Mount
from tierbench.monitors.sampler import mounts, packages
from tierbench.monitors.sources import net


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make interfaces")
@pytest.mark.parametrize(("routes", "expected"), [
    (["10.1.0.0/16 congctl reno"], {"reno"}), (["10.1.0.0/16"], {None}),
    (["10.1.0.0/16 congctl reno", "10.2.0.0/16"], {"reno", None}),
])  # fmt: skip
def test_congestion_control_is_that_of_the_interfaces_routes(routes, expected, tmp_path):
    """In a network of its own, whose machine may have any."""
    make = "ip link add card type veth peer name other && ip link set card up && ip link set other up"
    made = " && ".join([make, *(f"ip route add {route} dev card" for route in routes)])
    sampler = f"{PYTHON} {ship(tmp_path, 'sampler.py')} --trial t --role storage --interface card"
    result = run("unshare", "--net", "sh", "-c", f"{made} && exec {sampler} --max-seconds 0.2")
    assert result.returncode == 0, result.stderr
    usual = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    names = json.loads(result.stdout.splitlines()[0])["tuning"]["congestion_control"].split(", ")
    assert set(names) == {name or usual for name in expected}


def test_loopback_bytes_are_counted(sampled):
    def send():
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                threading.Thread(target=sender.sendall, args=(bytes(1 << 20),)).start()
                received = 0
                while received < 1 << 20:
                    received += len(receiver.recv(1 << 16))

    rx = sampled(meanwhile=send)["rx_bytes"]
    assert rx[-1] - rx[0] >= 1 << 20


@dataclass
class Host:
    """A made-up host: /proc and /sys as plain files, which change in place as the kernel's do."""

    root: Path
    sampler: Callable[..., Samples]

    @property
    def options(self):
        return ["--proc", str(self.root / "proc"), "--sys", str(self.root / "sys"), "--interface", "eth0"]

    def sampled(self, *options, **more):
        return self.sampler(*self.options, *options, **more)

    def write(self, name, text):
        """In one write, padded so that a shorter text needs no truncation in between."""
        path = self.root / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.pwrite(descriptor, text.rstrip("\n").ljust(4096).encode(), 0)
        os.close(descriptor)

    def network(self, rx_bytes, interface="eth0"):
        heading = "Inter-|   Receive\n face |bytes    packets\n"
        counters = f"{rx_bytes} 2 0 3 0 0 0 0 {rx_bytes + 1} 5 0 6 0 0 0 0"
        others = "".join(f"  {name}: {'9 ' * 16}\n" for name in ("lo", "v" + interface))
        self.write("self/net/dev", f"{heading}{others}  {interface}: {counters}\n")

    def cores(self, *cores):
        lines = [f"cpu{n} {jiffies} 0 0" for n, jiffies in enumerate(cores)]
        self.write("stat", "\n".join(["cpu  9 9 9 9 9 9 9 9 0 0", *lines, "intr 1 2 3\n"]))


@pytest.fixture
def host(tmp_path, sampled):
    host = Host(tmp_path, sampled)
    host.network(1000)
    return host


def test_a_32_bit_counter_is_passed_on_raw_through_its_wrap(host, out):
    def wrap():
        host.network(90)
        until(records_in(out, len(read(out).lines) + 2))

    host.network(2**32 - 10)
    assert set(host.sampled(meanwhile=wrap)["rx_bytes"]) == {2**32 - 10, 90}


def test_a_vanished_interface_is_minus_one_until_it_returns(host, out):
    def vanish():
        for interface in ("gone", "eth0"):
            host.network(1000, interface)
            until(records_in(out, len(out.read_bytes().splitlines()) + 2))

    values = host.sampled(meanwhile=vanish)["rx_bytes"]
    assert [value for value, _ in itertools.groupby(values)] == [1000, -1, 1000]


def test_a_number_too_wide_for_its_column_is_minus_one_and_widens_no_record(host):
    host.network(2**64 - 2)
    samples = host.sampled()
    assert samples["rx_bytes"][-1] == -1
    assert {len(line) for line in samples.lines} == {samples.header["record_bytes"]}


def test_what_the_kernel_has_is_in_its_column_by_its_name_and_what_it_has_not_is_minus_one(host):
    known = {"rx_bytes": 1000, "tx_bytes": 1001, "rx_packets": 2, "tx_packets": 5, "rx_dropped": 3}
    known |= dict.fromkeys(("tcp_retrans", "cpu_user", "cpu_busiest", "mem_cached_kb", "disk_read_bytes"), -1)
    samples = host.sampled()
    assert {column: samples[column][-1] for column in known} == known
    host.write("self/net/snmp", "Ip: A\nIp: 1\nTcp: InSegs Odd OutSegs RetransSegs\nTcp: 11 12 13 14\n")
    assert host.sampled()["tcp_retrans"][-1] == 14


def test_disks_are_added_up_without_partitions_and_loops(host, out):
    for disk in ("sda/device", "sdb/device", "sr0/device", "sdc/device", "loop0", "nvme0n1/device", "nvme0c1n1/device"):
        (host.root / "sys/block" / disk).mkdir(parents=True)
    (host.root / "sys/block/sda/removable").write_text("1\n")  # as of disks behind some controllers
    (host.root / "sys/block/sdc/size").write_text("0\n")  # an empty drive
    (host.root / "sys/block/nvme0c1n1/hidden").write_text("1\n")  # its path
    busy_ms = {"sda": 7, "sda1": 1, "sdb": 5, "sr0": 1, "sdc": 1, "loop0": 1, "nvme0n1": 0, "nvme0c1n1": 3}

    def write_stats():
        host.write("diskstats", "".join(f"8 0 {name} 0 0 2 0 0 0 4 0 0 {ms} 0\n" for name, ms in busy_ms.items()))

    def work():
        busy_ms.update(sda=1007, sda1=101, sdb=105)
        for gone in ("loop0", "sdb"):
            write_stats()
            until(records_in(out, len(out.read_bytes().splitlines()) + 2))
            del busy_ms[gone]
        write_stats()
        until(records_in(out, len(out.read_bytes().splitlines()) + 2))

    write_stats()
    samples = host.sampled(meanwhile=work)
    assert (samples["disk_read_bytes"][0], samples["disk_written_bytes"][0]) == (3 * 2 * 512, 3 * 4 * 512)
    courses = [[ms for ms, _ in itertools.groupby(samples[f"disk_{name}_ms"])] for name in ("busy", "busiest")]
    assert courses == [[15, 1115, -1], [0, 1000, -1]]


VERSION_1 = {
    "cpuacct.usage": "3001\n", "cpu.stat": "nr_periods 1\nthrottled_time 2002\n",
    "cpu.cfs_quota_us": "5000\n", "cpu.cfs_period_us": "20000\n",
}  # fmt: skip
VERSION_2 = {"cpu.stat": "usage_usec 3\nthrottled_usec 2\n", "cpu.max": "5000 20000\n"}


@pytest.mark.parametrize(
    ("files", "used_ns", "throttled_ns", "cores"),
    [(VERSION_2, 3000, 2000, 0.25), (VERSION_1, 3001, 2002, 0.25), ({}, -1, -1, None)],
    ids=["version 2", "version 1", "a kernel of its own"],
)
def test_a_hosts_own_cpu_is_read_from_its_control_group(host, files, used_ns, throttled_ns, cores):
    for name, text in files.items():
        host.write(f"own/{name}", text)
    samples = host.sampled("--own-cpu", str(host.root / "proc/own"))
    assert (samples["cpu_own_ns"][-1], samples["cpu_own_throttled_ns"][-1]) == (used_ns, throttled_ns)
    assert samples.header["own_cpu_limit_cores"] == cores


@pytest.mark.parametrize(
    ("made", "real"),
    [
        ("device/", True), ("mlx5_core", True), ("vmxnet3", False), ("iavf", False), ("uevent", False), ("bond", True),
        ("vlan", False),
    ],
)  # fmt: skip
def test_only_hardware_states_a_real_speed(host, made, real):
    link = host.root / "sys/class/net/eth0"
    link.mkdir(parents=True)
    if made not in ("uevent", "bond", "vlan"):
        (link / "device").mkdir()
        driver = host.root / "sys/bus/drivers" / made
        driver.mkdir(parents=True)
        (link / "device/driver").symlink_to(driver)
    else:
        (link / "uevent").write_text(f"DEVTYPE={made}\nINTERFACE=eth0\n")
    assert host.sampled().header["link_speed_real"] is real


def test_busiest_cores_are_those_of_the_interval(host, out):
    def work():
        host.cores("500 0 0 99 6 0 4 0", "70 0 0 125 0 0 0 5")  # idle and iowait may step back
        until(records_in(out, len(read(out).lines) + 2))

    host.cores("500 0 0 100 0 0 0 0", "0 0 0 100 1 0 0 0")
    samples = host.sampled(meanwhile=work)
    for column, value in (("cpu_busiest", 1), ("cpu_busiest_busy_pct", 75), ("softirq_busiest_pct", 40)):
        assert value in samples[column]


TO, NEAR, GONE = "0" * 32, "fe8" + "0" * 29, "00000200"
ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
lo 00000000 0 0003 0 0 200 00000000 0 0 0
eth0 00000000 0 0003 0 0 100 00000000 0 0 0
lo 0000007F 0 0001 0 0 0 000000FF 0 0 0
"""
ROUTES_OF_IPV6 = f"""\
{NEAR} 40 {TO} 00 {TO} 00000100 1 0 00000001 lo
{TO} 00 {TO} 00 {TO} ffffffff 1 0 {GONE} lo
{TO} 00 {TO} 00 {NEAR} 00000400 1 0 00000003 eth0
"""


@pytest.mark.parametrize(("table", "routes"), [("route", ROUTES), ("ipv6_route", ROUTES_OF_IPV6)])
def test_auto_takes_the_default_route_of_lowest_metric_or_that_of_ipv6_where_ipv4_has_none(host, table, routes):
    host.write(f"self/net/{table}", routes)
    assert host.sampled("--interface", "auto").header["interface"] == "eth0"


def test_each_of_several_interfaces_has_its_own_columns(host):
    for name in ("eth0", "lo"):
        (host.root / "sys/class/net" / name).mkdir(parents=True)
        (host.root / "sys/class/net" / name / "speed").write_text("1000\n")
    header = host.sampled("--interface", "eth0+lo").header
    sent = [column["name"] for column in header["columns"] if column["name"].startswith("tx_bytes")]
    assert sent == ["tx_bytes.eth0", "tx_bytes.lo"]
    assert (header["interface"], header["link_speed_mbps"]) == ("eth0+lo", 2000)
    assert [interface["name"] for interface in header["interfaces"]] == ["eth0", "lo"]


def test_counters_long_after_their_clocks_are_read_again(monkeypatch):
    """The sampler was preempted between them."""
    monkeypatch.setattr(net, "mono_ns", Mock(side_effect=[0, 2 * net.MOST_BETWEEN_NS, 7, 8]))
    source = net.Net.__new__(net.Net)
    source.file = Mock(read=Mock(side_effect=[b"late", b"in time"]))
    assert source.look()[::2] == (7, b"in time")


@pytest.mark.parametrize("interface", ["eth0+eth0", "auto"])
def test_an_interface_twice_or_auto_without_a_default_route_is_exit_3(start, host, interface):
    assert finish(start(*host.options, "--interface", interface))[0] == 3


def test_an_interface_through_which_another_ones_bytes_go_is_exit_3(start, host):
    """A VLAN of a bridge of the card."""
    counters = " 1 2 0 3 0 0 0 0 4 5 0 6 0 0 0 0"
    names = ("eth0", "br0", "br0.7", "eth1")
    host.write("self/net/dev", "heading\n" + "".join(f"{name}:{counters}\n" for name in names))
    for upper, lower in (("br0", "eth0"), ("br0.7", "br0")):
        (host.root / "sys/class/net" / upper / f"lower_{lower}").mkdir(parents=True)
    refused = finish(start(*host.options, "--max-seconds", "1", "--interface", "eth0+br0.7"))
    assert (refused[0], "br0.7 has bytes of eth0" in refused[1]) == (3, True)
    assert finish(start(*host.options, "--max-seconds", "1", "--interface", "br%"))[0] == 3
    assert host.sampled("--interface", "br0.7+eth1").header["interface"] == "br0.7+eth1"


FUSE = [("eosxd", "fuse"), ("cvmfs2", "fuse"), ("fusectl", "fusectl")]
MOUNTS = """\
/dev/vda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
oss.uf.test:/export /mnt/uf nfs4 rw,sec=krb5,rsize=1048576 0 0
mfs#mds.uf.test:9421 /mnt/mfs fuse.mfs rw,allow_other 0 0
cvmfs2 /cvmfs/sw fuse ro 0 0
fusectl /sys/fs/fuse/connections fusectl rw 0 0
"""


def test_file_systems_over_the_network_are_told_with_their_options(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text(MOUNTS)
    assert mounts(tmp_path) == {
        "/mnt/uf": "nfs4 rw,sec=krb5,rsize=1048576", "/mnt/mfs": "fuse.mfs rw,allow_other", "/cvmfs/sw": "fuse ro",
    }  # fmt: skip
    assert [Mount(device, "/", kind).by_network for device, kind in FUSE] == [True, False, False]
    assert mounts(tmp_path / "nowhere") == {}


def test_packages_have_the_versions_that_the_package_manager_says():
    try:
        listing = ["dpkg-query", "-W", "-f", "${Version}", "libkrb5-3"]
        version = subprocess.run(listing, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no dpkg with libkrb5-3 here")
    assert packages()["libkrb5-3"] == version
