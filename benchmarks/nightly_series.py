"""A nightly on a testbed, whose nights HTCondor begins every few minutes: what is told of them, and when.

usage: nightly_series.py TESTBED [--nights 9] [--minutes 3]      (as root; the testbed is up)

The WAN's rate is lowered before the seventh night, and the scheduler killed once, between two nights. Everything is
what a site has: HTCondor's crontab job, a night's DAG with links, trials, control and rerun, the history, a webhook
and a mail server. With its defaults it takes half an hour.
"""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from frame import HOME, offer, options

from tierbench import names
from tierbench.testbed.services.conditions import WORDS
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER

NAME = "series"
LOWERED_MBPS = 100
LOWERED_BEFORE = 7  # as many nights as it takes to know how much they scatter
KILLED_AFTER = 3
EXPERIMENT = """
name = "series"
question = "Is either way slower tonight?"
access = ["wan-xrootd-private", "wan-xrootd-public"]
batches = [2]
repeats = 2
sample_period_s = 0.1
workloads.copy = { client = "xrdcp", replicas = "few" }
replicas.few = { kind = "random", count = 8, size_mb = 48 }
"""
RECEIVER = """
import http.server, json, sys, time
class Posted(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(json.dumps({"at": time.time(), "body": json.loads(body)}), flush=True)
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", 8099), Posted).serve_forever()
"""


class Series:
    """The nightly as its admin on the access point sees it."""

    def __init__(self, testbed):
        self.testbed = testbed
        self.ce = testbed.host("ce")
        self.directory = Path(f"/proc/{self.ce.pid}/root{HOME}/tierbench-nights/{NAME}")

    def user(self, *command):
        return self.ce.run(*command, user=USER, check=False, timeout=300).stdout

    def prepare(self, minutes):
        definition = offer(self.testbed, NAME, EXPERIMENT)
        self.ce.put(f"{HOME}/receiver.py", RECEIVER, user=USER)
        self.ce.run("sh", "-c", f"setsid python3 {HOME}/receiver.py >{HOME}/posted.jsonl 2>&1 &")
        self.ce.run("mkdir", "-p", f"{HOME}/textfile", user=USER)
        more = ["--at", f"*/{minutes}", "--webhook", "http://127.0.0.1:8099/", "--textfile", f"{HOME}/textfile"]
        print(self.user("tierbench", "nightly", "add", *definition, *more), end="", flush=True)

    def nights(self):
        files = sorted(self.directory.glob(f"{names.NIGHTS}/*/{names.NIGHT_RECORD}"))
        return [json.loads(file.read_text()) for file in files]

    def ended(self):
        return [night for night in self.nights() if night["deliveries"] or night["outcome"] == "missed"]

    def posted(self):
        text = (self.directory.parent.parent / "posted.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def main():
    arguments = options(__doc__, "testbed", nights=9, minutes=3)
    testbed, nights, minutes = Testbed(arguments.testbed), arguments.nights, arguments.minutes
    series = Series(testbed)
    series.prepare(minutes)
    killed = lowered = False
    shown = 0
    deadline = time.monotonic() + (nights + 6) * minutes * 60
    while shown < nights and time.monotonic() < deadline:
        ended = series.ended()
        for night in ended[shown:]:
            show(night)
        shown = len(ended)
        if shown >= KILLED_AFTER and not killed:
            killed = True
            series.ce.run("sh", "-c", "kill -KILL $(pgrep -x condor_schedd)", check=False)
            print(f"{datetime.now(UTC):%H:%M:%S}  the scheduler is killed", flush=True)
        measured = [night for night in ended if night["outcome"] == "measured"]
        if len(measured) >= LOWERED_BEFORE - 1 and not lowered:
            lowered = True
            testbed.host("wan").run(f"{WORDS}/wan-rate", "set", str(LOWERED_MBPS))
            print(f"{datetime.now(UTC):%H:%M:%S}  the WAN now carries {LOWERED_MBPS} Mb/s", flush=True)
        time.sleep(2)
    print(series.user("tierbench", "nightly", "check", NAME), end="")
    print(series.user("tierbench", "nightly", "list"), end="")
    for message in series.posted():
        print(json.dumps(message["body"], ensure_ascii=False, indent=1))
    series.user("tierbench", "nightly", "remove", NAME)


def show(night):
    def at(key):
        value = night[key]
        return f"{datetime.fromtimestamp(value, UTC):%H:%M:%S}" if isinstance(value, float) else "-"

    told = " ".join(map(str, night["sentences"])) if isinstance(night["sentences"], list) else ""
    times = f"planned {at('planned_wall_s')}  begun {at('begun_wall_s')}  ended {at('ended_wall_s')}"
    print(f"{times}  {night['outcome']}  {night['counts'] or ''}  {night['reason']}  {told}", flush=True)


if __name__ == "__main__":
    main()
