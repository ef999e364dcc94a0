"""What `make test` runs: its parts beside each other, the log of each, and where the minutes went.

The testbed's tests mostly wait for jobs, so that the others, at a lower priority, have what they leave of the cores.
"""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path("build/test")
BESIDE = 10  # nice, of what runs beside the testbeds
TESTBEDS = 3  # side by side, each with some files of tests
UNIT = 4  # side by side: they wait a lot, for processes and for times
PYTEST = [sys.executable, "-m", "pytest", "--durations=40"]


@dataclass
class Part:
    name: str
    command: list[str]
    nice: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    status: int | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self):
        return LOGS / f"{self.name}.log"

    def run(self):
        begin = time.monotonic()
        with self.log.open("wb") as log:
            # Whoever started this may ignore SIGINT, as a shell has what it runs in the background do; pytest must not.
            command = ["env", "--default-signal=INT", "nice", "-n", str(self.nice), *self.command]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            _, status, used = os.wait4(self.process.pid, 0)
        self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds, self.cpu_s = time.monotonic() - begin, used.ru_utime + used.ru_stime

    def break_off(self):
        if self.process and self.status is None:
            os.killpg(self.process.pid, signal.SIGINT)

    @property
    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    @property
    def so_far(self):
        done = re.findall(r"\[ *(\d+%)\]", self.text)
        return f"{self.name} {done[-1] if done else 'begins'}"

    @property
    def result(self):
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


LANES = (
    [Part("testbed", [*PYTEST, "-v", "--numprocesses", str(TESTBEDS), "--dist", "loadfile", "tests/testbed"])],
    [
        Part("lint", ["make", "--no-print-directory", "lint"], BESIDE),
        Part("unit", [*PYTEST, "--numprocesses", str(UNIT), "--dist", "worksteal", "tests/unit"], BESIDE),
    ],
)


def say(words):
    print(words, flush=True)


def run(lane):
    for part in lane:
        part.run()
        say(f"{part.name}: {'passed' if part.status == 0 else 'FAILED'} after {part.seconds / 60:.1f} min")


def parts():
    for lane in LANES:
        yield from lane


def main():
    LOGS.mkdir(parents=True, exist_ok=True)
    for part in parts():
        part.log.unlink(missing_ok=True)

    def break_off(*_):
        say("broken off; the testbeds go")
        for part in parts():
            part.command = ["false"]  # what has not begun does not
            part.break_off()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, break_off)
    begin = time.monotonic()
    with ThreadPoolExecutor(len(LANES)) as threads:
        lanes = [threads.submit(run, lane) for lane in LANES]
        while wait(lanes, timeout=60).not_done:
            under_way = ", ".join(part.so_far for part in parts() if part.process and part.status is None)
            say(f"{(time.monotonic() - begin) / 60:4.0f} min: {under_way}")
    for lane in lanes:
        lane.result()
    for part in sorted(parts(), key=lambda part: part.status != 0):  # what failed comes last
        say(f"\n{f' {part.name}: {part.log} ':=^100}\n{part.text}")
    say(f"{'part':8} {'min':>5} {'CPU min':>8}  (without the testbeds' hosts)")
    for part in parts():
        say(f"{part.name:8} {part.seconds / 60:5.1f} {part.cpu_s / 60:8.1f}  {part.result}")
    say(f"{'all':8} {(time.monotonic() - begin) / 60:5.1f}")
    return int(any(part.status != 0 for part in parts()))


if __name__ == "__main__":
    sys.exit(main())
