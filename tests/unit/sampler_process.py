"""The sampler, run as the process it is on a host: what it writes, and how it ends."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.client_process import PATIENCE_S
from tests.unit.client_process import until as until

ROOT = Path(__file__).parents[2]


@dataclass
class Samples:
    """A sample file, read the plain way."""

    header: dict[str, Any]
    lines: list[bytes]
    trailer: dict[str, Any]

    def __getitem__(self, column):
        names = [c["name"] for c in self.header["columns"]]
        return [int(line.split()[names.index(column)]) for line in self.lines]

    def ticks(self):
        """The number of the deadline that each record belongs to."""
        origin, period_ns = self.header["clock_mono_ns"], self.header["period_s"] * 1e9
        return [int((mono - origin) // period_ns) for mono in self["mono_ns"]]

    def account_for(self, planned):
        """Whether there is a record of each tick, or its being missed is told; of a late end's later ticks, too."""
        told = len(self.lines) + self.trailer["missed_ticks"]
        return round(planned) + 1 <= told <= max(round(planned) + 1, self.ticks()[-1] + 2)


def read(path):
    first, *lines = path.read_bytes().splitlines(keepends=True)
    trailer = json.loads(lines.pop()) if lines and lines[-1].startswith(b"{") else {}
    return Samples(json.loads(first), lines, trailer)


def finish(process):
    _, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stderr.decode()


def sample(command, out, records):
    """Has a sampler write until so many records are there."""
    with out.open("wb") as file, subprocess.Popen(command, stdout=file) as process:
        try:
            until(records_in(out, records))
        finally:
            process.terminate()
    assert process.returncode == 0


def records_in(out, count):
    return lambda: out.read_bytes().count(b"\n") > count
