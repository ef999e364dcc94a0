#!/usr/bin/env python3
"""The start gate: lets all clients of a trial begin at the same instant.

usage: gate.py            (in the trial's directory on the access point; a local universe job)

Waits until every client has said READY in the clients' job event log (or has ended) and every
sampler has written its first record, then publishes in go.json one wall-clock time, a little
ahead, for which each client waits. Shipped to the run directory; stdlib only, Python 3.6 or newer.

exit status: 0 the gate was opened; 2 trial.json cannot be read
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.1
# A client learns the time when it next looks, twice a second; many at once keep the access point busy.
LEAD_SECONDS = 1.0
LEAD_SECONDS_PER_CLIENT = 0.01

READY = re.compile(rb"^008 .*TIERBENCH READY (\d+)$", re.MULTILINE)
ENDED = re.compile(rb"^(?:005|009|012) \(\d+\.(\d+)\.\d+\)", re.MULTILINE)  # terminated, aborted, held


def main() -> int:
    try:
        trial = json.loads(Path("trial.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"gate: trial.json: {error}", file=sys.stderr)
        return 2
    log = FollowedLog(Path("clients.log"))
    everybody = set(range(trial["jobs"]))
    while not (log.ready | log.ended) >= everybody or not all(map(sampling, trial["samplers"])):
        time.sleep(POLL_SECONDS)
        log.read_on()
    lead = LEAD_SECONDS + LEAD_SECONDS_PER_CLIENT * len(everybody)
    publish(int((time.time() + lead) * 1e9))
    return 0


class FollowedLog:
    """The clients' job event log, read on as it grows: who is ready, and who has ended already."""

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


def sampling(sampler: "dict[str, Any]") -> bool:
    """Whether a sampler has written more than its header."""
    try:
        with Path("samples", sampler["host"] + ".samples").open("rb") as file:
            return bool(file.readline() and file.readline())
    except FileNotFoundError:
        return False


def publish(go_wall_ns: int) -> None:
    unfinished = Path("go.json.new")
    unfinished.write_text(json.dumps({"format": 1, "go_wall_ns": go_wall_ns}))
    unfinished.rename("go.json")


if __name__ == "__main__":
    sys.exit(main())
