"""How fast the testbed's links and access methods are, and what that costs this machine's cores.

usage: python benchmarks/testbed_access.py [--workers N] [--mb N]       (as root; a few minutes)

Brings a testbed of its own up with N private and N public workers, measures each link with iperf3, then reads by each
method with one stream and with sixteen, of files of so many MiB, caches cold; prints rates in Mb/s and the share of
this machine's cores that was busy. docs/testbed.md holds reference figures.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from frame import options, own_testbed

from tierbench.site_configs.site import load_site
from tierbench.testbed.check import Check, access_methods
from tierbench.testbed.settings import Settings

LINKS = [("the WAN", "dgt", "vmuf", 4), ("storage server", "vmuf", "oss", 1), ("worker", "wn01", "dgt", 1)]


def busy_jiffies():
    """Of all cores since boot: (busy, all)."""
    user, nice, system, idle, iowait, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return user + nice + system + sum(rest), user + nice + system + idle + iowait + sum(rest)


def measured(do):
    """Seconds that it took, and the busy share of all cores meanwhile."""
    busy, total, start = *busy_jiffies(), time.monotonic()
    do()
    busy_after, total_after = busy_jiffies()
    return time.monotonic() - start, (busy_after - busy) / (total_after - total)


def iperf(client, server, streams):
    server.run("sh", "-c", "iperf3 -s -1 -D")
    server.wait_until(lambda: ":5201" in server.run("ss", "-ltn").stdout, "iperf3 did not listen", "none")
    command = ["iperf3", "-J", "-R", "-t", "5", "-O", "2", "-P", str(streams), "-c", server.host.fqdn]
    return float(json.loads(client.run(*command).stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6


def read(hosts, method, paths):
    """Read every path at once, the workers in turn."""

    def one(numbered):
        number, path = numbered
        worker = hosts[method.workers[number % len(method.workers)].name]
        url = method.prefix + path
        command = ["xrdcp", "--silent", "-f", url, "/dev/null"] if method.prefix else ["cp", url, "/dev/null"]
        worker.run(*command, timeout=600)

    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(one, enumerate(paths)))


def main():
    arguments = options(__doc__, workers=8, mb=64)
    settings = Settings(private_workers=arguments.workers, public_workers=arguments.workers, slots_per_worker=4)
    begin = time.monotonic()
    with own_testbed("bench", settings) as testbed:
        print(f"up with {2 * arguments.workers} workers: {time.monotonic() - begin:.1f} s")
        hosts, check = testbed.hosts, Check(testbed)
        print(f"{'link':<28} {'Mb/s':>6}")
        for name, client, server, streams in LINKS:
            print(f"{name:<28} {iperf(hosts[client], hosts[server], streams):>6.0f}", flush=True)
        print(f"{'method':<20} {'streams':>7} {'Mb/s':>6} {'cores busy':>10}")
        files = check.make_files(arguments.mb, 16)
        for method in access_methods(testbed.topology, load_site(testbed.site)):
            for paths in ([*files][:1], [*files]):
                check.flush(method, files)
                seconds, busy = measured(lambda method=method, paths=paths: read(hosts, method, paths))
                rate = len(paths) * arguments.mb * 2**20 * 8 / 1e6 / seconds
                print(f"{method.name:<20} {len(paths):>7} {rate:>6.0f} {busy:>9.0%}", flush=True)


if __name__ == "__main__":
    main()
