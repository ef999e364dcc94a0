#!/usr/bin/env python3
"""The start gate: lets all clients of a trial begin at the same instant, and sees when they have ended.

usage: gate.py            (in the trial's directory on the access point; a local universe job)

Waits until every client has said READY in the clients' job event log (or has ended), the caches of every
host are flushed and every sampler has written its first record. Then it publishes in go.json one wall-clock
time, a little ahead, for which each client waits; or, if a flush has failed, why the trial is called off.
When all clients have ended it passes the turn to the next trial at once, and stops the samplers when they
have seen the idle storage for a moment. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 all clients have ended; 2 trial.json cannot be read
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.1
# A client learns the time when it next looks, four times a second; many at once keep the access point busy.
LEAD_SECONDS = 0.5
LEAD_SECONDS_PER_CLIENT = 0.01
IDLE_SECONDS = 1.0

READY = re.compile(rb"^008 .*TIERBENCH READY (\d+)$", re.MULTILINE)
ENDED = re.compile(rb"^(?:005|009|012) \(\d+\.(\d+)\.\d+\)", re.MULTILINE)  # terminated, aborted, held


def main() -> int:
    try:
        trial = json.loads(Path("trial.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"gate: trial.json: {error}", file=sys.stderr)
        return 2
    clients = FollowedLog(Path("clients.log"))
    flushes = FollowedLog(Path("flush.log"))
    everybody = set(range(trial["jobs"]))
    trouble = ""
    # A gate that HTCondor has started again finds the go that it gave before.
    while not trouble and not Path("go.json").exists() and not clients.ended >= everybody:
        if (
            clients.ready | clients.ended >= everybody
            and all(map(flushed, trial["flush"]["hosts"]))
            and all(map(sampling, trial["samplers"]))
        ):
            lead = LEAD_SECONDS + LEAD_SECONDS_PER_CLIENT * len(everybody)
            publish({"go_wall_ns": int((time.time() + lead) * 1e9)})
            break
        time.sleep(POLL_SECONDS)
        clients.read_on()
        flushes.read_on()
        trouble = flush_trouble(trial["flush"]["hosts"], flushes)
    if trouble:
        publish({"called_off": trouble})
    records = Records(everybody)
    while not clients.ended | records.ended >= everybody:
        time.sleep(POLL_SECONDS)
        clients.read_on()
        records.read_on()
    subprocess.call([str(Path(__file__).resolve().with_name("turn.py")), "pass"])
    time.sleep(IDLE_SECONDS)
    Path("stop").write_text("stop\n")  # not empty: HTCondor 25 does not let a job fetch an empty file
    return 0


class FollowedLog:
    """A cluster's job event log, read on as it grows: who is ready, and who has ended already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.ready = set()  # type: set[int]
        self.ended = set()  # type: set[int]

    def read_on(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return
        text = text[: text.rfind(b"\n") + 1]  # a line that is still being written is read next time
        self.offset += len(text)
        self.ready.update(map(int, READY.findall(text)))
        self.ended.update(map(int, ENDED.findall(text)))


class Records:
    """What the clients write as they run; it tells of their ends a second or two before HTCondor does."""

    def __init__(self, everybody: "set[int]") -> None:
        self.sizes = dict.fromkeys(everybody, 0)
        self.ended = set()  # type: set[int]

    def read_on(self) -> None:
        for number in self.sizes.keys() - self.ended:
            path = Path("clients", str(number) + ".jsonl")
            try:
                size = path.stat().st_size
                if size != self.sizes[number] and b'"event": "end"' in path.read_bytes():
                    self.ended.add(number)
                self.sizes[number] = size
            except FileNotFoundError:
                pass


def flushed(host: str) -> bool:
    """Whether a host has reported on its caches, well or not; the report comes when the job has ended."""
    try:
        return "status" in json.loads(Path("flush", host + ".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def flush_trouble(hosts: "list[str]", log: FollowedLog) -> str:
    """Why the trial cannot go on: the first host whose flush has ended without a report."""
    for number in sorted(log.ended):
        if not flushed(hosts[number]):
            return f"the flush on {hosts[number]} failed; see flush/{hosts[number]}.err and flush.log"
    return ""


def sampling(sampler: "dict[str, Any]") -> bool:
    """Whether a sampler has written more than its header."""
    try:
        with Path("samples", sampler["host"] + ".samples").open("rb") as file:
            return bool(file.readline() and file.readline())
    except FileNotFoundError:
        return False


def publish(content: "dict[str, Any]") -> None:
    unfinished = Path("go.json.new")
    unfinished.write_text(json.dumps(dict(content, format=1)))
    unfinished.rename("go.json")


if __name__ == "__main__":
    sys.exit(main())
