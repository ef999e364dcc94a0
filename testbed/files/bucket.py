#!/usr/bin/python3 -IS
"""The rate of token buckets in Mb/s.

usage: bucket.py get DEVICE...        the first one's
       bucket.py set MBPS DEVICE...   of all of them; their queues hold as many milliseconds as before
"""

import json
import subprocess
import sys

LEAST_BURST = 65536
BURST_S = 0.002


def options(device: str) -> "dict[str, float]":
    shown = subprocess.run(["tc", "-j", "qdisc", "show", "dev", device, "root"], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(shown.stdout.decode())[0]["options"])


def change(device: str, mbps: float) -> None:
    burst = max(LEAST_BURST, int(mbps * 1e6 / 8 * BURST_S))
    bucket = ["rate", f"{mbps:g}mbit", "burst", str(burst), "latency", f"{options(device)['lat']}us"]
    subprocess.run(["tc", "qdisc", "change", "dev", device, "root", "handle", "1:", "tbf", *bucket], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "get":
        print(f"{options(sys.argv[2])['rate'] * 8 / 1e6:g}")
    else:
        for device in sys.argv[3:]:
            change(device, float(sys.argv[2]))
