"""A trial whose storage server sends by several interfaces: what each carried, and their sum beside what was read.

usage: storage_interfaces.py TESTBED [NUMBER]      (as root; the testbed is up, and is left with them; default 4)

The server has one address; its flows go out by one interface or another, as the kernel's hash of their ends says.
"""

import csv
import re
import subprocess
import sys

from frame import HOME, offer

from tierbench import names
from tierbench.testbed.network import port, rate_limit
from tierbench.testbed.offered import INSTALLED
from tierbench.testbed.services.filesystem import STORAGE
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import UF, USER, Nic

EXPERIMENT = """
name = "storage-interfaces"
question = "Do several interfaces of the storage add up to what is read?"
access = ["direct", "wan-xrootd-public", "wan-xrootd-private"]
batches = [8]
repeats = 1
sample_period_s = 0.1

[workloads.read]
client = "xrdcp"
replicas = "plain"
access = ["wan-xrootd-public", "wan-xrootd-private"]

[workloads.mount]
client = "dd"
replicas = "plain"
access = ["direct"]

[replicas.plain]
kind = "random"
count = 8
size_mb = 32
"""


def add_interfaces(bed, number):
    """Plug more interfaces of the storage server into its site's switch, and spread over them what it sends."""
    oss, wan, settings = bed.host(STORAGE), bed.host("wan"), bed.settings
    share = settings.rates_mbps.storage // number
    nics = [Nic(f"eth{index}", UF, 10, share) for index in range(number)]
    for nic in nics[1:]:
        plug = f"link add {port(oss.host, nic)} type veth peer name {nic.device} netns {oss.pid}"
        subprocess.run(["nsenter", "-t", str(wan.pid), "-n", "ip", *plug.split()], check=True)
        wan.script([f"ip link set {port(oss.host, nic)} master {UF.bridge} up"])
        oss.script([f"ip link set {nic.device} up"])
    oss.script([
        "tc qdisc del dev eth0 root",
        *(rate_limit(nic.device, share, settings.rtt_ms) for nic in nics),
        "echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy",  # by ports, too
        "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore",  # the first alone answers for the address
        f"ip route replace {UF.cidr} src {oss.host.address} " + " ".join(f"nexthop dev {nic.device}" for nic in nics),
        "ip route replace default " + " ".join(f"nexthop via {UF.prefix}.1 dev {nic.device} onlink" for nic in nics),
    ])  # fmt: skip
    return [nic.device for nic in nics]


def main():
    bed, number = Testbed(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4
    devices, ce = add_interfaces(bed, number), bed.host("ce")
    site = ce.read(INSTALLED).decode()
    of_storage = re.compile(r'(\[samplers\.oss\]\nhost = "[^"]+"\ninterface = )"eth0"')
    site, changed = of_storage.subn(lambda found: f"{found[1]}{devices}".replace("'", '"'), site)
    assert changed == 1  # noqa: S101 - the shipped site's file
    for host in (ce, bed.host(bed.topology.writer.name)):
        host.put(f"{HOME}/interfaces-site.toml", site, user=USER)
    asked = offer(bed, "interfaces", EXPERIMENT, f"{HOME}/interfaces-site.toml")
    run = f"{HOME}/storage-interfaces"
    print(ce.run("tierbench", "run", *asked, "--no-links", "--into", run, user=USER, timeout=600).stdout)
    trials = csv.DictReader(ce.read(f"{run}/{names.TRIALS_CSV}", USER).decode().splitlines())
    samples = list(csv.DictReader(ce.read(f"{run}/{names.SAMPLES_CSV}", USER).decode().splitlines()))
    for trial in trials:
        sent = {
            device: sum(
                float(row["tx_mbps"] or 0) * float(row["interval_s"] or 0) / 8
                for row in samples
                if (row["trial"], row["role"], row["interface"]) == (trial["trial"], "storage", device)
            )
            for device in devices
        }
        told = ", ".join(f"{device} {megabytes:.1f}" for device, megabytes in sent.items())
        print(f"{trial['trial']}: {trial['verdict']}; sent MB {told}: {sum(sent.values()):.1f} in all")
        print(
            f"    {float(trial['bytes_server'] or 0) / 1e6:.1f} in the window, {int(trial['bytes_app']) / 1e6:.1f} read"
        )


if __name__ == "__main__":
    main()
